package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
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
		if err != nil || keys(rows) != found || byOars.Count(value) != len(rows) {
			t.Errorf("with %s oars: %q, of %d, want %q: %v", value, keys(rows), byOars.Count(value), found, err)
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

func TestPagesOfAnIndex(t *testing.T) {
	t.Parallel()
	s, ctx := storetest.New(t), t.Context()
	boats := store.NewTable[boat](s, "boats")
	byOars := store.NewIndex(boats, "oars", func(b boat) string { return fmt.Sprint(b.Oars) })
	for key, oars := range map[string]int{"a": 2, "b": 2, "c": 4, "d": 2, "d/e": 2, "f": 2} {
		if _, err := boats.Create(ctx, key, boat{Oars: oars}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		after string
		limit int
		want  string
		next  string
	}{
		{"", 0, "a b d d/e f", ""},
		{"", 2, "a b", "b"},
		{"b", 2, "d d/e", "d/e"},
		{"c", 1, "d", "d"}, // which is of another value
		{"d/e", 2, "f", ""},
		{"d", 3, "d/e f", ""},
		{"f", 2, "", ""},
	} {
		rows, next, err := byOars.Page(ctx, "2", test.after, test.limit)
		if err != nil || keys(rows) != test.want || next != test.next {
			t.Errorf("%d after %q: %q, then after %q, want %q and %q: %v", test.limit, test.after, keys(rows), next, test.want,
				test.next, err)
		}
	}
}

// While the rows for an index are decoded, others read and write, and the index has what they wrote.
func TestAnIndexIsMadeBesideOthers(t *testing.T) {
	t.Parallel()
	s, ctx := storetest.New(t), t.Context()
	boats := store.NewTable[boat](s, "boats")
	for _, key := range []string{"changed", "deleted", "kept"} {
		if _, err := boats.Create(ctx, key, boat{Oars: 2}); err != nil {
			t.Fatal(err)
		}
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() {
		close(begun)
		<-goOn
	})
	byOars := store.NewIndex(boats, "oars", func(b boat) string {
		once()
		return fmt.Sprint(b.Oars)
	})
	counted := make(chan int, 2)
	for range cap(counted) {
		go func() { counted <- byOars.Count("2") }()
	}
	<-begun
	written := make(chan error, 1)
	go func() {
		_, failed := boats.Modify(ctx, "changed", func(b *boat) error { b.Oars = 4; return nil })
		row, err := boats.Get(ctx, "deleted")
		if err == nil {
			err = boats.Delete(ctx, row)
		}
		_, created := boats.Create(ctx, "created", boat{Oars: 2})
		written <- errors.Join(failed, err, created)
	}()
	select {
	case err := <-written:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(eventually.Limit):
		t.Error("nobody reads and writes while an index is made")
	}
	close(goOn)
	for range cap(counted) {
		if n := <-counted; n != 2 {
			t.Errorf("%d boats have two oars, want 2", n)
		}
	}
	rows, err := byOars.List(ctx, "2")
	if err != nil || keys(rows) != "created kept" {
		t.Errorf("with two oars: %q, %v", keys(rows), err)
	}
	if rows, err = byOars.List(ctx, "4"); err != nil || keys(rows) != "changed" {
		t.Errorf("with four oars: %q, %v", keys(rows), err)
	}
}
