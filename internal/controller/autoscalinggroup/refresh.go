package autoscalinggroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// refreshTimeout is the time for which an instance refresh may make no progress while launches fail.
const refreshTimeout = time.Hour

// refreshing is an instance refresh that is under way.
type refreshing struct {
	key    string
	row    record.AutoScalingRefresh
	now    record.AutoScalingRefreshProgress
	target *types.DesiredConfiguration // what is launched, if it is not what the group has
	// surplus is the capacity beyond the desired one that new instances may take before old ones go.
	surplus int32
}

// targetCapacity returns the capacity that the group is to have now: what is desired, and what an instance refresh, or
// the replacement of instances that are about to be interrupted, takes beyond it.
func (v *view) targetCapacity() int32 {
	if v.group.Deleting {
		return v.group.Desired
	}
	extra := v.replacements()
	if v.refresh != nil {
		extra = max(extra, v.refresh.surplus)
	}
	return v.group.Desired + extra
}

// refresh replaces instances by an instance refresh: as many at a time as leaves enough of them healthy. It writes what
// it observes; which instances are to go follows from when they were launched, and from what.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/instance-refresh-overview.html
func (c *Controller) refresh(ctx context.Context, v *view) error {
	if v.group.RefreshID == "" {
		return nil
	}
	r := &refreshing{key: v.activityKey(v.group.RefreshID)}
	row, err := c.refreshes.Get(ctx, r.key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	progress, err := c.progress.Copy(ctx, r.key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	r.row, r.now = row.Value, progress.Value
	before := r.now
	switch r.now.Status {
	case types.InstanceRefreshStatusSuccessful, types.InstanceRefreshStatusFailed, types.InstanceRefreshStatusCancelled,
		types.InstanceRefreshStatusRollbackFailed, types.InstanceRefreshStatusRollbackSuccessful:
		return nil
	}
	v.refresh = r
	if err := c.refreshStep(ctx, v, r); err != nil {
		return err
	}
	if r.now == before {
		return nil
	}
	_, err = c.progress.Put(ctx, r.key, r.now)
	return err
}

// endRefresh ends the refresh.
func (r *refreshing) endRefresh(v *view, now time.Time, status types.InstanceRefreshStatus, reason string) {
	r.now.Status, r.now.Reason, r.now.EndedAt = status, reason, now
	v.refresh = nil
}

func (c *Controller) refreshStep(ctx context.Context, v *view, r *refreshing) error {
	now := c.now()
	if r.now.Status == "" {
		r.now.Status, r.now.StartedAt, r.now.ProgressAt = types.InstanceRefreshStatusInProgress, now, now
	}
	switch {
	case v.group.Deleting:
		r.endRefresh(v, now, types.InstanceRefreshStatusCancelled, "The Auto Scaling group is being deleted.")
		return nil
	case !r.row.CancelledAt.IsZero():
		r.now.Status = types.InstanceRefreshStatusCancelling
		if v.isStable() && !slices.ContainsFunc(v.members, (*member).terminating) {
			r.endRefresh(v, now, types.InstanceRefreshStatusCancelled, "Cancelled due to user request.")
		}
		return nil
	case !r.row.RollbackAt.IsZero() && r.now.RolledBackAt.IsZero():
		r.rollBack(now, "Rollback was started due to user request.")
	}
	rolling := !r.now.RolledBackAt.IsZero()
	switch {
	case rolling:
		r.target = &r.row.Before
	case r.row.Desired != nil:
		r.target = r.row.Desired
	}
	for _, process := range []string{"InstanceRefresh", "Launch", "Terminate"} {
		if v.suspended(process) {
			r.now.Reason = "The process " + process + " is suspended."
			return nil
		}
	}

	left, err := c.findRemnant(ctx, v, r, rolling)
	if err != nil {
		return err
	}
	remaining := int32(len(left.old) + left.warming)
	if r.now.Total < remaining {
		r.now.Total = remaining
	}
	if remaining != r.now.Remaining || r.now.ProgressAt.IsZero() {
		r.now.Remaining, r.now.ProgressAt = remaining, now
	}
	r.now.Reason = left.waiting
	if v.status.Failures > 0 && now.Sub(r.now.ProgressAt) >= refreshTimeout {
		return c.refreshFailed(v, r, rolling, now)
	}
	if v.status.Failures > 0 {
		v.wakeAt(r.now.ProgressAt.Add(refreshTimeout))
	}
	if len(left.old) == 0 {
		return c.refreshed(ctx, v, r, rolling, remaining, now)
	}
	if left.waiting != "" {
		return nil
	}
	return c.replaceInstances(ctx, v, r, left, now)
}

func (r *refreshing) rollBack(now time.Time, reason string) {
	r.now.Status, r.now.RolledBackAt, r.now.RollbackReason = types.InstanceRefreshStatusRollbackInProgress, now, reason
	r.now.Total, r.now.Remaining, r.now.ProgressAt = 0, 0, now
	r.now.Checkpoint, r.now.CheckpointAt, r.now.BakingSince = 0, time.Time{}, time.Time{}
}

func (c *Controller) refreshFailed(v *view, r *refreshing, rolling bool, now time.Time) error {
	const reason = "Instance refresh has failed: instances could not be launched for an hour. Scaling activities say why."
	switch {
	case rolling:
		r.endRefresh(v, now, types.InstanceRefreshStatusRollbackFailed, reason)
	case aws.ToBool(r.row.Preferences.AutoRollback):
		r.rollBack(now, reason)
		v.status.Failures, v.status.RetryAt, v.status.Zones = 0, time.Time{}, nil
		v.wakeAt(now)
	default:
		r.endRefresh(v, now, types.InstanceRefreshStatusFailed, reason)
	}
	return nil
}

// remnant is the rest of an instance refresh: the instances that are still to be replaced, and the capacity meanwhile.
type remnant struct {
	old     []*member // to be replaced
	warming int       // new, not warm yet
	healthy int32     // capacity that is in service and warm
	waiting string    // what the refresh waits for a user to do, if it does
}

func (c *Controller) findRemnant(ctx context.Context, v *view, r *refreshing, rolling bool) (remnant, error) {
	since, skip := r.row.StartedAt, aws.ToBool(r.row.Preferences.SkipMatching)
	if rolling {
		since, skip = r.now.RolledBackAt, true
	}
	current, err := c.currentTemplates(ctx, v)
	if err != nil {
		return remnant{}, err
	}
	kinds, err := c.currentKinds(ctx, v)
	if err != nil {
		return remnant{}, err
	}
	warmup := time.Duration(aws.ToInt32(r.row.Preferences.InstanceWarmup)) * time.Second
	now := c.now()
	var out remnant
	for _, m := range v.members {
		old := m.row.LaunchedAt.Before(since) && !(skip && current[m.template()] && kinds(m))
		switch {
		case m.terminating(), m.row.State == types.LifecycleStateDetaching,
			m.row.State == types.LifecycleStateEnteringStandby:
			continue
		case m.row.Warm():
			if old { // nobody is served by it: others take its place in the pool at once
				if err := c.leavePool(ctx, v, m,
					fmt.Sprintf(
						"At %s instance %s was taken out of the warm pool in response to an instance refresh with an "+
							"ID of %s.", formatTime(now), m.row.ID, r.row.ID)); err != nil {
					return remnant{}, err
				}
			}
			continue
		case m.row.State == types.LifecycleStateStandby:
			if old {
				switch r.row.Preferences.StandbyInstances {
				case types.StandbyInstancesTerminate:
					out.old = append(out.old, m)
				case types.StandbyInstancesWait:
					out.old = append(out.old, m)
					out.waiting = fmt.Sprintf(
						"Waiting for instances to exit standby before continuing. For example: %s", m.row.ID)
				}
			}
			continue
		case old && m.protected():
			switch r.row.Preferences.ScaleInProtectedInstances {
			case types.ScaleInProtectedInstancesRefresh:
				out.old = append(out.old, m)
			case types.ScaleInProtectedInstancesWait:
				out.old = append(out.old, m)
				out.waiting = fmt.Sprintf(
					"Waiting for scale in protection to be removed from instances before continuing. For example: %s",
					m.row.ID)
			}
		case old:
			out.old = append(out.old, m)
		}
		if !m.inService() {
			if !old {
				out.warming++
			}
			continue
		}
		warm := m.row.InServiceAt.Add(warmup)
		if !m.row.LaunchedAt.Before(since) && now.Before(warm) {
			out.warming++
			v.wakeAt(warm)
			continue
		}
		out.healthy += m.row.Weight
	}
	return out, nil
}

// currentKinds returns a function that reports whether the configuration would launch the type of an instance.
func (c *Controller) currentKinds(ctx context.Context, v *view) (func(*member) bool, error) {
	options, _, err := c.options(ctx, v)
	if err != nil && apierror.Code(err) == "" {
		return nil, err
	}
	return func(m *member) bool {
		return slices.ContainsFunc(options, func(o option) bool { return o.typeOf == m.row.InstanceType })
	}, nil
}

// replaceInstances takes old instances out of service, as many as may be missing.
func (c *Controller) replaceInstances(ctx context.Context, v *view, r *refreshing, left remnant, now time.Time) error {
	desired := v.group.Desired
	least := int32(math.Ceil(float64(desired) * float64(aws.ToInt32(r.row.Preferences.MinHealthyPercentage)) / 100))
	extra := int32(math.Floor(float64(desired) * float64(
		aws.ToInt32(r.row.Preferences.MaxHealthyPercentage)-100) / 100))
	if aws.ToInt32(r.row.Preferences.MaxHealthyPercentage) > 100 {
		extra = max(extra, 1)
	}
	most := len(left.old)
	if wait, limit := c.checkpoint(v, r, left, now); wait {
		return nil
	} else if limit > 0 {
		most = min(most, limit)
	}
	surplus := left.healthy - least
	if extra == 0 {
		surplus = max(surplus, 0)
		if surplus == 0 && v.isStable() && left.warming == 0 && left.healthy >= desired {
			surplus = 1 // one at a time, at least
		}
	}
	// Those that are no use go first, then the oldest.
	slices.SortStableFunc(left.old, func(a, b *member) int {
		switch {
		case a.inService() == b.inService():
			return a.row.LaunchedAt.Compare(b.row.LaunchedAt)
		case b.inService():
			return -1
		}
		return 1
	})
	gone := 0
	for _, m := range left.old[:most] {
		if m.inService() {
			if surplus <= 0 {
				break
			}
			surplus -= m.row.Weight
		}
		why := record.AutoScalingRequest{At: now,
			Cause: fmt.Sprintf(
				"At %s instance %s was taken out of service in response to an instance refresh with an ID of %s.",
				formatTime(now), m.row.ID, r.row.ID)}
		if err := c.beginTermination(ctx, v, m, why, c.cancelled(ctx, v, m)...); err != nil {
			return err
		}
		gone++
	}
	r.surplus = min(extra, int32(most-gone))
	return nil
}

// checkpoint holds the refresh at its checkpoints: whether it waits at one, else how many instances may be replaced up
// to the next.
func (c *Controller) checkpoint(v *view, r *refreshing, left remnant, now time.Time) (wait bool, limit int) {
	delay := time.Duration(aws.ToInt32(r.row.Preferences.CheckpointDelay)) * time.Second
	if !r.now.CheckpointAt.IsZero() {
		if end := r.now.CheckpointAt.Add(delay); now.Before(end) {
			v.wakeAt(end)
			return true, 0
		}
	}
	for _, p := range r.row.Preferences.CheckpointPercentages {
		if p <= r.now.Checkpoint || p == 100 {
			continue
		}
		until := int(math.Ceil(float64(r.now.Total) * float64(p) / 100))
		replaced := int(r.now.Total) - len(left.old)
		if replaced < until {
			return false, until - replaced
		}
		if left.warming > 0 {
			return true, 0 // the last of them first
		}
		r.now.Checkpoint, r.now.CheckpointAt = p, now
		r.now.Reason = fmt.Sprintf("Waiting for checkpoint at %d percent.", p)
		v.wakeAt(now.Add(delay))
		return true, 0
	}
	return false, 0
}

// refreshed ends a refresh that has nothing left to replace, once all that is new is in service and the bake time is
// over.
func (c *Controller) refreshed(ctx context.Context, v *view, r *refreshing, rolling bool, remaining int32,
	now time.Time) error {
	if remaining > 0 || v.capacity() < v.group.Desired || !v.isStable() {
		return nil
	}
	if rolling {
		r.endRefresh(v, now, types.InstanceRefreshStatusRollbackSuccessful, "")
		return nil
	}
	if bake := time.Duration(aws.ToInt32(r.row.Preferences.BakeTime)) * time.Second; bake > 0 {
		if r.now.BakingSince.IsZero() {
			r.now.Status, r.now.BakingSince = types.InstanceRefreshStatusBaking, now
		}
		if end := r.now.BakingSince.Add(bake); now.Before(end) {
			v.wakeAt(end)
			return nil
		}
	}
	if r.row.Desired != nil {
		if err := c.o.API.Refreshed(ctx, v.group.Account, v.group.Region, v.group.Name, r.row.ID); err != nil {
			return fmt.Errorf("give the group its new configuration: %w", err)
		}
		// For the rest of this reconciliation the group launches what it was refreshed to.
		v.group.LaunchTemplate, v.group.Mixed = r.row.Desired.LaunchTemplate, r.row.Desired.MixedInstancesPolicy
	}
	r.endRefresh(v, now, types.InstanceRefreshStatusSuccessful, "")
	return nil
}
