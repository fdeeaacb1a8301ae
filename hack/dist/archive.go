package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// checksums is the name of the file with the checksums of the others.
const checksums = "SHA256SUMS"

// file is a file of the archive: a copy of another, or some content.
type file struct {
	name    string // in the archive's directory
	source  string
	content []byte
	mode    int64
}

// collect returns the files that were built: of the directories of programs what a daemon looks for, and no lock. What
// add-ons run beside that of a new cluster is left out.
func (d distribution) collect() (files []file, err error) {
	for _, top := range []string{"coracle", "bundles", "node"} {
		root, err := filepath.EvalSymlinks(filepath.Join(d.built, top))
		if err != nil {
			return nil, err
		}
		err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			name := filepath.ToSlash(filepath.Join(top, rel))
			minor, isBundle := strings.CutPrefix(name, "bundles/v")
			switch {
			case strings.HasPrefix(e.Name(), "."):
				return nil
			case e.IsDir() && (name == "node/components" || isBundle && !slices.Contains(d.minors, minor)):
				return fs.SkipDir
			case e.IsDir():
				return nil
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			mode := int64(0o644)
			if info.Mode()&0o100 != 0 {
				mode = 0o755
			}
			files = append(files, file{name: name, source: path, mode: mode})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// writeArchive writes an archive with the files. Most programs are packed, which coracle unpacks when it needs them.
func (d distribution) writeArchive(ctx context.Context, name string, files []file) error {
	files, err := d.pack(ctx, files)
	if err != nil {
		return err
	}
	return replaceFile(name, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		archive := tar.NewWriter(z)
		for _, f := range files {
			if err := d.writeFile(archive, d.name(), f); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		return errors.Join(archive.Close(), z.Close())
	})
}

// pack packs the files that are found together with a version: programs of Kubernetes and of nodes, and their data.
// Coracle's own programs, and the node image, which is compressed, stay as they are.
func (d distribution) pack(ctx context.Context, files []file) ([]file, error) {
	level := zstd.SpeedBestCompression
	if d.fast {
		level = zstd.SpeedFastest
	}
	packed := slices.Clone(files)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range files {
		dir, name := path.Split(f.name)
		bundle, _ := path.Match("bundles/v*/", dir)
		if !bundle && dir != "node/" || name == "version" || upstream.OwnPrograms[name] != "" {
			continue
		}
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			content, err := compress(f.source, level)
			if err != nil {
				return fmt.Errorf("pack %s: %w", f.name, err)
			}
			packed[i] = file{name: f.name + upstream.PackedSuffix, content: content, mode: f.mode}
			return nil
		})
	}
	return packed, group.Wait()
}

// compress compresses a file, always to the same bytes.
func compress(source string, level zstd.EncoderLevel) ([]byte, error) {
	f, err := os.Open(source)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var content bytes.Buffer
	z, err := zstd.NewWriter(&content, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(z, f)
	err = errors.Join(err, z.Close())
	return content.Bytes(), err
}

// replaceFile makes a file of what write writes, or leaves the one that is there.
func replaceFile(name string, write func(io.Writer) error) (err error) {
	pending, err := durable.Create(name, 0o644) // open to others: it is for everybody
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, pending.Cleanup())
		}
	}()
	if err := write(pending); err != nil {
		return err
	}
	return pending.CloseAtomicallyReplace()
}

// writeFile writes a file below a directory of an archive.
func (d distribution) writeFile(archive *tar.Writer, dir string, f file) error {
	size, content := int64(len(f.content)), io.Reader(bytes.NewReader(f.content))
	if f.source != "" {
		source, err := os.Open(f.source)
		if err != nil {
			return err
		}
		defer source.Close()
		info, err := source.Stat()
		if err != nil {
			return err
		}
		size, content = info.Size(), source
	}
	err := archive.WriteHeader(&tar.Header{Name: dir + "/" + f.name, Mode: f.mode, Size: size, ModTime: d.time,
		Typeflag: tar.TypeReg, Format: tar.FormatPAX})
	if err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

// writeChecksums writes the checksums of all that was made, as sha256sum does and reads.
func (d distribution) writeChecksums() error {
	entries, err := os.ReadDir(d.output) // sorted
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		if e.IsDir() || e.Name() == checksums {
			continue
		}
		f, err := os.Open(filepath.Join(d.output, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum.Sum(nil), e.Name())
	}
	// Open to others, like the archives.
	return durable.WriteFile(filepath.Join(d.output, checksums), []byte(sums.String()), 0o644)
}
