package image

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// internet is a network with one public registry, which answers for all names.
type internet struct {
	handler http.Handler
	cut     atomic.Bool
	asked   atomic.Int32
}

func newInternet() *internet {
	return &internet{handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
}

func (n *internet) RoundTrip(r *http.Request) (*http.Response, error) {
	n.asked.Add(1)
	if n.cut.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: r.URL.Hostname(),
			IsNotFound: true}}
	}
	return within{handler: n.handler}.RoundTrip(r)
}

// push puts an image into the public registry.
func (n *internet) push(t *testing.T, reference string) v1.Image {
	t.Helper()
	img, err := random.Image(300, 2)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithTransport(n)); err != nil {
		t.Fatal(err)
	}
	return img
}

// get asks the registry as a mirror.
func get(t *testing.T, r *Registry, repository, reference, ns string) (status int, digest, body string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
		"https://api.ecr.eu-west-1.amazonaws.com/v2/"+repository+"/manifests/"+reference+"?ns="+ns, nil)
	w := httptest.NewRecorder()
	r.Handler(nobody{}).ServeHTTP(w, request)
	return w.Code, w.Header().Get("Docker-Content-Digest"), w.Body.String()
}

// nobody has no repositories.
type nobody struct{}

func (nobody) Allow(context.Context, Request) error { return Unauthenticated }
func (nobody) Exists(context.Context, string, string, string) (bool, error) {
	return false, nil
}
func (nobody) Upstream(context.Context, string, string, string) (string, error) { return "", nil }

func hash(t testing.TB, of interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	h, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}
