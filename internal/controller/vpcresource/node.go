package vpcresource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	webhook "github.com/coracle-eks/coracle/internal/kube/vpcresource"
)

const (
	// finalizer keeps a CNINode until the network interfaces of its node are deleted.
	finalizer = "networking.k8s.aws/resource-cleanup"

	clusterTag  = "cluster.k8s.amazonaws.com/name"
	instanceTag = "node.k8s.amazonaws.com/instance_id"

	// retryRefused is the time until something is tried again that AWS or the cluster has refused.
	retryRefused = 30 * time.Second

	// maxRelease is the time for which a CNINode waits for the end of its instance.
	maxRelease = 10 * time.Minute
)

var instanceID = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// nodeState is what a connection remembers of a node: what it has said, and since when it has seen interfaces that no
// pod has.
type nodeState struct {
	instance *instance
	noticed  bool // that the controller serves the node
	coolsAt  map[string]time.Time
}

func (s *server) state(name string) *nodeState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states[name] == nil {
		s.states[name] = &nodeState{coolsAt: map[string]time.Time{}}
	}
	return s.states[name]
}

// reconcile reconciles a node. It returns the time until the next pass; 0 is not before something changes.
func (s *server) reconcile(ctx context.Context, name string) (time.Duration, error) {
	n, exists := s.mirror.node(name)
	cni, has := s.mirror.cniNode(name)
	var object *unstructured.Unstructured
	if has {
		var err error
		if object, err = cni.object(); err != nil {
			return 0, err
		}
	}
	if wait := s.pause(name); wait > 0 && (exists || has) {
		return wait, nil
	}
	switch {
	case !exists:
		s.mu.Lock()
		delete(s.states, name)
		delete(s.specs, name)
		if !has {
			delete(s.writes, name)
		}
		s.mu.Unlock()
		if !has || object.GetDeletionTimestamp() == nil {
			return 0, nil
		}
		return s.releaseNode(ctx, object)
	case n.auto:
		return 0, nil
	case !has:
		return 0, s.createCNINode(ctx, n)
	case object.GetDeletionTimestamp() != nil:
		// The mirror may not know yet that the node is gone.
		_, err := s.core.Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return s.releaseNode(ctx, object)
		}
		if err != nil {
			return 0, err
		}
		// Somebody has deleted it, and the node needs it: it is made again as it was.
		s.mu.Lock()
		if len(s.specs) < maxSpecs {
			s.specs[name] = cni.content
		}
		s.mu.Unlock()
		return 0, s.removeFinalizer(ctx, object)
	}
	if err := s.completeCNINode(ctx, n, object); err != nil {
		return 0, err
	}
	if n.os != "linux" || n.instanceID == "" || !n.labeled && !cni.wants {
		return 0, nil // pods that want an interface wait until the CNI plugin asks for a trunk
	}
	return s.serveNode(ctx, n, cni)
}

// A node and its CNINode are written maxWrites times at once, and then once a second: admission in the cluster may make
// something else of them each time.
const maxWrites = 5

// noteWrite counts a write of a node, or of its CNINode.
func (s *server) noteWrite(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes[name] == nil {
		s.writes[name] = rate.NewLimiter(1, maxWrites)
	}
	s.writes[name].ReserveN(s.o.Clock.Now(), 1)
}

// pause returns the time until a node may be written again.
func (s *server) pause(name string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes[name] == nil {
		return 0
	}
	missing := 1 - s.writes[name].TokensAt(s.o.Clock.Now())
	return time.Duration(missing * float64(time.Second))
}

// createCNINode makes the CNINode of a node, with which it goes.
func (s *server) createCNINode(ctx context.Context, n node) error {
	s.mu.Lock()
	was, known := s.specs[n.name]
	s.mu.Unlock()
	var spec any
	if known {
		o, err := cniNode{content: was}.object()
		if err != nil {
			return err
		}
		spec = o.Object["spec"]
	}
	if spec == nil {
		spec = map[string]any{"tags": map[string]any{clusterTag: s.cluster.Name, instanceTag: n.instanceID}}
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": cniNodes.GroupVersion().String(), "kind": "CNINode", "spec": spec,
		"metadata": map[string]any{
			"name": n.name, "labels": map[string]any{osLabel: n.os}, "finalizers": []any{finalizer},
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": n.name,
				"uid": string(n.uid), "controller": true}},
		},
	}}
	s.noteWrite(n.name)
	_, err := s.objects.Resource(cniNodes).Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // the watch is about to say so
	}
	if err != nil {
		return fmt.Errorf("create CNINode %s: %w", n.name, err)
	}
	s.mu.Lock()
	delete(s.specs, n.name)
	s.mu.Unlock()
	return nil
}

