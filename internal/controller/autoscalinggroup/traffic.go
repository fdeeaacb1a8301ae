package autoscalinggroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	v2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// An instance is registered with the traffic sources of its group before it is InService, and deregistered as soon as
// it is Terminating, goes to Standby or is detached. It waits there until its connections have drained; lifecycle hooks
// come after that.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/autoscaling-load-balancer.html
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/lifecycle-hooks-overview.html

var (
	crashRegistering  = crash.At("autoscaling/traffic-registering")
	crashDeregistered = crash.At("autoscaling/traffic-deregistered")
)

// Classic is the subset of the API of Classic Load Balancers that groups use. *elasticloadbalancing.Client implements
// it.
type Classic interface {
	RegisterInstancesWithLoadBalancer(context.Context, *classic.RegisterInstancesWithLoadBalancerInput,
		...func(*classic.Options)) (*classic.RegisterInstancesWithLoadBalancerOutput, error)
	DeregisterInstancesFromLoadBalancer(context.Context, *classic.DeregisterInstancesFromLoadBalancerInput,
		...func(*classic.Options)) (*classic.DeregisterInstancesFromLoadBalancerOutput, error)
}

// TargetGroups is the subset of the API of target groups that groups use. *elasticloadbalancingv2.Client implements it.
type TargetGroups interface {
	RegisterTargets(context.Context, *v2.RegisterTargetsInput, ...func(*v2.Options)) (*v2.RegisterTargetsOutput, error)
	DeregisterTargets(context.Context, *v2.DeregisterTargetsInput, ...func(*v2.Options)) (*v2.DeregisterTargetsOutput,
		error)
}

// atOnce is how many instances one request registers or deregisters.
const atOnce = 100

// source is a traffic source of a group with the records of Elastic Load Balancing.
type source struct {
	record.AutoScalingTrafficSource
	balancer *record.LoadBalancer // of a Classic Load Balancer, nil when it is gone
	group    *record.TargetGroup  // of a target group, nil when it is gone
	health   record.TargetHealth
}

// isGone reports whether Elastic Load Balancing does not have the traffic source any more.
func (s *source) isGone() bool { return s.balancer == nil && s.group == nil }

// isDetached reports whether the traffic source is to be no more.
func (s *source) isDetached() bool { return !s.DetachedAt.IsZero() }

// loadTraffic loads the traffic sources of a group.
func (c *Controller) loadTraffic(ctx context.Context, v *view) error {
	g := v.group
	for _, t := range g.Traffic {
		s := &source{AutoScalingTrafficSource: t}
		v.traffic = append(v.traffic, s)
		key := ""
		if t.Type == record.TrafficClassic {
			row, err := c.balancers.Get(ctx, record.LoadBalancerKey(g.Account, g.Region, record.ClassicLoadBalancer,
				t.Identifier))
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			s.balancer, key = &row.Value, row.Value.Key()
		} else {
			name, _ := record.TargetGroupName(t.Identifier)
			row, err := c.targets.Get(ctx, record.TargetGroupKey(g.Account, g.Region, name))
			if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ARN() != t.Identifier {
				continue
			}
			if err != nil {
				return err
			}
			s.group, key = &row.Value, row.Value.TargetHealthKey()
		}
		observed, err := c.healths.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		s.health = observed.Value
	}
	return nil
}

// stateOf returns what was observed of an instance behind the traffic source; empty for nothing yet.
func (s *source) stateOf(id string) string {
	switch {
	case s.balancer != nil:
		return balancing.InstanceState(*s.balancer, s.health, id)
	case s.group != nil:
		return balancing.TargetState(*s.group, s.health, id)
	}
	return ""
}

// drained returns when the connections of a deregistered instance have drained; zero if it has none.
func (s *source) drained(id string) time.Time {
	switch {
	case s.balancer != nil:
		return balancing.InstanceDrained(*s.balancer, id)
	case s.group != nil:
		return balancing.TargetDrained(*s.group, id)
	}
	return time.Time{}
}

