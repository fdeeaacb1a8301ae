package networkpolicy

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// untold has the policies that are to be told. The mirror adds to them and never waits: keys of a cluster leave their
// queue after passes that succeed only, and these depend on what the mirror says. Policies that change while the teller
// waits for room are told once.
type untold struct {
	wake chan struct{} // has something in it when there may be policies to tell

	mu  sync.Mutex
	all map[types.NamespacedName]bool
	// refused are those whose last pass the API server has refused. They are told again every retryRefused.
	refused map[types.NamespacedName]bool
	// soon are those whose endpoints have changed. They are told every second: where each is changed as soon as it is
	// written, that would not end.
	soon map[types.NamespacedName]bool
}

// retrySoon is the interval at which policies are told whose endpoints have changed.
const retrySoon = time.Second

// retryRefused is the interval at which policies are told again that the API server has refused to write.
const retryRefused = time.Minute

func newUntold() *untold {
	return &untold{wake: make(chan struct{}, 1), all: map[types.NamespacedName]bool{},
		refused: map[types.NamespacedName]bool{}, soon: map[types.NamespacedName]bool{}}
}

// addSoon has a policy told within a second.
func (u *untold) addSoon(at types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.soon[at] = true
}

// add has policies told. It does not wait.
func (u *untold) add(policies ...types.NamespacedName) {
	if len(policies) == 0 {
		return
	}
	u.mu.Lock()
	for _, at := range policies {
		u.all[at] = true
	}
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default: // the teller is about to look
	}
}

// retry has a policy told again, later.
func (u *untold) retry(at types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refused[at] = true
}

// remove forgets a policy that is gone: nothing is to be done for it.
func (u *untold) remove(at types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, at)
	delete(u.refused, at)
	delete(u.soon, at)
}

// next takes one of the policies that are to be told; false when there is none.
func (u *untold) next() (types.NamespacedName, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for at := range u.all {
		delete(u.all, at)
		delete(u.refused, at)
		delete(u.soon, at)
		return at, true
	}
	return types.NamespacedName{}, false
}

// addWaiting has the policies told whose endpoints have changed.
func (u *untold) addWaiting() {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.Copy(u.all, u.soon)
}

// addRefused has the policies told that the API server has refused.
func (u *untold) addRefused() {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.Copy(u.all, u.refused)
}

// tell tells the policies that are to be told, until ctx ends, and waits for room for each.
func (u *untold) tell(ctx context.Context, told func(context.Context, types.NamespacedName) error) error {
	again := time.NewTicker(retryRefused)
	defer again.Stop()
	soon := time.NewTicker(retrySoon)
	defer soon.Stop()
	for {
		select {
		case <-soon.C:
			u.addWaiting()
		case <-u.wake:
		case <-again.C:
			u.addRefused()
		case <-ctx.Done():
			return ctx.Err()
		}
		for at, ok := u.next(); ok; at, ok = u.next() {
			if err := told(ctx, at); err != nil {
				return err
			}
		}
	}
}
