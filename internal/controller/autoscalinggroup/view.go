package autoscalinggroup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// view is a group as one reconciliation sees it. Steps keep it up to date with what they write.
type view struct {
	key      string
	groupRow store.Row[record.AutoScalingGroup]
	group    record.AutoScalingGroup
	status   record.AutoScalingGroupStatus
	members  []*member // by the time of their launch
	launches []store.Row[record.AutoScalingLaunch]
	attaches []attachment
	traffic  []*source
	client   EC2
	// classic and targets are clients of Elastic Load Balancing, of a group that has traffic sources.
	classic Classic
	targets TargetGroups
	next    time.Time // when to look again; zero: not before something changes
	again   bool      // look again at once
	// replacing counts the instances that were found ill in this reconciliation.
	replacing int
	// refresh is the instance refresh that is under way, if one is.
	refresh *refreshing
}

// member is an instance of the group.
type member struct {
	key   string
	row   record.AutoScalingInstance
	order record.AutoScalingOrder // zero without one
	// instance and machine are the records of EC2; state is terminated when EC2 no longer has the instance.
	instance record.Instance
	machine  record.Machine
	state    ec2types.InstanceStateName
}

type attachment struct {
	key   string
	order record.AutoScalingOrder
}

// loadView loads a group with all its records, as they are at one moment.
func (c *Controller) loadView(ctx context.Context, key string) (*view, error) {
	for {
		row, err := c.groups.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		v := &view{key: key, groupRow: row, group: row.Value}
		if err := c.loadRecords(ctx, v); err != nil {
			return nil, err
		}
		// A request that changes an instance and the size of the group writes both at once: what was read is one moment
		// only if the group is still the same.
		again, err := c.groups.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		if again.Revision == row.Revision {
			v.client = c.o.EC2(v.group.Account, v.group.Region, v.group.ServiceLinkedRoleARN)
			if len(v.traffic) > 0 {
				v.classic = c.o.Classic(v.group.Account, v.group.Region, v.group.ServiceLinkedRoleARN)
				v.targets = c.o.TargetGroups(v.group.Account, v.group.Region, v.group.ServiceLinkedRoleARN)
			}
			return v, nil
		}
	}
}

func (c *Controller) loadRecords(ctx context.Context, v *view) error {
	g := v.group
	status, err := c.statuses.Copy(ctx, v.key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if status.Value.GroupID == g.ID {
		v.status = status.Value
	}
	v.status.GroupID = g.ID
	at := store.Prefix(g.Account, g.Region)
	orders, err := c.orders.List(ctx, at)
	if err != nil {
		return err
	}
	ordered := make(map[string]record.AutoScalingOrder)
	for _, row := range orders {
		if row.Value.GroupID == g.ID {
			ordered[row.Key] = row.Value
		}
	}
	rows, err := c.members.List(ctx, at)
	if err != nil {
		return err
	}
	known := make(map[string]bool)
	for _, row := range rows {
		if row.Value.GroupID != g.ID {
			continue
		}
		m := &member{key: row.Key, row: row.Value, order: ordered[row.Key]}
		if err := c.loadInstance(ctx, m); err != nil {
			return err
		}
		known[row.Key] = true
		v.members = append(v.members, m)
	}
	for key, order := range ordered {
		if order.Attach != nil && !known[key] {
			v.attaches = append(v.attaches, attachment{key, order})
		}
	}
	slices.SortFunc(v.attaches, func(a, b attachment) int { return strings.Compare(a.key, b.key) })
	slices.SortStableFunc(v.members, func(a, b *member) int { return a.row.LaunchedAt.Compare(b.row.LaunchedAt) })
	if v.launches, err = c.launches.List(ctx, store.Prefix(g.Account, g.Region, g.Name)); err != nil {
		return err
	}
	return c.loadTraffic(ctx, v)
}

// loadInstance loads the state of an instance from EC2.
func (c *Controller) loadInstance(ctx context.Context, m *member) error {
	instance, err := c.ec2.Get(ctx, m.key)
	if errors.Is(err, store.ErrNotFound) {
		m.state = ec2types.InstanceStateNameTerminated
		return nil
	}
	if err != nil {
		return err
	}
	machine, err := c.machines.Get(ctx, m.key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	m.instance, m.machine = instance.Value, machine.Value
	m.state = record.InstanceState(instance.Value, machine.Value)
	return nil
}

// wakeAt schedules the next reconcile pass over the group at a time.
func (v *view) wakeAt(at time.Time) {
	if !at.IsZero() && (v.next.IsZero() || at.Before(v.next)) {
		v.next = at
	}
}

// requeueAfter returns how long it is until then, 0 if nothing is scheduled; false if it is time.
func (v *view) requeueAfter(now time.Time) (time.Duration, bool) {
	if v.next.IsZero() {
		return 0, true
	}
	return v.next.Sub(now), v.next.After(now)
}

func (v *view) suspended(process string) bool {
	_, ok := v.group.Suspended[process]
	return ok
}

// protected reports whether an instance is protected from scale in.
func (m *member) protected() bool {
	if m.order.Protected != nil {
		return *m.order.Protected
	}
	return m.row.Protected
}

// isCounted reports whether an instance is part of the group's capacity.
func (m *member) isCounted() bool {
	switch m.row.State {
	case types.LifecycleStatePending, types.LifecycleStatePendingWait, types.LifecycleStatePendingProceed,
		types.LifecycleStateInService:
		return true
	}
	return false
}

func (m *member) inService() bool { return m.row.State == types.LifecycleStateInService }

func (m *member) terminating() bool {
	switch m.row.State {
	case types.LifecycleStateTerminating, types.LifecycleStateTerminatingWait, types.LifecycleStateTerminatingProceed,
		types.LifecycleStateWarmedTerminating, types.LifecycleStateWarmedTerminatingWait,
		types.LifecycleStateWarmedTerminatingProceed:
		return true
	}
	return false
}

// isAlive reports whether EC2 still runs an instance, or is about to.
func (m *member) isAlive() bool {
	return m.state == ec2types.InstanceStateNamePending || m.state == ec2types.InstanceStateNameRunning
}

// capacity returns what the group has of what is desired.
func (v *view) capacity() int32 {
	var sum int32
	for _, m := range v.members {
		if m.isCounted() {
			sum += m.row.Weight
		}
	}
	return sum
}

// isStable reports whether no instance is on its way in.
func (v *view) isStable() bool {
	return !slices.ContainsFunc(v.members, func(m *member) bool { return m.isCounted() && !m.inService() })
}

// removeMember takes a member off the view.
func (v *view) removeMember(gone *member) {
	v.members = slices.DeleteFunc(v.members, func(m *member) bool { return m == gone })
}

// putInstance writes the record of a member.
func (c *Controller) putInstance(ctx context.Context, m *member, also ...store.Op) error {
	return c.store.Txn(ctx, append([]store.Op{c.members.PutOp(m.key, m.row)}, also...)...)
}

// putStatus writes where the controller stands with the group.
func (c *Controller) putStatus(ctx context.Context, v *view) error {
	_, err := c.statuses.Put(ctx, v.key, v.status)
	return err
}
