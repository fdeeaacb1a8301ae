package events

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// sealed returns a store with some audit events in one part.
func sealed(t *testing.T) (*Store, *part) {
	t.Helper()
	s := open(t, t.TempDir(), Options{SealBytes: 64 << 10})
	fill(t, s, 1, corpus(t, 700))
	waitIdle(t, s)
	g := s.findGroup(1)
	if len(g.parts) == 0 {
		t.Fatal("nothing was sealed")
	}
	return s, g.parts[0]
}

func waitIdle(t *testing.T, s *Store) {
	t.Helper()
	if err := s.WaitIdle(t.Context()); err != nil {
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
	whole, err := os.ReadFile(p.filePath())
	if err != nil {
		t.Fatal(err)
	}
	filter := func() section {
		v, err := s.View(1, 0, 1<<60)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		tail, err := v.readTail(v.blocks[0])
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
		if err := os.WriteFile(p.filePath(), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := everything(s, 1); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), p.filePath()) {
			t.Fatalf("byte %d of %d is wrong: %v", i, len(whole), err)
		}
	}
	if err := os.WriteFile(p.filePath(), whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := everything(s, 1); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), p.filePath()) {
		t.Errorf("the file is too short: %v", err)
	}
	if err := os.Remove(p.filePath()); err != nil {
		t.Fatal(err)
	}
	if err := everything(s, 1); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), p.filePath()) {
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
	waitIdle(t, s)
	if err := everything(s, 1); err != nil {
		t.Error(err)
	}
	if g := s.findGroup(1); len(g.parts) == 0 {
		t.Error("nothing was sealed")
	}
}

// noise returns a batch that doesn't compress.
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
