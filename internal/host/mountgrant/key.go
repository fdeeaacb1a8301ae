package mountgrant

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coracle-eks/coracle/internal/durable"
)

const (
	keyFile = "mounts.key" // in a machine's directory; writer: the daemon
	keySize = 32
)

// EnsureKey makes the key of the machine in dir, if it has none.
func EnsureKey(dir string) error {
	_, err := ReadKey(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	return durable.WriteFile(filepath.Join(dir, keyFile), key, 0o600)
}

// ReadKey returns the key of the machine in dir; fs.ErrNotExist when it has none.
func ReadKey(dir string) ([]byte, error) {
	name := filepath.Join(dir, keyFile)
	key, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if len(key) != keySize {
		return nil, fmt.Errorf("%s has %d bytes, not %d: remove it, and stop and start the instance", name, len(key),
			keySize)
	}
	return key, nil
}
