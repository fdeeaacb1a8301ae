//go:build linux

package machine

import (
	"fmt"
	"testing"
	"time"
)

// Of machines that are launched at once, as many are admitted as the host has memory for when they are idle; their
// sizes do not count.
func TestMachinesReserveWhatTheyTakeIdle(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000_000, 0)
	used := map[string]int64{}
	takes := func(id string) int64 { return used[id] }
	var r reservations
	const available = leastMemory + 10*idleMemory
	admit := func(from, to int) (admitted int) {
		for n := from; n < to; n++ {
			if _, ok := r.reserve(fmt.Sprint(n), available, takes, now); ok {
				admitted++
			}
		}
		return admitted
	}
	if n := admit(0, 100); n != 11 {
		t.Errorf("%d machines were admitted at once, want 11", n)
	}
	if n := admit(0, 11); n != 11 {
		t.Errorf("%d of 11 machines were admitted again: each has its reservation already", n)
	}
	left, ok := r.reserve("more", available, takes, now)
	if ok || left != leastMemory-idleMemory {
		t.Errorf("with %d bytes left another machine is admitted: %v", left, ok)
	}
	r.release("0")
	used["1"], used["2"] = idleMemory, 2*idleMemory // which are no longer available
	if _, ok := r.reserve("3", leastMemory+8*idleMemory, takes, now); !ok {
		t.Error("what machines have taken is still reserved")
	}
	now = now.Add(idleWithin + time.Second)
	if n := admit(100, 200); n != 11 {
		t.Errorf("%d machines were admitted later, want 11: reservations end", n)
	}
}
