package fargate

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// addressQueue has the pods whose subnets have no free address. A network interface that changes may have given one
// up: it wakes the pod that was woken the longest ago. The network interface of that pod is another change, so that
// pods follow each other as long as there are addresses.
type addressQueue struct {
	mu    sync.Mutex
	keys  []string        // of pods, in the order in which they are woken
	woken map[string]bool // those that have not looked since
}

// wake returns the key of the pod that is woken by a change of a network interface; none when no pod waits in the
// account and region.
func (q *addressQueue) wake(networkInterface string) []string {
	prefix := store.Prefix(store.Parts(networkInterface)[:2]...)
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.IndexFunc(q.keys, func(key string) bool { return strings.HasPrefix(key, prefix) })
	if at < 0 {
		return nil
	}
	key := q.keys[at]
	q.keys = append(slices.Delete(q.keys, at, at+1), key)
	q.woken[key] = true
	return []string{key}
}

// wait enters a pod, and reports whether something may have changed for it since it last waited.
func (q *addressQueue) wait(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	woken := q.woken[key]
	if !slices.Contains(q.keys, key) {
		q.keys, woken = append(q.keys, key), true // nobody was there to see it
	}
	delete(q.woken, key)
	return woken
}

// leave takes a pod out that no longer waits.
func (q *addressQueue) leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := slices.Index(q.keys, key); at >= 0 {
		q.keys = slices.Delete(q.keys, at, at+1)
	}
	delete(q.woken, key)
}

// isAddressFree reports whether a pod that waits for an address was woken, and a subnet of its profile has one.
func (p *podPass) isAddressFree(ctx context.Context) (bool, error) {
	row := p.pod.Value
	if !row.AwaitsAddress || !p.c.addresses.wait(p.key) {
		return false, nil
	}
	profile, err := p.c.profiles.Get(ctx, record.FargateProfileKey(row.Account, row.Region, row.Cluster, row.Profile))
	if err != nil {
		return false, store.IgnoreNotFound(err)
	}
	subnets, err := p.c.describeSubnets(ctx, profile.Value)
	return slices.ContainsFunc(subnets, func(s subnet) bool { return s.free > 0 }), err
}
