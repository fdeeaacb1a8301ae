package identity

import (
	"strconv"
	"testing"
	"time"
)

func TestUsesAreForgotten(t *testing.T) {
	t.Parallel()
	var u uses
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if !u.shouldWrite("key", start) {
		t.Error("the first use is not written")
	}
	if u.shouldWrite("key", start.Add(useInterval-time.Second)) {
		t.Error("a use is written twice within the interval")
	}
	if !u.shouldWrite("key", start.Add(useInterval)) {
		t.Error("a use after the interval is not written")
	}
	now := start
	for n := range 10_000 { // access keys that are made, used once and deleted
		now = now.Add(time.Second)
		u.shouldWrite(strconv.Itoa(n), now)
	}
	if most := 2 * int(useInterval/time.Second); len(u.written) > most {
		t.Errorf("%d uses are remembered, want those of two intervals, which are %d", len(u.written), most)
	}
}
