package drain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const strategic = types.StrategicMergePatchType

// Cordoned reports whether a node is unschedulable and out of external load balancers.
func Cordoned(node *corev1.Node) bool {
	_, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
	return node.Spec.Unschedulable && excluded
}

// Cordon makes a node unschedulable and labels it node.kubernetes.io/exclude-from-external-load-balancers=true, so that
// load balancers forget it before it goes. manager is the field manager. A node that is gone is no error.
func Cordon(ctx context.Context, kube kubernetes.Interface, node *corev1.Node, manager string) error {
	if Cordoned(node) {
		return nil
	}
	err := patchNode(ctx, kube, node, manager, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{corev1.LabelNodeExcludeBalancers: "true"}},
		"spec":     map[string]any{"unschedulable": true},
	})
	if err != nil {
		return fmt.Errorf("cordon node %s: %w", node.Name, err)
	}
	return nil
}

// Uncordon undoes Cordon. Who calls it knows that the cordon is its own. A node that is gone is no error.
func Uncordon(ctx context.Context, kube kubernetes.Interface, node *corev1.Node, manager string) error {
	// Even if it does not look cordoned: the cordon may be newer than what was seen of the node.
	err := patchNode(ctx, kube, node, manager, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{corev1.LabelNodeExcludeBalancers: nil}},
		"spec":     map[string]any{"unschedulable": nil},
	})
	if err != nil {
		return fmt.Errorf("uncordon node %s: %w", node.Name, err)
	}
	return nil
}

// sameNode reports whether the node is still the one that was seen.
func sameNode(ctx context.Context, kube kubernetes.Interface, node *corev1.Node) bool {
	now, err := kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	return err == nil && now.UID == node.UID
}