// sourceOf returns a traffic source by the ID of its attachment; nil if the group has none.
func (v *view) sourceOf(id string) *source {
	i := slices.IndexFunc(v.traffic, func(s *source) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return v.traffic[i]
}

// setRegistration records how far the registration of a member with a traffic source is. Empty: not at all.
func (m *member) setRegistration(id string, r record.AutoScalingRegistration) {
	traffic := maps.Clone(m.row.Traffic)
	if traffic == nil {
		traffic = map[string]record.AutoScalingRegistration{}
	}
	if traffic[id] = r; r == "" {
		delete(traffic, id)
	}
	if m.row.Traffic = traffic; len(traffic) == 0 {
		m.row.Traffic = nil
	}
}

// registerInstances registers instances with a traffic source. Those that are registered already stay so.
func (c *Controller) registerInstances(ctx context.Context, v *view, s *source, ids []string) error {
	for some := range slices.Chunk(ids, atOnce) {
		var err error
		if s.Type == record.TrafficClassic {
			_, err = v.classic.RegisterInstancesWithLoadBalancer(ctx, &classic.RegisterInstancesWithLoadBalancerInput{
				LoadBalancerName: &s.Identifier, Instances: classicInstances(some)})
		} else {
			_, err = v.targets.RegisterTargets(ctx, &v2.RegisterTargetsInput{TargetGroupArn: &s.Identifier,
				Targets: targetsOf(some)})
		}
		if err != nil {
			return fmt.Errorf("register %s with %s: %w", strings.Join(some, ", "), s.Identifier, err)
		}
	}
	return nil
}

// deregisterInstance deregisters an instance from a traffic source. What is gone has none.
func (c *Controller) deregisterInstance(ctx context.Context, v *view, s *source, id string) error {
	var err error
	if s.Type == record.TrafficClassic {
		_, err = v.classic.DeregisterInstancesFromLoadBalancer(ctx, &classic.DeregisterInstancesFromLoadBalancerInput{
			LoadBalancerName: &s.Identifier, Instances: classicInstances([]string{id})})
	} else {
		_, err = v.targets.DeregisterTargets(ctx, &v2.DeregisterTargetsInput{TargetGroupArn: &s.Identifier,
			Targets: targetsOf([]string{id})})
	}
	switch apierror.Code(err) {
	case "LoadBalancerNotFound", "TargetGroupNotFound", "InvalidInstance", "InvalidTarget":
		return nil // it is not registered
	}
	if err != nil {
		return fmt.Errorf("deregister %s from %s: %w", id, s.Identifier, err)
	}
	return nil
}

func classicInstances(ids []string) (all []classictypes.Instance) {
	for _, id := range ids {
		all = append(all, classictypes.Instance{InstanceId: &id})
	}
	return all
}

func targetsOf(ids []string) (all []v2types.TargetDescription) {
	for _, id := range ids {
		all = append(all, v2types.TargetDescription{Id: &id})
	}
	return all
}

// isRefusal reports whether Elastic Load Balancing has refused, rather than failed to answer.
func isRefusal(err error) bool {
	switch apierror.Code(err) {
	case "", "InternalError", "InternalFailure", "ServiceUnavailable", "RequestLimitExceeded", "Throttling":
		return false
	}
	return true
}

// refusal returns what an activity says of a refusal of Elastic Load Balancing.
func refusal(err error) string {
	return strings.TrimSuffix(strings.TrimSpace(apierror.Message(err)), ".") + ". Updating load balancer configuration failed."
}

// registerMember registers a member that is about to be in service with the traffic sources of its group. The error of
// a refusal is one of Elastic Load Balancing.
func (c *Controller) registerMember(ctx context.Context, v *view, m *member) error {
	for _, s := range v.traffic {
		if _, known := m.row.Traffic[s.ID]; known && m.row.Traffic[s.ID] != record.Registering || s.isDetached() {
			continue
		}
		if v.suspended("AddToLoadBalancer") {
			m.setRegistration(s.ID, record.Unregistered)
			continue
		}
		// It is written down before it is done: what may be registered is deregistered when the instance goes.
		m.setRegistration(s.ID, record.Registering)
		if err := c.putInstance(ctx, m); err != nil {
			return err
		}
		crashRegistering.Here()
		if err := c.registerInstances(ctx, v, s, []string{m.row.ID}); err != nil {
			return err
		}
		m.setRegistration(s.ID, record.Registered)
	}
	return nil
}

// deregisterMember deregisters a member, and reports whether its connections have drained. Nothing drains that is not
// there any more, nor when the group is deleted by force.
func (c *Controller) deregisterMember(ctx context.Context, v *view, m *member) (done bool, err error) {
	before := maps.Clone(m.row.Traffic)
	done = true
	for _, id := range slices.Sorted(maps.Keys(before)) {
		s := v.sourceOf(id)
		if s == nil || before[id] == record.Unregistered {
			m.setRegistration(id, "")
			continue
		}
		if before[id] != record.Deregistered {
			if err := c.deregisterInstance(ctx, v, s, m.row.ID); err != nil {
				return false, err
			}
			crashDeregistered.Here()
			if err := c.reloadSource(ctx, v, s); err != nil { // it tells since when connections drain
				return false, err
			}
			m.setRegistration(id, record.Deregistered)
		}
		if end := s.drained(m.row.ID); c.now().Before(end) && m.isAlive() && !v.group.Deleting {
			v.wakeAt(end)
			done = false
			continue
		}
		m.setRegistration(id, "")
	}
	if maps.Equal(before, m.row.Traffic) {
		return done, nil
	}
	return done, c.putInstance(ctx, m)
}

// reloadSource loads the records of a traffic source again.
func (c *Controller) reloadSource(ctx context.Context, v *view, s *source) error {
	again := &view{group: v.group}
	again.group.Traffic = []record.AutoScalingTrafficSource{s.AutoScalingTrafficSource}
	if err := c.loadTraffic(ctx, again); err != nil {
		return err
	}
	*s = *again.traffic[0]
	return nil
}

// drainConnections takes a member that leaves service further: once its connections have drained, it waits for its
// hooks or is terminated, in standby, or detached.
func (c *Controller) drainConnections(ctx context.Context, v *view, m *member) error {
	done, err := c.deregisterMember(ctx, v, m)
	if err != nil || !done {
		return err
	}
	switch m.row.State {
	case types.LifecycleStateEnteringStandby:
		return c.moveStandby(ctx, v, m)
	case types.LifecycleStateDetaching:
		return c.detachInstance(ctx, v, m)
	}
	return c.waitForHooks(ctx, v, m)
}

// reconcileTraffic registers the instances that serve with the traffic sources that were attached since, deregisters
// them from those that were detached, and records how far that is.
func (c *Controller) reconcileTraffic(ctx context.Context, v *view) error {
	if v.group.Deleting {
		return nil
	}
	before := maps.Clone(v.status.Traffic)
	v.status.Traffic = nil
	for _, s := range v.traffic {
		if s.isDetached() {
			if err := c.removeSource(ctx, v, s); err != nil {
				return err
			}
			continue
		}
		now, err := c.addToSource(ctx, v, s, before[s.ID])
		if err != nil {
			return err
		}
		if v.status.Traffic == nil {
			v.status.Traffic = map[string]record.AutoScalingTrafficStatus{}
		}
		v.status.Traffic[s.ID] = now
	}
	if maps.Equal(before, v.status.Traffic) {
		return nil
	}
	return c.putStatus(ctx, v)
}

// addToSource registers the instances that serve and are not registered with a traffic source, and returns how far it
// is. Instances that came while AddToLoadBalancer was suspended are left alone.
func (c *Controller) addToSource(ctx context.Context, v *view, s *source, before record.AutoScalingTrafficStatus) (
	record.AutoScalingTrafficStatus, error) {
	now := record.AutoScalingTrafficStatus{State: record.TrafficAdding}
	var missing []*member
	var ids []string
	for _, m := range v.members {
		r, known := m.row.Traffic[s.ID]
		if m.inService() && (!known || r == record.Registering || r == record.Deregistered) {
			missing, ids = append(missing, m), append(ids, m.row.ID)
		}
	}
	if len(missing) > 0 {
		if v.suspended("AddToLoadBalancer") {
			return now, nil
		}
		if c.now().Before(before.RetryAt) && before.FailedAt == v.groupRow.Revision {
			v.wakeAt(before.RetryAt)
			return before, nil
		}
		for _, m := range missing {
			m.setRegistration(s.ID, record.Registering)
			if err := c.putInstance(ctx, m); err != nil {
				return now, err
			}
		}
		crashRegistering.Here()
		if err := c.registerInstances(ctx, v, s, ids); isRefusal(err) {
			return c.notAdded(ctx, v, s, before, err)
		} else if err != nil {
			return now, err
		}
		for _, m := range missing {
			m.setRegistration(s.ID, record.Registered)
			if err := c.putInstance(ctx, m); err != nil {
				return now, err
			}
		}
		if err := c.reloadSource(ctx, v, s); err != nil {
			return now, err
		}
	}
	now.State = record.TrafficAdded
	if v.group.HasLoadBalancerChecks() && (before.State == record.TrafficInService ||
		slices.ContainsFunc(v.members, func(m *member) bool {
			return m.inService() && s.stateOf(m.row.ID) == record.TargetHealthy
		})) {
		now.State = record.TrafficInService
	}
	if before.State == "" || before.State == record.TrafficAdding {
		return now, c.recordUpdate(ctx, v, s, "Added: "+s.describe(), "")
	}
	return now, nil
}

// notAdded records that instances could not be registered with a traffic source.
func (c *Controller) notAdded(ctx context.Context, v *view, s *source, before record.AutoScalingTrafficStatus,
	err error) (record.AutoScalingTrafficStatus, error) {
	now := record.AutoScalingTrafficStatus{State: record.TrafficAdding, Failure: refusal(err),
		FailedAt: v.groupRow.Revision, RetryAt: c.now().Add(latestRetry)}
	v.wakeAt(now.RetryAt)
	if before.Failure == now.Failure {
		return now, nil
	}
	return now, c.recordUpdate(ctx, v, s, now.Failure, now.Failure)
}

// removeSource deregisters the instances of a group from a traffic source that was detached, and has the group lose it
// when their connections have drained.
func (c *Controller) removeSource(ctx context.Context, v *view, s *source) error {
	left := false
	for _, m := range v.members {
		r, known := m.row.Traffic[s.ID]
		if !known {
			continue
		}
		if r == record.Registering || r == record.Registered {
			if err := c.deregisterInstance(ctx, v, s, m.row.ID); err != nil {
				return err
			}
			crashDeregistered.Here()
			if err := c.reloadSource(ctx, v, s); err != nil {
				return err
			}
			m.setRegistration(s.ID, record.Deregistered)
			if err := c.putInstance(ctx, m); err != nil {
				return err
			}
		}
		if end := s.drained(m.row.ID); c.now().Before(end) && m.isAlive() {
			v.wakeAt(end)
			left = true
			continue
		}
		m.setRegistration(s.ID, "")
		if err := c.putInstance(ctx, m); err != nil {
			return err
		}
	}
	if left {
		return nil
	}
	if err := c.recordUpdate(ctx, v, s, "Removed: "+s.describe(), ""); err != nil {
		return err
	}
	return c.o.API.TrafficSourceGone(ctx, v.group.Account, v.group.Region, v.group.Name, s.ID)
}

// describe names a traffic source as activities do.
func (s *source) describe() string {
	if s.Type == record.TrafficClassic {
		return s.Identifier + " (Classic ELB)"
	}
	return s.Identifier + " (Target Group)"
}

// recordUpdate records an activity about a traffic source: the same once, also when the controller died after it.
func (c *Controller) recordUpdate(ctx context.Context, v *view, s *source, reason, failure string) error {
	now, result := c.now(), "Successful"
	if failure != "" {
		result = "Failed"
	}
	id := uuid.NewSHA1(uuid.NameSpaceOID, []byte(s.ID+" "+reason)).String()
	activity := v.newActivity(now, id, "", fmt.Sprintf("Updating load balancers/target groups: %s. Status Reason: %s.",
		result, strings.TrimSuffix(reason, ".")),
		fmt.Sprintf("At %s a user request changed the load balancers or target groups of the group.", formatTime(now)),
		strings.Join(v.group.Zones, ","), "")
	activity.StatusCode, activity.EndTime, activity.Progress = types.ScalingActivityStatusCodeSuccessful, now, 100
	if failure != "" {
		activity.StatusCode, activity.StatusMessage = types.ScalingActivityStatusCodeFailed, failure
	}
	_, err := c.activities.Put(store.Limited(ctx), v.activityKey(id), activity)
	var full *store.FullError
	if errors.As(err, &full) {
		return nil
	}
	return err
}

// checkTraffic returns why nothing can be launched: a traffic source of the group does not exist any more.
func (v *view) checkTraffic() error {
	for _, s := range v.traffic {
		switch {
		case s.isDetached() || !s.isGone():
		case s.Type == record.TrafficClassic:
			return invalidTraffic("Cannot find Load Balancer " + s.Identifier)
		default:
			return invalidTraffic("One or more target groups not found")
		}
	}
	return nil
}

// hasTraffic reports whether all traffic sources of the group exist.
func (v *view) hasTraffic() bool { return v.checkTraffic() == nil }

// invalidTraffic is the error about a traffic source that does not exist.
type invalidTraffic string

func (e invalidTraffic) Error() string { return string(e) }

// illBehind reports whether a load balancer finds a member unhealthy. It counts once at least one instance of the group
// has been healthy.
func (c *Controller) illBehind(v *view, m *member) bool {
	if !v.group.HasLoadBalancerChecks() {
		return false
	}
	for _, s := range v.traffic {
		if !s.isDetached() && m.row.Traffic[s.ID] == record.Registered &&
			v.status.Traffic[s.ID].State == record.TrafficInService && s.stateOf(m.row.ID) == record.TargetUnhealthy {
			return true
		}
	}
	return false
}

// groupsOfTarget returns the keys of the groups that have a target group or Classic Load Balancer among their traffic
// sources, by the key of it or of the health of its targets.
func (c *Controller) groupsOfTarget(key string) (keys []string) {
	at := store.Parts(key)
	name := at[len(at)-1]
	rows, err := c.groups.List(context.Background(), store.Prefix(at[0], at[1]))
	if err != nil {
		return nil
	}
	for _, row := range rows {
		if slices.ContainsFunc(row.Value.Traffic, func(t record.AutoScalingTrafficSource) bool {
			group, ok := record.TargetGroupName(t.Identifier)
			return ok && group == name || t.Type == record.TrafficClassic && t.Identifier == name
		}) {
			keys = append(keys, row.Key)
		}
	}
	return keys
}
