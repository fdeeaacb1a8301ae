package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/coracle-eks/coracle/internal/eventually"
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

// reading counts what is asked for and what is read of the answers.
type reading struct {
	http.RoundTripper
	manifests, read atomic.Int64
}

func (c *reading) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/manifests/") {
		c.manifests.Add(1)
	}
	response, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = &readingBody{response.Body, c}
	}
	return response, err
}

type readingBody struct {
	io.ReadCloser
	of *reading
}

func (b *readingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.read.Add(int64(n))
	return n, err
}

// TestManifestsOfPublicImagesAreBounded shows how much of an index that somebody has made comes into memory.
func TestManifestsOfPublicImagesAreBounded(t *testing.T) {
	t.Parallel()
	const many = 3
	pad := strings.Repeat("x", maxMetadata)
	var small, large []v1.Image
	for range many {
		img, err := random.Image(300, 1)
		if err != nil {
			t.Fatal(err)
		}
		small = append(small, img)
		large = append(large, mutate.Annotations(img, map[string]string{"pad": pad}).(v1.Image))
	}
	indexOf := func(images []v1.Image, size int64) v1.ImageIndex {
		index := v1.ImageIndex(empty.Index)
		for _, img := range images {
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img,
				Descriptor: v1.Descriptor{Platform: &platform, Size: size}})
		}
		return index
	}
	for title, test := range map[string]struct {
		put       func(ref name.Reference, n *internet) error
		manifests int64 // that are fetched
		want      string
	}{
		"many images of the platform": {func(ref name.Reference, n *internet) error {
			return remote.WriteIndex(ref, indexOf(small, 0), remote.WithTransport(n))
		}, 2, ""},
		"many large images": {func(ref name.Reference, n *internet) error {
			return remote.WriteIndex(ref, indexOf(large, 0), remote.WithTransport(n))
		}, 1, "indexes, manifests and configurations may have"},
		"large images said to be small": {func(ref name.Reference, n *internet) error {
			return remote.WriteIndex(ref, indexOf(large, 100), remote.WithTransport(n))
		}, 2, "which indexes, manifests and configurations may have"},
		"an index of nothing, many times": {func(ref name.Reference, n *internet) error {
			return remote.WriteIndex(ref, mutate.AppendManifests(empty.Index,
				slices.Repeat([]mutate.IndexAddendum{{Add: small[0]}}, maxObjects)...), remote.WithTransport(n))
		}, 1, "objects, which indexes, manifests and configurations may have"},
		"more layers than can be mounted": {func(ref name.Reference, n *internet) error {
			image, err := random.Image(1, maxLayers+1)
			return errors.Join(err, remote.Write(ref, image, remote.WithTransport(n)))
		}, 1, "has 501 layers, and nodes can mount 500"},
		"a large image": {func(ref name.Reference, n *internet) error {
			return remote.Write(ref, large[0], remote.WithTransport(n))
		}, 1, "which indexes, manifests and configurations may have"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			n := newInternet()
			ref, err := name.ParseReference("docker.io/team/app:v1")
			if err != nil {
				t.Fatal(err)
			}
			if err := test.put(ref, n); err != nil {
				t.Fatal(err)
			}
			counted := &reading{RoundTripper: n}
			r := open(t, Options{Transport: counted})
			status, _, body := get(t, r, "team/app", "v1", "docker.io")
			if want := map[bool]int{true: 200, false: 403}[test.want == ""]; status != want || !strings.Contains(body,
				test.want) {
				t.Errorf("%d %s", status, body)
			}
			if got := counted.manifests.Load(); got != test.manifests {
				t.Errorf("%d manifests are fetched, want %d", got, test.manifests)
			}
			if read, most := counted.read.Load(), int64(maxMetadata+64<<10); read > most {
				t.Errorf("%d bytes are read, want at most %d", read, most)
			}
			if !r.metadata.TryAcquire(maxPullMetadata) {
				t.Fatal("memory is held after the pull")
			}
			r.metadata.Release(maxPullMetadata)
			if status, _, _ := get(t, r, "team/other", "v1", "docker.io"); status != 403 ||
				r.unreached.lastError("index.docker.io") != nil || r.unreached.lastError("docker.io") != nil {
				t.Errorf("the registry counts as unreachable: %d", status)
			}
		})
	}
}

