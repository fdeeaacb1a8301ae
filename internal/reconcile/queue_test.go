package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

func TestAccountsAndClustersTakeTurns(t *testing.T) {
	t.Parallel()
	order := newTurns(8, 3, 2)
	for _, key := range []string{"1/r/a/1", "1/r/a/2", "1/r/a/3", "1/r/a/4", "1/r/b/1", "1/r/b/2", "2/r/c/1", "2/r/c/2",
		"3"} {
		order.Push(key)
	}
	var got []string
	for order.Len() > 0 {
		got = append(got, order.Pop())
	}
	// The third of cluster a would be the third that the cluster holds, and the second of b the fourth of account 1.
	want := "1/r/a/1 2/r/c/1 3 1/r/b/1 2/r/c/2 1/r/a/2"
	if all := strings.Join(got, " "); all != want {
		t.Errorf("the order is %s, want %s", all, want)
	}
	order.release("2/r/c/1")
	if n := order.Len(); n != 0 {
		t.Errorf("%d keys wait for an account that holds all of its workers", n)
	}
	order.release("1/r/a/1")
	order.release("1/r/a/2")
	got = nil
	for order.Len() > 0 {
		got = append(got, order.Pop())
	}
	if all := strings.Join(got, " "); all != "1/r/b/2 1/r/a/3" {
		t.Errorf("then the order is %s", all)
	}
	for _, key := range []string{"1/r/b/1", "1/r/b/2", "1/r/a/3", "2/r/c/2", "3"} {
		order.release(key)
	}
	if key := order.Pop(); key != "1/r/a/4" {
		t.Errorf("the last is %s", key)
	}
	order.release("1/r/a/4")
	if len(order.all.parts) != 0 || order.all.held != 0 || order.all.waiting != 0 {
		t.Errorf("%+v is left", order.all)
	}
}

// A tenant whose keys fail all the time does not make those of others wait.
func TestRetriesOfAnAccountAreItsOwn(t *testing.T) {
	t.Parallel()
	r := retryRate{newAccountRates(200, 1000)}
	for i := range 5000 {
		r.When(fmt.Sprintf("1/r/a/%d", i))
	}
	if wait := r.When("1/r/b"); wait == 0 {
		t.Error("an account may try again without end")
	}
	if wait := r.When("2/r/a"); wait != 0 {
		t.Errorf("another account waits %s", wait)
	}
}

// Accounts that are not worked on any more, and keys that are no account's, are forgotten.
func TestRatesAreForgotten(t *testing.T) {
	t.Parallel()
	r := newAccountRates(rate.Every(time.Hour), 2)
	r.limiterOf("busy/r/a").Allow()
	for i := range 100 * fewRates {
		r.limiterOf(fmt.Sprintf("%d/r/a", i))
	}
	if len(r.all) > 2*fewRates {
		t.Errorf("%d limiters are kept", len(r.all))
	}
	if limiter := r.limiterOf("busy/r/a"); !limiter.Allow() || limiter.Allow() {
		t.Error("the account that has used its share has another")
	}
}

func TestErrorsAreCut(t *testing.T) {
	t.Parallel()
	got := textOf(errors.New(strings.Repeat("é", maxError)))
	if len(got) > maxError+4 || !strings.HasSuffix(got, "é ...") {
		t.Errorf("%d bytes are kept", len(got))
	}
	if got := textOf(errors.New("no luck")); got != "no luck" {
		t.Error(got)
	}
}
