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

// awaitArrival returns once the cluster is neither being created, updated nor deleted, at once unless a waiter asks.
func (s *Service) awaitArrival(ctx context.Context, name string) error {
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
	at := placeOf(ctx)
	key := at.clusterKey(name)
	var listeners sync.WaitGroup
	defer listeners.Wait()
	defer cancel()
	listeners.Go(func() { s.clusters.Notify(ctx, key, tell) })
	listeners.Go(func() { s.controlPlanes.Notify(ctx, key, tell) })
	listeners.Go(func() { s.updates.Notify(ctx, store.Prefix(at.account, at.region, name), tell) })
	for {
		row, err := s.clusters.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if arrived, err := s.arrived(ctx, row.Value); arrived || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Service) arrived(ctx context.Context, c record.Cluster) (bool, error) {
	cp, last, err := s.observed(ctx, c)
	if err != nil {
		return false, err
	}
	switch status(c, cp, last) {
	case types.ClusterStatusCreating, types.ClusterStatusUpdating, types.ClusterStatusDeleting:
		return false, nil
	}
	return true, nil
}
