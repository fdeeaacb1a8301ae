package addon

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// workload is the progress of an object that runs pods.
type workload struct {
	Kind string
	// Wanted pods, those that are of the newest template, and those that are available; Total are all that there are,
	// of whichever template.
	Wanted, Updated, Available, Total int64
	// Seen reports that its controller knows of its newest template.
	Seen bool
	// OnDelete is set when pods of an older template stay until they are deleted.
	OnDelete bool
	// Failure is the reason that its controller cannot create pods; a fingerprint of that in what is seen by a watch.
	Failure string

	selector labels.Selector
}

// workloadOf reads an object of the group apps; nil for one that runs no pods, or only indirectly.
func workloadOf(o *unstructured.Unstructured) *workload {
	number := func(fields ...string) int64 { n, _, _ := unstructured.NestedInt64(o.Object, fields...); return n }
	w := &workload{Kind: o.GetKind(), Seen: number("status", "observedGeneration") >= o.GetGeneration()}
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type")
	w.OnDelete = kind == "OnDelete"
	switch o.GetKind() {
	case "DaemonSet":
		w.Wanted, w.Updated, w.Available = number("status", "desiredNumberScheduled"), number("status",
			"updatedNumberScheduled"), number("status", "numberAvailable")
		w.Total = w.Updated // a pod of another template is one that is wanted and not updated
	case "Deployment", "StatefulSet":
		replicas, set, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		if !set {
			replicas = 1
		}
		w.Wanted, w.Updated, w.Available, w.Total = replicas, number("status", "updatedReplicas"), number("status",
			"availableReplicas"), number("status", "replicas")
	default:
		return nil
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "ReplicaFailure" && m["status"] == "True" {
			w.Failure = oneLine(fmt.Sprint(m["message"]))
		}
	}
	if raw, ok, _ := unstructured.NestedMap(o.Object, "spec", "selector"); ok {
		var s metav1.LabelSelector
		if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &s) == nil {
			w.selector, _ = metav1.LabelSelectorAsSelector(&s) // the API server has accepted it
		}
	}
	return w
}

// isRolledOut reports whether all pods are of the newest template and available, and no others are left: what "kubectl
// rollout status" waits for. It is not cli-utils' kstatus because that never counts a DaemonSet with OnDelete or a
// paused Deployment as current, and gives neither the numbers of pods nor what serves reports.
func (w *workload) isRolledOut() bool {
	return w.Seen && (w.OnDelete || w.Updated >= w.Wanted && w.Total <= w.Updated) && w.Available >= w.Wanted
}

// isServing reports whether as many pods are available as are wanted, of whichever template.
func (w *workload) isServing() bool { return w.Available >= w.Wanted }
