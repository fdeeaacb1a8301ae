package autoscalinggroup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// terminateExcess takes instances out of service until there are no more than are desired.
func (c *Controller) terminateExcess(ctx context.Context, v *view) error {
	have := v.capacity()
	if v.group.Deleting {
		return c.terminateAll(ctx, v, have)
	}
	if v.status.Balancing {
		if !v.isStable() {
			return nil
		}
		v.status.Balancing = false
		if err := c.putStatus(ctx, v); err != nil {
			return err
		}
	}
	if have <= v.targetCapacity() || v.suspended("Terminate") {
		return nil
	}
	chosen, err := c.chooseInstances(ctx, v, have-v.targetCapacity())
	if err != nil || len(chosen) == 0 {
		return err
	}
	now := c.now()
	cause := v.because() + shrinking(now, have, v.group.Desired, chosen)
	missing := v.missingFromPool()
	for _, m := range chosen {
		if m.inService() && m.isAlive() && v.group.WarmPool != nil && v.group.WarmPool.Reuse && missing >= m.row.Weight {
			missing -= m.row.Weight
			m.row.ToPool = true
		}
		if err := c.beginTermination(ctx, v, m, record.AutoScalingRequest{At: now, Cause: cause},
			c.cancelled(ctx, v, m)...); err != nil {
			return err
		}
	}
	v.markAnswered()
	return c.putStatus(ctx, v)
}

// terminateAll takes all instances of a group that is being deleted out of service.
func (c *Controller) terminateAll(ctx context.Context, v *view, have int32) error {
	var all []*member
	for _, m := range v.members {
		if !m.terminating() {
			all = append(all, m)
		}
	}
	now := c.now()
	cause := v.because() + shrinking(now, have, 0, all)
	for _, m := range all {
		if err := c.beginTermination(ctx, v, m, record.AutoScalingRequest{At: now, Cause: cause},
			c.cancelled(ctx, v, m)...); err != nil {
			return err
		}
	}
	return nil
}

// chooseInstances returns instances to terminate, with the given capacity at most. Zones with the most instances go
// first; within them the termination policies decide, in their order. Instances that are protected stay, those that are
// still on their way in go when no others are left.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-termination-policies.html
func (c *Controller) chooseInstances(ctx context.Context, v *view, excess int32) ([]*member, error) {
	var candidates []*member
	zones := make(map[string]int)
	for _, m := range v.members {
		if !m.isCounted() {
			continue
		}
		zones[m.row.Zone]++
		if !m.protected() {
			candidates = append(candidates, m)
		}
	}
	current, err := c.currentTemplates(ctx, v)
	if err != nil {
		return nil, err
	}
	var chosen []*member
	for excess > 0 {
		fitting := slices.DeleteFunc(slices.Clone(candidates), func(m *member) bool { return m.row.Weight > excess })
		if inService := slices.DeleteFunc(slices.Clone(fitting), func(m *member) bool { return !m.inService() }); len(
			inService) > 0 {
			fitting = inService
		}
		if len(fitting) == 0 {
			break
		}
		// A zone that is not the group's any more is always too full.
		crowded := func(zone string) int {
			if !slices.Contains(v.group.Zones, zone) {
				return 1 << 30
			}
			return zones[zone]
		}
		most := 0
		for _, m := range fitting {
			most = max(most, crowded(m.row.Zone))
		}
		fitting = slices.DeleteFunc(fitting, func(m *member) bool { return crowded(m.row.Zone) < most })
		for _, policy := range v.group.TerminationPolicies {
			fitting = c.applyPolicy(fitting, policy, current)
		}
		slices.SortStableFunc(fitting, func(a, b *member) int { return cmp.Compare(a.row.ID, b.row.ID) })
		first := fitting[0]
		chosen = append(chosen, first)
		candidates = slices.DeleteFunc(candidates, func(m *member) bool { return m == first })
		zones[first.row.Zone]--
		excess -= first.row.Weight
	}
	return chosen, nil
}

// currentTemplates returns the launch template versions that the group would launch now, as "id version".
func (c *Controller) currentTemplates(ctx context.Context, v *view) (map[string]bool, error) {
	current := make(map[string]bool)
	options, _, err := c.options(ctx, v)
	if apierror.Code(err) != "" {
		return current, nil // the template is gone: nothing is current
	}
	for _, o := range options {
		current[templateKey(aws.ToString(o.template.LaunchTemplateId), aws.ToString(o.template.Version))] = true
	}
	return current, err
}

func templateKey(id, version string) string { return fmt.Sprintf("%s %10s", id, version) }

func (m *member) template() string {
	if m.row.LaunchTemplate == nil {
		return ""
	}
	return templateKey(aws.ToString(m.row.LaunchTemplate.LaunchTemplateId), aws.ToString(m.row.LaunchTemplate.Version))
}

