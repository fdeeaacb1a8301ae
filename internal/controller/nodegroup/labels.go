package nodegroup

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// reconcileLabels gives live nodes the labels and taints that are wanted now, when those that they were given are
// others. Nodes that come later have them from the launch template. What others put on a node stays.
func (g *group) reconcileLabels(ctx context.Context) error {
	if maps.Equal(g.state.Labels, g.row.Labels) && sameTaints(g.state.Taints, g.row.Taints) {
		return nil
	}
	if g.kube == nil {
		return nil // its connection wakes the group
	}
	if err := g.reconcileTags(ctx); err != nil {
		return err
	}
	unborn := false // nodes may still come with what was wanted before
	for _, m := range g.members {
		if m.Node == nil {
			unborn = unborn || m.Old
			continue
		}
		if err := g.labelNode(ctx, m.Node); err != nil {
			return err
		}
	}
	crashMarked.Here()
	if !unborn {
		g.state.Labels, g.state.Taints = maps.Clone(g.row.Labels), slices.Clone(g.row.Taints)
	}
	return nil
}

func (g *group) labelNode(ctx context.Context, n *corev1.Node) error {
	labels := map[string]any{}
	for k, v := range g.state.Labels {
		if _, wanted := g.row.Labels[k]; !wanted && n.Labels[k] == v {
			labels[k] = nil
		}
	}
	for k, v := range g.row.Labels {
		if n.Labels[k] != v {
			labels[k] = v
		}
	}
	taints, differ := retaint(n.Spec.Taints, g.state.Taints, g.row.Taints)
	patch := map[string]any{}
	if len(labels) > 0 {
		patch["metadata"] = map[string]any{"labels": labels}
	}
	if differ {
		// Taints are replaced as a whole: not if somebody changed the node meanwhile.
		patch["metadata"] = map[string]any{"labels": labels, "resourceVersion": n.ResourceVersion}
		patch["spec"] = map[string]any{"taints": taints}
	}
	if len(patch) == 0 {
		return nil
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = g.kube.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, text,
		metav1.PatchOptions{FieldManager: agent})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("label node %s: %w", n.Name, err)
	}
	return nil
}

// retaint returns a node's taints with those that were wanted and are no more taken out, and those that are wanted put
// in.
func retaint(have []corev1.Taint, before, now []ekstypes.Taint) (all []corev1.Taint, differ bool) {
	for _, t := range have {
		kube := func(w ekstypes.Taint) bool { return *w.Key == t.Key && taintEffect(w.Effect) == string(t.Effect) }
		switch {
		case slices.ContainsFunc(now, kube):
			want := now[slices.IndexFunc(now, kube)]
			differ = differ || t.Value != stringValue(want.Value)
			t.Value = stringValue(want.Value)
		case slices.ContainsFunc(before, kube):
			differ = true
			continue
		}
		all = append(all, t)
	}
	for _, w := range now {
		if !slices.ContainsFunc(have, func(t corev1.Taint) bool {
			return *w.Key == t.Key &&
				taintEffect(w.Effect) == string(t.Effect)
		}) {
			all, differ = append(all, corev1.Taint{Key: *w.Key, Value: stringValue(w.Value),
				Effect: corev1.TaintEffect(taintEffect(w.Effect))}), true
		}
	}
	return all, differ
}

func sameTaints(a, b []ekstypes.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y ekstypes.Taint) bool {
		return *x.Key == *y.Key && stringValue(x.Value) == stringValue(y.Value) && x.Effect == y.Effect
	})
}
