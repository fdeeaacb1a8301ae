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
