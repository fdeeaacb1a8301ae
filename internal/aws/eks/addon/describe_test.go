package addon_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func TestAddonsAreListedByPage(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	for _, name := range []string{"vpc-cni", "kube-proxy", "acme_storage", "coredns", "acme_strict"} {
		w.createAddon("c", name, func(in *eks.CreateAddonInput) { in.ConfigurationValues = aws.String("{}") })
	}
	old := record.Addon{Account: ekstest.Account, Region: ekstest.Region, Cluster: "c", ClusterID: "OLD",
		Name: "b-of-an-earlier-cluster"}
	ekstest.Put(w.T, record.Addons(w.Store), old.Key(), old)
	if d := cmp.Diff([]string{"acme_storage", "acme_strict", "coredns", "kube-proxy", "vpc-cni"},
		w.addonNames("c")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The SDK's waiters return as soon as the add-on has arrived, and not after their delay.
func TestAddonWaiters(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.createAddon("c", "coredns")
	in := &eks.DescribeAddonInput{ClusterName: aws.String("c"), AddonName: aws.String("coredns")}
	// arrives has a waiter wait, the controller do something once the question is there, and the waiter return.
	arrives := func(what string, wait func() error, then func()) {
		t.Helper()
		asked, done := make(chan struct{}, 1), make(chan error, 1)
		w.Mu.Lock()
		w.Deny = func(_ wire.Caller, t wire.Target) bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			return false
		}
		w.Mu.Unlock()
		go func() { done <- wait() }()
		<-asked
		then()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	arrives("active", func() error {
		return eks.NewAddonActiveWaiter(w.Client).Wait(t.Context(), in,
			eventually.Limit)
	}, func() { w.keepAddon("c", "coredns") })
	if _, err := w.Client.DeleteAddon(t.Context(), &eks.DeleteAddonInput{ClusterName: in.ClusterName,
		AddonName: in.AddonName}); err != nil {
		t.Fatal(err)
	}
	arrives("deleted", func() error {
		return eks.NewAddonDeletedWaiter(w.Client).Wait(t.Context(), in,
			eventually.Limit)
	}, func() {
		row, err := record.Addons(w.Store).Get(t.Context(), store.Key(ekstest.Account, ekstest.Region, "c", "coredns"))
		if err == nil {
			err = record.Addons(w.Store).Delete(t.Context(), row)
		}
		if err != nil {
			t.Error(err)
		}
	})
}
