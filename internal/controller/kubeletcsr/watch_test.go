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
	const most = 1000
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var items []string
		for i := range 3 * most {
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
	c.watchRequests(ctx, func(ctx context.Context, _ string) error {
		if told++; told < most {
			return nil
		}
		cancel() // there is no room for more
		return ctx.Err()
	})
	if told != most {
		t.Errorf("%d requests were told, more than %d that there is room for", told, most)
	}
}
