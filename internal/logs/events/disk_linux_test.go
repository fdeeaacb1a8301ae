package events

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// small mounts a small file system.
func small(t *testing.T, mib int) string {
	t.Helper()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// leave fills a file system with one file until only so many bytes are free.
func leave(t *testing.T, dir, name string, free uint64) (file string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var usage syscall.Statfs_t
	if err := syscall.Statfs(dir, &usage); err != nil {
		t.Fatal(err)
	}
	if taken := int64(usage.Bavail*uint64(usage.Bsize)) - int64(free); taken > 0 {
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, taken); err != nil {
			t.Fatal(err)
		}
	}
	return f.Name()
}

func TestFullDiskRefusesAndGoesOnWithSpace(t *testing.T) {
	t.Parallel()
	dir := small(t, 64)
	s := open(t, filepath.Join(dir, "store"), Options{SealBytes: 1 << 20, MinFree: 16 << 20})
	file := leave(t, dir, "other", 30<<20)
	events := int64(0)
	var err error
	for i := range uint64(200) {
		b := noise(i, 500_000)
		if _, err = s.Append(t.Context(), b); err != nil {
			break
		}
		events += int64(len(b.Events))
	}
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("after %d events: %v", events, err)
	}
	if err := s.SetMarks(map[string][]byte{"a": {1}}); !errors.Is(err, ErrFull) {
		t.Errorf("a mark is set: %v", err)
	}
	if err := everything(s, 1); err != nil {
		t.Errorf("the events cannot be read: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	b := noise(1000, 500_000)
	if _, err := s.Append(t.Context(), b); err != nil {
		t.Fatalf("it does not go on: %v", err)
	}
	events += int64(len(b.Events))
	if got := s.GroupStat(1).Events; got != events {
		t.Errorf("there are %d events of %d", got, events)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, filepath.Join(dir, "store"), Options{})
	if err := everything(s, 1); err != nil {
		t.Error(err)
	}
	if got := s.GroupStat(1).Events; got != events {
		t.Errorf("after a restart there are %d events of %d", got, events)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDiskThatFillsUpDuringAppendHoldsIt(t *testing.T) {
	t.Parallel()
	dir := small(t, 64)
	s := open(t, filepath.Join(dir, "store"), Options{MinFree: 64 << 10})
	file := leave(t, dir, "other", 100<<10)
	done := make(chan error, 1)
	go func() {
		var err error
		for i := range uint64(20) { // more than the log has reserved
			if _, err = s.Append(context.Background(), noise(i, 500_000)); err != nil {
				break
			}
		}
		done <- err
	}()
	// It ends with ErrFull, or it waits for space in the middle of a write.
	select {
	case err := <-done:
		if !errors.Is(err, ErrFull) {
			t.Errorf("on a full disk it ends with %v", err)
		}
		done <- nil
	case <-time.After(2 * time.Second):
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("with space again, it ends with %v", err)
	}
	if _, err := s.Append(t.Context(), noise(100, 500_000)); err != nil {
		t.Errorf("it does not go on: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = open(t, filepath.Join(dir, "store"), Options{})
	if err := everything(s, 1); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseOnAFullDiskKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	dir := small(t, 64)
	s := open(t, filepath.Join(dir, "store"), Options{MinFree: 64 << 10})
	leave(t, dir, "other", 100<<10)
	acknowledged := make(chan int64, 1)
	go func() {
		n := int64(0)
		for i := uint64(0); ; i++ {
			b := noise(i, 300_000)
			if _, err := s.Append(context.Background(), b); err != nil {
				acknowledged <- n
				return
			}
			n += int64(len(b.Events))
		}
	}()
	// It ends by itself with ErrFull, or it waits for space in the middle of a write.
	var n int64
	select {
	case n = <-acknowledged:
		_ = s.Close()
	case <-time.After(2 * time.Second):
		_ = s.Close() // may report the full disk
		n = <-acknowledged
	}
	if err := os.Remove(filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	s = open(t, filepath.Join(dir, "store"), Options{})
	if got := s.GroupStat(1).Events; got < n {
		t.Errorf("%d events are there of %d", got, n)
	}
	if err := everything(s, 1); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
