package events

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sealed is a store with some audit events in one part.
func sealed(t *testing.T) (*Store, *part) {
	t.Helper()
	s := open(t, t.TempDir(), Options{SealBytes: 64 << 10})
	fill(t, s, 1, corpus(t, 700))
	settle(t, s)
	g := s.find(1)
	if len(g.parts) == 0 {
		t.Fatal("nothing was sealed")
	}
	return s, g.parts[0]
}

func settle(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// everything reads all that can be read of a group.
func everything(s *Store, id GroupID) error {
	v, err := s.View(id, 0, 1<<60)
	if err != nil {
		return err
	}
	defer v.Close()
	for _, b := range v.Blocks() {
		_, err := b.Rows()
		if err != nil {
			return err
		}
		m, err := b.Messages()
		if err != nil {
			return err
		}
		m.Release()
		paths, err := b.Columns()
		if err != nil {
			return err
		}
		for _, p := range paths {
			if _, ok, err := b.Column(p); err != nil || !ok {
				return errors.Join(err, fmt.Errorf("column %s: %v", p, ok))
			}
		}
	}
	for _, err := range s.Events(context.Background(), id, Range{To: 1 << 60}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestDamageIsReportedWithTheFile(t *testing.T) {
	t.Parallel()
	s, p := sealed(t)
	if err := everything(s, 1); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(p.path())
	if err != nil {
		t.Fatal(err)
	}
	filter := func() section {
		v, err := s.View(1, 0, 1<<60)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		tail, err := v.tail(v.blocks[0])
		if err != nil {
			t.Fatal(err)
		}
		return tail.directory.filter
	}()
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		i := random.IntN(len(whole))
		if i >= filter.at && i < filter.at+filter.size {
			continue // a filter that can't be read filters nothing
		}
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 1 << random.IntN(8)
		if err := os.WriteFile(p.path(), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := everything(s, 1); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), p.path()) {
			t.Fatalf("byte %d of %d is wrong: %v", i, len(whole), err)
		}
	}
	if err := os.WriteFile(p.path(), whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := everything(s, 1); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), p.path()) {
		t.Errorf("the file is too short: %v", err)
	}
	if err := os.Remove(p.path()); err != nil {
		t.Fatal(err)
	}
	if err := everything(s, 1); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), p.path()) {
		t.Errorf("the file is gone: %v", err)
	}
}

func TestWhatCannotBeSealedStopsAppendUntilItCan(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealBytes: 32 << 10})
	if err := os.Rename(s.parts, s.parts+".away"); err != nil {
		t.Fatal(err)
	}
	batch := Batch{Group: 1}
	for _, m := range corpus(t, 20) {
		batch.Events = append(batch.Events, Event{Stream: 1, Message: m})
	}
	var err error
	appended := 0
	for range 100 {
		if _, err = s.Append(t.Context(), batch); err != nil {
			break
		}
		appended++
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("after %d batches: %v", appended, err)
	}
	if stat := s.GroupStat(1); stat.Events != int64(appended*20) {
		t.Errorf("there are %d events of %d", stat.Events, appended*20)
	}
	if err := os.Rename(s.parts+".away", s.parts); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), batch); err != nil {
		t.Errorf("it does not go on: %v", err)
	}
	settle(t, s)
	if err := everything(s, 1); err != nil {
		t.Error(err)
	}
	if g := s.find(1); len(g.parts) == 0 {
		t.Error("nothing was sealed")
	}
}

// small mounts a small file system.
func small(t *testing.T, mib int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
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

// noise is a batch that doesn't compress.
func noise(seed uint64, bytes int) Batch {
	random := rand.New(rand.NewPCG(seed, 1))
	b := Batch{Group: 1}
	for range bytes / 1000 {
		m := make([]byte, 1000)
		for i := range m {
			m[i] = byte(random.Uint32())
		}
		b.Events = append(b.Events, Event{Stream: 1, Message: string(m)})
	}
	return b
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
