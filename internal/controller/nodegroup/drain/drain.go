// Package drain drains nodes before they are terminated, as EKS and "kubectl drain" do.
//
// A drain is a sequence of steps: [Cordon] makes a node unschedulable and excludes it from external load balancers,
// [Step] evicts the pods that may be evicted now and returns what is left, [Uncordon] reverts Cordon. A step never
// waits: the caller keeps the state between steps in the store (when the drain started, and who cordoned the node),
// calls Step again when a pod or an EndpointSlice changes or after [Progress.Again], and applies its own timeout. A
// drain therefore continues after the daemon was killed.
//
// A drain is complete when all evictable pods are gone and no EndpointSlice sends traffic to them. Pods of DaemonSets
// and static pods are ignored: they end with the node. Pods without a controller and pods with an emptyDir are evicted
// like all others, as EKS does (kubectl asks for flags first). The package is not k8s.io/kubectl/pkg/drain because that
// waits, and reads DaemonSets, which eks:node-manager may not.
//
// https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/
package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/sourcegraph/conc"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/kube/eviction"
)

const (
	// An eviction that was refused is tried again after an eighth of the time that the drain has taken, within these
	// bounds: what a budget allows can only be found out by trying, and each try is an event in the audit log.
	againFirst, againMost = 250 * time.Millisecond, 5 * time.Second
	// maxPods is the maximum number of pods of a node that one step evicts and reports; maxServing that of the
	// EndpointSlices that it reports. A node has 737 pods at most, but an API server may return any number.
	maxPods, maxServing = 1000, 1000
	// parallel bounds the evictions of one step that are under way at once.
	parallel = 8
	// finalizing is the time after its grace period for which a pod on a node that is not Ready may still exist: no
	// kubelet is left to report that its containers have ended.
	finalizing = 5 * time.Second
)

// Options say how far a drain goes.
type Options struct {
	// Force deletes the pods whose eviction is refused, by a PodDisruptionBudget, two of them, or a webhook.
	Force bool
	// Since is the time when the drain began.
	Since time.Time
	// Now is time.Now when nil.
	Now func() time.Time
}

// Pod is a pod that is left on a node.
type Pod struct {
	Namespace, Name string
	// Refused is the API server's reason for not evicting it; empty when it is on its way out.
	Refused string
	// Deadline is the time when the grace period of a terminating pod ends; zero when its eviction was refused or is
	// new.
	Deadline time.Time
}

// String returns "namespace/name".
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Progress is the state after a step.
type Progress struct {
	// Left are the pods that count and are still there, by namespace and name.
	Left []Pod
	// Serving are EndpointSlices, "namespace/name", that still send traffic to pods of the node, once no pod is left.
	Serving []string
	// Again is the time until the next step without an event: 0 when pods and EndpointSlices send events.
	Again time.Duration
}

// Evicted reports whether no pod is left that counts. Its traffic may still be routed to the node: see [Progress.Done].
func (p Progress) Evicted() bool { return len(p.Left) == 0 }

// Done reports whether the node is empty and no EndpointSlice refers to it.
func (p Progress) Done() bool { return len(p.Left) == 0 && len(p.Serving) == 0 }

// Blocked returns the pods that could not be evicted.
func (p Progress) Blocked() []Pod {
	var blocked []Pod
	for _, pod := range p.Left {
		if pod.Refused != "" {
			blocked = append(blocked, pod)
		}
	}
	return blocked
}

