package nodegroup

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Whoever is root on a node may say in spec.providerID that it is another instance.
func TestNodesAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	const instance = "i-0123456789abcdef0"
	names := []string{instance, "ip-10-0-0-7.eu-west-1.compute.internal"}
	for name, test := range map[string]struct {
		nodes []string // that say they are the instance
		want  string
	}{
		"none has registered": {nil, ""},
		"its own, by its address": {[]string{"ip-10-0-0-7.eu-west-1.compute.internal"},
			"ip-10-0-0-7.eu-west-1.compute.internal"},
		"its own, by its ID": {[]string{instance}, instance},
		"another's alone":    {[]string{"ip-10-0-0-8.eu-west-1.compute.internal"}, ""},
		"its own and others of a thief": {[]string{"a", "ip-10-0-0-8.eu-west-1.compute.internal", instance, "z"},
			instance},
	} {
		s := &server{nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byInstance: indexByInstance})}
		for _, node := range test.nodes {
			n := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: node},
				Spec:       corev1.NodeSpec{ProviderID: "aws:///eu-west-1a/" + instance},
			}
			if err := s.nodes.Add(n); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		if n := s.nodeOfInstance(instance, names); n != nil {
			got = n.Name
		}
		if got != test.want || s.claimed(instance) != (len(test.nodes) > 0) {
			t.Errorf("%s: node %q, want %q; claimed %v", name, got, test.want, s.claimed(instance))
		}
	}
}
