package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/dustin/go-humanize"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// evictedShare is the part of the cache's bound that is made free when there is no room, beside what is needed: images
// are not listed again for each pull.
const evictedShare = 64

// makeRoom reserves room in the cache for blobs that are going to be stored in a repository, of which manifests are so
// many bytes, with so many marks. Images that were not asked for the longest are removed for them.
func (r *Registry) makeRoom(ctx context.Context, repository string, blobs []v1.Descriptor, manifests int64, marks int) (
	release func(), err error) {
	need := cacheSize{manifests: manifestCost(manifests, marks, len(blobs))}
	for _, b := range blobs {
		if b.Size < 0 || b.Size > maxLayer {
			return nil, fmt.Errorf("the size of %s is %d bytes, and may be 0 to %d", b.Digest, b.Size, int64(maxLayer))
		}
		need.blobs += b.Size
	}
	free, size, err := diskspace.Measure(r.options.Dir)
	if err != nil {
		return nil, err
	}
	limit := cacheSize{r.options.CacheSize, r.cache.maxManifests}
	if limit.blobs == 0 {
		limit.blobs = size / cacheShare
	}
	if !need.fits(limit) {
		return nil, fmt.Errorf(
			"it has %s, %s of them manifests, and all images of public registries may have %s, and %s: load it with "+
				"\"coracle images load\"",
			humanize.IBytes(uint64(need.blobs)),
			humanize.IBytes(uint64(manifests)),
			humanize.IBytes(uint64(limit.blobs)),
			humanize.IBytes(uint64(limit.manifests)),
		)
	}
	c := &r.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hasRoom(need, limit, free) {
		err := func() error {
			c.mu.Unlock()
			defer c.mu.Lock()
			return r.evict(ctx, need, limit)
		}()
		if err != nil {
			return nil, err
		}
	}
	if !c.size.add(c.pending).add(need).fits(limit) {
		return nil, fmt.Errorf(
			"it has %s, and the images of public registries that are being fetched leave no room for it: try again later",
			humanize.IBytes(uint64(need.blobs)),
		)
	}
	c.pending = c.pending.add(need)
	end := c.addStoring(r.storedName(repository))
	return func() {
		c.mu.Lock()
		c.pending, c.size, c.added = c.pending.sub(need), c.size.add(need), c.added.add(need)
		c.mu.Unlock()
		end()
	}, nil
}

// evict removes the images that were not asked for the longest until the cache and the disk have room for an image.
// Images of other repositories can be stored meanwhile. An image stays while others are being stored in its repository.
func (r *Registry) evict(ctx context.Context, need, limit cacheSize) error {
	c := &r.cache
	c.evicting.Lock()
	defer c.evicting.Unlock()
	free, err := diskspace.Free(r.options.Dir)
	if err != nil {
		return err
	}
	c.mu.Lock()
	enough := c.hasRoom(need, limit, free)
	c.mu.Unlock()
	if enough { // since somebody else has evicted
		return nil
	}
	c.beginListing()
	defer c.endListing()
	images, blobs, err := r.listCached(ctx)
	if err != nil {
		return err
	}
	var total cacheSize
	for _, b := range blobs {
		total.blobs += b.size
	}
	for _, image := range images {
		total.manifests += image.manifests
	}
	c.mu.Lock()
	short := total.add(c.added).add(c.pending).add(need).sub(limit)
	c.mu.Unlock()
	short.blobs = max(short.blobs, need.blobs+diskspace.Reserve-free)
	if short.blobs > 0 {
		short.blobs += limit.blobs / evictedShare
	}
	if short.manifests > 0 {
		short.manifests += limit.manifests / evictedShare
	}
	gone := make(map[string][]digest.Digest) // manifests, by repository
	for _, image := range images {
		if short.fits(cacheSize{}) {
			break
		}
		if gone[image.repository] == nil {
			end, ok := c.beginRemoving(r.storedName(image.repository), 0)
			if !ok {
				continue
			}
			defer end()
		}
		removed, err := r.removeCached(ctx, image, blobs)
		if err != nil {
			return err
		}
		short, total = short.sub(removed), total.sub(removed)
		gone[image.repository] = append(gone[image.repository], digest.Digest(image.digest))
		r.options.Log.Info(
			"removed an image of a public registry to make room",
			"image",
			joinReference(image.repository, image.digest),
			"used",
			image.used,
		)
	}
	for repository, manifests := range gone {
		if err := r.dropUnnamed(ctx, repository, manifests); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size, c.listed = total.add(c.added), true
	return nil
}

// removeCached removes the names of an image, and counts it out of the blobs of all. Its layers go with dropUnnamed.
func (r *Registry) removeCached(
	ctx context.Context,
	image cachedImage,
	blobs map[digest.Digest]cachedBlob,
) (removed cacheSize, err error) {
	_, own, err := r.cachedBlobs(ctx, image)
	if err != nil {
		return cacheSize{}, err
	}
	if err := r.deleteManifest(ctx, image.repository, image.digest, image.tags); err != nil {
		return cacheSize{}, err
	}
	for _, identifier := range image.marks {
		if err := os.Remove(r.pulledMark(image.repository, identifier)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cacheSize{}, err
		}
	}
	removed.manifests = image.manifests
	for d := range own {
		of := blobs[d]
		if of.images--; of.images == 0 {
			removed.blobs += of.size
		}
		blobs[d] = of
	}
	return removed, nil
}
