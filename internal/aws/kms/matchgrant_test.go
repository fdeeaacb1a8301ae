package kms

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The pairs of an encryption context match those of grants as if each was compared with each.
func TestPairsMatchInAnyCase(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same pairs each time
	keys := []string{"a", "A", "k", "K", "\u212a", "s", "\u017f", "S", "\u03c3", "\u03c2", "\u03a3", "\xff", "\ufffd",
		"ak", "AK"}
	pairs := func() map[string]string {
		all := map[string]string{}
		for range random.IntN(4) {
			all[keys[random.IntN(len(keys))]+keys[random.IntN(len(keys))]] = fmt.Sprint(random.IntN(2))
		}
		return all
	}
	for range 50_000 {
		whole, part, want := pairs(), pairs(), true
		for k, v := range part {
			found := false
			for other, value := range whole {
				found = found || strings.EqualFold(other, k) && value == v
			}
			want = want && found
		}
		if got := includes(whole, part); got != want {
			t.Fatalf("%q has all of %q: %t", whole, part, got)
		}
	}
}

// Contexts of as many pairs as requests may have are compared with grants in about the time that equal ones take.
func TestPairsInAnotherCase(t *testing.T) {
	t.Parallel()
	whole, same, other := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range 1000 {
		key := fmt.Sprintf("key-%d", i)
		whole[key], same[key], other[strings.ToUpper(key)] = "", "", ""
	}
	measure := func(part map[string]string) time.Duration {
		best := time.Hour
		for range 5 {
			m, began := &matcher{pairs: whole}, time.Now()
			for range 10 {
				if !m.includes(part) {
					t.Fatal("the pairs do not match")
				}
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	if equal, folded := measure(same), measure(other); folded > 100*equal {
		t.Errorf("keys in another case take %s, equal ones %s", folded, equal)
	}
}
