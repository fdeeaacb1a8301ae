//go:build linux

package csidriver

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
	"k8s.io/client-go/rest"
)

// Kubernetes is the API server, as the service account of the pod. Its few requests need no typed client.
type Kubernetes struct {
	Host   string
	Client *http.Client
}

// NewKubernetes returns the API server of the pod.
func NewKubernetes() (*Kubernetes, error) {
	c, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	c.Timeout = 30 * time.Second
	client, err := rest.HTTPClientFor(c)
	return &Kubernetes{strings.TrimSuffix(c.Host, "/"), client}, err
}

// Get reads the object at a path.
func (k *Kubernetes) Get(ctx context.Context, path string, into any) error {
	return k.call(ctx, http.MethodGet, path, nil, into)
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

func (k *Kubernetes) call(ctx context.Context, method, path string, body []byte, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, k.Host+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json-patch+json")
	}
	answer, err := k.Client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		return &StatusError{path, answer.StatusCode, string(content[:min(len(content), 1024)])}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(content, into)
}

// StatusError is an answer that is an error.
type StatusError struct {
	Path    string
	Status  int
	Content string
}

// Error returns path, status and content of the answer.
func (e *StatusError) Error() string { return fmt.Sprintf("%s: %d: %s", e.Path, e.Status, e.Content) }

const (
	taintTime  = 10 * time.Minute
	taintPause = 2 * time.Second
)

// Taint is the taint that users put on nodes so that no pod comes before the driver.
type Taint struct {
	Driver string
	// Ready, if any, returns why the taint stays for now on the node of a name.
	Ready func(ctx context.Context, api *Kubernetes, name string) error
}

func (t Taint) key() string { return t.Driver + "/agent-not-ready" }

// Remove removes the taint from the node of a name, once the driver is ready.
func (t Taint) Remove(ctx context.Context, log *slog.Logger, name string) {
	ctx, cancel := context.WithTimeout(ctx, taintTime)
	defer cancel()
	if name == "" || os.Getenv("DISABLE_TAINT_WATCHER") != "" {
		return
	}
	api, err := NewKubernetes()
	if err != nil {
		log.Info("nobody removes the taint "+t.key(), "error", err)
		return
	}
	for {
		err := t.removeFrom(ctx, api, name)
		var refused *StatusError
		if errors.As(err, &refused) && (refused.Status == http.StatusForbidden ||
			refused.Status == http.StatusUnauthorized) {
			return // the user has taken the permission
		}
		if err != nil {
			log.Debug("the taint "+t.key()+" stays for now", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(taintPause):
		}
	}
}

// removeFrom removes the taint from a node that has it.
func (t Taint) removeFrom(ctx context.Context, api *Kubernetes, name string) error {
	var node corev1.Node
	if err := api.Get(ctx, "/api/v1/nodes/"+name, &node); err != nil {
		return err
	}
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(on corev1.Taint) bool { return on.Key == t.key() })
	if len(taints) == len(node.Spec.Taints) {
		return nil
	}
	if t.Ready != nil {
		if err := t.Ready(ctx, api, name); err != nil {
			return err
		}
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/spec/taints", "value": node.Spec.Taints},
		{"op": "replace", "path": "/spec/taints", "value": taints},
	})
	if err != nil {
		return err
	}
	return api.call(ctx, http.MethodPatch, "/api/v1/nodes/"+name, patch, nil)
}
