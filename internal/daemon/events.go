package daemon

import (
	"maps"
	"slices"
	"sync"

	"github.com/coracle-eks/coracle/internal/process"
)

// events passes what happens to processes on to those who want to know.
type events struct {
	mu   sync.Mutex
	next int
	to   map[int]func(process.Event)
}

func newEvents() *events { return &events{to: map[int]func(process.Event){}} }

// subscribe calls f, which must not block, with every event until cancel.
func (e *events) subscribe(f func(process.Event)) (cancel func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id := e.next
	e.next++
	e.to[id] = f
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.to, id)
	}
}

func (e *events) notifyAll(event process.Event) {
	e.mu.Lock()
	to := slices.Collect(maps.Values(e.to))
	e.mu.Unlock()
	for _, f := range to {
		f(event)
	}
}
