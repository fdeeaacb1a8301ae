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

// awaitArrival returns once the cluster is neither being created, updated nor deleted, at once unless a waiter asks.
func (s *Service) awaitArrival(ctx context.Context, name string) error {
	at := placeOf(ctx)
	key := at.clusterKey(name)
	return hold(ctx, func(ctx context.Context) (bool, error) {
		row, err := s.clusters.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		cp, last, err := s.observed(ctx, row.Value)
		if err != nil {
			return false, err
		}
		switch status(row.Value, cp, last) {
		case types.ClusterStatusCreating, types.ClusterStatusUpdating, types.ClusterStatusDeleting:
			return false, nil
		}
		return true, nil
	},
		func(ctx context.Context, tell func(string)) { s.clusters.Notify(ctx, key, tell) },
		func(ctx context.Context, tell func(string)) { s.controlPlanes.Notify(ctx, key, tell) },
		func(ctx context.Context, tell func(string)) {
			s.updates.Notify(ctx, store.Prefix(at.account, at.region, name), tell)
		})
}

// awaitNodegroup returns once the node group is neither being created, updated nor deleted, at once unless a waiter asks.
func (s *Service) awaitNodegroup(ctx context.Context, cluster, name string) error {
	at := placeOf(ctx)
	key := record.NodegroupKey(at.account, at.region, cluster, name)
	return hold(ctx, func(ctx context.Context) (bool, error) {
		row, err := s.nodegroups.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		state, last, err := s.observedGroup(ctx, row.Value)
		if err != nil {
			return false, err
		}
		switch nodegroupStatus(row.Value, state, last) {
		case types.NodegroupStatusCreating, types.NodegroupStatusUpdating, types.NodegroupStatusDeleting:
			return false, nil
		}
		return true, nil
	},
		func(ctx context.Context, tell func(string)) { s.nodegroups.Notify(ctx, key, tell) },
		func(ctx context.Context, tell func(string)) { s.nodegroupStates.Notify(ctx, key, tell) },
		func(ctx context.Context, tell func(string)) {
			s.updates.Notify(ctx, store.Prefix(at.account, at.region, cluster), tell)
		})
}

// awaitAddon returns once the add-on is neither being created, updated nor deleted, at once unless a waiter asks.
func (s *Service) awaitAddon(ctx context.Context, about subject) error {
	at := placeOf(ctx)
	key := record.AddonKey(at.account, at.region, about.cluster, about.addon)
	return hold(ctx, func(ctx context.Context) (bool, error) {
		row, err := s.addons.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		state, last, err := s.observedAddon(ctx, row.Value)
		if err != nil {
			return false, err
		}
		switch addonStatus(row.Value, state, last) {
		case types.AddonStatusCreating, types.AddonStatusUpdating, types.AddonStatusDeleting:
			return false, nil
		}
		return true, nil
	},
		func(ctx context.Context, tell func(string)) { s.addons.Notify(ctx, key, tell) },
		func(ctx context.Context, tell func(string)) { s.addonStates.Notify(ctx, key, tell) },
		func(ctx context.Context, tell func(string)) {
			s.updates.Notify(ctx, store.Prefix(at.account, at.region, about.cluster), tell)
		})
}
