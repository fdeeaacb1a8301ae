//go:build linux

package loopdevice

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// A file system that is not mounted is not mounted to be thawed: its content is a machine's.
func TestToThawMountsNothing(t *testing.T) {
	t.Parallel()
	const ext4 = "mkfs.ext4 -q -F -E nodiscard "
	for name, c := range map[string]struct {
		size   int64
		script string // makes the file system in $1
		edit   func(t *testing.T, f *os.File)
	}{
		"ext4":                   {64 << 20, ext4 + "$1", nil},
		"ext4 without a journal": {64 << 20, ext4 + "-O ^has_journal $1", nil},
		"ext4 with other options": {64 << 20, ext4 + "$1 && debugfs -w -R \"ssv mount_opts data=ordered,nodelalloc\" $1",
			nil},
		"ext4 with data=journal": {64 << 20, ext4 + "$1 && tune2fs -o journal_data $1", nil},
		"xfs":                    {512 << 20, "mkfs.xfs -q $1", nil},
		"ext4 with two superblocks": {5 << 40, ext4 + "-b 4096 -C 1M -O bigalloc,^has_journal,^resize_inode $1",
			twoSuperblocks},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			number, _, file := newDisk(t)
			if err := os.Truncate(file, c.size); err != nil {
				t.Skip("files of that size:", err)
			}
			if err := Grow(number, c.size); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("sh", "-ec", c.script, "sh", file).CombinedOutput(); err != nil {
				t.Skipf("%v: %s", err, out)
			}
			if c.edit != nil {
				f, err := os.OpenFile(file, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				c.edit(t, f)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				runtime.LockOSThread() // and never unlocked: the thread ends with its mount namespace
				device, err := stageDevice(number)
				if err != nil {
					t.Error(err)
					return
				}
				for _, kind := range []string{"ext4", "xfs"} {
					for _, flag := range []string{"rw", "ro"} {
						if err := thawMounted(kind, flag, device); err == nil {
							t.Errorf("it was mounted as %s %s", kind, flag)
						}
					}
				}
			}()
			<-done
		})
	}
}

// twoSuperblocks copies the superblock and the descriptors of groups to where sb=4294967295 looks for them.
func twoSuperblocks(t *testing.T, f *os.File) {
	t.Helper()
	for _, part := range []struct{ from, to, size int64 }{{1024, 4294967295 * 1024, 1024}, {4096, 4 << 40, 700 * 4096}} {
		b := make([]byte, part.size)
		if _, err := f.ReadAt(b, part.from); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(b, part.to); err != nil {
			t.Fatal(err)
		}
	}
}
