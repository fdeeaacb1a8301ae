package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
)

// dropUnnamed removes the layers of a repository that none of its manifests names, and from the disk those of them,
// and of the given manifests, that no repository has. Nothing may be being stored in the repository.
func (r *Registry) dropUnnamed(ctx context.Context, repository string, manifests []digest.Digest) error {
	images, err := r.Images(ctx, repository)
	if err != nil {
		return err
	}
	named := make(map[string]bool)
	for _, image := range images {
		_, parts, err := r.manifestParts(ctx, repository, image.Digest)
		if err != nil {
			return err
		}
		for _, part := range parts {
			named[part.Digest.String()] = true
		}
	}
	unnamed := manifests
	layers := filepath.Join(r.repositoryDir(r.storedName(repository)), "_layers")
	links, err := filepath.Glob(filepath.Join(layers, "*", "*"))
	if err != nil {
		return err
	}
	for _, link := range links {
		d := digest.NewDigestFromEncoded(digest.Algorithm(filepath.Base(filepath.Dir(link))), filepath.Base(link))
		if named[d.String()] {
			continue
		}
		if err := os.RemoveAll(link); err != nil {
			return err
		}
		unnamed = append(unnamed, d)
	}
	if len(images) == 0 {
		if err := r.deleteRepository(repository); err != nil {
			return err
		}
		removeEmpty(r.repositoryDir(r.storedName(repository)), r.repositoryDir(""))
		removeEmpty(filepath.Join(r.marksDir(), r.storedName(repository)), r.marksDir())
	}
	return r.dropBlobs(unnamed)
}

// removeEmpty removes a directory and those above it, up to a root, as long as they are empty.
func removeEmpty(dir, root string) {
	for ; dir != root && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
	}
}

// repositoryDir returns the directory of a repository, by its name in the storage.
func (r *Registry) repositoryDir(stored string) string {
	return filepath.Join(r.options.Dir, "registry/docker/registry/v2/repositories", stored)
}

// repositoryDirs returns the directories of all repositories. The library lists those with layers only, and an index
// has no layers.
func (r *Registry) repositoryDirs() (all []string, err error) {
	err = filepath.WalkDir(r.repositoryDir(""), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if !strings.HasPrefix(d.Name(), "_") {
			return nil
		}
		if dir := filepath.Dir(path); len(all) == 0 || all[len(all)-1] != dir {
			all = append(all, dir)
		}
		return fs.SkipDir
	})
	return all, err
}

// dropBlobs removes the blobs that no repository has. It looks through all repositories once, while others commit, and
// then waits for those that are just committing: what they have made part of their repositories stays, too.
func (r *Registry) dropBlobs(blobs []digest.Digest) error {
	unlinked := make(map[string]bool, len(blobs)) // by algorithm and digest, as paths
	for _, d := range blobs {
		if err := d.Validate(); err != nil {
			return err
		}
		unlinked[filepath.Join(d.Algorithm().String(), d.Encoded())] = true
	}
	if len(unlinked) == 0 {
		return nil
	}
	r.dropping.Lock()
	defer r.dropping.Unlock()
	r.commits.watch()
	repositories, err := r.repositoryDirs()
	if err == nil {
		err = deleteLinked(unlinked, repositories)
	}
	if err != nil {
		r.commits.unwatch()
		return err
	}
	r.commits.Lock()
	defer r.commits.Unlock()
	committed := r.commits.unwatch()
	if !committed[""] { // otherwise somewhere
		repositories = nil
		for stored := range committed {
			repositories = append(repositories, r.repositoryDir(stored))
		}
	} else if repositories, err = r.repositoryDirs(); err != nil {
		return err
	}
	if err := deleteLinked(unlinked, repositories); err != nil {
		return err
	}
	for path := range unlinked {
		algorithm, encoded := filepath.Split(path)
		dir := filepath.Join(r.options.Dir, "registry/docker/registry/v2/blobs", algorithm, encoded[:2], encoded)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// deleteLinked deletes from a set of blobs those that one of the repositories has. It reads the directories of a
// repository once, however many blobs there are.
func deleteLinked(blobs map[string]bool, repositories []string) error {
	algorithms := make(map[string]bool)
	for path := range blobs {
		algorithms[filepath.Dir(path)] = true
	}
	for _, repository := range repositories {
		for _, links := range []string{"_layers", "_manifests/revisions"} {
			for algorithm := range algorithms {
				names, err := readNames(filepath.Join(repository, links, algorithm))
				if err != nil {
					return err
				}
				for _, name := range names {
					path := filepath.Join(algorithm, name)
					if !blobs[path] {
						continue
					}
					// Of a manifest that was deleted the directory is left.
					_, err := os.Lstat(filepath.Join(repository, links, path, "link"))
					if err == nil {
						delete(blobs, path)
					} else if !errors.Is(err, fs.ErrNotExist) {
						return err
					}
				}
			}
		}
	}
	return nil
}

// readNames returns the names in a directory; none when it does not exist.
func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// dropFailed removes what an image has left that could not be fetched, and those of its marks that are of nothing.
func (r *Registry) dropFailed(ctx context.Context, repository string, marks []string) error {
	end, ok := r.cache.beginRemoving(r.storedName(repository), 1)
	if !ok {
		return r.leaveGarbage() // of another one
	}
	defer end()
	for _, identifier := range marks {
		if there, err := r.hasReference(ctx, joinReference(repository, identifier)); err != nil {
			return err
		} else if there {
			continue
		}
		if err := os.Remove(r.pulledMark(repository, identifier)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return r.dropUnnamed(ctx, repository, nil)
}
