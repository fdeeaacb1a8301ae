package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// putClusters writes the records of clusters.
func putClusters(w *ekstest.Fixture, t *testing.T, account, region string, n int) {
	t.Helper()
	var ops []store.Op
	for i := range n {
		c := record.Cluster{Account: account, Region: region, Name: fmt.Sprintf("c%d", i)}
		ops = append(ops, record.Clusters(w.Store).CreateOp(c.Key(), c))
	}
	if err := w.Store.Txn(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
}

// TestClusterQuota creates the last cluster of a region several times at once, beside those of other regions.
func TestClusterQuota(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	putClusters(w, t, ekstest.Account, ekstest.Region, 99)
	putClusters(w, t, ekstest.Account, "sa-east-1", 30)
	failed := make(chan error)
	const tries = 5
	for i := range tries {
		go func() {
			_, err := w.Client.CreateCluster(t.Context(), ekstest.Request(fmt.Sprintf("last-%d", i)))
			failed <- err
		}()
	}
	created := 0
	for range tries {
		err := <-failed
		if err == nil {
			created++
			continue
		}
		if f := ekstest.FailureOf(t, err); f.Code != "ResourceLimitExceededException" || f.Status != 400 ||
			!strings.Contains(f.Message, "quota of 100 clusters") ||
			!strings.Contains(f.Message, "CORACLE_CLUSTERS_PER_REGION") {
			t.Errorf("%v", f)
		}
	}
	if created != 1 {
		t.Errorf("%d clusters were created where one was left", created)
	}
	name := "c0"
	if _, err := w.Client.CreateCluster(t.Context(), ekstest.Request(name)); ekstest.FailureOf(t, err).Code !=
		"ResourceInUseException" {
		t.Errorf("a name that is taken: %v", err)
	}
}

// TestClustersLeaveRoom creates clusters as far as the daemon has room for them, in all regions together.
func TestClustersLeaveRoom(t *testing.T) {
	t.Parallel()
	var own, all int
	w := ekstest.New(t)
	w.MayAdd = func(ofAccount, of int) bool {
		own, all = ofAccount, of
		return ofAccount < 5
	}
	putClusters(w, t, ekstest.Account, "sa-east-1", 4)
	putClusters(w, t, "444455556666", ekstest.Region, 7)
	if _, err := w.Client.CreateCluster(t.Context(), ekstest.Request("fifth")); err != nil || own != 4 || all != 11 {
		t.Errorf("with %d of %d: %v", own, all, err)
	}
	_, err := w.Client.CreateCluster(t.Context(), ekstest.Request("sixth"))
	if f := ekstest.FailureOf(t, err); f.Code != "ResourceLimitExceededException" ||
		!strings.Contains(f.Message, "has 5 of the 12 clusters") {
		t.Errorf("%v", f)
	}
	if rows, err := w.Client.ListClusters(t.Context(), &eks.ListClustersInput{}); err != nil || len(rows.Clusters) != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
}
