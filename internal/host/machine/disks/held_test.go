//go:build linux

package disks

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// After a boot of the host there is no such device, and nothing is held.
func TestWritesOfADeviceThatIsGoneAreNotHeld(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	file := filepath.Join(dir, heldPrefix+strconv.Itoa(loopdevice.Last))
	if err := os.WriteFile(file, []byte("vol-0123456789abcdef0"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ThawLeft(dir, "an-owner", "i-0123456789abcdef0"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file that says so stays: %v", err)
	}
}
