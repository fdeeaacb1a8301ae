package nodegroup

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
)

const (
	maxLabels = 50
	maxTaints = 50
)

// malformed words what Kubernetes demands of a name or value as EKS does.
func malformed(g exception.About, value string) error {
	return g.InvalidParameter(
		"Invalid value: %s : field must consist of alphanumeric characters, '-', '_' or '.', and must start and end "+
			"with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation "+
			"is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
		value,
	)
}

// changeLabels returns the labels of a group after a change, and the parameters of its update.
func changeLabels(
	g exception.About, now map[string]string, in *types.UpdateLabelsPayload,
) (map[string]string, []types.UpdateParam, error) {
	if in == nil || len(in.AddOrUpdateLabels) == 0 && len(in.RemoveLabels) == 0 {
		return now, nil, nil
	}
	removed := make(map[string]bool, len(in.RemoveLabels))
	for _, key := range in.RemoveLabels {
		removed[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(in.AddOrUpdateLabels)) {
		value := in.AddOrUpdateLabels[key]
		switch {
		case len(validation.IsQualifiedName(key)) > 0:
			return nil, nil, malformed(g, key)
		case value == "" || len(validation.IsValidLabelValue(value)) > 0:
			return nil, nil, malformed(g, value)
		case reservedLabel(key):
			return nil, nil, g.InvalidParameter(
				"Label cannot contain reserved prefixes [kubernetes.io/, k8s.io/, eks.amazonaws.com/]",
			)
		case removed[key]:
			return nil, nil, g.InvalidParameter("Label %s can't be both added and removed", key)
		}
	}
	out := maps.Clone(now)
	if out == nil {
		out = map[string]string{}
	}
	for _, key := range in.RemoveLabels {
		delete(out, key)
	}
	maps.Copy(out, in.AddOrUpdateLabels)
	if len(out) > maxLabels {
		return nil, nil, g.InvalidParameter(
			"The number of labels exceeds the limit of %d: the nodegroup would have %d", maxLabels, len(out),
		)
	}
	var params []types.UpdateParam
	if len(in.AddOrUpdateLabels) > 0 {
		params = append(
			params, resource.UpdateParam(types.UpdateParamTypeLabelsToAdd, resource.JSON(in.AddOrUpdateLabels)),
		)
	}
	if len(in.RemoveLabels) > 0 {
		params = append(
			params, resource.UpdateParam(types.UpdateParamTypeLabelsToRemove, resource.JSON(in.RemoveLabels)),
		)
	}
	return out, params, nil
}

// kubeletLabels are those of Kubernetes' own that a kubelet may give its node, beside those of
// [kubeletLabelNamespaces]. With any other it does not even start, so that the node group would fail after a long wait.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
var (
	kubeletLabels = []string{
		"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "topology.kubernetes.io/zone",
		"topology.kubernetes.io/region",
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type",
		"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
	}
	kubeletLabelNamespaces = []string{"kubelet.kubernetes.io", "node.kubernetes.io"}
)

// reservedLabel reports whether a label is EKS's, or one of Kubernetes' that a node may not have by itself.
func reservedLabel(key string) bool {
	namespace, _, found := strings.Cut(key, "/")
	within := func(domain string) bool {
		return found && (namespace == domain || strings.HasSuffix(namespace, "."+domain))
	}
	switch {
	case within("eks.amazonaws.com"):
		return true
	case !within("kubernetes.io") && !within("k8s.io"):
		return false
	}
	return !slices.Contains(kubeletLabels, key) && !slices.ContainsFunc(kubeletLabelNamespaces, within)
}

// taintID identifies a taint: a node has one of a key and an effect.
type taintID struct {
	key    string
	effect types.TaintEffect
}

func taintIDOf(t types.Taint) taintID { return taintID{aws.ToString(t.Key), t.Effect} }

// changeTaints returns the taints of a group after a change, and the parameters of its update.
// https://docs.aws.amazon.com/eks/latest/userguide/node-taints-managed-node-groups.html
func changeTaints(
	g exception.About, now []types.Taint, in *types.UpdateTaintsPayload,
) ([]types.Taint, []types.UpdateParam, error) {
	if in == nil || len(in.AddOrUpdateTaints) == 0 && len(in.RemoveTaints) == 0 {
		return now, nil, nil
	}
	read := func(list []types.Taint) (map[taintID]types.Taint, error) {
		taints := make(map[taintID]types.Taint, len(list))
		for _, t := range list {
			if err := checkTaint(g, t); err != nil {
				return nil, err
			}
			if _, twice := taints[taintIDOf(t)]; twice {
				return nil, g.InvalidParameter(
					"Taint with key %s and effect %s is specified more than once", aws.ToString(t.Key), t.Effect,
				)
			}
			taints[taintIDOf(t)] = t
		}
		return taints, nil
	}
	added, err := read(in.AddOrUpdateTaints)
	if err != nil {
		return nil, nil, err
	}
	removed, err := read(in.RemoveTaints)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range in.RemoveTaints {
		if _, both := added[taintIDOf(t)]; both {
			return nil, nil, g.InvalidParameter(
				"Taint with key %s and effect %s can't be both added and removed", aws.ToString(t.Key), t.Effect,
			)
		}
	}
	out := slices.DeleteFunc(slices.Clone(now), func(t types.Taint) bool {
		_, ok := removed[taintIDOf(t)]
		return ok
	})
	for i, t := range out { // one that is updated keeps its place
		if updated, ok := added[taintIDOf(t)]; ok {
			out[i] = updated
			delete(added, taintIDOf(t))
		}
	}
	for _, t := range in.AddOrUpdateTaints {
		if _, isNew := added[taintIDOf(t)]; isNew {
			out = append(out, t)
		}
	}
	if len(out) > maxTaints {
		return nil, nil, g.InvalidParameter(
			"The number of taints exceeds the limit of %d: the nodegroup would have %d", maxTaints, len(out),
		)
	}
	var params []types.UpdateParam
	if len(in.AddOrUpdateTaints) > 0 {
		params = append(
			params, resource.UpdateParam(types.UpdateParamTypeTaintsToAdd, taintsJSON(in.AddOrUpdateTaints)),
		)
	}
	if len(in.RemoveTaints) > 0 {
		params = append(params, resource.UpdateParam(types.UpdateParamTypeTaintsToRemove, taintsJSON(in.RemoveTaints)))
	}
	return out, params, nil
}

func checkTaint(g exception.About, t types.Taint) error {
	key, value := aws.ToString(t.Key), aws.ToString(t.Value)
	switch {
	case key == "":
		return g.InvalidParameter("Taint key can't be empty")
	case len(validation.IsQualifiedName(key)) > 0:
		return malformed(g, key)
	case len(validation.IsValidLabelValue(value)) > 0:
		return malformed(g, value)
	case t.Effect == "": // wire has refused what is no effect
		return g.InvalidParameter(
			"Invalid taint effect: %s, must be one of these [NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE]", t.Effect,
		)
	}
	return nil
}

func taintsJSON(taints []types.Taint) string {
	list := make([]map[string]string, len(taints))
	for i, t := range taints {
		list[i] = map[string]string{"key": aws.ToString(t.Key), "effect": string(t.Effect)}
		if t.Value != nil {
			list[i]["value"] = *t.Value
		}
	}
	return resource.JSON(list)
}
