package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A mark is an empty file for each tag and digest that was fetched. Its modification time says when a tag was last
// compared with that of its registry, its access time when the image was last asked for.

// marksDir returns the directory of the marks. A mark's name begins with a colon, so that it is not the name of a
// repository below.
func (r *Registry) marksDir() string { return filepath.Join(r.options.Dir, "pulled") }

func (r *Registry) pulledMark(repository, identifier string) string {
	return filepath.Join(r.marksDir(), r.storedName(repository), ":"+identifier)
}

// markPulled marks a tag or digest as fetched; one that is marked stays as it is.
func (r *Registry) markPulled(repository, identifier string) error {
	mark := r.pulledMark(repository, identifier)
	if err := os.MkdirAll(filepath.Dir(mark), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// markCompared records that a tag is that of its registry.
func (r *Registry) markCompared(repository, identifier string) error {
	now := time.Now()
	return os.Chtimes(r.pulledMark(repository, identifier), now, now)
}

// markUsed records that an image was requested. It does nothing for one that was not fetched.
func (r *Registry) markUsed(repository, identifier string) error {
	err := os.Chtimes(r.pulledMark(repository, identifier), time.Now(), time.Time{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// renameMarks gives the marks of earlier versions, which had no colon, their names.
func (r *Registry) renameMarks() error {
	err := filepath.WalkDir(r.marksDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ":") {
			return err
		}
		return os.Rename(path, filepath.Join(filepath.Dir(path), ":"+d.Name()))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
