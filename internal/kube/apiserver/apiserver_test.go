package apiserver_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestConnectionsThatEndAtOnceAreNotRepeatedAtOnce runs against an API server that begins every watch and returns
// Expired, with a long text.
func TestConnectionsThatEndAtOnceAreNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",`+
			`"reason":"Expired","code":410,"message":"`+strings.Repeat("a", 1<<20)+`"}}`)
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
	connections := apiserver.New[string](apiserver.Options{Store: s, What: "watch nodes",
		Log: slog.New(slog.DiscardHandler),
		Config: func(context.Context, record.Cluster, string, ...string) (*rest.Config, error) {
			return &rest.Config{Host: server.URL, QPS: -1}, nil
		}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began, attempts := time.Now(), 0
	connections.Follow(ctx, func(ctx context.Context, k *apiserver.Connection, open func(string)) error {
		if attempts++; attempts == 6 {
			if _, why := connections.Failing(k.Key); why == nil || len(why.Error()) > client.MaxText+64 {
				t.Errorf("%.100v is kept", why)
			}
			cancel()
			return nil
		}
		core, err := corev1client.NewForConfigAndClient(k.Config, k.HTTP)
		if err != nil {
			return err
		}
		if attempts < 5 {
			open("it serves") // that it does is no reason to ask again at once
		}
		return client.Watch(ctx, "nodes", "0", core.Nodes().Watch, metav1.ListOptions{},
			func(kubewatch.EventType, *corev1.Node) error { return nil })
	})
	// 50 + 100 + 200 + 400 + 800 milliseconds; less only if there is no pause.
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("%d connections within %s", attempts, took)
	}
}

// TestWorkThatEndsSlowlyHoldsUpNoOtherCluster runs work on a cluster that does not end when it should.
func TestWorkThatEndsSlowlyHoldsUpNoOtherCluster(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	planes := record.ControlPlanes(s)
	slow := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "slow", ID: "0123"}
	other := record.Cluster{Account: "444455556666", Region: "eu-west-1", Name: "other", ID: "4567"}
	plane := func(cluster record.Cluster, endpoint string) record.ControlPlane {
		return record.ControlPlane{ClusterID: cluster.ID, Endpoint: endpoint, Ready: true}
	}
	for _, cluster := range []record.Cluster{slow, other} {
		if _, err := record.Clusters(s).Create(t.Context(), cluster.Key(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	row, err := planes.Create(t.Context(), slow.Key(), plane(slow, "https://a"))
	if err != nil {
		t.Fatal(err)
	}
	connections := apiserver.New[string](apiserver.Options{Store: s, What: "watch nodes",
		Log: slog.New(slog.DiscardHandler),
		Config: func(context.Context, record.Cluster, string, ...string) (*rest.Config, error) {
			return &rest.Config{Host: "https://127.0.0.1:1"}, nil
		}})
	ctx, cancel := context.WithCancel(t.Context())
	began, stopped, end := make(chan string), make(chan struct{}), make(chan struct{})
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		first := true // of the slow cluster
		connections.Follow(ctx, func(ctx context.Context, k *apiserver.Connection, _ func(string)) error {
			began <- k.Cluster.Name
			<-ctx.Done()
			if k.Cluster.Name == slow.Name && first {
				first = false
				close(stopped)
				<-end
			}
			return nil
		})
	}()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-began:
			if got != want {
				t.Fatalf("work on %s begins, want %s", got, want)
			}
		case <-time.After(eventually.Limit):
			t.Fatalf("no work on %s begins", want)
		}
	}
	next(slow.Name)
	row.Value = plane(slow, "https://b")
	if _, err := planes.Update(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	<-stopped
	if _, err := planes.Create(t.Context(), other.Key(), plane(other, "https://c")); err != nil {
		t.Fatal(err)
	}
	next(other.Name) // and not the slow one, whose work has not ended
	close(end)
	next(slow.Name)
	cancel()
	<-followed
}
