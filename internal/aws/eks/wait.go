package eks

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The waiters of the SDKs ("aws eks wait cluster-active") ask every thirty seconds, which suits a
// cluster that takes ten minutes. Here it takes seconds, so the question of a waiter about a
// cluster on its way is answered when it has arrived.

// patience is how long a waiter's question is held: half of what the SDKs allow an answer to take.
const patience = 30 * time.Second

// waiterAgent finds the business metric by which SDKs mark a waiter's requests: m/...,B,...
// https://github.com/aws/aws-sdk-go-v2/blob/main/aws/middleware/user_agent.go
var waiterAgent = regexp.MustCompile(`(^| )m/([A-Za-z0-9+-]+,)*B(,| |$)`)

// watch has tell called whenever something may have changed, until ctx ends.
type watch func(ctx context.Context, tell func(string))

// hold returns once arrived says so, at once unless a waiter asks.
func hold(ctx context.Context, arrived func(context.Context) (bool, error), watches ...watch) error {
	if !waiterAgent.MatchString(wire.UserAgentFrom(ctx)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	changed := make(chan struct{}, 1)
	tell := func(string) {
		select {
		case changed <- struct{}{}:
		default: // it is about to look anyway
		}
	}
	var listeners sync.WaitGroup
	defer listeners.Wait()
	defer cancel()
	for _, w := range watches {
		listeners.Go(func() { w(ctx, tell) })
	}
	for {
		if ok, err := arrived(ctx); ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// notify watches what is below a prefix of a table's keys.
func notify[T any](table store.Table[T], prefix string) watch {
	return func(ctx context.Context, tell func(string)) { table.Notify(ctx, prefix, tell) }
}

// await holds until arrived says so of the row with that key, or there is none.
func await[T any](ctx context.Context, table store.Table[T], key string, arrived func(context.Context, T) (bool, error), watches ...watch) error {
	return hold(ctx, func(ctx context.Context) (bool, error) {
		row, err := table.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		return arrived(ctx, row.Value)
	}, append(watches, notify(table, key))...)
}

// awaitArrival returns once the cluster is neither being created, updated nor deleted, at once unless a waiter asks.
func (s *Service) awaitArrival(ctx context.Context, name string) error {
	at := placeOf(ctx)
	key := at.clusterKey(name)
	return await(ctx, s.clusters, key, func(ctx context.Context, c record.Cluster) (bool, error) {
		cp, last, err := s.observed(ctx, c)
		switch status(c, cp, last) {
		case types.ClusterStatusCreating, types.ClusterStatusUpdating, types.ClusterStatusDeleting:
			return false, err
		}
		return true, err
	}, notify(s.controlPlanes, key), notify(s.updates, store.Prefix(at.account, at.region, name)))
}

// awaitNodegroup returns once the node group is neither being created, updated nor deleted, at once unless a waiter asks.
func (s *Service) awaitNodegroup(ctx context.Context, cluster, name string) error {
	at := placeOf(ctx)
	key := record.NodegroupKey(at.account, at.region, cluster, name)
	return await(ctx, s.nodegroups, key, func(ctx context.Context, n record.Nodegroup) (bool, error) {
		state, last, err := s.observedGroup(ctx, n)
		switch nodegroupStatus(n, state, last) {
		case types.NodegroupStatusCreating, types.NodegroupStatusUpdating, types.NodegroupStatusDeleting:
			return false, err
		}
		return true, err
	}, notify(s.nodegroupStates, key), notify(s.updates, store.Prefix(at.account, at.region, cluster)))
}

// awaitAddon returns once the add-on is neither being created, updated nor deleted, at once unless a waiter asks.
func (s *Service) awaitAddon(ctx context.Context, about subject) error {
	at := placeOf(ctx)
	key := record.AddonKey(at.account, at.region, about.cluster, about.addon)
	return await(ctx, s.addons, key, func(ctx context.Context, a record.Addon) (bool, error) {
		state, last, err := s.observedAddon(ctx, a)
		switch addonStatus(a, state, last) {
		case types.AddonStatusCreating, types.AddonStatusUpdating, types.AddonStatusDeleting:
			return false, err
		}
		return true, err
	}, notify(s.addonStates, key), notify(s.updates, store.Prefix(at.account, at.region, about.cluster)))
}
