// Package turn bounds how much is done at a time, so that no account takes from others what all of them need: the
// processor, memory, or API servers that start.
//
// [Places] are counted for each holder: an account, a cluster or the source of a request. Those that holders share
// ([Shared]) have a number in all as well, of which no holder has so many that none is left to others.
//
// Nobody who has a place that all holders share waits for another place: one holder, who can keep its own places busy,
// would make all others wait. Acquire marks its context and refuses to wait in one that is marked.
package turn

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

var (
	// ErrHeld reports that somebody who has a place that all holders share would wait for another one.
	ErrHeld = errors.New("whoever has a place that all holders share waits for no other")
	// ErrTooMany reports that as many wait for the places of a holder as may.
	ErrTooMany = errors.New("too many wait for their turn")
)

// Places bounds what is done at a time. It is safe for concurrent use.
type Places struct {
	each    int64               // places of a holder
	waiting int                 // how many may have places of a holder or wait for them; any number when 0
	all     *semaphore.Weighted // places of all holders; nil without a bound

	mu sync.Mutex
	by map[string]*holder // those who have places or wait for them
}

type holder struct {
	places  *semaphore.Weighted // which wakes those who wait one by one, in their order
	waiting int                 // who have places or wait for them
}

// Each returns places of which each holder has a number of its own, however many holders there are.
func Each(places int64) *Places { return &Places{each: places, by: map[string]*holder{}} }

// EachWaiting returns places as [Each] does. At most so many wait for those of one holder.
func EachWaiting(places int64, waiting int) *Places {
	p := Each(places)
	p.waiting = int(places) + waiting
	return p
}

// Shared returns places that all holders share. A holder leaves some to others, and has one at least.
func Shared(places, left int64) *Places {
	p := Each(max(1, places-left))
	p.all = semaphore.NewWeighted(places)
	return p
}

// heldKey marks the context of who has a place that all holders share.
type heldKey struct{}

// IsHeld reports whether ctx is of somebody who has a place that all holders share.
func IsHeld(ctx context.Context) bool { return ctx.Value(heldKey{}) != nil }

// Acquire waits for one place of a holder until ctx ends. What is done with the place is done in the context that it
// returns. The caller calls release, which does nothing the second time.
func (p *Places) Acquire(ctx context.Context, of string) (held context.Context, release func(), err error) {
	return p.AcquireN(ctx, of, 1)
}

// AcquireN waits for n places. Who asks for more than a holder may have gets those alone.
func (p *Places) AcquireN(ctx context.Context, of string, n int64) (held context.Context, release func(), err error) {
	held, shrink, err := p.Reserve(ctx, of, n)
	if err != nil {
		return nil, nil, err
	}
	return held, func() { shrink(0) }, nil
}

// AcquireBoth waits for n places of a holder in first, and then for n places of another one in second: who waits in
// first takes nothing from the holders of second.
func AcquireBoth(ctx context.Context, n int64, first *Places, firstOf string, second *Places, secondOf string) (
	release func(), err error) {
	shrink, err := ReserveBoth(ctx, n, first, firstOf, second, secondOf)
	if err != nil {
		return nil, err
	}
	return func() { shrink(0) }, nil
}

// ReserveBoth waits as AcquireBoth does, and returns what Reserve does.
func ReserveBoth(ctx context.Context, n int64, first *Places, firstOf string, second *Places, secondOf string) (
	shrink func(to int64), err error) {
	ctx, shrinkFirst, err := first.Reserve(ctx, firstOf, n)
	if err != nil {
		return nil, err
	}
	_, shrinkSecond, err := second.Reserve(ctx, secondOf, n)
	if err != nil {
		shrinkFirst(0)
		return nil, err
	}
	return func(to int64) {
		shrinkSecond(to)
		shrinkFirst(to)
	}, nil
}

// Reserve waits for n places as AcquireN does, for one who does not know yet how many it needs. shrink gives back all
// but so many of them; it never takes more. The caller ends with shrink(0).
func (p *Places) Reserve(ctx context.Context, of string, n int64) (held context.Context, shrink func(to int64),
	err error) {
	if IsHeld(ctx) {
		return nil, nil, ErrHeld
	}
	h := p.enter(of)
	if h == nil {
		return nil, nil, ErrTooMany
	}
	n = min(n, p.each)
	if err := h.places.Acquire(ctx, n); err != nil {
		p.leave(of, h)
		return nil, nil, context.Cause(ctx)
	}
	if p.all != nil {
		// Who waits here takes nothing from other holders, and has its own place already: it cannot queue up in front of
		// them with all that it has to do.
		if err := p.all.Acquire(ctx, n); err != nil {
			h.places.Release(n)
			p.leave(of, h)
			return nil, nil, context.Cause(ctx)
		}
		ctx = context.WithValue(ctx, heldKey{}, true)
	}
	return ctx, p.shrink(of, h, n), nil
}

// TryAcquire takes one place of a holder, and reports whether there is one now.
func (p *Places) TryAcquire(of string) (release func(), ok bool) {
	h := p.enter(of)
	if h == nil || !h.places.TryAcquire(1) {
		if h != nil {
			p.leave(of, h)
		}
		return nil, false
	}
	if p.all != nil && !p.all.TryAcquire(1) {
		h.places.Release(1)
		p.leave(of, h)
		return nil, false
	}
	shrink := p.shrink(of, h, 1)
	return func() { shrink(0) }, true
}

// shrink returns a function that gives back all but so many of n places.
func (p *Places) shrink(of string, h *holder, n int64) func(to int64) {
	var mu sync.Mutex
	return func(to int64) {
		mu.Lock()
		defer mu.Unlock()
		if to >= n {
			return
		}
		if p.all != nil {
			p.all.Release(n - to)
		}
		h.places.Release(n - to)
		if n = to; n == 0 {
			p.leave(of, h)
		}
	}
}

// enter returns a holder, for one who waits; nil when too many do.
func (p *Places) enter(of string) *holder {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.by[of]
	if h == nil {
		h = &holder{places: semaphore.NewWeighted(p.each)}
		p.by[of] = h
	}
	if p.waiting > 0 && h.waiting >= p.waiting {
		return nil
	}
	h.waiting++
	return h
}

// leave forgets a holder for whom nobody waits any more.
func (p *Places) leave(of string, h *holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.waiting--; h.waiting == 0 {
		delete(p.by, of)
	}
}

// Holders returns how many holders have places or wait for them.
func (p *Places) Holders() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.by)
}

// Waiting returns how many have places of a holder or wait for them.
func (p *Places) Waiting(of string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.by[of]; h != nil {
		return h.waiting
	}
	return 0
}
