package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// ended returns a context that has ended with a cause.
func ended(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

func TestALockIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prepare func(name string) error
		err     string
	}{
		{"there is none", func(string) error { return nil }, ""},
		{"open to others", func(name string) error {
			return errors.Join(os.WriteFile(name, nil, 0o600), os.Chmod(name, 0o666))
		}, ""},
		{"a symbolic link", func(name string) error {
			return os.Symlink(filepath.Join(filepath.Dir(name), "other"),
				name)
		}, "symbolic link"},
		{"a FIFO", func(name string) error { return unix.Mkfifo(name, 0o600) }, "no regular file"},
		{"a directory", func(name string) error { return os.Mkdir(name, 0o700) }, "is a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := filepath.Join(t.TempDir(), "lock")
			if err := c.prepare(name); err != nil {
				t.Fatal(err)
			}
			unlock, err := Lock(t.Context(), name, nil)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), name) {
					t.Errorf("error is %v, want one about %s that says %q", err, name, c.err)
				}
				if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
					t.Errorf("there is %v, %v", left, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
				t.Errorf("mode is %v, %v", info.Mode(), err)
			}
		})
	}
}

func TestALockOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "lock")
	if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Chown(name, 65534, -1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(t.Context(), name, nil); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("error is %v", err)
	}
	// Who owns the directory is trusted with what is in it.
	if err := os.Chown(dir, 65534, -1); err != nil {
		t.Fatal(err)
	}
	unlock, err := Lock(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestAWaitEndsAndSaysWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), name, func() { t.Error("nobody holds it") })
	if err != nil {
		t.Fatal(err)
	}
	waited := 0
	cause := errors.New("enough")
	_, err = Lock(ended(cause), name, func() { waited++ })
	comm, _ := os.ReadFile("/proc/self/comm")
	if who := fmt.Sprintf("process %d (%s) holds it", os.Getpid(), strings.TrimSpace(string(comm))); !errors.Is(err,
		cause) || !strings.Contains(err.Error(), who) {
		t.Errorf("error is %v, want one that says %q", err, who)
	}
	if waited != 1 {
		t.Errorf("%d waits were announced", waited)
	}

	// One that waits gets it as soon as it is free.
	waiting, got := make(chan struct{}), make(chan error, 1)
	go func() {
		unlock, err := Lock(t.Context(), name, func() { close(waiting) })
		if err == nil {
			unlock()
		}
		got <- err
	}()
	<-waiting
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestTheLockExcludes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, counter := filepath.Join(dir, "lock"), filepath.Join(dir, "counter")
	if err := os.WriteFile(counter, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	const workers, rounds = 4, 5
	done := make(chan error, workers)
	for range workers {
		go func() {
			done <- func() error {
				for range rounds {
					unlock, err := Lock(t.Context(), name, nil)
					if err != nil {
						return err
					}
					text, err := os.ReadFile(counter)
					if err != nil {
						return err
					}
					n, err := strconv.Atoi(string(text))
					if err := errors.Join(err, os.WriteFile(counter, []byte(strconv.Itoa(n+1)), 0o600)); err != nil {
						return err
					}
					unlock()
				}
				return nil
			}()
		}()
	}
	for range workers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if text, _ := os.ReadFile(counter); string(text) != strconv.Itoa(workers*rounds) {
		t.Errorf("counted %s, want %d", text, workers*rounds)
	}
}
