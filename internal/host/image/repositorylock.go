package image

import "sync"

// repositoryLocks keep repositories from being created and deleted while an image is put into them.
type repositoryLocks struct {
	mu  sync.Mutex
	all map[string]*repositoryLock // of those in use, as they are stored
}

type repositoryLock struct {
	sync.RWMutex
	users int
}

func (l *repositoryLocks) enter(stored string) *repositoryLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.all[stored]
	if of == nil {
		of = new(repositoryLock)
		if l.all == nil {
			l.all = make(map[string]*repositoryLock)
		}
		l.all[stored] = of
	}
	of.users++
	return of
}

func (l *repositoryLocks) leave(stored string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.all[stored]; of.users > 1 {
		of.users--
	} else {
		delete(l.all, stored)
	}
}

// LockRepository lets nobody put images into a repository until unlock, for it to be created or deleted. It waits for
// those who do.
func (r *Registry) LockRepository(repository string) (unlock func()) {
	stored := r.storedName(repository)
	of := r.inUse.enter(stored)
	of.Lock()
	return func() {
		of.Unlock()
		r.inUse.leave(stored)
	}
}

// HoldRepository prevents the creation and deletion of a repository until release: between a check whether an image may
// be put there, and [Registry.PutManifest]. Whoever holds it must not hold it again.
func (r *Registry) HoldRepository(repository string) (release func()) {
	stored := r.storedName(repository)
	of := r.inUse.enter(stored)
	of.RLock()
	return func() {
		of.RUnlock()
		r.inUse.leave(stored)
	}
}
