package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"
)

// cachedImage is an image or an index of the cache.
type cachedImage struct {
	repository, digest string
	tags               []string
	marks              []string // its tags and its digest, those that have marks
	used               time.Time
	isIndex            bool
	manifests          int64 // what it counts as of maxCachedManifests
}

// cachedBlob is a blob of the cache, and how many of its images have it.
type cachedBlob struct{ size, images int64 }

// listCached lists the images of the cache, those first that were not asked for the longest, and the blobs of all of
// them.
func (r *Registry) listCached(ctx context.Context) (all []cachedImage, blobs map[digest.Digest]cachedBlob, err error) {
	marks := make(map[string]map[string]time.Time) // when each was used, by repository and identifier
	err = filepath.WalkDir(r.marksDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); err != nil {
			return err
		}
		dir, err := filepath.Rel(r.marksDir(), filepath.Dir(path))
		if err != nil {
			return err
		}
		repository := fullName(dir)
		if marks[repository] == nil {
			marks[repository] = make(map[string]time.Time)
		}
		marks[repository][strings.TrimPrefix(d.Name(), ":")] = time.Unix(stat.Atim.Unix())
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("list the images of public registries: %w", err)
	}
	blobs = make(map[digest.Digest]cachedBlob)
	for repository, used := range marks {
		if host, _, _ := strings.Cut(repository, "/"); isECRHost(host) {
			continue // an account's own
		}
		images, err := r.cachedOf(ctx, repository, used)
		if err != nil {
			return nil, nil, err
		}
		for i, image := range images {
			size, own, err := r.cachedBlobs(ctx, image)
			if err != nil {
				return nil, nil, err
			}
			images[i].manifests = manifestCost(size, len(image.marks), len(own))
			for d, size := range own {
				blobs[d] = cachedBlob{size, blobs[d].images + 1}
			}
		}
		all = append(all, images...)
	}
	slices.SortFunc(all, func(a, b cachedImage) int { return a.used.Compare(b.used) })
	return all, blobs, nil
}

func isECRHost(host string) bool {
	_, _, ok := ECR(host)
	return ok
}

// cachedOf lists those of a repository. An image that is there under a name without a mark was loaded, and stays.
func (r *Registry) cachedOf(ctx context.Context, repository string, used map[string]time.Time) ([]cachedImage, error) {
	images, err := r.Images(ctx, repository)
	if err != nil {
		return nil, err
	}
	loaded, found := make(map[string]bool), make(map[string]bool)
	var all []cachedImage
	for _, image := range images {
		one := cachedImage{
			repository: repository,
			digest:     image.Digest,
			tags:       image.Tags,
			isIndex:    image.ConfigMediaType == "",
		}
		for _, identifier := range append(image.Tags, image.Digest) {
			at, ok := used[identifier]
			switch {
			case ok:
				found[identifier] = true
				one.marks = append(one.marks, identifier)
				if at.After(one.used) {
					one.used = at
				}
			case identifier != image.Digest:
				loaded[image.Digest] = true
			}
		}
		if len(one.marks) == 0 {
			loaded[image.Digest] = true
		}
		all = append(all, one)
		if !one.isIndex || !loaded[image.Digest] {
			continue // an index that is not read takes no time, however many images it names
		}
		_, parts, err := r.manifestParts(ctx, repository, image.Digest)
		if errors.Is(err, ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			loaded[part.Digest.String()] = true
		}
	}
	for identifier := range used { // of what could not be stored, or was deleted
		if found[identifier] || r.cache.mayBeStored(r.storedName(repository)) {
			continue
		}
		err := os.Remove(r.pulledMark(repository, identifier))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(image cachedImage) bool { return loaded[image.digest] }), nil
}

// cachedBlobs returns the size of an image's manifest, and the blobs that the image consists of, by size: of an index,
// its manifest alone.
func (r *Registry) cachedBlobs(
	ctx context.Context,
	image cachedImage,
) (manifest int64, blobs map[digest.Digest]int64, err error) {
	var parts []v1.Descriptor
	if image.isIndex {
		manifest, err = r.ManifestSize(ctx, joinReference(image.repository, image.digest))
	} else {
		manifest, parts, err = r.manifestParts(ctx, image.repository, image.digest)
	}
	if err != nil && !errors.Is(err, ErrNotFound) { // otherwise it was deleted meanwhile
		return 0, nil, err
	}
	blobs = map[digest.Digest]int64{digest.Digest(image.digest): manifest}
	for _, part := range parts {
		blobs[digest.Digest(part.Digest.String())] = part.Size
	}
	return manifest, blobs, nil
}
