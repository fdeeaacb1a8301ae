package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/distribution/distribution/v3"
	"github.com/distribution/distribution/v3/registry/storage"
	"github.com/distribution/distribution/v3/registry/storage/driver"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/coracle-eks/coracle/internal/recovery"
)

// Deleting an image deletes its name; its layers may be those of others, too. What nothing names any more is removed
// when the next daemon opens the registry, because nothing is being pushed then: the library cannot tell a layer that
// is not needed from one that is not needed yet.

// garbageMark returns the path of the file that exists while something deleted is still to be collected.
func (r *Registry) garbageMark() string { return filepath.Join(r.options.Dir, "garbage") }

// leaveGarbage creates the garbage mark. Callers call it before they delete something.
func (r *Registry) leaveGarbage() error {
	f, err := os.OpenFile(r.garbageMark(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// garbageTime bounds the reading of manifests for the collection of garbage, for which a start waits.
const garbageTime = 2 * time.Minute

// collectGarbage removes layers and manifests that belong to no image. It gives up when ctx ends.
func (r *Registry) collectGarbage(ctx context.Context) error {
	if _, err := os.Stat(r.garbageMark()); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	blobs := make(map[digest.Digest]bool)
	err := r.storage.Blobs().Enumerate(ctx, func(d digest.Digest) error {
		blobs[d] = true
		return nil
	})
	if err == nil {
		repositories, _ := r.storage.(distribution.RepositoryEnumerator)
		err = recovery.Try(func() error {
			return storage.MarkAndSweep(ctx, r.driver, swept{r.storage, repositories, blobs}, storage.GCOpts{Quiet: true})
		})
	}
	if err != nil && !errors.As(err, &driver.PathNotFoundError{}) {
		return fmt.Errorf("remove layers that no image has: %w", err)
	}
	return os.Remove(r.garbageMark())
}

// dropUntagged deletes the images of an assembled repository that newer ones have replaced. Those that an index names,
// which somebody has loaded, stay.
func (r *Registry) dropUntagged(ctx context.Context, repository string) error {
	images, err := r.Images(ctx, repository)
	if err != nil {
		return err
	}
	named := make(map[string]bool)
	for _, image := range images {
		if image.ConfigMediaType != "" {
			continue
		}
		m, err := r.Manifest(ctx, joinReference(repository, image.Digest))
		if err != nil {
			return err
		}
		var index v1.IndexManifest
		if err := json.Unmarshal(m.Payload, &index); err != nil {
			return fmt.Errorf("read the index %s@%s: %w", repository, image.Digest, err)
		}
		for _, of := range index.Manifests {
			named[of.Digest.String()] = true
		}
	}
	for _, image := range images {
		if len(image.Tags) == 0 && !named[image.Digest] {
			if err := r.deleteImage(ctx, repository, image.Digest, image.Tags); err != nil {
				return err
			}
		}
	}
	return nil
}

// goldenUnused is the time after which a golden directory that nobody asked for is removed. Machines that were made
// from it have links of its files, and do not need it.
const goldenUnused = 24 * time.Hour

// dropGolden removes golden directories that are no longer asked for.
func (r *Registry) dropGolden() error {
	all, err := os.ReadDir(filepath.Join(r.options.Dir, "golden"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, dir := range all {
		info, err := dir.Info()
		if err != nil {
			return err
		}
		if time.Since(info.ModTime()) > goldenUnused {
			if err := os.RemoveAll(filepath.Join(r.options.Dir, "golden", dir.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
