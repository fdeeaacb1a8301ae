package events

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/eventually"
)

func count(t *testing.T, s *Store, id GroupID, r Range) (n int) {
	t.Helper()
	if r.To == 0 {
		r.To = 1 << 60
	}
	for _, err := range s.Events(t.Context(), id, r) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// shrinksTo waits until the store takes at most so many bytes: Pebble removes files in the background.
func shrinksTo(t *testing.T, s *Store, want int64) {
	t.Helper()
	eventually.Nil(t, fmt.Sprintf("at most %d bytes are left", want), func() error {
		if got := s.DiskBytes(); got > want {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}

func TestDeletedDiskSpaceReturns(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*Store) error{
		"group": func(s *Store) error { return s.DeleteGroup(1) },
		"streams": func(s *Store) error {
			return errors.Join(s.DeleteStream(1, 1), s.DeleteStream(1, 2))
		},
		"time": func(s *Store) error { return s.Expire(1, 1<<50) },
	} {
		for hot, sealBytes := range map[string]int64{"sealed": 256 << 10, "not sealed": 0} {
			t.Run(name+" "+hot, func(t *testing.T) {
				t.Parallel()
				s := open(t, t.TempDir(), Options{SealBytes: sealBytes})
				for i := range uint64(8) {
					b := noise(i, 500_000)
					for j := range b.Events {
						b.Events[j].Stream, b.Events[j].Timestamp = StreamID(1+i%2), int64(i)
					}
					if _, err := s.Append(t.Context(), b); err != nil {
						t.Fatal(err)
					}
				}
				waitIdle(t, s)
				before := s.DiskBytes()
				if before < 3_500_000 {
					t.Fatalf("4 MB take %d bytes", before)
				}
				if err := remove(s); err != nil {
					t.Fatal(err)
				}
				if n := count(t, s, 1, Range{}); n != 0 {
					t.Errorf("%d events are there", n)
				}
				if stat := s.GroupStat(1); stat != (GroupStat{}) {
					t.Errorf("it still has %+v", stat)
				}
				waitIdle(t, s)
				shrinksTo(t, s, before/8)
				if g := s.findGroup(1); g != nil && len(g.dead) > 0 && hot == "sealed" {
					t.Errorf("streams %v are not forgotten", g.dead)
				}
			})
		}
	}
}

func TestPartlyDeletedPartIsRewritten(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealBytes: 1 << 20})
	b := noise(1, 1_100_000)
	for i := range b.Events {
		b.Events[i].Stream = StreamID(1 + i%5/4) // four fifths are of stream 1
	}
	if _, err := s.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	waitIdle(t, s)
	before := s.DiskBytes()
	if err := s.DeleteStream(1, 1); err != nil {
		t.Fatal(err)
	}
	waitIdle(t, s)
	shrinksTo(t, s, before/3)
	if n := count(t, s, 1, Range{}); n != len(b.Events)/5 {
		t.Errorf("%d events are left of %d", n, len(b.Events))
	}
}

func TestViewOutlivesDeletion(t *testing.T) {
	t.Parallel()
	s, p := sealed(t)
	v, err := s.View(1, 0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteGroup(1); err != nil {
		t.Fatal(err)
	}
	waitIdle(t, s)
	rows := 0
	for _, b := range v.Blocks() {
		m, err := b.Messages()
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
		rows += b.Len()
	}
	if rows != 700 {
		t.Errorf("the view has %d rows", rows)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(s.parts, "*")); err != nil || len(files) != 0 {
		t.Errorf("%s is there after the last view: %v %v", p.filePath(), files, err)
	}
}

func TestSmallPartsAreMerged(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealBytes: 16 << 10})
	for i := range uint64(100) {
		if _, err := s.Append(t.Context(), noise(i, 20_000)); err != nil {
			t.Fatal(err)
		}
		waitIdle(t, s)
	}
	if n := len(s.findGroup(1).parts); n > 3*mergeParts {
		t.Errorf("there are %d parts", n)
	}
	if n := count(t, s, 1, Range{}); n != 2000 {
		t.Errorf("there are %d events", n)
	}
}

