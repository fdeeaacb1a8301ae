package logquery

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Each block of a query may have other columns: what a scan keeps of them does not add up.
func TestColumnsOfBlocksAreForgotten(t *testing.T) {
	t.Parallel()
	s := &scan{columns: make([]column, 100)}
	for i := range s.columns {
		s.columns[i] = column{loaded: true, values: make([]value.Value, 4096), known: make([]bool, 4096)}
		s.columns[i].values[7] = value.String("text")
		s.columns[i].values = s.columns[i].values[:5]
	}
	s.forgetColumns()
	kept := 0
	for i, c := range s.columns {
		if kept += cap(c.values); c.loaded {
			t.Errorf("column %d is still there", i)
		}
		for _, v := range c.values[:cap(c.values)] {
			if !v.IsNull() {
				t.Fatalf("column %d has kept %s", i, v)
			}
		}
	}
	if kept == 0 || kept > keptValues {
		t.Errorf("there is memory for %d values", kept)
	}
}

// A group may have as many streams as its account has room for: a query reads a few of them at a time.
func TestStreamsAreReadAFewAtATime(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.group("g")
	const streams = 3*streamsAtOnce + 1
	for first := 0; first < streams; first += 100 {
		var ops []store.Op
		for i := first; i < min(first+100, streams); i++ {
			name := fmt.Sprint("stream-", i)
			ops = append(ops, record.LogStreams(l.store).CreateOp(record.LogStreamKey(g.ID, name),
				record.LogStream{Account: account, GroupID: g.ID, Name: name, ID: uint64(i + 1)}))
		}
		if err := l.store.Txn(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	e := newExecution(New(Options{Store: l.store, Events: l.events, Dir: t.TempDir()}), record.LogQuery{})
	var largest, all int64
	ctx := store.Metered(t.Context(), func(bytes int64) error {
		largest, all = max(largest, bytes), all+bytes
		return nil
	})
	names := map[events.StreamID]string{}
	if err := e.readStreams(ctx, g.ID, names); err != nil || len(names) != streams || names[7] != "stream-6" {
		t.Errorf("%d streams, %v", len(names), err)
	}
	if largest > all/2 {
		t.Errorf("%d bytes of %d are read at once", largest, all)
	}
}

// A test of one value may take as long as one of an event, and a column has thousands of values.
func TestAQueryEndsWithinAValue(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(context.Context, *scan, *insights.Condition) error{
		"excluded": func(ctx context.Context, s *scan, c *insights.Condition) error {
			_, err := s.isExcluded(ctx, c)
			return err
		},
		"narrowed": func(ctx context.Context, s *scan, c *insights.Condition) error {
			return s.narrowSelection(ctx, c, bitmap{1})
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stored := &events.Column{Codes: []uint16{events.NoValue}}
		for i := range 100 {
			stored.Values = append(stored.Values, fmt.Sprint(i))
		}
		s := &scan{sources: []fieldSource{fromJSON}, columns: []column{{loaded: true, stored: stored,
			values: make([]value.Value, 100), known: make([]bool, 100)}}}
		tested := 0
		err := look(ctx, s, &insights.Condition{Test: func(value.Value) bool {
			if tested++; tested == 10 {
				cancel()
			}
			return false
		}})
		if !errors.Is(err, context.Canceled) || tested != 10 {
			t.Errorf("%s: %v, after %d values", name, err, tested)
		}
	}
}
