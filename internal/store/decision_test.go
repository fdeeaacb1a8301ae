package store_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

var errRefused = errors.New("refused")

// A write is carried out only while what allowed it is so: the decision is made anew when a row that it read has
// changed, appeared or gone, and refuses the write if it would refuse it now.
func TestWritesHoldWhatTheirDecisionRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		read    string // by the decision
		between func(ctx context.Context, boats store.Table[boat]) error
		allowed bool // after between
		times   int  // that it is decided
	}{
		"nothing happens":        {"a", nothing, true, 1},
		"another row changes":    {"a", put("c", "c"), true, 1},
		"the row changes":        {"a", put("a", "b"), false, 2},
		"the row stays good":     {"a", put("a", "good"), true, 2},
		"the row is deleted":     {"a", remove("a"), false, 2},
		"the row appears":        {"b", put("b", "b"), false, 2},
		"the row is made anew":   {"a", both(remove("a"), put("a", "bad")), false, 2},
		"one that was not there": {"b", nothing, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := storetest.New(t)
			boats := store.NewTable[boat](s, "boats")
			if _, err := boats.Create(ctx, "a", boat{Name: "good"}); err != nil {
				t.Fatal(err)
			}
			times := 0
			allows := func(recorded context.Context) error {
				times++
				row, err := boats.Get(recorded, test.read)
				if errors.Is(err, store.ErrNotFound) && test.read == "b" {
					return nil
				}
				if row.Value.Name != "good" {
					return errRefused
				}
				return nil
			}
			bound, decision, err := store.Decide(ctx, allows)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.between(ctx, boats); err != nil {
				t.Fatal(err)
			}
			_, err = boats.Create(bound, "made", boat{})
			if test.allowed != (err == nil) || !test.allowed && !errors.Is(err, errRefused) {
				t.Errorf("the write: %v", err)
			}
			if times != test.times {
				t.Errorf("decided %d times, not %d", times, test.times)
			}
			if _, err := boats.Get(ctx, "made"); test.allowed != (err == nil) {
				t.Errorf("the row: %v", err)
			}
			decision.Release()
			if _, err := boats.Create(bound, "later", boat{}); err != nil {
				t.Errorf("a write after the decision ended: %v", err)
			}
		})
	}
}

// A decision may read more rows than etcd compares in a transaction.
func TestDecisionsByManyRows(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	boats := store.NewTable[boat](storetest.New(t), "boats")
	times := 0
	bound, _, err := store.Decide(ctx, func(recorded context.Context) error {
		times++
		for i := range 500 {
			if _, err := boats.Get(recorded, strconv.Itoa(i)); err == nil {
				return errRefused
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := boats.Create(bound, "a", boat{}); err != nil || times != 1 {
		t.Fatalf("decided %d times: %v", times, err)
	}
	if _, err := boats.Create(ctx, "250", boat{}); err != nil {
		t.Fatal(err)
	}
	if _, err := boats.Create(bound, "b", boat{}); !errors.Is(err, errRefused) || times != 2 {
		t.Fatalf("decided %d times: %v", times, err)
	}
}

// What a request writes itself is no reason to decide anew, and what others write later is.
func TestOwnWritesLeaveTheDecision(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	boats := store.NewTable[boat](storetest.New(t), "boats")
	if _, err := boats.Create(ctx, "a", boat{}); err != nil {
		t.Fatal(err)
	}
	times := 0
	bound, _, err := store.Decide(ctx, func(recorded context.Context) error {
		times++
		_, errA := boats.Get(recorded, "a")
		_, errB := boats.Copy(recorded, "b")
		if slices.ContainsFunc([]error{errA, errB}, func(err error) bool {
			return err != nil &&
				!errors.Is(err, store.ErrNotFound)
		}) {
			return errors.Join(errA, errB)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	row, err := boats.Modify(bound, "a", func(b *boat) error { b.Oars++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := boats.Create(bound, "b", boat{}); err != nil {
		t.Fatal(err)
	}
	if err := boats.Delete(bound, row); err != nil {
		t.Fatal(err)
	}
	if _, err := boats.Create(bound, "a", boat{}); err != nil || times != 1 {
		t.Fatalf("decided %d times: %v", times, err)
	}
	if _, err := boats.Modify(ctx, "b", func(b *boat) error { b.Oars++; return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := boats.Modify(bound, "a", func(b *boat) error { b.Oars++; return nil }); err != nil || times != 2 {
		t.Fatalf("decided %d times after another's write: %v", times, err)
	}
}

func nothing(context.Context, store.Table[boat]) error { return nil }

func put(key, name string) func(context.Context, store.Table[boat]) error {
	return func(ctx context.Context, boats store.Table[boat]) error {
		_, err := boats.Put(ctx, key, boat{Name: name})
		return err
	}
}

func remove(key string) func(context.Context, store.Table[boat]) error {
	return func(ctx context.Context, boats store.Table[boat]) error {
		row, err := boats.Get(ctx, key)
		if err != nil {
			return err
		}
		return boats.Delete(ctx, row)
	}
}

func both(first, then func(context.Context, store.Table[boat]) error) func(context.Context, store.Table[boat]) error {
	return func(ctx context.Context, boats store.Table[boat]) error {
		return errors.Join(first(ctx, boats), then(ctx, boats))
	}
}
