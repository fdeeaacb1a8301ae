//go:build linux

package volume

import "sync"

// locks is a lock for each name. The zero value has all of them free.
type locks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when the lock is free
}

// lock waits for a lock and takes it.
func (l *locks) lock(name string) (unlock func()) {
	for {
		unlock, free := l.take(name)
		if unlock != nil {
			return unlock
		}
		<-free
	}
}

// try takes a lock if it is free.
func (l *locks) try(name string) (unlock func(), ok bool) {
	unlock, _ = l.take(name)
	return unlock, unlock != nil
}

func (l *locks) take(name string) (unlock func(), wait <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if free, held := l.held[name]; held {
		return nil, free
	}
	if l.held == nil {
		l.held = map[string]chan struct{}{}
	}
	free := make(chan struct{})
	l.held[name] = free
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, name)
		close(free)
	}, nil
}

// holds are of content that is read: of each by any number of readers, or by one who removes it. Readers wait for a
// removal that is under way, which waits for nobody: whoever holds some may hold more. The zero value has all of them
// free.
type holds struct {
	mu       sync.Mutex
	readers  map[string]int
	removals locks
}

// hold keeps content from being removed until release is called.
func (h *holds) hold(name string) (release func()) {
	unlock := h.removals.lock(name)
	defer unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers == nil {
		h.readers = map[string]int{}
	}
	h.readers[name]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.readers[name]--; h.readers[name] == 0 {
			delete(h.readers, name)
		}
	}
}

// tryRemoval keeps content from being held until done is called, if nobody holds it.
func (h *holds) tryRemoval(name string) (done func(), ok bool) {
	done, ok = h.removals.try(name)
	if !ok {
		return nil, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers[name] > 0 {
		done()
		return nil, false
	}
	return done, true
}
