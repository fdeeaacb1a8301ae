package cluster

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// change is a request to change a cluster.
type change struct {
	cluster string
	token   *string
	request any // the SDK's input structure
	kind    types.UpdateType
	// apply changes what is wanted of the cluster and says so in the update's Params. c is a copy of its own. What it
	// returns is written in the same transaction. It may run several times.
	apply func(c *record.Cluster, cp record.ControlPlane, u *record.Update) ([]store.Op, error)
}

// startUpdate records a change of a cluster and its update object.
func (s *Service) startUpdate(ctx context.Context, ch change) (*types.Update, error) {
	return s.StartUpdate(ctx, func() (a resource.Attempt, err error) {
		row, err := s.Clusters.Copy(ctx, resource.ScopeOf(ctx).ClusterKey(ch.cluster))
		if errors.Is(err, store.ErrNotFound) {
			return a, exception.ClusterNotFound(ch.cluster)
		} else if err != nil {
			return a, err
		}
		c := &row.Value
		if a, err = s.NewAttempt(ctx, *c, resource.UpdateOwner{}, ch.kind, ch.token, ch.request); a.Before != nil ||
			err != nil {
			return a, err
		}
		cp, last, err := s.Observe(ctx, *c)
		if err != nil {
			return a, err
		}
		if last.Status == types.UpdateStatusInProgress {
			return a, exception.InUse(
				c.Name, "Cannot %s because cluster %s currently has update %s in progress", ch.kind, c.Name, last.ID,
			)
		}
		if now := resource.ClusterStatus(*c, cp, last); now != types.ClusterStatusActive {
			return a, exception.InUse(
				c.Name, "Cannot %s because cluster %s is in status %s: it must be ACTIVE", ch.kind, c.Name, now,
			)
		}
		c.Version = c.WantedVersion(last)
		if a.Ops, err = ch.apply(c, cp, &a.Update); err != nil {
			return a, err
		}
		c.LastUpdateID = a.Update.ID
		a.Ops = append(a.Ops, s.Clusters.UpdateOp(row))
		return a, nil
	})
}