// completeCNINode adds the tags, the label and the finalizer that a CNINode lacks.
func (s *server) completeCNINode(ctx context.Context, n node, o *unstructured.Unstructured) error {
	tags, _, _ := unstructured.NestedStringMap(o.Object, "spec", "tags")
	want := map[string]string{clusterTag: s.cluster.Name}
	if n.instanceID != "" {
		want[instanceTag] = n.instanceID
	}
	complete := slices.Contains(o.GetFinalizers(), finalizer) && o.GetLabels()[osLabel] == n.os
	for key, value := range want {
		complete = complete && tags[key] == value
	}
	if complete {
		return nil
	}
	finalizers := o.GetFinalizers()
	if !slices.Contains(finalizers, finalizer) {
		finalizers = append(slices.Clone(finalizers), finalizer)
	}
	return s.patchCNINode(ctx, o, map[string]any{
		"metadata": map[string]any{"finalizers": finalizers, "labels": map[string]any{osLabel: n.os}},
		"spec":     map[string]any{"tags": want},
	})
}

// patchCNINode patches a CNINode, unless somebody has changed it meanwhile.
func (s *server) patchCNINode(ctx context.Context, o *unstructured.Unstructured, patch map[string]any) error {
	metadata := patch["metadata"].(map[string]any)
	metadata["resourceVersion"] = o.GetResourceVersion()
	content, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	s.noteWrite(o.GetName())
	_, err = s.objects.Resource(cniNodes).Patch(ctx, o.GetName(), types.MergePatchType, content, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the watch is about to say what has changed
	}
	if err != nil {
		return fmt.Errorf("patch CNINode %s: %w", o.GetName(), err)
	}
	return nil
}

func (s *server) removeFinalizer(ctx context.Context, o *unstructured.Unstructured) error {
	all := o.GetFinalizers()
	if !slices.Contains(all, finalizer) {
		return nil
	}
	without := slices.DeleteFunc(slices.Clone(all), func(f string) bool { return f == finalizer })
	return s.patchCNINode(ctx, o, map[string]any{"metadata": map[string]any{"finalizers": without}})
}

// releaseNode deletes the network interfaces that a node which is gone has left, and lets its CNINode go.
func (s *server) releaseNode(ctx context.Context, o *unstructured.Unstructured) (time.Duration, error) {
	if !slices.Contains(o.GetFinalizers(), finalizer) {
		return 0, nil
	}
	tags, _, _ := unstructured.NestedStringMap(o.Object, "spec", "tags")
	if id := tags[instanceTag]; instanceID.MatchString(id) && o.GetLabels()[osLabel] == "linux" {
		err := s.deleteLeftOf(ctx, id)
		if errors.Is(err, errInstanceExists) && s.o.Clock.Now().Before(o.GetDeletionTimestamp().Add(maxRelease)) {
			return retryRefused, nil
		}
		if err != nil {
			// As upstream: nobody waits for it.
			s.o.Log.Warn("cannot delete network interfaces of a node that is gone", "cluster", s.cluster.Name, "instance", id,
				"error", describe(err))
		}
	}
	return 0, s.removeFinalizer(ctx, o)
}

// advertise has a node say how many branch interfaces its pods may have.
func (s *server) advertise(ctx context.Context, n node, count int) error {
	want := fmt.Sprint(count)
	if n.capacity == want {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": map[string]any{webhook.PodENI: want}}})
	if err != nil {
		return err
	}
	s.noteWrite(n.name)
	_, err = s.core.Nodes().Patch(ctx, n.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("advertise the capacity of the node: %w", err)
	}
	return nil
}

// nodeReference is the object of an event about a node. Its UID is the name, by which the kubelet's events are found.
func nodeReference(n node) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.name, UID: types.UID(n.name)}
}
