//go:build linux

package machine

import (
	"sync"
	"time"
)

const (
	// idleMemory is the memory of an idle machine: of init, containerd and a kubelet.
	idleMemory = 150 << 20
	// idleWithin is the time that a machine may take until it uses no more than idleMemory.
	idleWithin = 2 * time.Minute
)

// reservations hold the memory that machines have yet to take which were launched just now: the host still shows it as
// available. Without them as many would be launched at once as ask.
type reservations struct {
	mu    sync.Mutex
	until map[string]time.Time // by instance ID
}

// reserve reserves the memory of an idle machine when, of the available memory, at least as much as a machine needs is
// left beside what others have reserved. used returns how much memory a machine has taken.
func (r *reservations) reserve(
	id string, available int64, used func(id string) int64, now time.Time,
) (left int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left = available
	for other, until := range r.until {
		switch {
		case now.After(until):
			delete(r.until, other)
		case other != id:
			left -= max(0, idleMemory-used(other))
		}
	}
	if left < leastMemory {
		return left, false
	}
	if r.until == nil {
		r.until = map[string]time.Time{}
	}
	r.until[id] = now.Add(idleWithin)
	return left, true
}

// release ends the reservation of a machine that is off.
func (r *reservations) release(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.until, id)
}
