package image

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/opencontainers/go-digest"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// evictedShare is the part of the cache's bound that is made free when there is no room, beside what is needed: images
// are not listed again for each pull.
const evictedShare = 64

// evict removes the images that were not asked for the longest until the cache and the disk have room for what is
// needed. Images of other repositories can be stored meanwhile. An image stays while others are being stored in its
// repository. With only, those of that repository are removed, and the others stay that would be.
func (r *Registry) evict(ctx context.Context, need, limit cacheSize, only string) error {
	c := &r.cache
	c.evicting.Lock()
	defer c.evicting.Unlock()
	free, err := diskspace.Free(r.options.Dir)
	if err != nil {
		return err
	}
	c.mu.Lock()
	enough := c.hasSpace(need, limit, free)
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
	short := total.add(c.added).add(c.pending.total).add(need).sub(limit)
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
		if only != "" && image.repository != only {
			would, err := r.countOut(ctx, image, blobs)
			if err != nil {
				return err
			}
			short = short.sub(would)
			continue
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
	if removed, err = r.countOut(ctx, image, blobs); err != nil {
		return cacheSize{}, err
	}
	if err := r.deleteImage(ctx, image.repository, image.digest, image.tags); err != nil {
		return cacheSize{}, err
	}
	for _, identifier := range image.marks {
		if err := os.Remove(r.pulledMark(image.repository, identifier)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cacheSize{}, err
		}
	}
	return removed, nil
}

// countOut counts an image out of the blobs of all, and returns what it alone has.
func (r *Registry) countOut(ctx context.Context, image cachedImage, blobs map[digest.Digest]cachedBlob) (
	removed cacheSize, err error) {
	_, own, err := r.cachedBlobs(ctx, image)
	if err != nil {
		return cacheSize{}, err
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