// applyPolicy returns those of the candidates that a termination policy prefers: never none.
func (c *Controller) applyPolicy(candidates []*member, policy string, current map[string]bool) []*member {
	switch policy {
	case "OldestInstance":
		return findSmallest(candidates, func(m *member) int64 { return m.row.LaunchedAt.UnixMilli() })
	case "NewestInstance":
		return findSmallest(candidates, func(m *member) int64 { return -m.row.LaunchedAt.UnixMilli() })
	case "OldestLaunchTemplate":
		return outdated(candidates, current)
	case "OldestLaunchConfiguration":
		// Those that no launch template made go first.
		return findSmallest(candidates, func(m *member) int64 {
			if m.row.LaunchTemplate == nil {
				return 0
			}
			return 1
		})
	case "ClosestToNextInstanceHour":
		return findSmallest(candidates, func(m *member) int64 {
			return int64(time.Hour - c.now().Sub(m.row.LaunchedAt)%time.Hour)
		})
	case "AllocationStrategy":
		// Which market has more than its share is for the next launch to even out; the dearest go first.
		return findSmallest(candidates, func(m *member) int64 {
			return -int64(hourlyPrice(m.row.InstanceType,
				m.row.Spot) * 1e6)
		})
	}
	// Default: an old launch template, then the next instance hour.
	return c.applyPolicy(outdated(candidates, current), "ClosestToNextInstanceHour", current)
}

// outdated returns the instances of the oldest launch template version that is not current.
func outdated(candidates []*member, current map[string]bool) []*member {
	return findSmallest(candidates, func(m *member) int64 {
		if current[m.template()] {
			return 1 << 40
		}
		older := int64(0)
		for _, other := range candidates {
			if other.template() < m.template() {
				older++
			}
		}
		return older
	})
}

// findSmallest returns the members for which a number is the smallest.
func findSmallest(members []*member, of func(*member) int64) []*member {
	var found []*member
	smallest := int64(0)
	for _, m := range members {
		switch n := of(m); {
		case found == nil || n < smallest:
			found, smallest = []*member{m}, n
		case n == smallest:
			found = append(found, m)
		}
	}
	return found
}

// rebalance launches an instance in a zone that has too few, when the group is otherwise as it should be. That makes
// one too many, which is then terminated where there are the most.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-benefits.html#AutoScalingBehavior.InstanceUsage
func (c *Controller) rebalance(ctx context.Context, v *view) error {
	if v.suspended("AZRebalance") || v.suspended("Launch") || v.suspended("Terminate") || v.group.Deleting ||
		v.refresh != nil || !v.hasTraffic() ||
		v.capacity() != v.group.Desired || !v.isStable() || slices.ContainsFunc(v.members, (*member).terminating) ||
		c.resting(v) {
		return nil
	}
	zones := make(map[string]int)
	for _, zone := range v.group.Zones {
		zones[zone] = 0
	}
	strays, movable := 0, make(map[string]bool)
	for _, m := range v.members {
		if !m.isCounted() {
			continue
		}
		if _, ok := zones[m.row.Zone]; !ok {
			if !m.protected() {
				strays++
			}
			continue
		}
		zones[m.row.Zone]++
		if !m.protected() {
			movable[m.row.Zone] = true
		}
	}
	fullest := ""
	for zone, n := range zones {
		if movable[zone] && (fullest == "" || n > zones[fullest]) {
			fullest = zone
		}
	}
	p, err := c.newPlan(ctx, v, false)
	if apierror.Code(err) != "" {
		return nil // launching would say what is wrong
	}
	if err != nil {
		return err
	}
	if _, ok := p.choosePool(""); !ok {
		c.untilRetry(v)
		return nil
	}
	if p, err = c.newPlan(ctx, v, false); err != nil {
		return err
	}
	chosen, ok := p.choosePool("")
	if !ok || strays == 0 && (fullest == "" || zones[fullest]-zones[chosen.zone] < 2) {
		return nil
	}
	now := c.now()
	from := fullest
	if strays > 0 {
		from = "which the group is not in any more"
	}
	cause := fmt.Sprintf(
		"At %s an instance was launched to balance instances in zones %s with other zones resulting in more than "+
			"desired number of instances in the group.", formatTime(now), from)
	v.status.Balancing = true
	if err := c.putStatus(ctx, v); err != nil {
		return err
	}
	return c.recordLaunch(ctx, v, chosen, []string{cause}, false)
}

// cancelled returns the ops that end the launch of an instance that goes before it was in service.
func (c *Controller) cancelled(ctx context.Context, v *view, m *member) []store.Op {
	if m.inService() || m.row.ActivityID == "" {
		return nil
	}
	ops, err := c.endActivity(ctx, v, m, types.ScalingActivityStatusCodeCancelled, "")
	if err != nil {
		return nil // the activity is gone: nothing to end
	}
	return ops
}
