package kms

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
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

// Pairs in another case are looked up in an index that is made once: they are not compared with each pair of the
// request, of which there may be many.
func TestPairsInAnotherCase(t *testing.T) {
	t.Parallel()
	whole, other := map[string]string{}, map[string]string{}
	for i := range 1000 {
		key := fmt.Sprintf("key-%d", i)
		whole[key], other[strings.ToUpper(key)] = "", ""
	}
	m := &matcher{pairs: whole}
	if !m.includes(other) {
		t.Error("the pairs do not match")
	}
	m.pairs = map[string]string{"none of": "them"}
	if !m.includes(other) {
		t.Error("the pairs were compared with each of the request")
	}
}