// TestPullsShareMemory shows that pulls wait for memory, which a pull holds until it knows its manifests.
func TestPullsShareMemory(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n})
	n.push(t, "docker.io/library/nginx:1.27")
	if !r.metadata.TryAcquire(maxPullMetadata - pullMetadata + 1) {
		t.Fatal("memory is held without a pull")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	asked := n.asked.Load()
	if err := r.pullImage(ctx, "docker.io/library/nginx", "docker.io/library/nginx", "1.27"); err == nil ||
		!strings.Contains(err.Error(), "try again later") || n.asked.Load() != asked {
		t.Errorf("a pull does not wait for memory: %v", err)
	}
	r.metadata.Release(1)
	if err := r.pullImage(t.Context(), "docker.io/library/nginx", "docker.io/library/nginx", "1.27"); err != nil {
		t.Error(err)
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

func TestLoad(t *testing.T) {
	t.Parallel()
	img, err := random.Image(300, 3)
	if err != nil {
		t.Fatal(err)
	}
	docker := func(names ...string) []byte {
		images := make(map[name.Tag]v1.Image)
		for _, n := range names {
			tag, err := name.NewTag(n)
			if err != nil {
				t.Fatal(err)
			}
			images[tag] = img
		}
		var archive bytes.Buffer
		if err := tarball.MultiWrite(images, &archive); err != nil {
			t.Fatal(err)
		}
		return archive.Bytes()
	}
	var oci bytes.Buffer
	if err := writeLayout(&oci, map[string]v1.Image{"quay.io/team/app:v1": img,
		"docker.io/library/busybox:1": img}); err != nil {
		t.Fatal(err)
	}
	zipped := func(b []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		if _, err := z.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	var escaping bytes.Buffer
	w := tar.NewWriter(&escaping)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "../../escaped", Size: 1, Mode: 0o644}),
		func() error { _, err := w.Write([]byte("x")); return err }(), w.Close()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		archive []byte
		want    []string
		err     string
	}{
		"docker with two tags": {docker("nginx:1.27", "nginx:latest"), []string{"docker.io/library/nginx:1.27",
			"docker.io/library/nginx:latest"}, ""},
		"docker, compressed":   {zipped(docker("ghcr.io/x/y:z")), []string{"ghcr.io/x/y:z"}, ""},
		"a registry with port": {docker("localhost:5000/app:v1"), []string{"localhost:5000/app:v1"}, ""},
		"OCI":                  {oci.Bytes(), []string{"quay.io/team/app:v1", "docker.io/library/busybox:1"}, ""},
		"no tar file":          {[]byte("what is this?"), nil, "no tar file"},
		"empty":                {nil, nil, "no beginning"},
		"out of the directory": {escaping.Bytes(), nil, "escapes"},
		"no repository": {docker("111122223333.dkr.ecr.eu-west-1.amazonaws.com/app:v1"), nil,
			"aws ecr create-repository --repository-name app --region eu-west-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newInternet()
			n.cut.Store(true)
			r := open(t, Options{Transport: n})
			loaded, err := r.Load(t.Context(), bytes.NewReader(test.archive), nobody{})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error is %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil || len(loaded) != len(test.want) {
				t.Fatalf("loaded %v, %v; want %v", loaded, err, test.want)
			}
			for _, reference := range test.want {
				repository, tag, err := splitReference(reference)
				if err != nil {
					t.Fatal(err)
				}
				host, path, _ := strings.Cut(repository, "/")
				if status, got, body := get(t, r, path, tag, host); status != 200 || got != hash(t, img) {
					t.Errorf("%s: %d %s %s", reference, status, got, body)
				}
			}
			if left, err := os.ReadDir(r.scratchDir()); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestOnlyLoadAndECRPutImages(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	w := httptest.NewRecorder()
	r.Handler(nobody{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		"/v2/docker.io/library/nginx/blobs/uploads/", nil))
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "coracle images load") {
		t.Errorf("a push to Docker Hub: %d %s", w.Code, w.Body)
	}
	for path, want := range map[string]int{"/v2/": 401, "/v2/nothing": 404, "/v2/app/manifests/v1": 404,
		"/v2/_catalog": 404} {
		w := httptest.NewRecorder()
		r.Handler(nobody{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d: %s", path, w.Code, want, w.Body)
		}
	}
}

// A killed daemon leaves what it was preparing, and the next removes it.
func TestLeftoversAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left := filepath.Join(dir, "scratch", "golden-1", "root")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir})
	if _, err := os.Stat(filepath.Dir(left)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
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

// TestTheMirrorLeadsToPublicAddressesAlone has a service on this host's loopback, as many have.
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

// unread fails when somebody reads it.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("what a client without a token sends is read")
	return 0, io.EOF
}

// maybe lets in whoever asks for nothing but the registry.
type maybe struct{ nobody }

func (maybe) Allow(_ context.Context, r Request) error {
	if r.Repository == "" {
		return nil
	}
	return Denied("not this repository")
}

func TestManifestsOfThoseWhoMayNotPushAreNotRead(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1:4566/v2/"+secretRepository+
		"/manifests/v1", unread{t})
	request.SetBasicAuth("AWS", "a token")
	w := httptest.NewRecorder()
	if r.Handler(maybe{}).ServeHTTP(w, request); w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestManifestsOfManyObjectsAreNotParsed(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	const mediaType = "application/vnd.oci.image.index.v1+json"
	payload := `{"schemaVersion":2,"mediaType":"` + mediaType + `","manifests":[` +
		strings.TrimSuffix(strings.Repeat("{},", maxObjects), ",") + `]}`
	var invalid *InvalidManifest
	if _, err := r.PutManifest(t.Context(), secretRepository, "", mediaType, []byte(payload)); !errors.As(err,
		&invalid) || !strings.Contains(err.Error(), "10001 objects") {
		t.Error(err)
	}
}

func TestManifestsOfManyMembersAreNotParsed(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	const mediaType = "application/vnd.oci.image.index.v1+json"
	for name, members := range map[string]string{
		"annotations": `"manifests":[],"annotations":{` + strings.TrimSuffix(strings.Repeat(`"":"",`, maxMembers), ",") + "}",
		"elements":    `"manifests":[` + strings.TrimSuffix(strings.Repeat("null,", maxMembers), ",") + "]",
	} {
		payload := `{"schemaVersion":2,"mediaType":"` + mediaType + `",` + members + "}"
		var invalid *InvalidManifest
		if _, err := r.PutManifest(t.Context(), secretRepository, "", mediaType, []byte(payload)); !errors.As(err,
			&invalid) || !strings.Contains(err.Error(), "members, and indexes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRequestsForManifestsAreBounded shows that a source has a few requests for manifests served at a time, that the
// next one waits, and that others do not wait for it.
func TestRequestsForManifestsAreBounded(t *testing.T) {
	t.Parallel()
	n := newInternet()
	ref, err := name.ParseReference("docker.io/team/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	img, err := random.Image(300, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithTransport(n)); err != nil {
		t.Fatal(err)
	}
	r := open(t, Options{Transport: n})
	ask := func(source string) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"https://api.ecr.eu-west-1.amazonaws.com/v2/team/app/manifests/v1?ns=docker.io", nil)
		request.RemoteAddr = source + ":1"
		w := httptest.NewRecorder()
		r.Handler(nobody{}).ServeHTTP(w, request)
		return w.Code
	}
	const busy, other = "10.0.0.8", "10.0.0.9"
	var ends []func()
	for range maxTurns {
		end, err := r.serving.acquire(t.Context(), busy)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	answered := make(chan int, 1)
	go func() { answered <- ask(busy) }()
	eventually.Nil(t, "a request waits", func() error {
		r.serving.mu.Lock()
		defer r.serving.mu.Unlock()
		if got := r.serving.sources[busy].requests; got != maxTurns+1 {
			return fmt.Errorf("%d have a turn or wait", got)
		}
		return nil
	})
	if got := ask(other); got != http.StatusOK {
		t.Errorf("another source is answered with %d", got)
	}
	select {
	case got := <-answered:
		t.Errorf("without a turn the request is answered with %d", got)
	default:
	}
	for _, end := range ends {
		end()
	}
	if got := <-answered; got != http.StatusOK {
		t.Errorf("with a turn the request is answered with %d", got)
	}
}

func TestManifestsOfStrangersAreNotRead(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1:4566/v2/"+secretRepository+
		"/manifests/v1", unread{t})
	request.SetBasicAuth("AWS", "a guess")
	w := httptest.NewRecorder()
	if r.Handler(nobody{}).ServeHTTP(w, request); w.Code != http.StatusUnauthorized {
		t.Errorf("%d %s", w.Code, w.Body)
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
