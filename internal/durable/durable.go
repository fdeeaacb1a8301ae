// Package durable replaces files at once: a reader finds the old content or the new one, and so does whoever starts
// after a crash of the machine.
package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// WriteFile replaces a file, or creates it, with exactly these permissions. Its content is on disk before it has the
// name.
func WriteFile(name string, data []byte, perm fs.FileMode) error {
	pending, err := Create(name, perm)
	if err != nil {
		return err
	}
	_, err = pending.Write(data)
	if err == nil {
		err = pending.CloseAtomicallyReplace()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), pending.Cleanup())
	}
	return nil
}

// Create opens a new file that takes the name with CloseAtomicallyReplace; Cleanup removes it before that.
func Create(name string, perm fs.FileMode) (*renameio.PendingFile, error) {
	// Beside the file: a directory for temporary files may be another user's, and on another disk.
	return renameio.NewPendingFile(name, renameio.WithTempDir(filepath.Dir(name)), renameio.WithStaticPermissions(perm))
}

// EnsureFile makes a file have the content and the permissions, and does not write it when it has that content.
func EnsureFile(name string, data []byte, perm fs.FileMode) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return os.Chmod(name, perm)
	}
	return WriteFile(name, data, perm)
}

// SyncDir makes the names in a directory survive a crash of the machine: the content of files does not need it.
func SyncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
