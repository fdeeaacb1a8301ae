package image

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/dustin/go-humanize"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// bounds limits what an archive may unpack to.
type bounds struct {
	entries int   // files, directories and links
	bytes   int64 // of all files together
}

const (
	maxEntries  = 1 << 16
	maxUnpacked = 64 << 30
	// maxEntryName is longer than the paths of blobs and layers.
	maxEntryName = 512
	// maxMetadata limits the files that are read into memory: indexes, manifests and configurations. Registries accept
	// manifests of 4 MiB, too.
	maxMetadata = 4 << 20
	// maxLinks is the maximum length of a chain of links.
	maxLinks = 8
	// maxWindow is the window size of "zstd --long".
	maxWindow = 128 << 20
)

// boundsOf returns the bounds of an archive that is unpacked into dir. It may take half of the disk's free space,
// because the registry stores the images beside it.
func boundsOf(dir string) (bounds, error) {
	free, err := diskspace.Free(dir)
	if err != nil {
		return bounds{}, err
	}
	return bounds{entries: maxEntries, bytes: min(maxUnpacked, free/2)}, nil
}

// tooLarge returns the error of an archive that unpacks to more than the limit.
func (b bounds) tooLarge() error {
	return fmt.Errorf(
		"it unpacks to more than %s, half of the free space of the data directory's disk and at most %s: "+
			"free some space, or save fewer images at once", humanize.IBytes(uint64(b.bytes)),
		humanize.IBytes(maxUnpacked))
}

// extractArchive writes the files of an archive below root. Nothing but directories and regular files is there
// afterwards: a link becomes another name of the file that it leads to, which must be in the archive.
func extractArchive(root *os.Root, archive io.Reader, b bounds) error {
	plain, err := decompress(archive)
	if err != nil {
		return err
	}
	defer plain.Close()
	// The headers count, too: no entry and no chain of extended headers outgrows the bound.
	stream := &boundedReader{from: plain, left: b.bytes + int64(b.entries)*4096, exceeded: b.tooLarge()}
	links := make(map[string]string) // to the file, both from the root
	entries, left := 0, b.bytes
	for t := tar.NewReader(stream); ; {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if entries == 0 {
				return fmt.Errorf("it is no tar file, as \"docker save\" writes them: %w", err)
			}
			return err
		}
		if entries++; entries > b.entries {
			return fmt.Errorf("it has more than %d entries: an archive of images has a few for each image", b.entries)
		}
		if len(header.Name) > maxEntryName {
			return fmt.Errorf("the name %.40q... is longer than %d bytes", header.Name, maxEntryName)
		}
		name := path.Clean(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			written, err := writeFile(root, name, io.LimitReader(t, left+1))
			if err != nil {
				return err
			}
			if left -= written; left < 0 {
				return b.tooLarge()
			}
		case tar.TypeSymlink: // docker and podman write a layer once and link to it
			links[name] = path.Join(path.Dir(name), header.Linkname)
			if path.IsAbs(header.Linkname) {
				links[name] = header.Linkname
			}
		case tar.TypeLink:
			links[name] = path.Clean(header.Linkname)
		case tar.TypeDir, tar.TypeXGlobalHeader:
		default:
			return fmt.Errorf(
				"%q is neither a file, a directory nor a link: archives of images have no devices or pipes", name)
		}
	}
	if !isArchiveOfImages(root, links) {
		return errors.New(
			"it has neither index.json nor manifest.json: it is no archive of images, of \"docker save\" or in the " +
				"OCI layout")
	}
	return resolveLinks(root, links)
}

func isArchiveOfImages(root *os.Root, links map[string]string) bool {
	for _, name := range []string{ociIndex, dockerManifest} {
		if _, linked := links[name]; linked {
			return true
		}
		if _, err := root.Lstat(name); err == nil {
			return true
		}
	}
	return false
}

// decompress undoes gzip or zstd.
func decompress(archive io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(archive, 1<<20)
	begin, err := buffered.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("it has no beginning: %w", err)
	}
	switch {
	case begin[0] == 0x1f && begin[1] == 0x8b:
		return gzip.NewReader(buffered)
	case string(begin) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(buffered, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(buffered), nil
}

// boundedReader fails, instead of ending, where there is more to read than it may.
type boundedReader struct {
	from     io.Reader
	left     int64
	exceeded error
}

func (r *boundedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, r.exceeded
	}
	return n, err
}

// writeFile writes a file below root, with the directories above it.
func writeFile(root *os.Root, name string, content io.Reader) (written int64, err error) {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return 0, err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	written, err = io.Copy(f, content)
	return written, errors.Join(err, f.Close())
}

// resolveLinks makes every link a name of the regular file that it leads to in the end.
func resolveLinks(root *os.Root, links map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(links)) {
		target := links[name]
		for range maxLinks {
			next, linked := links[target]
			if !linked {
				break
			}
			target = next
		}
		if !filepath.IsLocal(target) {
			return fmt.Errorf("the link %q leads out of the archive, to %q", name, target)
		}
		info, err := root.Lstat(target)
		if err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("the link %q leads to %q, which is no file of the archive", name, target)
		}
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		if err := root.Link(target, name); err != nil {
			return err
		}
	}
	return nil
}

// checkMetadata refuses a file that is too large to be read into memory. A file that is missing is none of its
// business.
func checkMetadata(root *os.Root, name string) error {
	info, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Size() > maxMetadata {
		err = fmt.Errorf("%s has %s, and indexes, manifests and configurations may have %s", name,
			humanize.IBytes(uint64(info.Size())), humanize.IBytes(maxMetadata))
	}
	return err
}

// readMetadata reads an index, a manifest or a configuration.
func readMetadata(root *os.Root, name string) ([]byte, error) {
	if err := checkMetadata(root, name); err != nil {
		return nil, err
	}
	return root.ReadFile(name)
}

// blobPath returns the path of a blob in the OCI layout.
func blobPath(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }

// checkIndex checks the metadata of the images that an index names and the archive has.
func checkIndex(root *os.Root, index v1.ImageIndex) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, m := range manifest.Manifests {
		if !m.MediaType.IsImage() {
			continue
		}
		if err := checkMetadata(root, blobPath(m.Digest)); err != nil {
			return err
		}
		if _, err := root.Stat(blobPath(m.Digest)); errors.Is(err, fs.ErrNotExist) {
			continue // of another platform
		}
		image, err := index.Image(m.Digest)
		if err != nil {
			return err
		}
		if err := checkConfig(root, image); err != nil {
			return err
		}
	}
	return nil
}

// checkConfig checks the size of an image's configuration.
func checkConfig(root *os.Root, image v1.Image) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	return checkMetadata(root, blobPath(manifest.Config.Digest))
}
