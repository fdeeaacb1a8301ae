package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// A manifest may declare layers of any size, and the client that asks for it may have gone when they arrive. So
// fetching an image reserves space for the bytes that have arrived, not for those that are declared, and it must make
// progress.

const (
	// slowTime is the time that a registry may take for slowBytes of a blob.
	slowTime  = time.Minute
	slowBytes = 1 << 20
)

var errSlow = fmt.Errorf("the registry sends less than %s of a layer in %s: try again later",
	humanize.IBytes(slowBytes), slowTime)

// paced is the body of a blob that a registry sends. It calls stop when it comes too slowly.
type paced struct {
	io.ReadCloser
	stop   context.CancelCauseFunc
	got    int64
	waited time.Duration // for got
}

func (b *paced) Read(p []byte) (int, error) {
	timer := time.AfterFunc(slowTime-b.waited, func() { b.stop(errSlow) })
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	timer.Stop()
	b.waited += time.Since(began)
	if b.got += int64(n); b.got >= slowBytes {
		b.got, b.waited = 0, 0
	}
	return n, err
}

// storageReservation is the space in the cache and on the disk that is reserved for fetching an image. It grows as
// bytes arrive.
type storageReservation struct {
	registry *Registry
	holder   string
	stop     context.CancelCauseFunc // of the fetch
	limit    cacheSize               // of the cache; nothing for an image that is not of the cache
	end      func()                  // of storing

	mu       sync.Mutex
	declared int64     // bytes of blobs that have not been reserved
	left     int64     // bytes that are reserved, and have not come
	taken    cacheSize // of the cache
	release  func()    // gives back the space on the disk; nil for none
}

// reserveStorage begins to store an image of blobs in a repository, with so many marks. Its manifests, of so many
// bytes, are here. What comes of the others makes room for itself: images that were not asked for the longest are
// removed. Images that are not of the cache only take space on the disk.
func (r *Registry) reserveStorage(ctx context.Context, stop context.CancelCauseFunc, holder, repository string,
	blobs []v1.Descriptor, manifests int64, marks int, cached bool) (*storageReservation, error) {
	m := &storageReservation{registry: r, holder: holder, stop: stop, declared: -manifests, end: func() {}}
	for _, b := range blobs {
		if b.Size < 0 || b.Size > maxLayer {
			return nil, fmt.Errorf("the size of %s is %d bytes, and may be 0 to %d", b.Digest, b.Size, int64(maxLayer))
		}
		m.declared += b.Size
	}
	if !cached {
		return m, nil
	}
	_, size, err := diskspace.Measure(r.options.Dir)
	if err != nil {
		return nil, err
	}
	m.limit = cacheSize{r.options.CacheSize, r.cache.maxManifests}
	if m.limit.blobs == 0 {
		m.limit.blobs = size / cacheShare
	}
	need := cacheSize{manifests, manifestCost(manifests, marks, len(blobs))}
	if all := (cacheSize{manifests + m.declared, need.manifests}); !all.add(all).fits(m.limit) {
		return nil, fmt.Errorf("it has %s, %s of them manifests, and all images of public registries may have %s, and %s "+
			"of manifests, one of them half of that: load it with \"coracle images load\"",
			humanize.IBytes(uint64(all.blobs)), humanize.IBytes(uint64(manifests)),
			humanize.IBytes(uint64(m.limit.blobs)), humanize.IBytes(uint64(m.limit.manifests)))
	}
	// From here on nothing of this repository is evicted, so that the whole image has space in it.
	if err := m.evictFor(ctx, cacheSize{manifests + m.declared, need.manifests}, repository); err != nil {
		return nil, err
	}
	m.end = r.cache.beginStoring(r.storedName(repository))
	if err := m.takeOfCache(ctx, need); err != nil {
		m.end()
		return nil, err
	}
	return m, nil
}

// evictFor evicts images if the cache has no space; with only, images of that repository.
func (m *storageReservation) evictFor(ctx context.Context, need cacheSize, only string) error {
	free, err := diskspace.Free(m.registry.options.Dir)
	if err != nil {
		return err
	}
	c := &m.registry.cache
	c.mu.Lock()
	enough := c.hasSpace(need, m.limit, free)
	c.mu.Unlock()
	if enough {
		return nil
	}
	return m.registry.evict(ctx, need, m.limit, only)
}

// takeOfCache reserves space in the cache.
func (m *storageReservation) takeOfCache(ctx context.Context, need cacheSize) error {
	if m.limit == (cacheSize{}) {
		return nil
	}
	noSpace := errors.New(
		"the images of public registries that are being fetched leave no room for it: try again later")
	c := &m.registry.cache
	c.mu.Lock()
	share := c.pending.leavesShare(m.holder, need, m.limit)
	c.mu.Unlock()
	if !share { // nothing is removed for it
		return noSpace
	}
	if err := m.evictFor(ctx, need, ""); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.pending.leavesShare(m.holder, need, m.limit) || !c.size.add(c.pending.total).add(need).fits(m.limit) {
		return noSpace
	}
	c.pending.add(m.holder, need)
	m.taken = m.taken.add(need)
	return nil
}

// take reserves space for at most the given number of bytes that arrive next.
func (m *storageReservation) take(ctx context.Context, most int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left <= 0 && m.declared > 0 {
		step := min(bytesPerReservation, m.declared)
		if err := m.takeOfCache(ctx, cacheSize{blobs: step}); err != nil {
			return 0, err
		}
		m.giveSpace()
		release, err := m.registry.space.reserve(m.registry.options.Dir, []v1.Descriptor{{Size: step}})
		if err != nil {
			return 0, err
		}
		m.release = release
		m.left, m.declared = m.left+step, m.declared-step
	}
	n := max(min(most, int(m.left)), 1) // the end of the last blob has to be read
	m.left -= int64(n)
	return n, nil
}

func (m *storageReservation) giveSpace() {
	if m.release != nil {
		m.release()
		m.release = nil
	}
}

// close ends it, when the image is stored or has failed. What it has taken is the image's then.
func (m *storageReservation) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveSpace()
	c := &m.registry.cache
	c.mu.Lock()
	c.pending.sub(m.holder, m.taken)
	c.size, c.added = c.size.add(m.taken), c.added.add(m.taken)
	c.mu.Unlock()
	m.end()
}

// arrivals is a transport to the storage that reserves space for uploads as their bytes arrive.
type arrivals struct {
	http.RoundTripper
	reservation *storageReservation
}

func (t arrivals) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch && request.Body != nil {
		body := &arriving{request.Body, t.reservation, request.Context()}
		request = request.Clone(request.Context())
		request.Body = body
	}
	return t.RoundTripper.RoundTrip(request)
}

type arriving struct {
	io.ReadCloser
	reservation *storageReservation
	ctx         context.Context
}

func (b *arriving) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	most, err := b.reservation.take(b.ctx, len(p))
	if err != nil {
		b.reservation.stop(err)
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:most])
	b.reservation.mu.Lock()
	b.reservation.left += int64(most - n)
	b.reservation.mu.Unlock()
	return n, err
}
