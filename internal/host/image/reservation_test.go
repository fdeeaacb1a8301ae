package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// pushSize puts an image with one layer into the public registry.
func (n *internet) pushSize(t *testing.T, reference string, size int64) {
	t.Helper()
	img, err := random.Image(size, 1)
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
}

// TestImagesThatDoNotComeTakeNoRoom pulls images of half of the cache, and of all space on the disk, of which a
// registry sends nothing: nothing is removed for them, and images of others are fetched and pushed at the same time.
func TestImagesThatDoNotComeTakeNoRoom(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{CacheSize: 64 << 20,
		Transport: roundTripper(func(request *http.Request) (*http.Response, error) {
			answer, err := n.RoundTrip(request)
			if err == nil && strings.HasPrefix(request.URL.Host, "evil") && strings.Contains(request.URL.Path, "/blobs/") {
				answer.Body.Close()
				answer.Body = silent{request.Context()}
			}
			return answer, err
		})})
	r.space.free = func(string) (int64, error) { return diskspace.Reserve + 40<<20, nil }
	n.pushSize(t, "docker.io/library/app:1", 10<<10)
	n.pushSize(t, "docker.io/library/other:1", 10<<10)
	if status, _, body := get(t, r, "library/app", "1", "docker.io"); status != 200 {
		t.Fatal(body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 3 {
		repository := fmt.Sprintf("evil%d.example.com/big", i)
		n.pushSize(t, repository+":1", 31<<20)
		running.Go(func() {
			if err := r.pullImage(ctx, fmt.Sprint("10.0.0.", i), repository, repository, "1"); err == nil {
				t.Error("it has come")
			}
		})
	}
	eventually.Nil(t, "the images are being fetched, and take room for what comes next", func() error {
		r.space.mu.Lock()
		defer r.space.mu.Unlock()
		if got := r.space.reserved; got != 3*bytesPerReservation {
			return fmt.Errorf("%d bytes are reserved on the disk", got)
		}
		return nil
	})
	r.cache.mu.Lock()
	if got := r.cache.pending.total.blobs; got > 3*bytesPerReservation+100<<10 {
		t.Errorf("%d bytes of the cache are taken", got)
	}
	r.cache.mu.Unlock()
	if !has(t, r, "docker.io/library/app:1") {
		t.Error("an image is removed before anything has come for which there is no room")
	}
	if status, _, body := get(t, r, "library/other", "1", "docker.io"); status != 200 {
		t.Errorf("another image: %d %s", status, body)
	}
	release, err := r.space.reserve(r.options.Dir, nil)
	if err != nil {
		t.Errorf("a push finds no space: %v", err)
	} else {
		release()
	}
	cancel()
	running.Wait()
	if r.cache.pending.total != (cacheSize{}) || r.space.reserved != 0 || len(r.cache.storing) != 0 {
		t.Errorf("left: %v, %d, %v", r.cache.pending, r.space.reserved, r.cache.storing)
	}
}

// TestANetworkLeavesOthersRoom lets networks take as much of the cache as they may.
func TestANetworkLeavesOthersRoom(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	limit := cacheSize{64 << 20, 1 << 20}
	var before int64
	for i := range 4 {
		m := &storageReservation{registry: r, holder: fmt.Sprint(i), limit: limit, end: func() {}}
		for m.takeOfCache(t.Context(), cacheSize{blobs: 1 << 20}) == nil {
		}
		defer m.close()
		if i > 0 && m.taken.blobs == 0 || m.taken.blobs > (limit.blobs-before)/2 {
			t.Errorf("network %d has %d bytes, beside %d of others", i, m.taken.blobs, before)
		}
		before += m.taken.blobs
	}
}

// TestAnImageOfMostOfTheCacheIsRefused pulls an image that could not leave others as much space as it takes.
func TestAnImageOfMostOfTheCacheIsRefused(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n, CacheSize: 1 << 20})
	n.pushSize(t, "docker.io/library/large:1", 600<<10)
	n.pushSize(t, "docker.io/library/small:1", 400<<10)
	if status, _, body := get(t, r, "library/large", "1", "docker.io"); status != http.StatusForbidden ||
		!strings.Contains(body, "one of them half of that") {
		t.Errorf("%d %s", status, body)
	}
	if status, _, body := get(t, r, "library/small", "1", "docker.io"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

// TestOlderImagesOfARepositoryMakeRoom fills the cache with one repository, from which nothing can be removed while the
// next image is being stored.
func TestOlderImagesOfARepositoryMakeRoom(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n, CacheSize: 1 << 20})
	for i := range 6 {
		tag := fmt.Sprint(i)
		n.pushSize(t, "docker.io/library/app:"+tag, 400<<10)
		if status, _, body := get(t, r, "library/app", tag, "docker.io"); status != 200 {
			t.Fatalf("%d: %s", i, body)
		}
		used(t, r, "docker.io/library/app:"+tag, time.Hour-time.Duration(i)*time.Minute)
	}
	if !has(t, r, "docker.io/library/app:5") || has(t, r, "docker.io/library/app:0") {
		t.Error("the oldest image stays, or the newest is gone")
	}
}

// TestBlobsThatTrickleEnd pulls from registries that send a byte a second, and from a slow one.
func TestBlobsThatTrickleEnd(t *testing.T) {
	t.Parallel()
	for every, size := range map[time.Duration]int{time.Second: 1, 10 * time.Minute: 1, 20 * time.Second: slowBytes / 2} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			body := &paced{ReadCloser: trickle{ctx, every, size}, stop: stop}
			read, err := 0, error(nil)
			for p := make([]byte, slowBytes); err == nil && read < 10*slowBytes; {
				var n int
				n, err = body.Read(p)
				read += n
			}
			if fast := size > 1; fast != (err == nil) || !fast && (!errors.Is(err, errSlow) || read > 60) {
				t.Errorf("%d bytes every %s: %d bytes are read, %v", size, every, read, err)
			}
		})
	}
}

type trickle struct {
	ctx   context.Context
	every time.Duration
	size  int
}

func (s trickle) Read(p []byte) (int, error) {
	select {
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	case <-time.After(s.every):
		return min(s.size, len(p)), nil
	}
}

func (trickle) Close() error { return nil }
