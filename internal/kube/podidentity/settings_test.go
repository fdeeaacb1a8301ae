package podidentity

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// accountServer is the part of an API server that has one service account, n/a.
type accountServer struct {
	*httptest.Server
	role    atomic.Pointer[string]
	reads   atomic.Int32
	events  chan string   // of the watch
	watched chan struct{} // one for each watch
}

func newAccountServer(t *testing.T) *accountServer {
	s := &accountServer{events: make(chan string), watched: make(chan struct{}, 10)}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		answer.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("watch") != "":
			answer.(http.Flusher).Flush()
			s.watched <- struct{}{}
			for {
				select {
				case <-r.Context().Done():
					return
				case event := <-s.events:
					_, _ = answer.Write([]byte(event))
					answer.(http.Flusher).Flush()
				}
			}
		case r.URL.Path == "/api/v1/serviceaccounts":
			_, _ = answer.Write([]byte(`{"kind":"ServiceAccountList","apiVersion":"v1","metadata":{"resourceVersion":"7"}}`))
		default:
			s.reads.Add(1)
			_ = json.NewEncoder(answer).Encode(corev1.ServiceAccount{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{
					Name: "a", Namespace: "n", Annotations: map[string]string{
						"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/" + *s.role.Load()}}})
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// webhook returns a webhook for the cluster of the API server, with the ID C.
func (s *accountServer) webhook() *Webhook {
	return New(Options{Log: slog.New(slog.DiscardHandler),
		Config: func(context.Context, record.Cluster) (*rest.Config, error) {
			return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil
		}})
}

// TestServiceAccountsAreReadAgainWhenTheyChange checks that a service account is read once, again after each change,
// and for each pod while no watch reports changes.
func TestServiceAccountsAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	s := newAccountServer(t)
	w, cluster := s.webhook(), record.Cluster{ID: "C", Name: "c"}
	t.Cleanup(func() { w.Forget("C") })
	role := func() string {
		t.Helper()
		found, err := w.serviceAccount(t.Context(), cluster, "n", "a")
		if err != nil {
			t.Fatal(err)
		}
		return found.RoleARN
	}
	set := func(name string) { s.role.Store(&name) }
	isRead := func() bool {
		before := s.reads.Load()
		role()
		return s.reads.Load() > before
	}
	const one, two, three = "arn:aws:iam::111122223333:role/one", "arn:aws:iam::111122223333:role/two",
		"arn:aws:iam::111122223333:role/three"

	set("one")
	if got := role(); got != one {
		t.Errorf("the role is %q", got)
	}
	<-s.watched
	eventually.True(t, "the service account is known", func() bool { return !isRead() })

	set("two")
	if got := role(); got != one {
		t.Errorf("the role is %q before the watch reports its change", got)
	}
	s.events <- `{"type":"MODIFIED","object":{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"a",` +
		`"namespace":"n","uid":"1","resourceVersion":"8"}}}` + "\n"
	eventually.True(t, "the change is seen", func() bool { return role() == two })
	if isRead() {
		t.Error("the service account is read again, although nothing has changed")
	}

	set("three")
	s.events <- `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired"}}` + "\n"
	eventually.True(t, "the end of the watch is seen", func() bool { return role() == three })
	if !isRead() {
		t.Error("the service account is not read, although nothing reports changes")
	}
}

// TestDeletedClustersAreNotWatched checks that the watch of a cluster ends with the cluster.
func TestDeletedClustersAreNotWatched(t *testing.T) {
	t.Parallel()
	s := newAccountServer(t)
	role := "one"
	s.role.Store(&role)
	w := s.webhook()
	if _, err := w.serviceAccount(t.Context(), record.Cluster{ID: "C", Name: "c"}, "n", "a"); err != nil {
		t.Fatal(err)
	}
	<-s.watched
	known := w.knownSettings("C")
	w.Forget("C")
	known.watcher.Wait()
}
