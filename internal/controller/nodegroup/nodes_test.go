package nodegroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/coracle-eks/coracle/internal/kube/awsauth"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
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

// TestNodesOfATenantAreBounded runs against an API server that makes up nodes and node groups.
func TestNodesOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	group := record.Nodegroup{Account: "111122223333", Region: "eu-west-1", Cluster: "demo", Name: "workers"}
	if _, err := record.Nodegroups(s).Create(t.Context(), group.Key(), group); err != nil {
		t.Fatal(err)
	}
	c := New(Options{Store: s})
	node := func(n int, group string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", n),
			Labels: map[string]string{groupLabel: group}}}
	}
	var told []string
	follower := &server{nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{byInstance: indexByInstance})}
	apply := func(what kubewatch.EventType, n *corev1.Node) error {
		return follower.applyEvent(what, n, func(n *corev1.Node) {
			told = append(told, c.groupsOfNode(record.ClusterKey(group.Account, group.Region, group.Cluster), n)...)
		})
	}
	for i := range client.MaxObjects {
		name := fmt.Sprint("group-", i)
		if i == 7 {
			name = group.Name
		}
		if err := apply(kubewatch.Added, node(i, name)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{group.Key()}; !slices.Equal(told, want) {
		t.Errorf("%d groups are told, such as %v; want %v", len(told), told[:min(len(told), 3)], want)
	}
	if err := apply(kubewatch.Added, node(client.MaxObjects, "")); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("one more node: %v", err)
	}
	large := node(2, "")
	large.Annotations = map[string]string{"a": strings.Repeat("a", maxNodes)}
	if err := apply(kubewatch.Modified, large); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("a node that is too large: %v", err)
	}
	for _, what := range []kubewatch.EventType{kubewatch.Modified, kubewatch.Deleted, kubewatch.Added} {
		if err := apply(what, node(1, "")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestMapRolesOfATenantAreBounded runs against an API server with a larger ConfigMap than there can be.
func TestMapRolesOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	s := &server{auth: awsauth.NewClient(fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: awsauth.Namespace, Name: awsauth.Name},
		Data:       map[string]string{awsauth.MapRoles: strings.Repeat("a", 1<<20+1)},
	}).CoreV1(), "111122223333")}
	err := s.followAuth(t.Context(), func() { t.Error("it counts") }, func() {})
	if !errors.Is(err, client.ErrTooLarge) {
		t.Error(err)
	}
}
