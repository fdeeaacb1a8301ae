package image

import (
	"sync"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// What is fetched from public registries is a cache. Everybody in a VPC may ask for any image, so the cache has a
// bound, and the images that were not asked for the longest make room for others. Images that were loaded or
// assembled, and those of ECR's repositories, are not of the cache.

// cacheShare is the part of the data directory's disk that the cache may have, unless Options.CacheSize is set.
const cacheShare = 4

const (
	// maxCachedManifests bounds the manifests of the cache, in bytes: all of them are read when the cache is listed,
	// while fetches wait.
	maxCachedManifests = 512 << 20
	// What each mark, and each blob of an image, counts as of them, so that these are few, too.
	manifestOfMark, manifestOfBlob = 16 << 10, 1 << 10
)

// manifestCost returns what an image counts as whose manifest has a size.
func manifestCost(size int64, marks, blobs int) int64 {
	return size + manifestOfMark*int64(marks) + manifestOfBlob*int64(blobs)
}

// cacheSize is the space that images take in the cache, in bytes: of their blobs, and for their manifests.
type cacheSize struct{ blobs, manifests int64 }

func (s cacheSize) add(o cacheSize) cacheSize {
	return cacheSize{s.blobs + o.blobs, s.manifests + o.manifests}
}

func (s cacheSize) sub(o cacheSize) cacheSize {
	return cacheSize{s.blobs - o.blobs, s.manifests - o.manifests}
}

func (s cacheSize) fits(limit cacheSize) bool {
	return s.blobs <= limit.blobs && s.manifests <= limit.manifests
}

// cache counts what is being stored.
type cache struct {
	maxManifests int64
	evicting     sync.Mutex // held while images are removed for others

	mu      sync.Mutex
	pending pending        // of what is being fetched
	storing map[string]int // by repository as it is stored: how many images are being stored there
	// since has the repositories in which an image was being stored at any time since the listing under way began; nil
	// when nothing is listed
	since map[string]bool
	// removing has the repositories in which something is being removed; removed is signaled when that ends
	removing map[string]bool
	removed  sync.Cond
	// size is an upper bound of the images' size: the size when they were listed last, plus all that was fetched since.
	// With it, most pulls need not list them.
	size   cacheSize
	listed bool      // size is known
	added  cacheSize // to size since the listing under way began
}

// beginStoring announces that an image is going to be stored in a repository, where nothing is removed until it ended.
// It waits for what is being removed there.
func (c *cache) beginStoring(stored string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.removing[stored] {
		c.removed.Wait()
	}
	if c.storing == nil {
		c.storing = make(map[string]int)
	}
	c.storing[stored]++
	if c.since != nil {
		c.since[stored] = true
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.storing[stored]--; c.storing[stored] == 0 {
			delete(c.storing, stored)
		}
	}
}

// beginRemoving blocks storing images in a repository until end is called; false when more than the given number are
// being stored there, or the current listing may not know them.
func (c *cache) beginRemoving(stored string, own int) (end func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.storing[stored] > own || own == 0 && c.since[stored] {
		return nil, false
	}
	if c.removing == nil {
		c.removing = make(map[string]bool)
	}
	c.removing[stored] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.removing, stored)
		c.removed.Broadcast()
	}, true
}

// beginListing begins a listing of all images. It ends with endListing.
func (c *cache) beginListing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.added = make(map[string]bool), cacheSize{}
	for stored := range c.storing {
		c.since[stored] = true
	}
}

func (c *cache) endListing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = nil
}

// mayBeStored reports whether an image may have been stored in a repository since the listing under way began.
func (c *cache) mayBeStored(stored string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since[stored]
}

// hasSpace reports whether there certainly is room for an image of a size, on a disk with so much free. The caller
// holds mu.
func (c *cache) hasSpace(need, limit cacheSize, free int64) bool {
	return c.listed && c.size.add(c.pending.total).add(need).fits(limit) && need.blobs+diskspace.Reserve <= free
}