func TestWaitAndSinceFollowAGroup(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealBytes: 4 << 10})
	const events = 3000
	var follow sync.WaitGroup
	for range 3 {
		follow.Go(func() {
			var after uint64
			for n := 0; n < events; {
				if err := s.Wait(t.Context(), 1, after); err != nil {
					t.Error(err)
					return
				}
				some, err := s.Since(t.Context(), 1, after, 100)
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range some {
					if e.Seq != after+1 || e.Message != fmt.Sprint("message ", e.Timestamp) {
						t.Errorf("after %d comes %+v", after, e)
						return
					}
					after = e.Seq
				}
				n += len(some)
			}
		})
	}
	var write sync.WaitGroup
	for w := range 3 {
		write.Go(func() {
			for i := range events / 3 / 10 {
				b := Batch{Group: 1}
				for j := range 10 {
					n := int64(w*events + i*10 + j)
					b.Events = append(b.Events, Event{Stream: StreamID(1 + w), Timestamp: n,
						Message: fmt.Sprint("message ", n)})
				}
				if _, err := s.Append(t.Context(), b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	write.Wait()
	follow.Wait()
}

func TestWaitIsNotWokenByWhatIsDeleted(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	if err := s.Expire(1, 100); err != nil {
		t.Fatal(err)
	}
	appendOne := func(timestamp int64) uint64 {
		seq, err := s.Append(t.Context(),
			Batch{Group: 1, Events: []Event{{Stream: 1, Timestamp: timestamp, Message: "m"}}})
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	first := appendOne(200)
	if err := s.Expire(1, 150); err != nil {
		t.Fatal(err)
	}
	appendOne(120) // too old to be shown
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if some, err := s.Since(t.Context(), 1, first, 10); err != nil || len(some) != 0 {
		t.Errorf("got %v, %v", some, err)
	}
	if err := s.Wait(ctx, 1, first); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting ends with %v", err)
	}
	last := appendOne(300)
	if err := s.Wait(ctx, 1, first); err != nil {
		t.Error(err)
	}
	if some, err := s.Since(t.Context(), 1, first, 10); err != nil || len(some) != 1 || some[0].Seq != last {
		t.Errorf("got %v, %v", some, err)
	}
	done := make(chan error)
	go func() { done <- s.Wait(context.Background(), 1, last) }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("waiting ends with %v", err)
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{})
	if err := s.SetMarks(map[string][]byte{"a/1": []byte("x"), "a/2": {}, "b": []byte("y"),
		"a\xff": []byte("z")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), Batch{Group: 1, Events: []Event{{Stream: 1, Message: "m"}},
		Marks: map[string][]byte{"a/1": []byte("new"), "b": nil}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	for prefix, want := range map[string]map[string][]byte{
		"a/":    {"a/1": []byte("new"), "a/2": {}},
		"":      {"a/1": []byte("new"), "a/2": {}, "a\xff": []byte("z")},
		"a\xff": {"a\xff": []byte("z")},
		"c":     {},
	} {
		if got, err := s.Marks(prefix); err != nil || gocmp.Diff(want, got) != "" {
			t.Errorf("marks %q: %q, %v", prefix, got, err)
		}
	}
	if got, err := s.Mark("b"); err != nil || got != nil {
		t.Errorf("a deleted mark is %q, %v", got, err)
	}
	if got, err := s.Mark("a/1"); err != nil || string(got) != "new" {
		t.Errorf("the mark is %q, %v", got, err)
	}
}

func TestCheckpointIsOneMoment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "store"), Options{SealBytes: 16 << 10})
	stop := make(chan struct{})
	var write sync.WaitGroup
	write.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := s.Append(context.Background(), Batch{
				Group: 1, Events: childEvents(n), Marks: map[string][]byte{"n": []byte(fmt.Sprint(n))},
			}); err != nil {
				t.Error(err)
				return
			}
			if n%40 == 39 {
				if err := s.Expire(1, int64(n-20)*1000); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for i := range 5 {
		if err := s.Wait(t.Context(), 1, uint64(i*1000)); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, fmt.Sprint("copy", i))
		if err := s.Checkpoint(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		c := open(t, to, Options{SealBytes: 16 << 10})
		mark, err := c.Mark("n")
		if err != nil {
			t.Fatal(err)
		}
		var last Event
		n := 0
		for e, err := range c.Events(t.Context(), 1, Range{To: 1 << 60}) {
			if err != nil {
				t.Fatal(err)
			}
			last = e
			n++
		}
		if got := fmt.Sprint(last.Timestamp / 1000); got != string(mark) {
			t.Errorf("the last batch is %s, and the mark %s", got, mark)
		}
		if stat := c.GroupStat(1); stat.Events != int64(n) {
			t.Errorf("it has %d events of %d", n, stat.Events)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	write.Wait()
	if err := s.Checkpoint(t.Context(), filepath.Join(dir, "copy0")); err == nil {
		t.Error("it writes over what is there")
	}
}
