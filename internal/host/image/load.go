package image

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
)

// Load puts the images of an archive into the registry under the names that it gives them, and returns those. An
// archive is what "docker save", "podman save", "ctr images export" or "crane pull" write, docker's or OCI's form,
// compressed with gzip or zstd or not. Names of ECR's registries need their repository.
func (r *Registry) Load(ctx context.Context, archive io.Reader, access Access) ([]string, error) {
	dir, err := r.scratch("load-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := unpack(dir, archive); err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	images, err := archived(dir)
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	var loaded []string
	for _, image := range images {
		for _, full := range image.names {
			repository, tag, err := split(full)
			if err != nil {
				return loaded, err
			}
			if err := r.mayLoad(ctx, repository, access); err != nil {
				return loaded, fmt.Errorf("load %s: %w", full, err)
			}
			if image.index != nil {
				err = r.putIndex(ctx, full, image.index)
			} else {
				err = r.put(ctx, full, image.image)
			}
			if err != nil {
				return loaded, fmt.Errorf("load %s: %w", full, err)
			}
			if err := os.Remove(r.pulledMark(repository, tag)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return loaded, err
			}
			loaded = append(loaded, join(repository, tag))
		}
	}
	if len(loaded) == 0 {
		return nil, errors.New("the archive names no image: save it by its name (docker save nginx:1.27, not docker save 0a1b2c3d)")
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
	return fmt.Errorf("account %s has no repository %s in %s: create it with \"aws ecr create-repository --repository-name %s --region %s\"",
		account, repository, region, repository, region)
}

// archivedImage is an image or an index in an archive, with its names.
type archivedImage struct {
	names []string
	image v1.Image
	index v1.ImageIndex
}

// unpack writes the files of an archive below dir, from which links cannot lead.
func unpack(dir string, archive io.Reader) error {
	buffered := bufio.NewReaderSize(archive, 1<<20)
	begin, err := buffered.Peek(4)
	if err != nil {
		return fmt.Errorf("it has no beginning: %w", err)
	}
	var plain io.Reader = buffered
	switch {
	case begin[0] == 0x1f && begin[1] == 0x8b:
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return err
		}
		defer z.Close()
		plain = z
	case string(begin) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(buffered)
		if err != nil {
			return err
		}
		defer z.Close()
		plain = z
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	files := 0
	for t := tar.NewReader(plain); ; {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if files == 0 {
				return fmt.Errorf("it is no tar file, as \"docker save\" writes them: %w", err)
			}
			return err
		}
		path := filepath.Clean(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			f, err := root.Create(path)
			if err != nil {
				return err
			}
			_, err = io.Copy(f, t)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			files++
		case tar.TypeSymlink: // older dockers have layers that several images share as links
			if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := root.Symlink(header.Linkname, path); err != nil {
				return err
			}
		case tar.TypeLink:
			if err := root.Link(filepath.Clean(header.Linkname), path); err != nil {
				return err
			}
		}
	}
	return nil
}

// archived lists the images below dir.
func archived(dir string) ([]archivedImage, error) {
	if _, err := os.Stat(filepath.Join(dir, "index.json")); err == nil {
		images, err := ociImages(dir)
		if err != nil || len(images) > 0 {
			return images, err
		}
	}
	content, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, "index.json")); err == nil {
			return nil, nil // without a name
		}
		return nil, errors.New("it has neither index.json nor manifest.json: it is no archive of images, of \"docker save\" or in the OCI layout")
	}
	if err != nil {
		return nil, err
	}
	var manifest tarball.Manifest
	if err := json.Unmarshal(content, &manifest); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	// The library reads docker's form as a tar file, so it gets one: of what it asks for, as it is asked.
	opener := func() (io.ReadCloser, error) { return asTar(dir) }
	var images []archivedImage
	for _, m := range manifest {
		if len(m.RepoTags) == 0 {
			continue
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

// ociImages are those of an OCI layout that have a name: in the annotation of containerd and docker, or whole in
// the one of the specification.
func ociImages(dir string) ([]archivedImage, error) {
	index, err := layout.ImageIndexFromPath(dir)
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
		if m.MediaType.IsIndex() {
			image.index, err = index.ImageIndex(m.Digest)
		} else {
			image.image, err = index.Image(m.Digest)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", full, err)
		}
		images = append(images, image)
	}
	return images, nil
}

// asTar is the directory as a tar file, while it is read.
func asTar(dir string) (io.ReadCloser, error) {
	reader, writer := io.Pipe()
	go func() {
		t := tar.NewWriter(writer)
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			return addTo(t, dir, path)
		})
		writer.CloseWithError(errors.Join(err, t.Close()))
	}()
	return reader, nil
}

func addTo(t *tar.Writer, dir, path string) error {
	relative, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	f, err := os.OpenInRoot(dir, relative)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: relative, Mode: 0o644, Size: info.Size(), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}
