package controlplane

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// noSockets are endpoints of clusters whose API servers reach nothing in their VPC.
type noSockets struct{ Endpoints }

func (noSockets) EgressSocket(string) string        { return "" }
func (noSockets) ManagedEgressSocket(string) string { return "" }
func (noSockets) ServerSocket(int) string           { return "" }

// newSlowServer serves as the API server of a cluster.
func newSlowServer(t *testing.T, o Options, handler http.HandlerFunc) (*Controller, plane) {
	t.Helper()
	o.Store, o.Dir, o.Endpoints = storetest.New(t), t.TempDir(), noSockets{}
	c := New(o)
	p := plane{cluster: newCluster("slow", "1.35"), minor: "1.35"}
	var err error
	if p.keys, err = c.ensureKeys(t.Context(), p.cluster); err != nil {
		t.Fatal(err)
	}
	pair, err := p.keys.ca.IssueAt(pki.Leaf{CommonName: "kube-apiserver", Server: true,
		IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	p.port = s.Listener.Addr().(*net.TCPAddr).Port
	return c, p
}

// TestBootstrapEnds puts the objects of EKS into a cluster whose webhook answers for ever that there are too many
// requests.
func TestBootstrapEnds(t *testing.T) {
	t.Parallel()
	c, p := newSlowServer(t, Options{StartTimeout: 50 * time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests",
			"code": 429}`)
	})
	if _, err := c.ensureObserved(t.Context(), p.cluster); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.bootstrap(ctx, p); err == nil || ctx.Err() != nil {
		t.Errorf("the bootstrap does not end: %v", err)
	}
	if each := c.Controller(); each.Timeout < c.o.StartTimeout+c.o.UpgradeTimeout {
		t.Errorf("a pass has %s", each.Timeout)
	}
}

// TestSecretsAreEncryptedInSeveralPasses has a webhook that does not answer for one Secret at first: the next pass goes
// on with that one.
func TestSecretsAreEncryptedInSeveralPasses(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	c, p := newSlowServer(t, Options{UpgradeTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPatch {
			mu.Lock()
			name := path.Base(r.URL.Path)
			first := !slices.Contains(asked, name)
			asked = append(asked, name)
			mu.Unlock()
			if name == "b" && first {
				<-r.Context().Done()
				return
			}
			_, _ = io.WriteString(w, `{"kind": "Secret", "apiVersion": "v1"}`)
			return
		}
		var items []any
		for _, name := range []string{"c", "b", "a"} {
			items = append(items, map[string]any{"metadata": map[string]any{"namespace": "default", "name": name}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
			"items": items})
	})
	open := []store.Row[record.Update]{{Value: record.Update{Type: ekstypes.UpdateTypeAssociateEncryptionConfig}}}
	if err := c.encryptSecretsAgain(t.Context(), p, open); err == nil {
		t.Error("the pass does not end")
	}
	if err := c.encryptSecretsAgain(t.Context(), p, open); err != nil {
		t.Error(err)
	}
	if want := []string{"a", "b", "b", "c"}; !slices.Equal(asked, want) {
		t.Errorf("%q are encrypted", asked)
	}
	if len(c.encrypted) > 0 {
		t.Errorf("%v is remembered", c.encrypted)
	}
}
