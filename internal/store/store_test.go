package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

type boat struct {
	Name string
	Oars int
	Tags map[string]string
}

func keys[T any](rows []store.Row[T]) string {
	var k []string
	for _, r := range rows {
		k = append(k, r.Key)
	}
	return strings.Join(k, " ")
}

func TestRowsAreCreatedReadChangedAndDeleted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	boats := store.NewTable[boat](storetest.New(t), "boats")

	if _, err := boats.Get(ctx, "a"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Get of no row: %v", err)
	}
	row, err := boats.Create(ctx, "a", boat{Name: "ark"})
	if err != nil || row.Value.Name != "ark" || row.Revision == 0 || row.Created != row.Revision {
		t.Fatalf("Create: %+v %v", row, err)
	}
	if _, err := boats.Create(ctx, "a", boat{}); !errors.Is(err, store.ErrExists) {
		t.Fatalf("second Create: %v", err)
	}
	stale := row
	row.Value.Oars = 2
	row, err = boats.Update(ctx, row)
	if err != nil || row.Value.Oars != 2 || row.Created == row.Revision {
		t.Fatalf("Update: %+v %v", row, err)
	}
	if _, err := boats.Update(ctx, stale); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("Update of a stale row: %v", err)
	}
	if err := boats.Delete(ctx, stale); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("Delete of a stale row: %v", err)
	}
	if err := boats.Delete(ctx, row); err != nil {
		t.Fatal(err)
	}
	if err := boats.Delete(ctx, row); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("second Delete: %v", err)
	}
	if _, err := boats.Update(ctx, row); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Update of a deleted row: %v", err)
	}
}

func TestPagesCoverAPrefixOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := storetest.New(t)
	boats := store.NewTable[boat](s, "boats")
	other := store.NewTable[boat](s, "boats2")
	for i := range 7 {
		if _, err := boats.Create(ctx, store.Key("here", fmt.Sprint(i)), boat{Oars: i}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []string{"her", "hereafter/1"} {
		if _, err := boats.Create(ctx, k, boat{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Create(ctx, "here/1", boat{}); err != nil {
		t.Fatal(err)
	}
	for limit := range 9 {
		var got []store.Row[boat]
		after := ""
		for {
			rows, next, err := boats.Page(ctx, store.Prefix("here"), after, limit)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rows...)
			if next == "" {
				break
			}
			after = next
		}
		if want := "here/0 here/1 here/2 here/3 here/4 here/5 here/6"; keys(got) != want {
			t.Errorf("pages of %d: %s", limit, keys(got))
		}
	}
}

func TestKeyPartsSurvive(t *testing.T) {
	t.Parallel()
	for _, parts := range [][]string{{"a"}, {"a/b", "c%2Fd"}, {"", "x"}, {"arn:aws:iam::1:role/p/q", "ü "}} {
		if got := store.Parts(store.Key(parts...)); !slices.Equal(got, parts) {
			t.Errorf("Parts(Key(%q)) = %q", parts, got)
		}
	}
}

func TestATransactionIsAllOrNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := storetest.New(t)
	boats := store.NewTable[boat](s, "boats")
	a, err := boats.Create(ctx, "a", boat{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ops  []store.Op
		want error
		row  string
	}{
		"create over a row": {[]store.Op{boats.CreateOp("b", boat{}), boats.CreateOp("a", boat{})},
			store.ErrExists, "boats/a"},
		"update of no row": {[]store.Op{boats.CreateOp("b", boat{}),
			boats.UpdateOp(store.Row[boat]{Key: "z", Revision: 1})}, store.ErrNotFound, "boats/z"},
		"check of a stale row": {[]store.Op{boats.CreateOp("b", boat{}),
			boats.CheckOp(store.Row[boat]{Key: "a", Revision: a.Revision - 1})}, store.ErrConflict, "boats/a"},
		"absence of a present row": {[]store.Op{boats.PutOp("b", boat{}), boats.AbsentOp("a")}, store.ErrExists,
			"boats/a"},
	} {
		err := s.Txn(ctx, c.ops...)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.row) {
			t.Errorf("%s: %v", name, err)
		}
		if rows, _ := boats.List(ctx, ""); keys(rows) != "a" {
			t.Errorf("%s changed the rows to %s", name, keys(rows))
		}
	}
	if err := s.Txn(ctx, boats.CreateOp("b", boat{}), boats.DeleteOp(a), boats.AbsentOp("c")); err != nil {
		t.Fatal(err)
	}
	if rows, _ := boats.List(ctx, ""); keys(rows) != "b" {
		t.Errorf("rows: %s", keys(rows))
	}
	if err := s.Txn(ctx, boats.RemoveOp("nothing")); err != nil {
		t.Errorf("RemoveOp of no row: %v", err)
	}
}

func TestConcurrentModifiesAllCount(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, prefix := storetest.Client(t), storetest.Prefix(t)
	var stores [2]store.Table[boat]
	for i := range stores {
		s, err := store.Open(ctx, client, store.Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		stores[i] = store.NewTable[boat](s, "boats")
	}
	if _, err := stores[0].Put(ctx, "a", boat{}); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := stores[1].Get(ctx, "a"); err == nil {
			break
		}
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				before, err := stores[i%2].Modify(ctx, "a", func(b *boat) error { b.Oars++; return nil })
				if err != nil {
					t.Error(err)
				}
				if now, err := stores[i%2].Get(ctx, "a"); err != nil || now.Revision < before.Revision {
					t.Errorf("own write not read: %v %v", now, err)
				}
			}
		})
	}
	wg.Wait()
	row, err := stores[0].Modify(ctx, "a", func(*boat) error { return nil })
	if err != nil || row.Value.Oars != 80 {
		t.Errorf("%+v %v", row, err)
	}
}

