//go:build linux

package disks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// inMachine calls f on a thread with a mount namespace of its own, in which dev is a file system in memory.
func inMachine(t *testing.T, dev string, f func() error) {
	t.Helper()
	testenv.NeedsRoot(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
		err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
		if err == nil {
			err = unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", dev, "tmpfs", 0, "")
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Root in a machine mounts a file of the host over each node at the moment at which it is made.
func TestNodesAreNotFilesOfTheHost(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	dev, victim := filepath.Join(dir, "dev"), filepath.Join(dir, "victim")
	if err := errors.Join(os.Mkdir(dev, 0o755), os.WriteFile(victim, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	disk := Disk{VolumeID: "vol-0123456789abcdef0", Device: "/dev/xvdaa", Number: 1, Loop: 4000}
	s := &Server{o: Options{UserID: 2000000000}}
	opened, rounds := make(chan *os.File), make(chan struct{})
	var covered, ended atomic.Int64
	go func() {
		f := <-opened
		defer close(rounds)
		for i := 0; i < 20000 && covered.Load() < 200; i++ {
			_ = s.makeNodes(f, disk) // which says that the machine has replaced one
			removeNodes(f, disk)
			_ = unix.Unlinkat(int(f.Fd()), "xvdaa", 0) // which removes what is mounted there, too
			_ = unix.Unlinkat(int(f.Fd()), "nvme1n1", 0)
		}
		ended.Store(1)
	}()
	inMachine(t, dev, func() error {
		f, err := openPath(unix.AT_FDCWD, dev, 0)
		if err != nil {
			return err
		}
		opened <- f
		for ended.Load() == 0 {
			if unix.Mount(victim, filepath.Join(dev, "xvdaa"), "", unix.MS_BIND, "") == nil {
				covered.Add(1)
			}
		}
		<-rounds
		return f.Close()
	})
	t.Logf("%d nodes were covered", covered.Load())
	var st unix.Stat_t
	if err := unix.Stat(victim, &st); err != nil || st.Uid != 0 || st.Gid != 0 || st.Mode != unix.S_IFREG|0o600 {
		t.Errorf("the host's file belongs to %d:%d and has the mode %o (%v)", st.Uid, st.Gid, st.Mode, err)
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	dev, other := t.TempDir(), t.TempDir()
	disk := Disk{VolumeID: "vol-0123456789abcdef0", Device: "/dev/xvdaa", Number: 1, Loop: 4000}
	s := &Server{o: Options{UserID: 2000000000}}
	inMachine(t, dev, func() error {
		f, err := openPath(unix.AT_FDCWD, dev, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := s.makeNodes(f, disk); err != nil {
			return err
		}
		for name, want := range map[string]uint32{"xvdaa": 6, "nvme1n1": 6, "disk": 0, "disk/by-id": 0, BlockDir: 0} {
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(dev, name), &st); err != nil {
				return err
			}
			mode := uint32(unix.S_IFBLK | 0o660)
			if want == 0 {
				mode = unix.S_IFDIR | 0o755
			}
			if st.Uid != 2000000000 || st.Gid != 2000000000+want || st.Mode != mode {
				t.Errorf("%s belongs to %d:%d and has the mode %o", name, st.Uid, st.Gid, st.Mode)
			}
		}
		if err := unix.Mount(other, filepath.Join(dev, "disk"), "", unix.MS_BIND, ""); err != nil {
			return err
		}
		if err := s.makeNodes(f, disk); !errors.Is(err, unix.EXDEV) {
			return fmt.Errorf("links were made on a mount: %w", err)
		}
		if got, err := os.Readlink(filepath.Join(dev, BlockDir, "nvme1n1")); err != nil ||
			got != "../devices/virtual/block/loop4000" {
			t.Errorf("the link in /sys/block leads to %q, %v", got, err)
		}
		removeNodes(f, disk)
		for _, name := range []string{"xvdaa", "nvme1n1", BlockDir + "/nvme1n1"} {
			if _, err := os.Lstat(filepath.Join(dev, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is there: %v", name, err)
			}
		}
		return nil
	})
	if entries, err := os.ReadDir(other); err != nil || len(entries) > 0 {
		t.Errorf("what was mounted has %v, %v", entries, err)
	}
}
