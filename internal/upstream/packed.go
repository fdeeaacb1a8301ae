package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/filelock"
)

// PackedSuffix ends the name of a program that is compressed with zstd, with a checksum. The archive of "make dist" has
// such programs: gzip would take seconds to decompress all of them before the first is needed.
const PackedSuffix = ".zst"

// isPacked reports whether a directory has the artifact in its packed form. Its programs may be there already, but not
// all of them.
func (a artifact) isPacked(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, a.first+PackedSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// unpack unpacks an artifact of which dir has the packed form, and returns the path of its first file. The programs
// take the place of what is packed; if this user may not write there, they go to the data directory.
func (c *cache) unpack(a artifact, dir string) (string, error) {
	version, err := readVersion(dir)
	if err == nil && version == "" {
		err = fmt.Errorf("%s has no file %q", dir, versionName)
	}
	if err == nil {
		err = a.unpack(dir, dir, version)
	}
	if c.fallback != "" && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		packed := dir
		dir = filepath.Join(c.fallback, a.dir)
		err = a.unpack(packed, dir, version)
	}
	if err != nil {
		return "", fmt.Errorf("unpack the %s: %w", a.title, err)
	}
	return filepath.Join(dir, a.first), nil
}

// unpack unpacks the packed files of the directory from, which is of a version, into the directory into, which may be
// the same.
func (a artifact) unpack(from, into, version string) error {
	unpacked := func() (bool, error) {
		if from == into {
			packed, err := a.isPacked(from)
			return !packed, err
		}
		is, err := readVersion(into)
		return is == version, err
	}
	if done, err := unpacked(); done || err != nil {
		return err
	}
	// Open to others, as what is built is.
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	// Nobody holds it for longer than this takes.
	unlock, err := filelock.Lock(context.Background(), filepath.Join(into, lockName), nil)
	if err != nil {
		return err
	}
	defer unlock()
	if done, err := unpacked(); done || err != nil {
		return err
	}
	entries, err := os.ReadDir(from) // its path may have any characters, unlike a pattern
	if err != nil {
		return err
	}
	var packed []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), PackedSuffix) {
			packed = append(packed, filepath.Join(from, e.Name()))
		}
	}
	if from == into {
		if err := unpackFiles(packed, into); err != nil {
			return err
		}
		// The first file tells that there is something to unpack, and is the last to go.
		first := filepath.Join(from, a.first+PackedSuffix)
		packed = append(slices.DeleteFunc(packed, func(path string) bool { return path == first }), first)
		for _, path := range packed {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
		return nil
	}
	// While there is no version, what is there is incomplete.
	name := filepath.Join(into, versionName)
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := unpackFiles(packed, into); err != nil {
		return err
	}
	return durable.WriteFile(name, []byte(version+"\n"), 0o644) // open to others, like the programs
}

// unpackFiles unpacks files into a directory whose lock the caller holds. They are on the disk when they appear.
func unpackFiles(packed []string, into string) error {
	if err := removeAbandoned(into); err != nil {
		return err
	}
	work, err := os.MkdirTemp(into, workPattern)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	names := make([]string, len(packed))
	for i, path := range packed {
		names[i] = strings.TrimSuffix(filepath.Base(path), PackedSuffix)
		group.Go(func() error {
			if err := unpackFile(path, filepath.Join(work, names[i])); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(work, name), filepath.Join(into, name)); err != nil {
			return err
		}
	}
	return durable.SyncDir(into)
}

// unpackFile unpacks a file into one that does not exist, with its time, by which package image knows what an image was
// made of.
func unpackFile(packed, into string) (err error) {
	source, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	z, err := zstd.NewReader(source)
	if err != nil {
		return err
	}
	defer z.Close()
	file, err := os.OpenFile(into, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := z.WriteTo(file)
	if err == nil && size == 0 {
		err = io.ErrUnexpectedEOF
	}
	if pathErr := (*fs.PathError)(nil); err != nil && !errors.As(err, &pathErr) { // of neither file
		err = fmt.Errorf("it is damaged, unpack the archive again: %w", err)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(file.Chmod(info.Mode().Perm()), file.Sync()); err != nil {
		return err
	}
	return os.Chtimes(into, info.ModTime(), info.ModTime())
}

// readVersion returns the version of what a directory has, or none.
func readVersion(dir string) (string, error) {
	version, err := os.ReadFile(filepath.Join(dir, versionName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return strings.TrimSpace(string(version)), nil
}