func TestModifyLeavesSharedValuesAlone(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	boats := store.NewTable[boat](storetest.New(t), "boats")
	before, err := boats.Create(ctx, "a", boat{Tags: map[string]string{"k": "old"}})
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	_, err = boats.Modify(ctx, "a", func(b *boat) error { b.Tags["k"] = "new"; return stop })
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if now, _ := boats.Get(ctx, "a"); now.Value.Tags["k"] != "old" || before.Value.Tags["k"] != "old" {
		t.Errorf("a refused Modify was seen: %v", now)
	}
}

func TestNotifyTellsEveryKeyAndThenChanges(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	s := storetest.New(t)
	boats := store.NewTable[boat](s, "boats")
	for _, k := range []string{"x/1", "x/2", "y/1"} {
		if _, err := boats.Create(ctx, k, boat{}); err != nil {
			t.Fatal(err)
		}
	}
	told := make(chan string)
	go boats.Notify(ctx, "x/", func(k string) { told <- k })
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Fatalf("told %s, want %s", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("%s was not told", want)
		}
	}
	expect("x/1")
	expect("x/2")
	if _, err := boats.Put(ctx, "y/2", boat{}); err != nil {
		t.Fatal(err)
	}
	row, err := boats.Create(ctx, "x/3", boat{})
	if err != nil {
		t.Fatal(err)
	}
	expect("x/3")
	if err := boats.Delete(ctx, row); err != nil {
		t.Fatal(err)
	}
	expect("x/3")
}

func TestWatchFromARevisionReplays(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	boats := store.NewTable[boat](storetest.New(t), "boats")
	first, err := boats.Create(ctx, "a", boat{Oars: 1})
	if err != nil {
		t.Fatal(err)
	}
	second, err := boats.Modify(ctx, "a", func(b *boat) error { b.Oars = 2; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := boats.Delete(ctx, second); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	var got []string
	err = boats.Watch(ctx, "", first.Revision, func(e store.Event[boat]) error {
		got = append(got, fmt.Sprint(e.Row.Value.Oars, e.Deleted))
		if e.Deleted {
			return enough
		}
		return nil
	})
	if want := []string{"1 false", "2 false", "0 true"}; !errors.Is(err, enough) || !slices.Equal(got, want) {
		t.Errorf("%v %v", got, err)
	}
}

func TestAnotherUserOfTheEtcdDoesNotDelayWrites(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	client := storetest.Client(t)
	s, err := store.Open(ctx, client, store.Options{Prefix: storetest.Prefix(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	boats := store.NewTable[boat](s, "boats")
	for i := range 20 {
		if _, err := client.Put(ctx, storetest.Prefix(t)+"elsewhere", "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := boats.Put(ctx, "a", boat{Oars: i}); err != nil {
			t.Fatal(err)
		}
		// A comparison that fails has no event to wait for when the mirror is current.
		if _, err := boats.Create(ctx, "a", boat{}); !errors.Is(err, store.ErrExists) {
			t.Fatal(err)
		}
	}
}

func TestMigrationsRunOnceInOrderAndNewerStoresAreRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, prefix := storetest.Client(t), storetest.Prefix(t)
	open := func(m ...store.Migration) error {
		s, err := store.Open(ctx, client, store.Options{Prefix: prefix, Migrations: m,
			Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			s.Close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	var ran []int
	broken := errors.New("broken")
	step := func(from int, err error) store.Migration {
		return store.Migration{From: from, Does: "test", Run: func(context.Context, *clientv3.Client, string) error {
			ran = append(ran, from)
			return err
		}}
	}
	if err := open(step(1, nil), step(2, broken)); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := open(step(1, nil), step(2, nil)); err != nil {
		t.Fatal(err)
	}
	if err := open(step(1, nil), step(2, nil)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ran, []int{1, 2, 2}) {
		t.Errorf("migrations ran %v", ran)
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("an older program opened a newer store: %v", err)
	}
}

func BenchmarkGet(b *testing.B) {
	boats := store.NewTable[boat](storetest.New(b), "boats")
	if _, err := boats.Create(b.Context(), "a", boat{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := boats.Get(b.Context(), "a"); err != nil {
			b.Fatal(err)
		}
	}
}
