package identity

import (
	"maps"
	"sync"
	"time"
)

// useInterval is the interval at which a use is written: LastUsed serves cleanups, not accounting.
const useInterval = 5 * time.Minute

// uses remembers of which access keys and roles the use was written within useInterval. Older ones are forgotten, so
// that what was deleted takes no memory.
type uses struct {
	mu      sync.Mutex
	written map[string]time.Time // by ID
	next    time.Time            // when old ones are forgotten again
}

// shouldWrite reports whether the use of an ID at a time is to be written.
func (u *uses) shouldWrite(id string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, ok := u.written[id]; ok && now.Sub(last) < useInterval {
		return false
	}
	if u.written == nil {
		u.written = make(map[string]time.Time)
	}
	if !now.Before(u.next) {
		maps.DeleteFunc(u.written, func(_ string, last time.Time) bool { return now.Sub(last) >= useInterval })
		u.next = now.Add(useInterval)
	}
	u.written[id] = now
	return true
}
