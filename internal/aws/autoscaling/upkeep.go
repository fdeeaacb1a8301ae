package autoscaling

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Upkeep changes what is wanted of groups when nobody asks for it at the moment: when a scheduled action is due, and
// when an instance refresh has succeeded. The controller of groups calls it, because only this package writes what is
// wanted.
type Upkeep struct{ s *Service }

// NewUpkeep returns the upkeep of the groups in o.Store.
func NewUpkeep(o Options) Upkeep { return Upkeep{New(o)} }

func accountContext(ctx context.Context, account, region string) context.Context {
	return wire.WithRegion(wire.WithCaller(ctx, wire.Caller{Account: account}), region)
}

// RunSchedule carries out the scheduled actions of a group that are due, and says when the next is; zero: never.
func (u Upkeep) RunSchedule(ctx context.Context, account, region, group string) (next time.Time, err error) {
	ctx = store.Limited(accountContext(ctx, account, region)) // its user chose how often this is written
	rows, err := u.s.schedules.List(ctx, store.Prefix(account, region, group))
	if err != nil {
		return next, err
	}
	now := u.s.timestamp()
	for _, row := range rows {
		due := row.Value.Next
		if !due.After(now) {
			if due, err = u.runAction(ctx, group, row.Key, now); err != nil {
				return next, err
			}
		}
		if !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next, nil
}

// runAction carries out one action, and says when it is due again.
func (u Upkeep) runAction(ctx context.Context, group, key string, now time.Time) (due time.Time, err error) {
	err = u.s.updateGroup(ctx, &group, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		due = time.Time{}
		row, err := u.s.schedules.Copy(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if row.Value.Next.After(now) {
			due = row.Value.Next // done already
			return nil, nil
		}
		before, a := *g, row.Value.Action
		if err := resizeGroup(g, now, a.MinSize, a.MaxSize, a.DesiredCapacity,
			"a scheduled action update of AutoScalingGroup constraints to"); err != nil {
			*g = before // the sizes of the group have changed so that it cannot be done any more
		}
		if due = nextRun(a, now); due.IsZero() {
			return []store.Op{u.s.schedules.DeleteOp(row)}, nil
		}
		row.Value.Next = due
		row.Value.Action.StartTime, row.Value.Action.Time = &due, &due
		return []store.Op{u.s.schedules.UpdateOp(row)}, nil
	})
	return due, err
}

// Refreshed gives a group the configuration that its instance refresh has brought about.
func (u Upkeep) Refreshed(ctx context.Context, account, region, group, refreshID string) error {
	ctx = accountContext(ctx, account, region)
	err := u.s.updateGroup(ctx, &group, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		row, _, err := u.s.refreshOf(ctx, *g)
		if err != nil {
			return nil, err
		}
		if r := row.Value; r.ID == refreshID && r.Desired != nil && unchanged(*g, r.Before) {
			g.LaunchTemplate, g.Mixed = r.Desired.LaunchTemplate, r.Desired.MixedInstancesPolicy
		}
		return nil, nil
	})
	return err
}

// unchanged reports whether a group still launches what it did; a user may have said something else since.
func unchanged(g record.AutoScalingGroup, before types.DesiredConfiguration) bool {
	return wire.Fingerprint(&types.DesiredConfiguration{LaunchTemplate: g.LaunchTemplate,
		MixedInstancesPolicy: g.Mixed}) == wire.Fingerprint(&before)
}
