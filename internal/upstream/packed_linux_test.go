package upstream

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// An archive that one user unpacked serves others, who may not write to it: they unpack it into their data directories,
// and replace what an older coracle has put there.
func TestPackedProgramsWithoutWriteAccess(t *testing.T) {
	shared, data := t.TempDir(), t.TempDir()
	packed := writePacked(t, shared)
	writeBundle(t, filepath.Join(data, "bundles"), "1.35", "v1.35.3-eks-older00", 0o755)
	asAnother(t, packed, data)
	t.Setenv(EnvBundles, shared)
	c := newCache(Options{DataDir: data}, EnvBundles, "bundles")
	dir := filepath.Join(data, "bundles", "v1.35")
	for range 2 {
		path, err := c.findFirst(tiny("1.35", packedVersion).artifact())
		if err != nil || path != filepath.Join(dir, "kube") {
			t.Errorf("Find = %q, %v", path, err)
		}
	}
	checkUnpacked(t, dir)
	if version, err := readVersion(dir); err != nil || version != packedVersion {
		t.Errorf("its version is %q, %v", version, err)
	}
	if _, err := os.Stat(filepath.Join(packed, "kube"+PackedSuffix)); err != nil {
		t.Errorf("what is packed must stay for others: %v", err)
	}
}

// asAnother makes this test, until it ends, a user who may read one directory and owns another.
func asAnother(t *testing.T, readable, own string) {
	t.Helper()
	if err := os.Chmod(readable, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(readable, 0o755) })
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	for dir := readable; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o005 == 0 {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := filepath.WalkDir(own, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, nobody, -1))
	})
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // a user for files is one of a thread
	t.Cleanup(func() {
		if _, err := unix.SetfsuidRetUid(0); err != nil {
			t.Error(err) // and the thread ends with the test
			return
		}
		runtime.UnlockOSThread()
	})
	if _, err := unix.SetfsuidRetUid(nobody); err != nil {
		t.Fatal(err)
	}
}
