package image

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// entry is one path of a layer: a file of the host or of our own, a directory or a symbolic link.
type entry struct {
	Path    string // in the image, without a leading slash
	Mode    int64  // permissions
	Source  string // the file that it is a copy of
	Content []byte // or what is in it
	Link    string // or where it points to
	Dir     bool   // or that it is a directory
}

// epoch is the time of every file, so that the same content has the same digest.
var epoch = time.Unix(0, 0).UTC()

// layer is a layer in a file, compressed with zstd, which every client since 2021 reads and which takes a
// fifth of gzip's time. Without entropy coding it takes a third less for a tenth more bytes, and so does unpacking it,
// for which the first machine waits.
type layer struct {
	file           string
	digest, diffID v1.Hash
	size           int64
}

func (l *layer) Digest() (v1.Hash, error) { return l.digest, nil }
func (l *layer) DiffID() (v1.Hash, error) { return l.diffID, nil }
func (l *layer) Size() (int64, error)     { return l.size, nil }

func (l *layer) Compressed() (io.ReadCloser, error) { return os.Open(l.file) }

func (l *layer) Uncompressed() (io.ReadCloser, error) {
	f, err := os.Open(l.file)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{z, closer(func() error { z.Close(); return f.Close() })}, nil
}

func (l *layer) MediaType() (types.MediaType, error) { return types.OCILayerZStd, nil }

type closer func() error

func (c closer) Close() error { return c() }

// writeLayer makes a layer of entries in a new file of dir. The directories above the entries are made as well.
func writeLayer(dir string, entries []entry) (_ *layer, err error) {
	entries = withParents(entries)
	f, err := os.CreateTemp(dir, "layer-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	compressed := sha256.New()
	z, err := zstd.NewWriter(io.MultiWriter(f, compressed), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithNoEntropyCompression(true), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	plain := sha256.New()
	t := tar.NewWriter(io.MultiWriter(z, plain))
	for _, e := range entries {
		if err := writeEntry(t, e); err != nil {
			return nil, fmt.Errorf("put %s into a layer: %w", e.Path, err)
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	return &layer{
		file:   f.Name(),
		size:   size,
		digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(compressed.Sum(nil))},
		diffID: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(plain.Sum(nil))},
	}, nil
}

func writeEntry(t *tar.Writer, e entry) error {
	header := &tar.Header{Name: e.Path, Mode: cmp.Or(e.Mode, 0o644), ModTime: epoch, Format: tar.FormatPAX}
	switch {
	case e.Dir:
		header.Typeflag, header.Name, header.Mode = tar.TypeDir, e.Path+"/", cmp.Or(e.Mode, 0o755)
		return t.WriteHeader(header)
	case e.Link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, e.Link, 0o777
		return t.WriteHeader(header)
	case e.Source == "":
		header.Size = int64(len(e.Content))
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		_, err := t.Write(e.Content)
		return err
	}
	f, err := os.Open(e.Source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := t.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

// withParents sorts the entries and puts the directories above each before it.
func withParents(entries []entry) []entry {
	all := make(map[string]entry)
	for _, e := range entries {
		e.Path = strings.TrimPrefix(path.Clean(e.Path), "/")
		all[e.Path] = e
	}
	for _, e := range entries {
		for dir := path.Dir(strings.TrimPrefix(path.Clean(e.Path), "/")); dir != "."; dir = path.Dir(dir) {
			if _, there := all[dir]; !there {
				all[dir] = entry{Path: dir, Dir: true}
			}
		}
	}
	sorted := make([]entry, 0, len(all))
	for _, e := range all {
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	return sorted
}
