package fargate

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSubnetsAreChosen(t *testing.T) {
	t.Parallel()
	all := []subnet{{"a1", "a", 5}, {"a2", "a", 9}, {"b1", "b", 3}, {"c1", "c", 0}}
	zones := map[string]string{"1": "a", "2": "a", "3": "b", "4": "d"}
	pods := func(uids ...string) map[string]bool {
		m := map[string]bool{}
		for _, uid := range uids {
			m[uid] = true
		}
		return m
	}
	for name, c := range map[string]struct {
		spreads []spread
		placed  map[string]int // pods of the profile, by subnet
		want    []string
	}{
		"the most addresses":    {nil, nil, []string{"a2", "a1", "b1", "c1"}},
		"the fewest pods":       {nil, map[string]int{"a2": 1}, []string{"a1", "b1", "a2", "c1"}},
		"as many pods in each":  {nil, map[string]int{"a1": 2, "a2": 2, "b1": 2}, []string{"a2", "a1", "b1", "c1"}},
		"fewer, but no address": {nil, map[string]int{"a1": 3, "a2": 2, "b1": 1}, []string{"b1", "a2", "a1", "c1"}},
		"even":                  {[]spread{{1, false, pods("1", "2", "3")}}, nil, []string{"b1", "a2", "a1", "c1"}},
		"even in spite of the pods": {[]spread{{1, false, pods("1", "2", "3")}}, map[string]int{"b1": 5, "a2": 1},
			[]string{"b1", "a1", "a2", "c1"}},
		"no zone is too full": {[]spread{{2, true, pods("1", "3")}}, nil, []string{"a2", "a1", "b1", "c1"}},
		"a zone is too full":  {[]spread{{1, true, pods("1", "2", "3")}}, nil, []string{"c1"}},
		"pods of other zones": {[]spread{{1, true, pods("4", "5")}}, nil, []string{"a2", "a1", "b1", "c1"}},
		"two constraints": {[]spread{{2, true, pods("1")}, {2, true, pods("3")}}, nil,
			[]string{"a2", "a1", "b1", "c1"}},
		"two constraints that meet": {[]spread{{1, true, pods("1")}, {1, true, pods("3")}}, nil, []string{"c1"}},
	} {
		var got []string
		for _, s := range orderSubnets(all, c.spreads, placement{zones, c.placed}) {
			got = append(got, s.id)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAffinityAllowsZones(t *testing.T) {
	t.Parallel()
	all := []subnet{{"a1", "eu-west-1a", 1}, {"b1", "eu-west-1b", 1}}
	zone := func(operator corev1.NodeSelectorOperator, values ...string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: operator,
					Values: values}}}}}}}
	}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want []string
	}{
		"none": {corev1.PodSpec{}, []string{"a1", "b1"}},
		"a selector": {corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelTopologyZone: "eu-west-1b"}},
			[]string{"b1"}},
		"in":     {corev1.PodSpec{Affinity: zone(corev1.NodeSelectorOpIn, "eu-west-1a", "eu-west-1c")}, []string{"a1"}},
		"not in": {corev1.PodSpec{Affinity: zone(corev1.NodeSelectorOpNotIn, "eu-west-1a")}, []string{"b1"}},
		"Fargate": {corev1.PodSpec{NodeSelector: map[string]string{"eks.amazonaws.com/compute-type": "fargate"}},
			[]string{"a1", "b1"}},
		"a group of nodes": {corev1.PodSpec{NodeSelector: map[string]string{"eks.amazonaws.com/nodegroup": "ng"}}, nil},
	} {
		allowed, err := filterByAffinity(all, &corev1.Pod{Spec: c.spec}, "eu-west-1")
		var got []string
		for _, s := range allowed {
			got = append(got, s.id)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}
