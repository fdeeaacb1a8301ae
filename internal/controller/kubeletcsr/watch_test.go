package kubeletcsr

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestRequestsOfATenantAreBounded runs against an API server with more requests than may wait.
func TestRequestsOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var items []string
		for i := range 3 * maxPending {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":"csr-%d"}}`, i))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"CertificateSigningRequestList","apiVersion":"certificates.k8s.io/v1","items":[%s]}`,
			strings.Join(items, ","))
	}))
	defer server.Close()
	s := storetest.New(t)
	cluster := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "demo", ID: "0123"}
	if _, err := record.Clusters(s).Create(t.Context(), cluster.Key(), cluster); err != nil {
		t.Fatal(err)
	}
	if _, err := record.ControlPlanes(s).Create(t.Context(), cluster.Key(), record.ControlPlane{ClusterID: cluster.ID,
		Endpoint: server.URL, Ready: true}); err != nil {
		t.Fatal(err)
	}
	c := New(Options{Store: s, Config: func(context.Context, record.Cluster, string, ...string) (*rest.Config, error) {
		return &rest.Config{Host: server.URL, QPS: -1}, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := 0
	c.watchRequests(ctx, func(string) {
		if told++; told == maxPending {
			cancel()
		}
	})
	if told != maxPending {
		t.Errorf("%d requests of a cluster wait at once, more than %d", told, maxPending)
	}
	const last = "111122223333/eu-west-1/demo/csr-0"
	waiting := c.openPending(cluster.Key())
	if err := c.addPending(ctx, waiting, last); err != nil {
		t.Errorf("a request that waits already has no place: %v", err)
	}
	if err := c.addPending(ctx, waiting, "another"); err == nil {
		t.Error("there is a place for another")
	}
	if _, err := c.Reconcile(t.Context(), last); err != nil { // without a connection there is nothing to decide
		t.Fatal(err)
	}
	if err := c.addPending(t.Context(), waiting, last); err != nil {
		t.Error(err)
	}
	// A cluster without requests is forgotten: names of deleted clusters do not pile up.
	c.closePending(cluster.Key())
	for i := range maxPending {
		if len(c.pending) != 1 {
			t.Fatal("a cluster is forgotten while requests wait")
		}
		if _, err := c.Reconcile(t.Context(), fmt.Sprint("111122223333/eu-west-1/demo/csr-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.pending) != 0 {
		t.Error("a cluster without requests is kept")
	}
}
