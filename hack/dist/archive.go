package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/durable"
)

// file is a file of the archive: a copy of another, or some content.
type file struct {
	name    string // in the archive's directory
	source  string
	content []byte
	mode    int64
}

// collect returns the files that were built: of the directories of programs what a daemon looks for, and no lock.
func (d distribution) collect(built string) (files []file, err error) {
	err = filepath.WalkDir(built, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(built, path)
		minor, isBundle := strings.CutPrefix(filepath.ToSlash(name), "bundles/v")
		switch {
		case err != nil || strings.HasPrefix(e.Name(), "."):
			return err
		case e.IsDir() && isBundle && !slices.Contains(d.minors, minor): // of an earlier archive
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
		files = append(files, file{name: filepath.ToSlash(name), source: path, mode: mode})
		return nil
	})
	return files, err
}

// writeArchive writes the files in the order of their names.
func (d distribution) writeArchive(name string, files []file) (err error) {
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	pending, err := durable.Create(name, 0o644) // open to others: it is for everybody
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, pending.Cleanup())
		}
	}()
	z := gzip.NewWriter(pending)
	archive := tar.NewWriter(z)
	for _, f := range files {
		if err := d.writeFile(archive, f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if err := errors.Join(archive.Close(), z.Close()); err != nil {
		return err
	}
	return pending.CloseAtomicallyReplace()
}

func (d distribution) writeFile(archive *tar.Writer, f file) error {
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
	err := archive.WriteHeader(&tar.Header{Name: d.name() + "/" + f.name, Mode: f.mode, Size: size, ModTime: d.time,
		Typeflag: tar.TypeReg, Format: tar.FormatPAX})
	if err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

// writeChecksums writes the checksums of all archives, as sha256sum does and reads.
func (d distribution) writeChecksums() error {
	archives, err := filepath.Glob(filepath.Join(d.output, "*.tar.gz")) // sorted
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, archive := range archives {
		f, err := os.Open(archive)
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum.Sum(nil), filepath.Base(archive))
	}
	// Open to others, like the archives.
	return durable.WriteFile(filepath.Join(d.output, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
