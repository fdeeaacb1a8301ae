package store_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

func TestAccountsAreBounded(t *testing.T) {
	t.Parallel()
	const one, two = "111111111111", "222222222222"
	clock := time.Unix(1_000_000_000, 0)
	options := store.Options{
		Prefix: storetest.Prefix(t), Log: slog.New(slog.DiscardHandler), WriteTimeout: eventually.Limit,
		Quota: store.Quota{PerAccount: 20_000, Total: 40_000, Now: func() time.Time { return clock }},
	}
	client := storetest.Client(t)
	s, err := store.Open(t.Context(), client, options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	ctx := t.Context()
	limited := store.Limited(ctx)
	full := func(err error) bool {
		var f *store.FullError
		return errors.As(err, &f) && !f.Recent
	}
	rows := store.NewTable[string](s, "rows")
	value := strings.Repeat("x", 6000)
	fill := func(account string) (n int) {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			switch _, err := rows.Create(limited, store.Key(account, name), value); {
			case full(err):
				return n
			case err != nil:
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	if n := fill(one); n != 3 {
		t.Errorf("an account of 20 kB took %d rows of 6 kB, want 3", n)
	}
	if n := fill(two); n != 3 {
		t.Errorf("another account took %d rows, want 3", n)
	}
	clock = clock.Add(11 * time.Minute) // what was written is history no more
	row, err := rows.Get(ctx, store.Key(one, "a"))
	if err != nil {
		t.Fatal(err)
	}
	row.Value += strings.Repeat("x", 500)
	if row, err = rows.Update(limited, row); err != nil {
		t.Errorf("a resource of a full account cannot be changed: %v", err)
	}
	row.Value += strings.Repeat("x", 3000)
	if _, err := rows.Update(limited, row); !full(err) {
		t.Errorf("a full account may still grow: %v", err)
	}
	if _, err := rows.Create(ctx, store.Key(one, "observed"), value); err != nil {
		t.Errorf("a controller may not write into a full account: %v", err)
	}

	// The bytes are counted anew from what a store finds.
	s.Close()
	if s, err = store.Open(ctx, client, options); err != nil {
		t.Fatal(err)
	}
	rows = store.NewTable[string](s, "rows")
	if _, err := rows.Create(limited, store.Key(one, "z"), "small"); !full(err) {
		t.Errorf("a full account may write after a restart: %v", err)
	}
	row.Value = "small"
	if _, err := rows.Update(limited, row); err != nil {
		t.Errorf("a full account may not shrink: %v", err)
	}
	for _, name := range []string{"b", "observed"} {
		row, err := rows.Get(ctx, store.Key(one, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := rows.Delete(limited, row); err != nil {
			t.Errorf("a full account may not delete: %v", err)
		}
	}
	if _, err := rows.Create(limited, store.Key(one, "z"), "small"); err != nil {
		t.Errorf("an account may not write after it has deleted: %v", err)
	}
}

// TestListsAreMetered shows that what a request lists is counted before it is decoded, and can be refused.
func TestListsAreMetered(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	rows := store.NewTable[string](s, "metered")
	for _, key := range []string{"a/1", "a/2", "b/1"} {
		if _, err := rows.Create(t.Context(), key, strings.Repeat("x", 1000)); err != nil {
			t.Fatal(err)
		}
	}
	var counted int64
	refused := errors.New("too much")
	ctx := store.Metered(t.Context(), func(bytes int64) error {
		if counted += bytes; counted > 6000 {
			return refused
		}
		return nil
	})
	if list, err := rows.List(ctx, "a/"); err != nil || len(list) != 2 || counted < 2000 || counted > 3000 {
		t.Errorf("two rows of 1,000 bytes: %d rows, %d bytes, %v", len(list), counted, err)
	}
	if list, err := rows.List(ctx, ""); !errors.Is(err, refused) || len(list) > 0 {
		t.Errorf("beyond what the meter allows: %d rows, %v", len(list), err)
	}
	if list, err := rows.List(t.Context(), ""); err != nil || len(list) != 3 {
		t.Errorf("without a meter: %d rows, %v", len(list), err)
	}
}

func TestHistoryOfAnAccountIsBounded(t *testing.T) {
	t.Parallel()
	clock := time.Unix(1_000_000_000, 0)
	s, err := store.Open(t.Context(), storetest.Client(t), store.Options{
		Prefix: storetest.Prefix(t), WriteTimeout: eventually.Limit,
		Quota: store.Quota{PerAccount: 50_000, Now: func() time.Time { return clock }},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := store.NewTable[string](s, "rows")
	limited := store.Limited(t.Context())
	flood := func(account string) (n int) {
		for ; n < 100; n++ {
			var full *store.FullError
			_, err := rows.Put(limited, store.Key(account, "a"), strings.Repeat("x", 5000))
			if errors.As(err, &full) {
				if !full.Recent {
					t.Errorf("history is taken for rows: %v", err)
				}
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
			clock = clock.Add(time.Second)
		}
		return n
	}
	if n := flood("111111111111"); n != 9 {
		t.Errorf("an account wrote a row of 5 kB %d times, want 9 for 50 kB", n)
	}
	if n := flood("222222222222"); n != 9 {
		t.Errorf("another account wrote %d times, want 9", n)
	}
	clock = clock.Add(11 * time.Minute)
	if n := flood("111111111111"); n != 9 {
		t.Errorf("eleven minutes later an account wrote %d times, want 9", n)
	}
}

// A controller that writes as often as a user wants waits while the account has written too much, and not because the
// account is full.
func TestPacedWritesWait(t *testing.T) {
	t.Parallel()
	clock := time.Unix(1_000_000_000, 0)
	s := storetest.NewAt(t, storetest.Prefix(t), func(o *store.Options) {
		o.Quota = store.Quota{PerAccount: 50_000, Now: func() time.Time { return clock }}
	})
	rows := store.NewTable[string](s, "rows")
	paced, key := store.Paced(t.Context()), store.Key("111111111111", "a")
	flood := func(size int) (n int) {
		for ; n < 100; n++ {
			var full *store.FullError
			if _, err := rows.Put(paced, key, strings.Repeat("x", size-n)); errors.As(err, &full) && full.Recent {
				return n
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	if n := flood(5000); n != 9 {
		t.Errorf("a row of 5 kB was written %d times, want 9 for 50 kB", n)
	}
	clock = clock.Add(11 * time.Minute)
	for _, name := range []string{"b", "c"} { // the account is full now
		if _, err := rows.Put(t.Context(), store.Key("111111111111", name), strings.Repeat("x", 40_000)); err != nil {
			t.Fatal(err)
		}
	}
	if n := flood(6000); n != 7 {
		t.Errorf("in a full account a row of 6 kB was written %d times, want 7", n)
	}
}

// Some tables have keys that are unique among all accounts: their rows are charged to the account that they name.
func TestRowsWithoutAnAccountInTheirKeyAreCharged(t *testing.T) {
	t.Parallel()
	const one, two = "111111111111", "222222222222"
	options := store.Options{
		Prefix: storetest.Prefix(t), Log: slog.New(slog.DiscardHandler), WriteTimeout: eventually.Limit,
		Quota: store.Quota{PerAccount: 20_000, Total: 40_000},
	}
	client := storetest.Client(t)
	s, err := store.Open(t.Context(), client, options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	type stream struct{ Account, Value string }
	rows := store.NewTable[stream](s, "rows")
	limited := store.Limited(t.Context())
	create := func(key, account string) error {
		_, err := rows.Create(limited, store.Key(key), stream{Account: account, Value: strings.Repeat("x", 6000)})
		return err
	}
	fullOf := func(err error) string {
		var full *store.FullError
		if errors.As(err, &full) {
			return full.Account
		}
		return ""
	}
	for _, key := range []string{"a", "b", "c"} {
		if err := create(key, one); err != nil {
			t.Fatal(err)
		}
	}
	if err := create("d", one); fullOf(err) != one {
		t.Errorf("a fourth row of 6 kB in 20 kB: %v, want that account %s is full", err, one)
	}
	if err := create("d", two); err != nil {
		t.Errorf("another account cannot write: %v", err)
	}

	s.Close()
	if s, err = store.Open(t.Context(), client, options); err != nil {
		t.Fatal(err)
	}
	rows = store.NewTable[stream](s, "rows")
	if err := create("e", one); fullOf(err) != one {
		t.Errorf("a fourth row after a restart: %v, want that account %s is full", err, one)
	}

	// A row can change its account: rows are given one that were written before they had any.
	row, err := rows.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	row.Value.Account = two
	if _, err := rows.Update(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if err := create("e", one); err != nil {
		t.Errorf("the account still pays for a row that another has: %v", err)
	}
}

// TestRowsAreMeteredOneByOne shows that a Get counts as a list does, and that a refused read does not look like a row
// that is not there: nothing is written on account of it, and nothing is decided.
func TestRowsAreMeteredOneByOne(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	rows := store.NewTable[string](s, "metered")
	var counted int64
	refused := errors.New("too much")
	ctx := store.Metered(t.Context(), func(bytes int64) error {
		if counted += bytes; counted > 5000 {
			return refused
		}
		return nil
	})
	for _, key := range []string{"a", "b"} {
		if _, err := rows.Create(ctx, key, strings.Repeat("x", 1000)); err != nil || counted > 0 {
			t.Fatalf("a write counts %d bytes: %v", counted, err)
		}
	}
	if _, err := rows.Get(ctx, "a"); err != nil || counted < 1000 || counted > 1500 {
		t.Errorf("a row of 1,000 bytes counts %d: %v", counted, err)
	}
	before := counted
	if _, err := rows.Get(ctx, "none"); !errors.Is(err, store.ErrNotFound) || counted != before {
		t.Errorf("a row that is not there counts %d: %v", counted-before, err)
	}
	if _, err := rows.Copy(ctx, "b"); err != nil || counted < before+1000 {
		t.Errorf("a copy counts %d: %v", counted-before, err)
	}
	if err := store.MeterError(ctx); err != nil {
		t.Errorf("nothing was refused yet: %v", err)
	}
	counted = 5000
	_, err := rows.Get(ctx, "a")
	if !errors.Is(err, refused) || !errors.Is(store.MeterError(ctx), refused) {
		t.Errorf("beyond what the meter allows: %v, %v", err, store.MeterError(ctx))
	}
	if _, err := rows.Create(ctx, "c", "x"); !errors.Is(err, refused) {
		t.Errorf("a write after a read that was refused: %v", err)
	}
	if _, _, err := store.Decide(ctx, func(context.Context) error { return nil }); !errors.Is(err, refused) {
		t.Errorf("a decision after a read that was refused: %v", err)
	}
	if _, err := rows.Get(store.Unmetered(ctx), "a"); err != nil {
		t.Errorf("without the meter: %v", err)
	}
}

// TestBoundedReads shows that what is bounded counts for the meter around it, too.
func TestBoundedReads(t *testing.T) {
	t.Parallel()
	rows := store.NewTable[string](storetest.New(t), "bounded")
	for _, key := range []string{"a", "b"} {
		if _, err := rows.Create(t.Context(), key, strings.Repeat("x", 1000)); err != nil {
			t.Fatal(err)
		}
	}
	var counted int64
	metered := store.Metered(t.Context(), func(bytes int64) error { counted += bytes; return nil })
	ctx := store.Bounded(metered, 2000)
	if _, err := rows.Get(ctx, "a"); err != nil || counted < 1000 {
		t.Errorf("within the bound: %v, counted as %d bytes", err, counted)
	}
	if _, err := rows.List(ctx, ""); err == nil || !strings.Contains(err.Error(), "2000 bytes") {
		t.Errorf("beyond the bound: %v", err)
	}
	if _, err := rows.List(store.Bounded(metered, 4000), ""); err != nil {
		t.Errorf("for another request: %v", err)
	}
}
