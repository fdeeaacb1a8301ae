package diskspace

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// Empty files take inodes and no bytes. etcd ends without either.
func TestAFileSystemWithoutInodesIsFull(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,nr_inodes=100"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if free, total, err := Measure(dir); err != nil || total != 64<<20 || free == 0 || free > total/2 {
		t.Errorf("of %d bytes with half of the inodes free: %d %v", total, free, err)
	}
}

func TestInodesThatAreNotCounted(t *testing.T) {
	t.Parallel()
	if got := freeByInodes(100<<30, 0, 0); got != 100<<30 {
		t.Errorf("%d bytes are free", got)
	}
}
