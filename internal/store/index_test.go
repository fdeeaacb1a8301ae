package store_test

import (
	"fmt"
	"testing"

	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestIndexFollowsTheRows uses an index before there are rows, and another that is made of them.
func TestIndexFollowsTheRows(t *testing.T) {
	t.Parallel()
	s, ctx := storetest.New(t), t.Context()
	boats := store.NewTable[boat](s, "boats")
	byOars := store.NewIndex(boats, "oars", func(b boat) string {
		if b.Oars == 0 {
			return ""
		}
		return fmt.Sprint(b.Oars)
	})
	want := func(value, found string) {
		t.Helper()
		rows, err := byOars.List(ctx, value)
		if err != nil || keys(rows) != found {
			t.Errorf("with %s oars: %q, want %q: %v", value, keys(rows), found, err)
		}
	}
	want("2", "")
	for key, oars := range map[string]int{"a": 2, "b": 2, "c": 22, "d": 0, "e": 4} {
		if _, err := boats.Create(ctx, key, boat{Oars: oars}); err != nil {
			t.Fatal(err)
		}
	}
	want("2", "a b")
	want("22", "c")
	want("", "")
	if _, err := boats.Modify(ctx, "a", func(b *boat) error { b.Oars = 4; return nil }); err != nil {
		t.Fatal(err)
	}
	row, err := boats.Get(ctx, "e")
	if err != nil {
		t.Fatal(err)
	}
	if err := boats.Delete(ctx, row); err != nil {
		t.Fatal(err)
	}
	want("2", "b")
	want("4", "a")
	byOars = store.NewIndex(boats, "oars of the rows there are", func(b boat) string { return fmt.Sprint(b.Oars) })
	want("4", "a")
	want("0", "d")
	if n := boats.Count(""); n != 4 {
		t.Errorf("there are %d boats, want 4", n)
	}
	var counted int64
	metered := store.Metered(ctx, func(bytes int64) error { counted += bytes; return nil })
	if rows, err := byOars.List(metered, "22"); err != nil || len(rows) != 1 || counted == 0 || counted > 1000 {
		t.Errorf("a list by value of %d rows counts %d bytes: %v", len(rows), counted, err)
	}
}
