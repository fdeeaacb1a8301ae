package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Load puts the images of an archive into the registry under the names that it gives them, and returns those. An
// archive is an archive of "docker save", "podman save", "ctr images export" or "crane pull", docker's or OCI's form,
// compressed with gzip or zstd or not. Names of ECR's registries need their repository.
func (r *Registry) Load(ctx context.Context, archive io.Reader, access Access) ([]string, error) {
	dir, err := r.scratch("load-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	bounds, err := boundsOf(dir)
	if err != nil {
		return nil, err
	}
	if err := extractArchive(root, archive, bounds); err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	images, err := archived(root)
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	var loaded []string
	for _, image := range images {
		for _, full := range image.names {
			repository, tag, err := splitReference(full)
			if err != nil {
				return loaded, err
			}
			if err := r.mayLoad(ctx, repository, access); err != nil {
				return loaded, fmt.Errorf("load %s: %w", full, err)
			}
			if image.index != nil {
				err = r.putIndex(ctx, full, image.index)
			} else {
				err = r.storeImage(ctx, full, image.image)
			}
			if err != nil {
				return loaded, fmt.Errorf("load %s: %w", full, err)
			}
			if err := os.Remove(r.pulledMark(repository, tag)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return loaded, err
			}
			loaded = append(loaded, joinReference(repository, tag))
		}
	}
	if len(loaded) == 0 {
		return nil,
			errors.New(
				"the archive names no image: save it by its name (docker save nginx:1.27, not docker save 0a1b2c3d)")
	}
	return loaded, nil
}

// mayLoad refuses what could not be pulled again.
func (r *Registry) mayLoad(ctx context.Context, full string, access Access) error {
	host, repository, _ := strings.Cut(full, "/")
	account, region, ok := ECR(host)
	if !ok || OfEKS(account) {
		return nil
	}
	there, err := access.Exists(ctx, account, region, repository)
	if err != nil || there {
		return err
	}
	return fmt.Errorf(
		"account %s has no repository %s in %s: create it with \"aws ecr create-repository --repository-name %s "+
			"--region %s\"",
		account, repository, region, repository, region)
}

// archivedImage is an image or an index in an archive, with its names.
type archivedImage struct {
	names []string
	image v1.Image
	index v1.ImageIndex
}

// Names of the files that list an archive's images, in the OCI layout and in docker's form.
const (
	ociIndex       = "index.json"
	dockerManifest = "manifest.json"
)

// archived lists the images of an unpacked archive. It has plain files only, which is why the libraries may read it by
// path.
func archived(root *os.Root) ([]archivedImage, error) {
	_, err := root.Stat(ociIndex)
	inOCI := err == nil
	if inOCI {
		images, err := ociImages(root)
		if err != nil || len(images) > 0 {
			return images, err
		}
	}
	if _, err := root.Stat(dockerManifest); errors.Is(err, fs.ErrNotExist) && inOCI {
		return nil, nil // without a name
	}
	return dockerImages(root)
}

// dockerImages lists the images that manifest.json names, as "docker save" writes it.
func dockerImages(root *os.Root) ([]archivedImage, error) {
	content, err := readMetadata(root, dockerManifest)
	if err != nil {
		return nil, err
	}
	var manifest tarball.Manifest
	if err := json.Unmarshal(content, &manifest); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	// The library reads docker's form as a tar file. It gets one that is written while it reads.
	opener := func() (io.ReadCloser, error) { return streamTar(root), nil }
	var images []archivedImage
	for _, m := range manifest {
		if len(m.RepoTags) == 0 {
			continue
		}
		if err := checkMetadata(root, path.Clean(m.Config)); err != nil {
			return nil, fmt.Errorf("%s: %w", m.RepoTags[0], err)
		}
		tag, err := name.NewTag(m.RepoTags[0])
		if err != nil {
			return nil, fmt.Errorf("manifest.json: %w", err)
		}
		image, err := tarball.Image(opener, &tag)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.RepoTags[0], err)
		}
		images = append(images, archivedImage{names: m.RepoTags, image: image})
	}
	return images, nil
}

// ociImages lists the images of an OCI layout that have a name: in the annotation of containerd and docker, or a full
// name in the one of the specification.
func ociImages(root *os.Root) ([]archivedImage, error) {
	if err := checkMetadata(root, ociIndex); err != nil {
		return nil, err
	}
	index, err := layout.ImageIndexFromPath(root.Name())
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var images []archivedImage
	for _, m := range manifest.Manifests {
		full := m.Annotations["io.containerd.image.name"]
		if full == "" {
			if full = m.Annotations["org.opencontainers.image.ref.name"]; !strings.ContainsAny(full, ":/") {
				continue // a tag alone
			}
		}
		image := archivedImage{names: []string{full}}
		if err := checkMetadata(root, blobPath(m.Digest)); err != nil {
			return nil, fmt.Errorf("%s: %w", full, err)
		}
		if m.MediaType.IsIndex() {
			if image.index, err = index.ImageIndex(m.Digest); err == nil {
				err = checkIndex(root, image.index)
			}
		} else if image.image, err = index.Image(m.Digest); err == nil {
			err = checkConfig(root, image.image)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", full, err)
		}
		images = append(images, image)
	}
	return images, nil
}

// streamTar returns the unpacked archive as a tar file.
func streamTar(root *os.Root) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		t := tar.NewWriter(writer)
		err := t.AddFS(root.FS())
		writer.CloseWithError(errors.Join(err, t.Close()))
	}()
	return reader
}
