//go:build linux

package ebscsi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/rest"
)

// kubernetes is the API server, as the service account of the pod. Its few requests need no typed client.
type kubernetes struct {
	host   string
	client *http.Client
}

func newKubernetes() (*kubernetes, error) {
	c, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	c.Timeout = 30 * time.Second
	client, err := rest.HTTPClientFor(c)
	return &kubernetes{strings.TrimSuffix(c.Host, "/"), client}, err
}

func (k *kubernetes) get(ctx context.Context, path string, into any) error {
	return k.call(ctx, http.MethodGet, path, nil, into)
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

func (k *kubernetes) call(ctx context.Context, method, path string, body []byte, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, k.host+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json-patch+json")
	}
	answer, err := k.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		return &statusError{path, answer.StatusCode, string(content[:min(len(content), 1024)])}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(content, into)
}

// statusError is an answer that is an error.
type statusError struct {
	path    string
	status  int
	content string
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: %d: %s", e.path, e.status, e.content) }

// taintKey is that of the taint that users put on nodes so that no pod comes before the driver.
const taintKey = DriverName + "/agent-not-ready"

const (
	taintTime  = 10 * time.Minute
	taintPause = 2 * time.Second
)

// removeTaint removes the taint from the node, once kubelet knows the driver.
func removeTaint(ctx context.Context, log *slog.Logger, name string) {
	ctx, cancel := context.WithTimeout(ctx, taintTime)
	defer cancel()
	if name == "" || os.Getenv("DISABLE_TAINT_WATCHER") != "" {
		return
	}
	api, err := newKubernetes()
	if err != nil {
		log.Info("nobody removes the taint "+taintKey, "error", err)
		return
	}
	for {
		err := api.untaint(ctx, name)
		var refused *statusError
		if errors.As(err, &refused) && (refused.status == http.StatusForbidden ||
			refused.status == http.StatusUnauthorized) {
			return // the user has taken the permission
		}
		if err != nil {
			log.Debug("the taint "+taintKey+" stays for now", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(taintPause):
		}
	}
}

// untaint removes the taint from a node that has it and whose kubelet knows the driver.
func (k *kubernetes) untaint(ctx context.Context, name string) error {
	var node corev1.Node
	if err := k.get(ctx, "/api/v1/nodes/"+name, &node); err != nil {
		return err
	}
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == taintKey })
	if len(taints) == len(node.Spec.Taints) {
		return nil
	}
	var csiNode storagev1.CSINode
	if err := k.get(ctx, "/apis/storage.k8s.io/v1/csinodes/"+name, &csiNode); err != nil {
		return err
	}
	if !slices.ContainsFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
		return d.Name == DriverName && d.Allocatable != nil && d.Allocatable.Count != nil
	}) {
		return fmt.Errorf("kubelet of %s does not know the driver yet", name)
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/spec/taints", "value": node.Spec.Taints},
		{"op": "replace", "path": "/spec/taints", "value": taints},
	})
	if err != nil {
		return err
	}
	return k.call(ctx, http.MethodPatch, "/api/v1/nodes/"+name, patch, nil)
}

// drains are the taints of nodes that are to lose their pods.
var drains = []string{corev1.TaintNodeUnschedulable, "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted",
	"karpenter.sh/disruption"}

// preStop keeps the driver of a node that is drained until the node has no volumes, so that they are unmounted and not
// torn away. The termination grace period of the pod ends it.
func preStop(ctx context.Context, log *slog.Logger) error {
	name := os.Getenv("CSI_NODE_NAME")
	if name == "" {
		return errors.New("CSI_NODE_NAME is not set")
	}
	api, err := newKubernetes()
	if err != nil {
		return err
	}
	var node corev1.Node
	err = api.get(ctx, "/api/v1/nodes/"+name, &node)
	var missing *statusError
	if err != nil && (!errors.As(err, &missing) || missing.status != http.StatusNotFound) {
		return err
	}
	if err == nil && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return slices.Contains(drains, t.Key)
	}) {
		return nil
	}
	for {
		var attachments storagev1.VolumeAttachmentList
		err := api.get(ctx, "/apis/storage.k8s.io/v1/volumeattachments", &attachments)
		if err != nil {
			log.Error("the volumes of the node cannot be listed", "error", err)
		} else if !slices.ContainsFunc(attachments.Items, func(a storagev1.VolumeAttachment) bool {
			return a.Spec.NodeName == name && a.Spec.Attacher == DriverName
		}) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
