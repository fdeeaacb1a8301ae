package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/coracle-eks/coracle/internal/eventually"
)

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
			if want := map[bool]int{true: 200, false: 403}[test.want == ""]; status != want ||
				!strings.Contains(body, test.want) {
				t.Errorf("%d %s", status, body)
			}
			if got := counted.manifests.Load(); got != test.manifests {
				t.Errorf("%d manifests are fetched, want %d", got, test.manifests)
			}
			if read, most := counted.read.Load(), int64(maxMetadata+64<<10); read > most {
				t.Errorf("%d bytes are read, want at most %d", read, most)
			}
			if held := r.metadata.taken; held.total != (cacheSize{}) || len(held.by) != 0 {
				t.Errorf("memory is held after the pull: %v", held)
			}
			if status, _, _ := get(t, r, "team/other", "v1", "docker.io"); status != 403 ||
				r.unreached.lastError("index.docker.io") != nil || r.unreached.lastError("docker.io") != nil {
				t.Errorf("the registry counts as unreachable: %d", status)
			}
		})
	}
}

// TestPullsShareMemory lets networks take as much of the memory for manifests as they may: each leaves as much as it
// has to others, and an image of a usual size is fetched at the same time.
func TestPullsShareMemory(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n})
	n.push(t, "docker.io/library/nginx:1.27")
	var holders []*memory
	for i := range 6 {
		m := &memory{of: &r.metadata, holder: fmt.Sprint(i)}
		for m.take(64<<10) == nil {
		}
		holders = append(holders, m)
	}
	if held := r.metadata.taken.total.manifests; held > maxPullMetadata {
		t.Errorf("%d bytes are held", held)
	}
	pull := func(source string) error {
		return r.pullImage(t.Context(), source, "docker.io/library/nginx", "docker.io/library/nginx", "1.27")
	}
	if err := pull("0"); err == nil || !strings.Contains(err.Error(), "try again later") {
		t.Errorf("a network that has its share gets more: %v", err)
	}
	if err := pull("10.0.0.9"); err != nil {
		t.Errorf("another network: %v", err)
	}
	for _, m := range holders {
		m.release()
	}
	if err := pull("0"); err != nil {
		t.Error(err)
	}
}

// TestManifestsTakeMemoryAsTheyCome asks for manifests of which a registry sends nothing.
func TestManifestsTakeMemoryAsTheyCome(t *testing.T) {
	t.Parallel()
	n := newInternet()
	var asked atomic.Int32
	r := open(t, Options{Transport: roundTripper(func(request *http.Request) (*http.Response, error) {
		answer, err := n.RoundTrip(request)
		if err == nil && strings.HasPrefix(request.URL.Host, "evil") && strings.Contains(request.URL.Path, "/manifests/") {
			answer.Body.Close()
			answer.Body = silent{request.Context()}
			asked.Add(1)
		}
		return answer, err
	})})
	n.push(t, "docker.io/library/app:1")
	const pulls = 20
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range pulls {
		repository := fmt.Sprintf("evil%d.example.com/big", i)
		n.push(t, repository+":1")
		running.Go(func() {
			if err := r.pullImage(ctx, fmt.Sprint(i), repository, repository, "1"); err == nil {
				t.Error("it has come")
			}
		})
	}
	eventually.Nil(t, "all wait for manifests", func() error {
		if got := asked.Load(); got != pulls {
			return fmt.Errorf("%d do", got)
		}
		return nil
	})
	if status, _, body := get(t, r, "library/app", "1", "docker.io"); status != 200 {
		t.Errorf("another image: %d %s", status, body)
	}
	cancel()
	running.Wait()
}

// silent is a body of which nothing comes.
type silent struct{ ctx context.Context }

func (s silent) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, context.Cause(s.ctx)
}

func (silent) Close() error { return nil }

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
	ask := func(source, what string) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"https://api.ecr.eu-west-1.amazonaws.com/v2/team/app/"+what+"?ns=docker.io", nil)
		request.RemoteAddr = source + ":1"
		w := httptest.NewRecorder()
		r.Handler(nobody{}).ServeHTTP(w, request)
		return w.Code
	}
	const busy, other = "10.0.0.8", "10.0.0.9"
	for _, what := range []string{"manifests/v1", "tags/list"} {
		var ends []func()
		for range maxTurns {
			end, err := acquireTurn(t.Context(), r.serving, busy)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		answered := make(chan int, 1)
		go func() { answered <- ask(busy, what) }()
		eventually.Nil(t, "a request waits", func() error {
			if got := r.serving.Waiting(busy); got != maxTurns+1 {
				return fmt.Errorf("%d have a turn or wait", got)
			}
			return nil
		})
		if got := ask(other, what); got != http.StatusOK {
			t.Errorf("another source is answered with %d: %s", got, what)
		}
		select {
		case got := <-answered:
			t.Errorf("without a turn the request is answered with %d: %s", got, what)
		default:
		}
		for _, end := range ends {
			end()
		}
		if got := <-answered; got != http.StatusOK {
			t.Errorf("with a turn the request is answered with %d: %s", got, what)
		}
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