// Step evicts the pods of a cordoned node that are not on their way out yet, and says what is left. What the API server
// refuses is in the Progress; an error says that it could not be asked.
func Step(ctx context.Context, kube kubernetes.Interface, node *corev1.Node, o Options) (Progress, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	staying := map[string]bool{} // namespace/name of pods that do not count
	var counting []corev1.Pod
	err := eachPod(ctx, kube, node.Name, func(pod *corev1.Pod) {
		switch {
		case pod.Spec.NodeName != node.Name:
		case !shouldEvict(pod):
			staying[pod.Namespace+"/"+pod.Name] = true
		case isPodLost(pod, node, o.Now()):
		default:
			counting = append(counting, corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, DeletionTimestamp: pod.DeletionTimestamp,
			}})
		}
	})
	if err != nil {
		return Progress{}, err
	}
	counting = counting[:min(len(counting), maxPods)] // the others are left to further steps
	var p Progress
	if len(counting) == 0 {
		p.Serving, err = serving(ctx, kube, node.Name, staying)
		return p, err
	}
	left := make([]*Pod, len(counting))
	errs := make([]error, len(counting))
	var evicting conc.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range counting {
		pod := &counting[i]
		if pod.DeletionTimestamp != nil {
			left[i] = &Pod{Namespace: pod.Namespace, Name: pod.Name, Deadline: pod.DeletionTimestamp.Time}
			if !isNodeReady(node) { // its kubelet will not tell
				p.Again = max(time.Millisecond, pod.DeletionTimestamp.Add(finalizing).Sub(o.Now()))
			}
			continue
		}
		slots <- struct{}{}
		evicting.Go(func() {
			defer func() { <-slots }()
			left[i], errs[i] = evictPod(ctx, kube, pod, o)
		})
	}
	evicting.Wait()
	for _, pod := range left {
		if pod != nil {
			p.Left = append(p.Left, *pod)
			if pod.Refused != "" {
				p.Again = min(max(o.Now().Sub(o.Since)/8, againFirst), againMost)
			}
		}
	}
	if len(p.Left) == 0 && errors.Join(errs...) == nil { // all were gone before they could be evicted
		p.Again = time.Millisecond
		p.Serving, err = serving(ctx, kube, node.Name, staying)
		return p, err
	}
	return p, errors.Join(errs...)
}

// Load returns the number of pods that would have to leave a node.
func Load(ctx context.Context, kube kubernetes.Interface, node string) (int, error) {
	n := 0
	err := eachPod(ctx, kube, node, func(pod *corev1.Pod) {
		if shouldEvict(pod) && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			n++
		}
	})
	return n, err
}

// eachPod calls each with the pods of a node. Those that are too large to be read are on it, too.
func eachPod(ctx context.Context, kube kubernetes.Interface, node string, each func(*corev1.Pod)) error {
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}
	_, err := client.EachPage(client.WithPartial(ctx), only,
		kube.CoreV1().Pods(metav1.NamespaceAll).List, func(page *corev1.PodList) {
			for i := range page.Items {
				each(&page.Items[i])
			}
		})
	if err != nil {
		return fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	return nil
}

// shouldEvict reports whether a node waits for the pod. It does for one whose owner could not be read.
func shouldEvict(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	if client.IsPartial(pod) && owner != nil && owner.Kind == "Node" { // the annotation was not read
		return false
	}
	return owner == nil || owner.Kind != "DaemonSet" || owner.APIVersion != "apps/v1"
}

// isPodLost reports whether a pod's time is over on a node that cannot report any more that the pod has ended.
func isPodLost(pod *corev1.Pod, node *corev1.Node, now time.Time) bool {
	return pod.DeletionTimestamp != nil && !isNodeReady(node) && !now.Before(pod.DeletionTimestamp.Add(finalizing))
}

func isNodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// evictPod evicts one pod: nil when it is gone.
func evictPod(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod, o Options) (*Pod, error) {
	gone, refused, err := eviction.Evict(ctx, kube,
		eviction.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}, o.Force)
	if gone {
		return nil, nil
	}
	return &Pod{Namespace: pod.Namespace, Name: pod.Name, Refused: refused}, err
}

// serving returns the EndpointSlices of Services that still have endpoints on the node. It leaves out those that users
// write, because only users can clear them.
func serving(ctx context.Context, kube kubernetes.Interface, node string, staying map[string]bool) ([]string, error) {
	var names []string
	_, err := client.EachPage(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy +
		"=endpointslice-controller.k8s.io"},
		kube.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List, func(page *discoveryv1.EndpointSliceList) {
			for _, slice := range page.Items {
				if len(names) < maxServing && slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
					return e.NodeName != nil && *e.NodeName == node && e.TargetRef != nil &&
						e.TargetRef.Kind == "Pod" && !staying[slice.Namespace+"/"+e.TargetRef.Name]
				}) {
					names = append(names, slice.Namespace+"/"+slice.Name)
				}
			}
		})
	if err != nil {
		return nil, fmt.Errorf("list EndpointSlices: %w", err)
	}
	return names, nil
}

// patchNode changes a node as its field manager, if it is still the one that was seen.
func patchNode(ctx context.Context, kube kubernetes.Interface, node *corev1.Node, manager string,
	change map[string]any) error {
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		change["metadata"] = metadata
	}
	metadata["uid"] = node.UID // another node of its name is not the one that was meant
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = kube.CoreV1().Nodes().Patch(ctx, node.Name, strategic, body, metav1.PatchOptions{FieldManager: manager})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) && !sameNode(ctx, kube, node) { // a UID cannot be changed
		return nil
	}
	return err
}
