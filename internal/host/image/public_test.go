package image

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestPublicImagesAreFetchedWhileThereIsANetwork(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n})
	want := hash(t, n.push(t, "docker.io/library/nginx:1.27"))
	for range 2 {
		if status, got, body := get(t, r, "library/nginx", "1.27", "docker.io"); status != 200 || got != want {
			t.Fatalf("%d, %s, %s; want %s", status, got, body, want)
		}
	}
	asked := n.asked.Load()
	if get(t, r, "library/nginx", "1.27", "docker.io"); n.asked.Load() != asked {
		t.Error("what is here is asked for again")
	}

	// An index is what it is elsewhere; of its images, the one for this platform comes with it.
	img, err := random.Image(300, 1)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := random.Image(300, 1)
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: foreign, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux",
			Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
	ref, err := name.ParseReference("registry.k8s.io/pause:3.10")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index, remote.WithTransport(n)); err != nil {
		t.Fatal(err)
	}
	if status, got, body := get(t, r, "pause", "3.10", "registry.k8s.io"); status != 200 || got != hash(t, index) {
		t.Fatalf("the index: %d, %s, %s", status, got, body)
	}
	n.cut.Store(true)
	if status, _, body := get(t, r, "pause", hash(t, img), "registry.k8s.io"); status != 200 {
		t.Errorf("the image of this platform did not come with it: %s", body)
	}
	if status, _, _ := get(t, r, "pause", hash(t, foreign), "registry.k8s.io"); status == 200 {
		t.Error("the image of another platform came with it")
	}
	if status, got, _ := get(t, r, "library/nginx", "1.27", "docker.io"); status != 200 || got != want {
		t.Error("without a network, what was fetched is gone")
	}

	// A tag that has moved is followed, once it is time to look.
	n.cut.Store(false)
	moved := hash(t, n.push(t, "docker.io/library/nginx:1.27"))
	old := time.Now().Add(-freshFor - time.Minute)
	if err := os.Chtimes(r.pulledMark("docker.io/library/nginx", "1.27"), old, old); err != nil {
		t.Fatal(err)
	}
	if _, got, _ := get(t, r, "library/nginx", "1.27", "docker.io"); got != moved {
		t.Errorf("the tag is still on %s", got)
	}
}

// What a pod's events say, because containerd shows the message of a 403.
func TestAMissingImageSaysWhatToDo(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n})
	if status, _, body := get(t, r, "library/nothing", "v1", "docker.io"); status != http.StatusForbidden ||
		!strings.Contains(body, "docker.io/library/nothing:v1 does not exist") {
		t.Errorf("an image that does not exist: %d %s", status, body)
	}
	n.cut.Store(true)
	status, _, body := get(t, r, "library/nginx", "1.27", "docker.io")
	if status != http.StatusForbidden || !strings.Contains(body,
		"docker.io/library/nginx:1.27 is not in Coracle's registry") || !strings.Contains(body,
		"coracle images load") || !strings.Contains(body, "no such host") {
		t.Errorf("without a network: %d %s", status, body)
	}
	asked := n.asked.Load()
	if get(t, r, "library/httpd", "2", "docker.io"); n.asked.Load() != asked {
		t.Error("a registry that could not be reached is asked again at once")
	}
}

func TestTheMirrorIsNoWayAroundPermissions(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n})
	img, err := random.Image(300, 1)
	if err != nil {
		t.Fatal(err)
	}
	const host = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"
	if err := r.storeImage(t.Context(), host+"/team/app:v1", img); err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	layer := hash(t, layers[0])
	for _, ns := range []string{host, host + "/team", host + "/team/", strings.ToUpper(host), strings.ToUpper(host) +
		"/team", "x@" + host, host + ":443", host + ".", "docker.io/../" + host, host + "?x=", host + "#", "/" + host,
		""} {
		for _, path := range []string{"app/manifests/v1", "team/app/manifests/v1", "app/blobs/" + layer,
			"team/app/blobs/" + layer, "x/../team/app/manifests/v1", host + "/team/app/manifests/v1",
			strings.ToUpper(host) + "/team/app/manifests/v1", "docker.io/../" + host + "/team/app/manifests/v1",
			"/" + host + "/team/app/manifests/v1"} {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
				"https://api.ecr.eu-west-1.amazonaws.com/v2/"+path, nil)
			request.URL.RawQuery = url.Values{"ns": {ns}}.Encode()
			w := httptest.NewRecorder()
			r.Handler(nobody{}).ServeHTTP(w, request)
			if w.Code < 300 {
				t.Errorf("without a token, %s of the registry %q answers %d: %s", path, ns, w.Code, w.Body)
			}
		}
	}
}

// TestTheMirrorLeadsToPublicAddressesAlone runs a service on this host's loopback, as many hosts do.
func TestTheMirrorLeadsToPublicAddressesAlone(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "a secret of this host", http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	r := open(t, Options{})
	for _, ns := range []string{strings.TrimPrefix(server.URL, "http://"),
		strings.Replace(strings.TrimPrefix(server.URL, "http://"), "127.0.0.1", "localhost", 1)} {
		status, _, body := get(t, r, "app", "v1", ns)
		if status != http.StatusForbidden || !strings.Contains(body, "is not an address of the public internet") ||
			strings.Contains(body, "secret") {
			t.Errorf("%s: %d %s", ns, status, body)
		}
	}
	if asked.Load() > 0 {
		t.Errorf("it was asked %d times", asked.Load())
	}
}

// A name of a repository becomes a path below the registry's directory and of the URL at another registry.
func TestOnlyNamesOfRepositoriesAreLookedUp(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n})
	before := filesBelow(t, r.options.Dir)
	for _, path := range []string{
		"docker.io/../x/manifests/v1", "docker.io/../../../x/manifests/v1", "docker.io/a/./b/manifests/v1",
		"docker.io/a//b/manifests/v1", "docker.io/A/manifests/v1", "docker.io/a%5cb/manifests/v1",
		"docker.io/a/manifests/..", "docker.io/a/manifests/.", "docker.io/a/manifests/v1%00",
		"docker.io/a/manifests/sha256:..", "docker.io/" + strings.Repeat("a", 300) + "/manifests/v1",
	} {
		w := httptest.NewRecorder()
		r.Handler(nobody{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://127.0.0.1:4566/v2/"+path, nil))
		if w.Code != http.StatusBadRequest && w.Code != http.StatusNotFound || n.asked.Load() > 0 {
			t.Errorf("%s: %d %s; %d requests went out", path, w.Code, w.Body, n.asked.Load())
		}
	}
	if after := filesBelow(t, r.options.Dir); len(after) != len(before) {
		t.Errorf("the files were %q, and are %q", before, after)
	}
}

func TestUnreachedRegistriesAreForgotten(t *testing.T) {
	t.Parallel()
	var u unreached
	for i := range 3 * maxUnreached {
		u.recordError(fmt.Sprintf("registry-%d.example.com", i), errors.New("no route"))
	}
	if len(u.until) > maxUnreached || len(u.why) > maxUnreached {
		t.Errorf("%d registries are remembered", len(u.until))
	}
	if u.lastError(fmt.Sprintf("registry-%d.example.com", 3*maxUnreached-1)) == nil {
		t.Error("the last one is forgotten")
	}
}
