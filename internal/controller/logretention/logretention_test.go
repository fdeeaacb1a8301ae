package logretention_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/controller/logretention"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

var today = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// fixture is both stores with the controllers running.
type fixture struct {
	t       *testing.T
	store   *store.Store
	groups  store.Table[record.LogGroup]
	streams store.Table[record.LogStream]
	events  *events.Store
	clock   *clocktesting.FakeClock
}

// newFixture runs the controllers once prepare has returned.
func newFixture(t *testing.T, prepare func(*fixture)) *fixture {
	t.Helper()
	s := storetest.New(t)
	w := &fixture{t: t, store: s, groups: record.LogGroups(s), streams: record.LogStreams(s),
		clock: clocktesting.NewFakeClock(today)}
	var err error
	if w.events, err = events.Open(t.TempDir(), events.Options{}); err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	l := logretention.New(logretention.Options{Store: s, Events: w.events, Clock: w.clock})
	go func() { done <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), l.Controllers()...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := w.events.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *fixture) group(id uint64, name string, edit func(*record.LogGroup)) {
	w.t.Helper()
	g := record.LogGroup{Account: "111122223333", Region: "eu-west-1", Name: name, ID: id}
	if edit != nil {
		edit(&g)
	}
	if _, err := w.groups.Put(w.t.Context(), record.LogGroupKey(g.Account, g.Region, name), g); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) stream(group, id uint64, name string) {
	w.t.Helper()
	if _, err := w.streams.Put(w.t.Context(), record.LogStreamKey(group, name), record.LogStream{GroupID: group,
		Name: name, ID: id}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) remove(op store.Op) {
	w.t.Helper()
	if err := w.store.Txn(w.t.Context(), op); err != nil {
		w.t.Fatal(err)
	}
}

// put appends n events of a KiB that doesn't compress.
func (w *fixture) put(group, stream uint64, at time.Time, n int) {
	w.t.Helper()
	b := events.Batch{Group: events.GroupID(group)}
	for range n {
		random := make([]byte, 512)
		if _, err := rand.Read(random); err != nil {
			w.t.Fatal(err)
		}
		b.Events = append(b.Events, events.Event{Stream: events.StreamID(stream), Timestamp: at.UnixMilli(),
			Ingested: at.UnixMilli(), Message: hex.EncodeToString(random)})
	}
	if _, err := w.events.Append(w.t.Context(), b); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) count(group uint64) int64 { return w.events.GroupStat(events.GroupID(group)).Events }

// What a deleted group, or one created again under its name, leaves behind goes: its streams' rows, its events, and
// their bytes on the disk.
func TestWhatAGroupLeavesGoes(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nil)
	empty := w.events.DiskBytes()
	w.group(1, "gone", nil)
	w.stream(1, 11, "s")
	w.put(1, 11, today, 4000)
	w.group(2, "again", nil)
	w.stream(2, 21, "s")
	w.put(2, 21, today, 4000)
	w.group(3, "kept", nil)
	w.stream(3, 31, "s")
	w.put(3, 31, today, 1)
	history := uint64(events.Reserved) + 3 // CloudTrail's, which is no log group
	w.put(history, 1, today, 1)
	full := w.events.DiskBytes()

	w.remove(w.groups.RemoveOp(record.LogGroupKey("111122223333", "eu-west-1", "gone")))
	w.group(4, "again", nil)
	w.stream(4, 41, "s")
	w.put(4, 41, today, 1)
	eventually.True(t, "the events go", func() bool { return w.count(1) == 0 && w.count(2) == 0 })
	eventually.True(t, "the rows of the streams go", func() bool {
		_, err1 := w.streams.Get(t.Context(), record.LogStreamKey(1, "s"))
		_, err2 := w.streams.Get(t.Context(), record.LogStreamKey(2, "s"))
		return errors.Is(err1, store.ErrNotFound) && errors.Is(err2, store.ErrNotFound)
	})
	if w.count(3) != 1 || w.count(4) != 1 || w.count(history) != 1 {
		t.Errorf("the others have %d, %d and %d events", w.count(3), w.count(4), w.count(history))
	}
	eventually.True(t, "the disk space returns", func() bool { return w.events.DiskBytes()-empty < (full-empty)/8 })
}

// Streams that were written before their rows had an account are charged to their group's.
func TestStreamsAreChargedToTheAccountOfTheirGroup(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(w *fixture) {
		w.group(1, "g", nil)
		w.stream(1, 11, "s")
	})
	eventually.True(t, "the row has the account of the group", func() bool {
		row, err := w.streams.Get(t.Context(), record.LogStreamKey(1, "s"))
		return err == nil && row.Value == record.LogStream{Account: "111122223333", GroupID: 1, Name: "s", ID: 11}
	})
}

