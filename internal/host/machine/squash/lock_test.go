//go:build linux

package squash

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// served is a directory that is served, as root, with an executable file in it.
type served struct {
	*fileSystem
	t    *testing.T
	path string // of the file
	node uint64
}

func newServed(t *testing.T, readOnly bool) *served {
	t.Helper()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	open := func(path string) int {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	f, err := newFileSystem(Config{Root: open(dir), Proc: open("/proc"), ReadOnly: readOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, n := range f.nodes {
			n.closeLocks()
			unix.Close(n.fd)
		}
		for _, h := range f.handles {
			unix.Close(h.fd)
		}
		unix.Close(f.c.Proc)
	})
	var entry fuse.EntryOut
	if err := f.find(f.nodes[fuse.FUSE_ROOT_ID], "program", &entry); err != nil {
		t.Fatal(err)
	}
	return &served{f, t, path, entry.NodeId}
}

func (s *served) open(flags int) (handle uint64) {
	s.t.Helper()
	var out fuse.OpenOut
	if code := s.Open(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: s.node}, Flags: uint32(flags)}, &out); !code.Ok() {
		s.t.Fatal(code)
	}
	return out.Fh
}

func (s *served) lockIn(handle, owner uint64, kind int) *fuse.LkIn {
	return &fuse.LkIn{InHeader: fuse.InHeader{NodeId: s.node}, Fh: handle, Owner: owner,
		Lk: fuse.FileLock{End: toTheEnd, Typ: uint32(kind)}}
}

func (s *served) lock(handle, owner uint64, kind int) fuse.Status {
	return s.SetLk(nil, s.lockIn(handle, owner, kind))
}

// awaitLock sets a lock of a file whose last one has just ended. A process that another test starts has the file of
// that one, too, until it runs its program.
func (s *served) awaitLock(handle, owner uint64, kind int) fuse.Status {
	return s.SetLkw(s.t.Context().Done(), s.lockIn(handle, owner, kind))
}

// flush tells that a process has closed a file, and release that the last has.
func (s *served) flush(handle, owner uint64) {
	s.t.Helper()
	input := fuse.FlushIn{InHeader: fuse.InHeader{NodeId: s.node}, Fh: handle, LockOwner: owner}
	if code := s.Flush(nil, &input); !code.Ok() {
		s.t.Fatal(code)
	}
}

func (s *served) release(handle uint64) {
	s.Release(nil, &fuse.ReleaseIn{InHeader: fuse.InHeader{NodeId: s.node}, Fh: handle})
}

// A client that may only read locks a program: others execute it nevertheless, which nobody can while it is open for
// writing.
func TestWhoMayOnlyReadOpensNothingForWriting(t *testing.T) {
	t.Parallel()
	s := newServed(t, true)
	handle := s.open(unix.O_RDONLY)
	for name, do := range map[string]func() fuse.Status{
		"ask for a lock": func() fuse.Status { return s.GetLk(nil, s.lockIn(handle, 1, unix.F_WRLCK), &fuse.LkOut{}) },
		"lock":           func() fuse.Status { return s.lock(handle, 2, unix.F_RDLCK) },
	} {
		if code := do(); !code.Ok() {
			t.Errorf("%s: %v", name, code)
		}
		if out, err := exec.Command(s.path).CombinedOutput(); err != nil {
			t.Errorf("%s: the program cannot be executed any more: %v: %s", name, err, out)
		}
	}
	for _, flags := range []int{unix.O_WRONLY, unix.O_RDWR, unix.O_RDONLY | unix.O_TRUNC} {
		if fd, err := s.reopen(s.nodes[s.node].fd, flags); !errors.Is(err, unix.EROFS) {
			unix.Close(fd)
			t.Errorf("the file is opened with %#x: %v", flags, err)
		}
	}
}

// Locks are those of NFS still: of a process, whichever of its files it asks through.
func TestLocksOfAFile(t *testing.T) {
	t.Parallel()
	s := newServed(t, false)
	reader, writer := s.open(unix.O_RDONLY), s.open(unix.O_RDWR)
	const one, two = 1, 2
	if code := s.lock(reader, one, unix.F_RDLCK); !code.Ok() {
		t.Fatal(code)
	}
	if code := s.lock(writer, two, unix.F_WRLCK); code != fuse.EAGAIN {
		t.Errorf("two has what one reads: %v", code)
	}
	var out fuse.LkOut
	if code := s.GetLk(nil, s.lockIn(writer, two, unix.F_WRLCK), &out); !code.Ok() || out.Lk.Typ != unix.F_RDLCK {
		t.Errorf("two is told of %+v, %v", out.Lk, code)
	}
	if code := s.lock(writer, one, unix.F_WRLCK); !code.Ok() {
		t.Errorf("one does not get more of its own: %v", code)
	}
	if code := s.GetLk(nil, s.lockIn(reader, one, unix.F_WRLCK), &out); !code.Ok() || out.Lk.Typ != unix.F_UNLCK {
		t.Errorf("one is told of its own: %+v, %v", out.Lk, code)
	}
	s.flush(writer, one)
	if code := s.awaitLock(writer, two, unix.F_WRLCK); !code.Ok() {
		t.Errorf("two does not get what one has closed: %v", code)
	}
}

// The locks of an open file (F_OFD_SETLK) end with it. Those of a process that has locked the file again do not end
// with a file that it has closed before.
func TestLocksEndWithTheOpenFile(t *testing.T) {
	t.Parallel()
	s := newServed(t, false)
	first, second := s.open(unix.O_RDWR), s.open(unix.O_RDWR)
	const openFile, process, other = 1, 2, 3
	if code := s.lock(first, openFile, unix.F_WRLCK); !code.Ok() {
		t.Fatal(code)
	}
	s.flush(first, process) // a process closes it, and has no lock
	if code := s.lock(second, other, unix.F_WRLCK); code != fuse.EAGAIN {
		t.Errorf("the lock of an open file has ended before it: %v", code)
	}
	s.release(first)
	if code := s.awaitLock(second, other, unix.F_WRLCK); !code.Ok() {
		t.Fatalf("the lock of an open file outlives it: %v", code)
	}
	s.flush(second, other)

	third := s.open(unix.O_RDWR)
	if code := s.awaitLock(third, process, unix.F_WRLCK); !code.Ok() {
		t.Fatal(code)
	}
	s.flush(third, process)
	if code := s.awaitLock(second, process, unix.F_WRLCK); !code.Ok() {
		t.Fatal(code)
	}
	s.release(third) // the kernel tells later
	if code := s.lock(second, other, unix.F_WRLCK); code != fuse.EAGAIN {
		t.Errorf("a process has lost its lock by a file that it had closed: %v", code)
	}
}
