//go:build linux

package ebscsi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// isRegistered returns an error while kubelet does not know the driver.
func isRegistered(ctx context.Context, api *csidriver.Kubernetes, name string) error {
	var node storagev1.CSINode
	if err := api.Get(ctx, "/apis/storage.k8s.io/v1/csinodes/"+name, &node); err != nil {
		return err
	}
	if !slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
		return d.Name == DriverName && d.Allocatable != nil && d.Allocatable.Count != nil
	}) {
		return fmt.Errorf("kubelet of %s does not know the driver yet", name)
	}
	return nil
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
	api, err := csidriver.NewKubernetes()
	if err != nil {
		return err
	}
	var node corev1.Node
	err = api.Get(ctx, "/api/v1/nodes/"+name, &node)
	var missing *csidriver.StatusError
	if err != nil && (!errors.As(err, &missing) || missing.Status != http.StatusNotFound) {
		return err
	}
	if err == nil && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return slices.Contains(drains, t.Key)
	}) {
		return nil
	}
	for {
		var attachments storagev1.VolumeAttachmentList
		err := api.Get(ctx, "/apis/storage.k8s.io/v1/volumeattachments", &attachments)
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
