package podidentity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// TestAnAssociationIsFoundWithoutTheOthers looks for the association of a service account, as for each new pod, in a
// cluster that has many with long tags.
func TestAnAssociationIsFoundWithoutTheOthers(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	c, table := w.Row("c"), record.PodIdentityAssociations(w.Store)
	earlier := c
	earlier.ID = strings.Repeat("0", 32) // of the same name
	put := func(of record.Cluster, n int, account string) {
		t.Helper()
		p := record.PodIdentityAssociation{Account: of.Account, Region: of.Region, Cluster: of.Name, ClusterID: of.ID,
			ID: fmt.Sprintf("a-%s-%d", of.ID, n), Namespace: "default", ServiceAccount: account,
			Tags: map[string]string{"long": strings.Repeat("x", 40<<10)}}
		ekstest.Put(t, table, p.Key(), p)
	}
	for i := range 50 {
		put(c, i, fmt.Sprintf("app-%d", i))
	}
	put(earlier, 0, "web")
	var read int64
	ctx := store.Metered(t.Context(), func(bytes int64) error {
		read += bytes
		return nil
	})
	for account, want := range map[string]bool{"app-7": true, "app-": false, "web": false, "": false} {
		p, found, err := resource.AssociationOf(ctx, table, c, "default", account)
		if err != nil || found != want || found && p.ServiceAccount != account {
			t.Errorf("of %q: found %t as %s, %v", account, found, p.ServiceAccount, err)
		}
	}
	if _, found, err := resource.AssociationOf(ctx, table, c, "kube-system", "app-7"); err != nil || found {
		t.Errorf("in another namespace: %t, %v", found, err)
	}
	if read > 50<<10 {
		t.Errorf("five service accounts, of which one has an association, read %d bytes", read)
	}
	if n := resource.NewRecords(w.Store, nil).CountAssociations(c); n != 50 {
		t.Errorf("%d associations are counted, want those of this cluster: 50", n)
	}
}
