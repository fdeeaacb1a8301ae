package image

import (
	"context"
	"sync"
)

// maxTurns is the number of images that are fetched at a time for one source of requests, and of its requests for a
// manifest that are served, which hold some 20 MiB each. Its other requests wait.
const maxTurns = 4

// maxDecoding is the number of manifests that the library decodes at a time for requests of all sources.
const maxDecoding = 32

// turns bounds what is done at a time for each source.
type turns struct {
	mu      sync.Mutex
	sources map[string]*turn // that have requests
}

type turn struct {
	slots    chan struct{}
	requests int
}

// acquire waits for a turn of a source. The daemon's own requests have no source, and do not wait.
func (t *turns) acquire(ctx context.Context, source string) (end func(), err error) {
	if source == "" {
		return func() {}, nil
	}
	t.mu.Lock()
	if t.sources == nil {
		t.sources = make(map[string]*turn)
	}
	of := t.sources[source]
	if of == nil {
		of = &turn{slots: make(chan struct{}, maxTurns)}
		t.sources[source] = of
	}
	of.requests++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if of.requests--; of.requests == 0 {
			delete(t.sources, source)
		}
	}
	select {
	case of.slots <- struct{}{}:
		return sync.OnceFunc(func() { <-of.slots; leave() }), nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
