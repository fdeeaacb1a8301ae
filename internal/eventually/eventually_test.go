package eventually_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
)

var errYet = errors.New("not yet")

func TestWhatIsAwaitedIsLookedAtUntilItIsSo(t *testing.T) {
	t.Parallel()
	looks := 0
	eventually.Nil(t, "the third look", func() error {
		if looks++; looks < 3 {
			return errYet
		}
		return nil
	})
	if looks != 3 {
		t.Errorf("there were %d looks, want 3", looks)
	}
	eventually.True(t, "the fifth look", func() bool {
		looks++
		return looks == 5
	})
	if looks != 5 {
		t.Errorf("there were %d looks, want 5", looks)
	}
}

// The interval is longer than tests may take: a second look would not come.
func TestNoTimePassesWhenTheFirstLookDecides(t *testing.T) {
	t.Parallel()
	if err := eventually.Try(time.Hour, func() error { return nil }); err != nil {
		t.Error(err)
	}
	for name, wrap := range map[string]func(error) error{
		"as it is": func(err error) error { return err },
		"wrapped":  func(err error) error { return fmt.Errorf("look: %w", err) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := eventually.Try(time.Hour, func() error { return wrap(eventually.Never(errYet)) })
			if err != errYet { //nolint:errorlint // that very error, without what wraps it
				t.Errorf("the error is %v, want the one that was given to Never", err)
			}
		})
	}
}
