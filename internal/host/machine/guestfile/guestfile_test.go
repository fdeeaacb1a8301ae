//go:build linux

package guestfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// hostile makes something in a directory that a machine can write.
var hostile = map[string]func(t *testing.T, path, secret string) error{
	"a link to a file of the host": func(_ *testing.T, path, secret string) error { return os.Symlink(secret, path) },
	"a link beside it":             func(_ *testing.T, path, _ string) error { return os.Symlink("other", path) },
	"a second name of a file":      func(_ *testing.T, path, secret string) error { return os.Link(secret, path) },
	"a FIFO without a writer":      func(_ *testing.T, path, _ string) error { return unix.Mkfifo(path, 0o644) },
	"a directory":                  func(_ *testing.T, path, _ string) error { return os.Mkdir(path, 0o755) },
	"a socket": func(t *testing.T, path, _ string) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { unix.Close(fd) })
		return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	},
	"a device": func(t *testing.T, path, _ string) error {
		testenv.NeedsRoot(t)
		return unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) // /dev/zero
	},
	"an endless file": func(_ *testing.T, path, _ string) error {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return err
		}
		return os.Truncate(path, 1<<40)
	},
}

func TestNothingButARegularFileIsRead(t *testing.T) {
	t.Parallel()
	for name, makeIt := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "g") // a short path, for the socket
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			for _, file := range []string{"secret", "other"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte("secret"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := makeIt(t, filepath.Join(dir, "report"), filepath.Join(dir, "secret")); err != nil {
				t.Fatal(err)
			}
			if data, err := Read(dir, "report", 16); err == nil || len(data) > 0 {
				t.Errorf("Read returns %q, %v; want an error", data, err)
			} else if !errors.Is(err, ErrUnsafe) && !errors.Is(err, syscall.ELOOP) {
				t.Errorf("Read fails with %v", err)
			}
			if tail, _, err := ReadTail(dir, "report", 16); name != "an endless file" && err == nil {
				t.Errorf("ReadTail returns %q; want an error", tail)
			} else if len(tail) > 16 {
				t.Errorf("ReadTail returns %d bytes, want 16 at most", len(tail))
			}
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Read(dir, "report", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "report"), []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(dir, "report", 10); err != nil || string(data) != "0123456789" {
		t.Errorf("Read returns %q, %v", data, err)
	}
	_, err := Read(dir, "report", 9)
	if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "longer than 9 bytes") {
		t.Errorf("a file that is too long: %v", err)
	}
	if tail, size, err := ReadTail(dir, "report", 4); err != nil || string(tail) != "6789" || size != 10 {
		t.Errorf("ReadTail returns %q, %d, %v", tail, size, err)
	}
	for _, name := range []string{"", ".", "..", "../report", "a/report"} {
		if _, err := Read(dir, name, 10); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("name %q: %v, want ErrInvalid", name, err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(link, "report", 10); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a directory that is a link: %v, want ENOTDIR", err)
	}
}

// A machine that holds a lease on a file makes others wait for 45 seconds who open it, unless they say they do not.
func TestALeaseIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "report"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("the file system has no leases: %v", err)
	}
	if _, err := Read(dir, "report", 10); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("Read of a file with a lease: %v, want EWOULDBLOCK", err)
	}
}

func TestAFileThatIsReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, next := filepath.Join(dir, "report"), filepath.Join(dir, "next")
	if err := os.WriteFile(name, []byte("a report"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var replacing sync.WaitGroup
	replacing.Go(func() {
		for ctx.Err() == nil {
			if err := errors.Join(os.WriteFile(next, []byte("a report"), 0o600), os.Rename(next, name)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer replacing.Wait()
	defer cancel()
	for range 20000 {
		if content, err := Read(dir, "report", 100); err != nil || string(content) != "a report" {
			t.Fatalf("%q, %v", content, err)
		}
	}
}
