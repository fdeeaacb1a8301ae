package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/coracle-eks/coracle/internal/host/rundir"
)

// goldenLayout is raised when the way in which golden directories are made changes.
const goldenLayout = "3"

// Golden returns the directory of a containerd root (/var/lib/containerd) into which the given images are unpacked by
// the overlayfs snapshotter, and pinned as in EKS's AMIs, so that no kubelet collects them. The registry must have the
// images. The directory is made once for a set of images, in some seconds, by the containerd that machines run, and
// never changes: no machine can write to its files, and the host uses none of them.
//
// It needs root.
func (r *Registry) Golden(ctx context.Context, images []string) (dir string, err error) {
	images = slices.Compact(slices.Sorted(slices.Values(images)))
	found := make(map[string]v1.Image)
	key := sha256.New()
	fmt.Fprintln(key, goldenLayout)
	for _, reference := range images {
		image, err := r.loadImage(ctx, reference)
		if err != nil {
			return "", fmt.Errorf("unpack %s for machines: %w", reference, err)
		}
		digest, err := image.Digest()
		if err != nil {
			return "", fmt.Errorf("unpack %s for machines: %w", reference, err)
		}
		found[reference] = image
		fmt.Fprintln(key, reference, digest)
	}
	dir = filepath.Join(r.options.Dir, "golden", hex.EncodeToString(key.Sum(nil))[:16])
	r.unpacking.Lock()
	defer r.unpacking.Unlock()
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err == nil {
		return dir, nil // in use
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := r.unpackImages(ctx, dir, found); err != nil {
		return "", fmt.Errorf("unpack images for machines: %w", err)
	}
	return dir, nil
}

// unpackingPattern is the prefix of the run directories of the containerds that unpack images.
const unpackingPattern = "unpacking-"

// runtimeDir returns the daemon's directory for files that do not outlive a boot of the host.
func (r *Registry) runtimeDir() string { return rundir.Path(r.options.Owner) }

// writeLayout writes the images as a tar file in the OCI layout, each blob once.
// https://github.com/opencontainers/image-spec/blob/main/image-layout.md
func writeLayout(w io.Writer, images map[string]v1.Image) error {
	t := tar.NewWriter(w)
	written := make(map[v1.Hash]bool)
	file := func(name string, size int64, content io.Reader) error {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err := io.Copy(t, content)
		return err
	}
	blob := func(h v1.Hash, size int64, open func() (io.ReadCloser, error)) error {
		if written[h] {
			return nil
		}
		written[h] = true
		content, err := open()
		if err != nil {
			return err
		}
		defer content.Close()
		return file("blobs/"+h.Algorithm+"/"+h.Hex, size, content)
	}
	if err := file("oci-layout", 30, strings.NewReader(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for reference, image := range images {
		layers, err := image.Layers()
		if err != nil {
			return err
		}
		if config, err := partial.ConfigLayer(image); err != nil {
			return err
		} else {
			layers = append(layers, config)
		}
		for _, layer := range layers {
			digest, err := layer.Digest()
			if err != nil {
				return err
			}
			size, err := layer.Size()
			if err != nil {
				return err
			}
			if err := blob(digest, size, layer.Compressed); err != nil {
				return err
			}
		}
		descriptor, err := partial.Descriptor(image)
		if err != nil {
			return err
		}
		manifest, err := image.RawManifest()
		if err != nil {
			return err
		}
		if err := blob(descriptor.Digest, descriptor.Size,
			func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(manifest)), nil }); err != nil {
			return err
		}
		descriptor.Platform = &platform
		descriptor.Annotations = map[string]string{"io.containerd.image.name": reference}
		index.Manifests = append(index.Manifests, *descriptor)
	}
	content, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := file("index.json", int64(len(content)), bytes.NewReader(content)); err != nil {
		return err
	}
	return t.Close()
}