// A stream's events go with it, also when its name is used again at once.
func TestWhatAStreamLeavesGoes(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(w *fixture) {
		w.group(1, "g", nil)
		w.stream(1, 11, "gone")
		w.stream(1, 12, "again")
		w.stream(1, 13, "kept")
		for _, id := range []uint64{11, 12, 13, 14} { // 14 lost its row while no controller ran
			w.put(1, id, today, 10)
		}
	})
	eventually.True(t, "what was left before goes", func() bool { return !slices.Contains(w.events.Streams(1), 14) })
	w.remove(w.streams.RemoveOp(record.LogStreamKey(1, "gone")))
	w.stream(1, 15, "again")
	w.put(1, 15, today, 1)
	eventually.True(t, "only 13 and 15 are left",
		func() bool { return slices.Equal(w.events.Streams(1), []events.StreamID{13, 15}) })
}

// An event that was appended to a group which was gone by then is found within the hour.
func TestLateEventsGo(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(w *fixture) { w.put(1, 11, today, 1) })
	eventually.True(t, "what was left before goes", func() bool { return w.count(1) == 0 })
	w.put(2, 21, today, 1)
	eventually.True(t, "an hour passes, and it goes", func() bool {
		if w.clock.HasWaiters() {
			w.clock.Step(time.Hour)
		}
		return w.count(2) == 0
	})
}

// Retention deletes when it is set, and each hour from then on, on the disk as well.
func TestRetention(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nil)
	empty := w.events.DiskBytes()
	w.group(1, "g", nil)
	w.stream(1, 11, "s")
	w.put(1, 11, today.Add(-100*time.Hour), 4000)
	w.put(1, 11, today.Add(-71*time.Hour), 4000)
	w.put(1, 11, today.AddDate(10, 0, 0), 10) // so many hours do not pass here
	w.group(2, "for ever", nil)
	w.stream(2, 21, "s")
	w.put(2, 21, today.Add(-100*time.Hour), 10)
	full := w.events.DiskBytes()

	w.group(1, "g", func(g *record.LogGroup) { g.RetentionDays = 3 })
	eventually.True(t, "what is older goes", func() bool { return w.count(1) == 4010 })
	eventually.True(t, "what has expired since goes", func() bool {
		w.clock.Step(time.Hour)
		return w.count(1) == 10
	})
	eventually.True(t, "the disk space returns", func() bool { return w.events.DiskBytes()-empty < (full-empty)/8 })
	if w.count(2) != 10 {
		t.Errorf("a group without retention has %d events", w.count(2))
	}
}

// A pass over what groups have left reads a few streams at a time, of which an account may have several hundred
// thousand, and removes those of a group that is gone.
func TestStreamsAreReadAFewAtATime(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	w := &fixture{t: t, store: s, groups: record.LogGroups(s), streams: record.LogStreams(s)}
	var err error
	if w.events, err = events.Open(t.TempDir(), events.Options{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.events.Close(); err != nil {
			t.Error(err)
		}
	}()
	w.group(1, "kept", nil)
	w.put(1, 7, today, 1)
	w.put(1, 9999, today, 1) // a stream that is gone
	const kept, gone = 3001, 250
	for first := 0; first < kept+gone; first += 100 {
		var ops []store.Op
		for i := first; i < min(first+100, kept+gone); i++ {
			stream := record.LogStream{Account: "111122223333", GroupID: 1, Name: fmt.Sprint("s-", i), ID: uint64(i + 1)}
			if i >= kept {
				stream.GroupID = 2
			}
			ops = append(ops, w.streams.CreateOp(record.LogStreamKey(stream.GroupID, stream.Name), stream))
		}
		if err := s.Txn(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	c := logretention.New(logretention.Options{Store: s, Events: w.events}).Controllers()[1]
	var largest, all int64
	if _, err := c.Reconcile(store.Metered(t.Context(), func(bytes int64) error {
		largest, all = max(largest, bytes), all+bytes
		return nil
	}), "*"); err != nil {
		t.Fatal(err)
	}
	// It reads those of the group that is kept twice.
	if largest > all/5 {
		t.Errorf("%d bytes of %d are read at once", largest, all)
	}
	for group, want := range map[uint64]int{1: kept, 2: 0} {
		if n := w.streams.Count(record.LogStreamKey(group, "")); n != want {
			t.Errorf("group %d has %d streams, want %d", group, n, want)
		}
	}
	if n := w.count(1); n != 1 {
		t.Errorf("%d events are left", n)
	}
}
