package clustermetrics

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestClustersAreCounted has an API server with three nodes and a pod.
func TestClustersAreCounted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.UserAgent(), "eks-k8s-metrics/") || r.URL.Query().Get("limit") != "1" {
			t.Errorf("%s asks %s", r.UserAgent(), r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		answer := `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"p"}}]}`
		if strings.HasSuffix(r.URL.Path, "/nodes") {
			answer = `{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":"c","remainingItemCount":2},` +
				`"items":[{"metadata":{"name":"n"}}]}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	s := storetest.New(t)
	cluster := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "demo", ID: "0123"}
	if _, err := record.Clusters(s).Create(t.Context(), cluster.Key(), cluster); err != nil {
		t.Fatal(err)
	}
	row, err := record.ControlPlanes(s).Create(t.Context(), cluster.Key(), record.ControlPlane{ClusterID: cluster.ID,
		Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var as string
	c := New(Options{Store: s, Config: func(_ context.Context, _ record.Cluster, user string, _ ...string) (
		*rest.Config, error) {
		as = user
		return &rest.Config{Host: server.URL, QPS: -1}, nil
	}})
	if result, err := c.Reconcile(t.Context(), cluster.Key()); err != nil || !result.Gone || as != "" {
		t.Errorf("a cluster that is not ready: %+v, %v", result, err)
	}
	row.Value.Ready = true
	if row, err = record.ControlPlanes(s).Update(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if result, err := c.Reconcile(t.Context(), cluster.Key()); err != nil || result.After != interval ||
		as != "eks:k8s-metrics" {
		t.Errorf("a ready cluster: %+v, %v, asked as %s", result, err, as)
	}
	if got := c.counts[cluster.Key()]; got != (counts{nodes: 3, pods: 1}) {
		t.Errorf("counted %+v", got)
	}
	if err := record.ControlPlanes(s).Delete(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reconcile(t.Context(), cluster.Key()); err != nil || len(c.counts) != 0 {
		t.Errorf("a cluster that is gone: %+v, %v", c.counts, err)
	}
}
