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
		all := &turns{byAccount: map[string]*accountTurns{}}
		begin := func() *turn {
			t.Helper()
			one, err := all.begin(t.Context(), account)
			if err != nil {
				t.Fatal(err)
			}
			return &one
		}
		var begun []*turn
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
		if _, err := all.begin(t.Context(), account); err == nil { // after runWait
			t.Error("a request has a turn while all are taken")
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := all.begin(gone, account); err == nil {
			t.Error("a request whose client has left has a turn")
		}
		for _, one := range begun {
			one.end()
			one.end() // which does nothing
		}
		if len(all.byAccount) > 0 {
			t.Errorf("%+v is left", all.byAccount[account])
		}
	})
}
