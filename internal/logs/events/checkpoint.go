package events

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coracle-eks/coracle/internal/durable"
)

// Checkpoint writes a copy of the store, as it is at one moment, to the directory dir, which must not
// exist. Files are linked where the file system allows it. Open opens the copy.
func (s *Store) Checkpoint(ctx context.Context, dir string) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	if err := s.checkpoint(ctx, dir); err != nil {
		return fmt.Errorf("copy the store of log events to %s: %w", dir, err)
	}
	return nil
}

func (s *Store) checkpoint(ctx context.Context, dir string) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	parts := filepath.Join(dir, "parts")
	if err := os.Mkdir(parts, 0o700); err != nil {
		return err
	}
	// Until the files are linked none is removed. The catalog goes first: the files that it knows are
	// there then, and those that came after are removed when the copy is opened.
	s.files.Lock()
	defer s.files.Unlock()
	if err := s.db.Checkpoint(filepath.Join(dir, catalogDirectory), pebble.WithFlushedWAL()); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.parts)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !strings.HasSuffix(e.Name(), partSuffix) {
			continue
		}
		from, to := filepath.Join(s.parts, e.Name()), filepath.Join(parts, e.Name())
		if os.Link(from, to) == nil {
			continue
		}
		if err := copyFile(from, to); err != nil { // another file system, or one without links
			return err
		}
	}
	return errors.Join(durable.SyncDir(parts), durable.SyncDir(dir))
}

func copyFile(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Sync(), w.Close())
}
