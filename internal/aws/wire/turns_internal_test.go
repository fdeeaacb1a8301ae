package wire

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestIdleRequestsTakeNoTurns shows that a request that has given up its turn keeps nobody from having it, that few of
// an account may do so, and that nothing is left of an account whose requests have ended.
func TestIdleRequestsTakeNoTurns(t *testing.T) {
	t.Parallel()
	const account = "111122223333"
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(maxRunning, runWait)
		begin := func() *requestTurn {
			t.Helper()
			one, err := all.begin(t.Context(), account, host)
			if err != nil {
				t.Fatal(err)
			}
			return &one
		}
		var begun []*requestTurn
		for i := range maxIdle {
			one := begin()
			begun = append(begun, one)
			for range 2 { // the second time it has none
				if !one.yield() {
					t.Fatalf("request %d cannot give up its turn", i)
				}
			}
		}
		for i := range maxRunning {
			one := begin()
			if begun = append(begun, one); i == 0 && one.yield() {
				t.Error("too many requests are idle")
			}
		}
		if _, err := all.begin(t.Context(), account, host); err == nil { // after runWait
			t.Error("a request has a turn while all are taken")
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := all.begin(gone, account, host); err == nil {
			t.Error("a request whose client has left has a turn")
		}
		for _, one := range begun {
			one.end()
			one.end() // which does nothing
		}
		if n := all.accounts.Holders() + all.idle.Holders(); n > 0 {
			t.Errorf("%d holders are left", n)
		}
	})
}

// TestUnsignedRequestsTakeTurns shows that a source has few requests without a signature carried out at a time, that
// they end their wait with their client, and that no source takes the turns of another.
func TestUnsignedRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(maxRunning, runWait)
		one, other := sourceOf("10.0.0.1:1"), sourceOf("10.0.0.2:1")
		var begun []*requestTurn
		for range maxUnsignedRunning {
			got, err := all.begin(t.Context(), "", one)
			if err != nil {
				t.Fatal(err)
			}
			begun = append(begun, &got)
		}
		gone, leave := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := all.begin(gone, "", one)
			ended <- err
		}()
		synctest.Wait()
		leave()
		if err := <-ended; err == nil {
			t.Error("a source has more turns than it may have")
		}
		got, err := all.begin(t.Context(), "", other)
		if err != nil {
			t.Errorf("another source: %v", err)
		}
		for _, each := range append(begun, &got) {
			each.end()
		}
		if n := all.sources.Holders(); n > 0 {
			t.Errorf("%d holders are left", n)
		}
	})
}
