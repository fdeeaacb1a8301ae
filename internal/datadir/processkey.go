package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// processKeySize is that of the hash that the key is for, SHA-256, in bytes.
const processKeySize = 32

// ReadProcessKey reads the key that signs the marks of the daemon's processes; see package process. It is
// fs.ErrNotExist before the first start.
func (d Dir) ReadProcessKey() ([]byte, error) {
	key, err := os.ReadFile(d.ProcessKeyFile())
	if err != nil {
		return nil, err
	}
	if len(key) != processKeySize {
		return nil,
			fmt.Errorf(
				"%s is damaged: it has %d bytes instead of %d; remove it, and the next start of the daemon makes "+
					"another and restarts every process",
				d.ProcessKeyFile(), len(key), processKeySize)
	}
	return key, nil
}

// EnsureProcessKey is like ReadProcessKey, and creates the key if there is none. Only the holder of the
// directory calls it.
func (d Dir) EnsureProcessKey() ([]byte, error) {
	key, err := d.ReadProcessKey()
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, processKeySize)
	rand.Read(key) //nolint:errcheck // it never fails
	return key, d.Write(d.ProcessKeyFile(), key, 0o600)
}
