package nodeimage

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
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/node"
)

// The files of an image.
const (
	ArchiveName  = "node-image.tar.zst"
	ManifestName = "node-image.json"
)

// Manifest lists the content of an image.
type Manifest struct {
	Suite        string  `json:"suite"`        // "trixie"
	Architecture string  `json:"architecture"` // "amd64" or "arm64"
	SHA256       string  `json:"sha256"`       // of the archive, in hexadecimal
	Size         int64   `json:"size"`         // of all files of the archive, in bytes
	Packages     []Taken `json:"packages"`
}

// Taken is a package of an image.
type Taken struct {
	node.Package
	// Instead is the version that was wanted and that the mirror no longer had; empty where that was taken.
	Instead string `json:"instead,omitempty"`
}

// Replaced returns the packages that are newer than wanted, as "NAME VERSION".
func (m Manifest) Replaced() (packages []string) {
	for _, p := range m.Packages {
		if p.Instead != "" {
			packages = append(packages, p.Name+" "+p.Version)
		}
	}
	return packages
}

// write writes the files of the image into dir, and returns its manifest, which begins with m.
func (t *tree) write(dir string, m Manifest) (Manifest, error) {
	var packed bytes.Buffer
	// One encoder at a time, so that the same files always give the same bytes.
	z, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return m, err
	}
	if m.Size, err = t.writeTar(z); err != nil {
		return m, err
	}
	if err := z.Close(); err != nil {
		return m, err
	}
	sum := sha256.Sum256(packed.Bytes())
	m.SHA256 = hex.EncodeToString(sum[:])
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return m, err
	}
	// Open to others: all of it is public, and users of one host may share it (CORACLE_NODE).
	if err := durable.WriteFile(filepath.Join(dir, ManifestName), append(manifest, '\n'), 0o644); err != nil {
		return m, err
	}
	return m, durable.WriteFile(filepath.Join(dir, ArchiveName), packed.Bytes(),
		0o644) // open to others, like the manifest
}

// writeTar writes the files in the order of their names, and returns the sum of their sizes in bytes.
func (t *tree) writeTar(w io.Writer) (size int64, err error) {
	archive := tar.NewWriter(w)
	written := make(map[*file]string)
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		f := t.files[name]
		header := &tar.Header{Name: name, Typeflag: f.kind, Mode: f.mode, Linkname: f.target, ModTime: time.Unix(0, 0),
			Format: tar.FormatPAX}
		first, again := written[f]
		switch {
		case again:
			header.Typeflag, header.Linkname = tar.TypeLink, first
		case f.kind == tar.TypeDir:
			header.Name += "/"
		case f.kind == tar.TypeReg:
			header.Size = int64(len(f.content))
		}
		written[f] = name
		if err := archive.WriteHeader(header); err != nil {
			return 0, err
		}
		if header.Size > 0 {
			size += header.Size
			if _, err := archive.Write(f.content); err != nil {
				return 0, err
			}
		}
	}
	return size, archive.Close()
}

// Base is a node image that is unpacked when it is needed first. Its methods may be called concurrently.
type Base struct {
	dir  string
	find func(context.Context) (dir string, err error)

	mu       sync.Mutex
	unpacked string
}

// NewBase returns the image in the directory that find returns, unpacked below dir.
func NewBase(dir string, find func(context.Context) (dir string, err error)) *Base {
	return &Base{dir: dir, find: find}
}

// Dir returns the directory with the files of the image, which is named after it.
func (b *Base) Dir(ctx context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unpacked != "" {
		return b.unpacked, nil
	}
	from, err := b.find(ctx)
	if err != nil {
		return "", err
	}
	b.unpacked, err = Unpack(from, b.dir)
	return b.unpacked, err
}

// Unpack makes dir hold the files of the image in from, unless a directory below dir already does: it returns the one
// that does, which is named after the image. A directory of another image is removed. The files belong to whoever
// calls it, which is root where machines are real.
func Unpack(from, dir string) (string, error) {
	m, err := ReadManifest(from)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, m.SHA256[:12])
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return to, err
	}
	if m.Architecture != runtime.GOARCH {
		return "", fmt.Errorf("the node image %s is for %s, and this host is %s: remove it, and another one is built",
			from, m.Architecture, runtime.GOARCH)
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	next := to + ".next"
	if err := os.MkdirAll(next, 0o755); err != nil { // open to others: it becomes the root of machines
		return "", err
	}
	if err := m.unpack(filepath.Join(from, ArchiveName), next); err != nil {
		return "", fmt.Errorf("unpack the node image %s: %w", from, err)
	}
	if err := syncFiles(next); err != nil {
		return "", err
	}
	return to, os.Rename(next, to)
}

// ReadManifest reads what is in the image in a directory.
func ReadManifest(dir string) (m Manifest, err error) {
	name := filepath.Join(dir, ManifestName)
	content, err := os.ReadFile(name)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(content, &m); err != nil || len(m.SHA256) != 2*sha256.Size {
		return m, fmt.Errorf("%s is damaged: remove the directory, and the node image is built again (%v)", name, err)
	}
	return m, nil
}

// unpack writes the files of an archive below dir.
func (m Manifest) unpack(name, dir string) error {
	packed, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != m.SHA256 {
		return fmt.Errorf("%s has the checksum %x, and not %s as %s says: remove both, and they are built again",
			name, sum, m.SHA256, ManifestName)
	}
	z, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	defer z.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for archive := tar.NewReader(z); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = writeEntry(root, header, archive)
		}
		if err != nil {
			return err
		}
	}
}

// writeEntry makes one file, with exactly its mode.
func writeEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	mode := header.FileInfo().Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	switch header.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(header.Name, 0o755); err != nil { // open to others: see Unpack
			return err
		}
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, header.Name)
	case tar.TypeLink:
		return root.Link(header.Linkname, header.Name)
	default:
		f, err := root.OpenFile(header.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	if err := root.Chmod(header.Name, mode); err != nil {
		return err
	}
	return root.Chtimes(header.Name, header.ModTime, header.ModTime)
}
