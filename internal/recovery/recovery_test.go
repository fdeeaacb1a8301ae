package recovery

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
)

func TestTry(t *testing.T) {
	t.Parallel()
	failure := errors.New("failure")
	if err := Try(func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("the error is %v", err)
	}
	if err := Try(func() error { return nil }); err != nil {
		t.Error(err)
	}
	var names map[string]int
	err := Try(func() error { names["nil"]++; return nil })
	if err == nil || !strings.Contains(err.Error(), "nil map") || !strings.Contains(err.Error(), "recovery_test.go") {
		t.Errorf("a panic is %v", err)
	}
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		calls := 0
		Repeat(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), "count", func() {
			if calls++; calls < 3 {
				panic("two times")
			}
		})
		if n := strings.Count(said.String(), "two times"); calls != 3 || n < 2 {
			t.Errorf("%d calls, and the log says %s", calls, said.String())
		}
		ctx, cancel := context.WithCancel(t.Context())
		Repeat(ctx, slog.New(slog.DiscardHandler), "end", func() {
			cancel()
			panic("at the end")
		})
	})
}
