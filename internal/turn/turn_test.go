package turn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestAHolderLeavesPlacesToOthers takes all places that one holder may have, and has it wait for more: another holder
// has a place at once.
func TestAHolderLeavesPlacesToOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		places *Places
		has    int
	}{
		"each":             {Each(3), 3},
		"shared":           {Shared(4, 1), 3},
		"one for everyone": {Shared(1, 1), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var ends []func()
				for range c.has {
					_, release, err := c.places.Acquire(t.Context(), "one")
					if err != nil {
						t.Fatal(err)
					}
					ends = append(ends, release)
				}
				if _, ok := c.places.TryAcquire("one"); ok {
					t.Error("a holder has more places than it may")
				}
				late, give := context.WithCancel(t.Context())
				ended := make(chan error)
				for range 5 {
					go func() {
						_, _, err := c.places.Acquire(late, "one")
						ended <- err
					}()
				}
				synctest.Wait()
				if got := c.places.Waiting("one"); got != c.has+5 {
					t.Errorf("%d have places or wait", got)
				}
				if c.has > 1 {
					_, release, err := c.places.Acquire(t.Context(), "other")
					if err != nil {
						t.Fatal(err)
					}
					release()
					release() // which does nothing
				}
				give()
				for range 5 {
					if err := <-ended; !errors.Is(err, context.Canceled) {
						t.Errorf("who waits is told %v", err)
					}
				}
				for _, end := range ends {
					end()
				}
				if n := c.places.Holders(); n > 0 {
					t.Errorf("%d holders are left", n)
				}
			})
		})
	}
}

// TestPlacesAreGivenBackInParts takes more places than are needed, and gives back some.
func TestPlacesAreGivenBackInParts(t *testing.T) {
	t.Parallel()
	for name, places := range map[string]*Places{"each": Each(4), "shared": Shared(5, 1)} {
		free := func() (n int) {
			for {
				release, ok := places.TryAcquire("one")
				if !ok {
					return n
				}
				defer release()
				n++
			}
		}
		_, shrink, err := places.Reserve(t.Context(), "one", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ to, free int }{{7, 0}, {4, 0}, {3, 1}, {1, 3}, {2, 3}, {0, 4}, {0, 4}, {1, 4}} {
			shrink(int64(c.to))
			if n := free(); n != c.free {
				t.Errorf("%s: %d are free once %d are needed", name, n, c.to)
			}
		}
		if n := places.Holders(); n > 0 {
			t.Errorf("%s: %d holders are left", name, n)
		}
	}
}

// TestWhoeverHasASharedPlaceWaitsForNoOther asks for a second place while there is a first one.
func TestWhoeverHasASharedPlaceWaitsForNoOther(t *testing.T) {
	t.Parallel()
	shared, others, own := Shared(4, 1), Shared(4, 1), Each(2)
	of, release, err := own.Acquire(t.Context(), "one")
	if err != nil || IsHeld(of) {
		t.Fatalf("a place of one's own: %v", err)
	}
	defer release()
	held, release, err := shared.Acquire(of, "one")
	if err != nil || !IsHeld(held) {
		t.Fatalf("a shared place beside one of one's own: %v", err)
	}
	defer release()
	for _, places := range []*Places{shared, others, own} {
		if _, _, err := places.Acquire(held, "one"); !errors.Is(err, ErrHeld) {
			t.Errorf("another place: %v", err)
		}
	}
}

// TestNobodyQueuesUpBeforeOthers has many of one holder wait for the only place that there is: another holder who comes
// later has it next.
func TestNobodyQueuesUpBeforeOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := Shared(1, 0)
		_, release, err := p.Acquire(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 4)
		wait := func(holder string) {
			_, release, err := p.Acquire(t.Context(), holder)
			if err != nil {
				t.Error(err)
				return
			}
			got <- holder
			release()
		}
		for range 3 {
			go wait("one")
		}
		synctest.Wait()
		go wait("other")
		synctest.Wait()
		release()
		if next := <-got; next != "other" {
			t.Errorf("%s has the place next", next)
		}
		for range 3 {
			<-got
		}
	})
}

// TestFewWait has as many wait for a holder as may.
func TestFewWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := EachWaiting(1, 2)
		_, release, err := p.Acquire(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		for range 2 {
			go func() {
				_, release, err := p.Acquire(t.Context(), "one")
				if err == nil {
					release()
				}
				ended <- err
			}()
		}
		synctest.Wait()
		if _, _, err := p.Acquire(t.Context(), "one"); !errors.Is(err, ErrTooMany) {
			t.Errorf("a third waits: %v", err)
		}
		release()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestMoreThanAHolderMayHave asks for more places at once than there are for one.
func TestMoreThanAHolderMayHave(t *testing.T) {
	t.Parallel()
	p := Shared(4, 2)
	_, release, err := p.AcquireN(t.Context(), "one", 10)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, ok := p.TryAcquire("one"); ok {
		t.Error("a holder has more places than it may")
	}
	if _, ok := p.TryAcquire("other"); !ok {
		t.Error("another holder has none")
	}
}
