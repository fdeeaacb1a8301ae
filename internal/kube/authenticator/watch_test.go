package authenticator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/awsauth"
)

// TestWhatIsTooLargeMapsNobody has somebody who pads aws-auth beyond what is read when they are taken out of it.
func TestWhatIsTooLargeMapsNobody(t *testing.T) {
	t.Parallel()
	const version = `"metadata":{"namespace":"kube-system","name":"aws-auth","resourceVersion":"`
	first := map[string]string{"mapAccounts": "- '111122223333'\n"}
	padded := map[string]string{"mapAccounts": "[]\n", "padding": strings.Repeat("x", 1<<20)}
	change := make(chan struct{})
	object := func(number int, data map[string]string) string {
		text, err := json.Marshal(data)
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap",%s%d"},"data":%s}`, version, number, text)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.Contains(r.URL.RawQuery, "watch=") {
			_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%s]}`,
				object(1, first))
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-change:
			_, _ = fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`, object(2, padded))
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
		<-r.Context().Done()
	}))
	t.Cleanup(api.Close)
	maps, err := typedcorev1.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := &served{log: newLogFile(filepath.Join(t.TempDir(), "log"), slog.New(slog.DiscardHandler)),
		loaded: make(chan struct{})}
	t.Cleanup(func() { s.log.Close() })
	var following conc.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	following.Go(func() { s.followAWSAuth(ctx, awsauth.NewClient(maps, "111122223333")) })
	defer following.Wait()
	defer end()
	mapped := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, ok := s.awsAuth.findMapping(Identity{AccountID: "111122223333"})
		return ok
	}
	<-s.loaded
	if !mapped() {
		t.Error("the account is not mapped")
	}
	close(change)
	eventually.True(t, "nobody is mapped", func() bool { return !mapped() })
}

// TestWatchesThatEndAtOnce has an API server that ends each watch as soon as it has begun: it is asked less and less
// often.
func TestWatchesThatEndAtOnce(t *testing.T) {
	t.Parallel()
	const lists = 6
	began, ended := time.Now(), make(chan time.Duration, 1)
	asked := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.RawQuery, "watch=") {
			return
		}
		if asked++; asked == lists { // one client asks one by one
			ended <- time.Since(began)
		}
		_, _ = w.Write([]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
	}))
	t.Cleanup(api.Close)
	newFixtureFor(t, both, &rest.Config{Host: api.URL})
	if took := <-ended; took < 31*retry.Duration { // 1+2+4+8+16
		t.Errorf("it is asked %d times within %s", lists, took)
	}
}
