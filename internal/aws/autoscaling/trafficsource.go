package autoscaling

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Traffic sources are what a group registers its instances with: Classic Load Balancers, and target groups of others.
// Two of the three pairs of operations know one type each, and were there first; all write the same list, and the
// controller of groups does the rest.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/attach-load-balancer-asg.html

const (
	// maxTraffic is the quota of the traffic sources of a group, for each type; maxTrafficAtOnce is how many of them a
	// request names.
	maxTraffic, maxTrafficAtOnce = 50, 10
)

// trafficHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) trafficHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AttachLoadBalancers, func(
			ctx context.Context, action string, in *autoscaling.AttachLoadBalancersInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName},
				func(c conditions) { c.addTraffic(nil, in.LoadBalancerNames, nil) })
		}),
		wire.Handle(s.AttachLoadBalancerTargetGroups, func(
			ctx context.Context, action string, in *autoscaling.AttachLoadBalancerTargetGroupsInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName},
				func(c conditions) { c.addTraffic(in.TargetGroupARNs, nil, nil) })
		}),
		wire.Handle(s.AttachTrafficSources, func(
			ctx context.Context, action string, in *autoscaling.AttachTrafficSourcesInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName},
				func(c conditions) { c.addTraffic(nil, nil, in.TrafficSources) })
		}),
		wire.Handle(s.DetachLoadBalancers, func(
			ctx context.Context, action string, in *autoscaling.DetachLoadBalancersInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName},
				func(c conditions) { c.addTraffic(nil, in.LoadBalancerNames, nil) })
		}),
		wire.Handle(s.DetachLoadBalancerTargetGroups, func(
			ctx context.Context, action string, in *autoscaling.DetachLoadBalancerTargetGroupsInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName},
				func(c conditions) { c.addTraffic(in.TargetGroupARNs, nil, nil) })
		}),
		wire.Handle(s.DetachTrafficSources, func(
			ctx context.Context, action string, in *autoscaling.DetachTrafficSourcesInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName},
				func(c conditions) { c.addTraffic(nil, nil, in.TrafficSources) })
		}),
		wire.Handle(s.DescribeLoadBalancers, wire.OnAll),
		wire.Handle(s.DescribeLoadBalancerTargetGroups, wire.OnAll),
		wire.Handle(s.DescribeTrafficSources, wire.OnAll),
	}
}

// attached returns the traffic sources of a group that are not being detached.
func attached(g record.AutoScalingGroup) []record.AutoScalingTrafficSource {
	return slices.DeleteFunc(slices.Clone(g.Traffic),
		func(t record.AutoScalingTrafficSource) bool { return !t.DetachedAt.IsZero() })
}

// classicSources and targetGroupSources return the traffic sources that a request names by its own member.
func classicSources(names []string) (all []record.AutoScalingTrafficSource) {
	for _, name := range names {
		all = append(all, record.AutoScalingTrafficSource{Type: record.TrafficClassic, Identifier: name})
	}
	return all
}

func targetGroupSources(arns []string) (all []record.AutoScalingTrafficSource) {
	for _, arn := range arns {
		all = append(all, record.AutoScalingTrafficSource{Type: record.TrafficTargetGroup, Identifier: arn})
	}
	return all
}

// sourcesOf returns the traffic sources that a request names as such.
func sourcesOf(list []types.TrafficSourceIdentifier) (all []record.AutoScalingTrafficSource, err error) {
	for _, in := range list {
		t := record.AutoScalingTrafficSource{Type: aws.ToString(in.Type), Identifier: aws.ToString(in.Identifier),
			Source: true}
		switch {
		case t.Type == "vpc-lattice", strings.HasPrefix(t.Identifier, "arn:aws:vpc-lattice:"):
			return nil, unserved("TrafficSources", "there is no VPC Lattice")
		case t.Type == "" && strings.HasPrefix(t.Identifier, "arn:"):
			t.Type = record.TrafficTargetGroup
		case t.Type == "":
			return nil, validation("The type of the traffic source %s is required: elb for the name of a Classic Load "+
				"Balancer", t.Identifier)
		case t.Type != record.TrafficClassic && t.Type != record.TrafficTargetGroup:
			return nil, validation("Traffic source type %s is invalid. Valid values: [elb, elbv2, vpc-lattice]", t.Type)
		}
		all = append(all, t)
	}
	return all, nil
}

// checkTraffic refuses what instances cannot be registered with.
func (s *Service) checkTraffic(ctx context.Context, t record.AutoScalingTrafficSource) error {
	at := scopeOf(ctx)
	if t.Type == record.TrafficClassic {
		_, err := s.balancers.Get(ctx, record.LoadBalancerKey(at.account, at.region, record.ClassicLoadBalancer,
			t.Identifier))
		if errors.Is(err, store.ErrNotFound) {
			return validation("Provided Load Balancers may not be valid. Please ensure they exist and try again. (There is "+
				"no Classic Load Balancer named '%s')", t.Identifier)
		}
		return err
	}
	invalid := func(why string) error {
		return validation("Provided Target Groups may not be valid. Please ensure they exist and try again. (%s: '%s')", why,
			t.Identifier)
	}
	name, ok := record.TargetGroupName(t.Identifier)
	if !ok {
		return invalid("It is not the ARN of a target group")
	}
	row, err := s.targets.Get(ctx, record.TargetGroupKey(at.account, at.region, name))
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && row.Value.ARN() != t.Identifier:
		return invalid("There is no such target group")
	case err != nil:
		return err
	case row.Value.TargetType != "instance":
		return invalid("Its target type must be 'instance', and is '" + row.Value.TargetType + "'")
	}
	return nil
}

// attach adds traffic sources to those of a group. One that is attached stays as it is.
func (s *Service) attach(ctx context.Context, g *record.AutoScalingGroup, sources []record.AutoScalingTrafficSource,
) error {
	all := slices.Clone(g.Traffic)
	for _, t := range sources {
		if err := s.checkTraffic(ctx, t); err != nil {
			return err
		}
		i := slices.IndexFunc(all, t.IsSame)
		switch {
		case i < 0:
			t.ID = newUUID()
			all = append(all, t)
		case !all[i].DetachedAt.IsZero(): // instances that were deregistered are registered again
			all[i].DetachedAt, all[i].Source = time.Time{}, t.Source
		}
	}
	for _, kind := range []string{record.TrafficClassic, record.TrafficTargetGroup} {
		n := 0
		for _, t := range all {
			if t.Type == kind {
				n++
			}
		}
		if n > maxTraffic {
			return validation("The maximum number of traffic sources of the type %s of an Auto Scaling group, %d, has been "+
				"reached", kind, maxTraffic)
		}
	}
	g.Traffic = all
	return nil
}

// attachNew gives a new group the traffic sources of the request.
func (s *Service) attachNew(ctx context.Context, g *record.AutoScalingGroup,
	in *autoscaling.CreateAutoScalingGroupInput) error {
	sources, err := sourcesOf(in.TrafficSources)
	if err != nil {
		return err
	}
	return s.attach(ctx, g, slices.Concat(classicSources(in.LoadBalancerNames), targetGroupSources(in.TargetGroupARNs),
		sources))
}

func checkTrafficAtOnce(n int) error {
	if n > maxTrafficAtOnce {
		return validation("Trying to update too many Load Balancers/Target Groups at once. The limit is %d",
			maxTrafficAtOnce)
	}
	if n == 0 {
		return validation("At least one load balancer, target group or traffic source is required")
	}
	return nil
}

// attachAll attaches traffic sources to the group of a request.
func (s *Service) attachAll(ctx context.Context, group *string, sources []record.AutoScalingTrafficSource) error {
	if err := checkTrafficAtOnce(len(sources)); err != nil {
		return err
	}
	return s.updateGroup(ctx, group, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		return nil, s.attach(ctx, g, sources)
	})
}

// detachAll detaches traffic sources from the group of a request. The controller removes them when its instances are
// deregistered.
func (s *Service) detachAll(ctx context.Context, group *string, sources []record.AutoScalingTrafficSource,
	what string) error {
	if err := checkTrafficAtOnce(len(sources)); err != nil {
		return err
	}
	return s.updateGroup(ctx, group, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		all := slices.Clone(g.Traffic)
		for _, t := range sources {
			i := slices.IndexFunc(all, t.IsSame)
			if i < 0 || !all[i].DetachedAt.IsZero() {
				return nil, validation("Trying to remove %s that are not part of the group: %s", what, t.Identifier)
			}
			all[i].DetachedAt = s.timestamp()
		}
		g.Traffic = all
		return nil, nil
	})
}

const (
	classicText     = "Load Balancers"
	targetGroupText = "Target Groups"
	sourceText      = "Traffic Sources"
)

// AttachLoadBalancers attaches Classic Load Balancers to a group.
func (s *Service) AttachLoadBalancers(ctx context.Context, in *autoscaling.AttachLoadBalancersInput) (
	*autoscaling.AttachLoadBalancersOutput, error) {
	return &autoscaling.AttachLoadBalancersOutput{}, s.attachAll(ctx, in.AutoScalingGroupName,
		classicSources(in.LoadBalancerNames))
}

// AttachLoadBalancerTargetGroups attaches target groups to a group.
func (s *Service) AttachLoadBalancerTargetGroups(ctx context.Context,
	in *autoscaling.AttachLoadBalancerTargetGroupsInput) (*autoscaling.AttachLoadBalancerTargetGroupsOutput, error) {
	return &autoscaling.AttachLoadBalancerTargetGroupsOutput{}, s.attachAll(ctx, in.AutoScalingGroupName,
		targetGroupSources(in.TargetGroupARNs))
}

// AttachTrafficSources attaches Classic Load Balancers and target groups to a group.
func (s *Service) AttachTrafficSources(ctx context.Context, in *autoscaling.AttachTrafficSourcesInput) (
	*autoscaling.AttachTrafficSourcesOutput, error) {
	sources, err := sourcesOf(in.TrafficSources)
	if err != nil {
		return nil, err
	}
	return &autoscaling.AttachTrafficSourcesOutput{}, s.attachAll(ctx, in.AutoScalingGroupName, sources)
}

// DetachLoadBalancers detaches Classic Load Balancers from a group.
func (s *Service) DetachLoadBalancers(ctx context.Context, in *autoscaling.DetachLoadBalancersInput) (
	*autoscaling.DetachLoadBalancersOutput, error) {
	return &autoscaling.DetachLoadBalancersOutput{}, s.detachAll(ctx, in.AutoScalingGroupName,
		classicSources(in.LoadBalancerNames), classicText)
}

// DetachLoadBalancerTargetGroups detaches target groups from a group.
func (s *Service) DetachLoadBalancerTargetGroups(ctx context.Context,
	in *autoscaling.DetachLoadBalancerTargetGroupsInput) (*autoscaling.DetachLoadBalancerTargetGroupsOutput, error) {
	return &autoscaling.DetachLoadBalancerTargetGroupsOutput{}, s.detachAll(ctx, in.AutoScalingGroupName,
		targetGroupSources(in.TargetGroupARNs), targetGroupText)
}

// DetachTrafficSources detaches Classic Load Balancers and target groups from a group.
func (s *Service) DetachTrafficSources(ctx context.Context, in *autoscaling.DetachTrafficSourcesInput) (
	*autoscaling.DetachTrafficSourcesOutput, error) {
	sources, err := sourcesOf(in.TrafficSources)
	if err != nil {
		return nil, err
	}
	return &autoscaling.DetachTrafficSourcesOutput{}, s.detachAll(ctx, in.AutoScalingGroupName, sources, sourceText)
}

// trafficOf returns a page of the traffic sources of a group that a request asks for, and their states by their IDs.
func (s *Service) trafficOf(ctx context.Context, group *string, size pageSize, most *int32, token *string,
	asked func(record.AutoScalingTrafficSource) bool) (
	page []record.AutoScalingTrafficSource, next *string, states map[string]string, err error) {
	if err := size.check(most); err != nil {
		return nil, nil, nil, err
	}
	row, err := s.getGroup(ctx, group)
	if err != nil {
		return nil, nil, nil, err
	}
	g := row.Value
	all := slices.DeleteFunc(slices.Clone(g.Traffic),
		func(t record.AutoScalingTrafficSource) bool { return !asked(t) })
	page, next, err = paginate(ctx, all, size, most, token,
		func(t record.AutoScalingTrafficSource) string { return t.Type + " " + t.Identifier })
	if err != nil {
		return nil, nil, nil, err
	}
	status, err := s.statuses.Get(ctx, g.Key())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, nil, nil, err
	}
	states = map[string]string{}
	for _, t := range page {
		states[t.ID] = record.TrafficAdding
		switch observed, known := status.Value.Traffic[t.ID]; {
		case !t.DetachedAt.IsZero():
			states[t.ID] = record.TrafficRemoving
		case known && status.Value.GroupID == g.ID:
			states[t.ID] = observed.State
		}
	}
	return page, next, states, nil
}

// DescribeLoadBalancers describes the Classic Load Balancers of a group, but for those that were attached as traffic
// sources.
func (s *Service) DescribeLoadBalancers(ctx context.Context, in *autoscaling.DescribeLoadBalancersInput) (
	*autoscaling.DescribeLoadBalancersOutput, error) {
	page, next, states, err := s.trafficOf(ctx, in.AutoScalingGroupName, pagesOf100, in.MaxRecords, in.NextToken,
		func(t record.AutoScalingTrafficSource) bool { return t.Type == record.TrafficClassic && !t.Source })
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeLoadBalancersOutput{LoadBalancers: []types.LoadBalancerState{}, NextToken: next}
	for _, t := range page {
		out.LoadBalancers = append(out.LoadBalancers, types.LoadBalancerState{LoadBalancerName: &t.Identifier,
			State: new(states[t.ID])})
	}
	return out, nil
}

// DescribeLoadBalancerTargetGroups describes the target groups of a group, but for those that were attached as traffic
// sources.
func (s *Service) DescribeLoadBalancerTargetGroups(ctx context.Context,
	in *autoscaling.DescribeLoadBalancerTargetGroupsInput) (*autoscaling.DescribeLoadBalancerTargetGroupsOutput, error) {
	page, next, states, err := s.trafficOf(ctx, in.AutoScalingGroupName, pagesOf100, in.MaxRecords, in.NextToken,
		func(t record.AutoScalingTrafficSource) bool { return t.Type == record.TrafficTargetGroup && !t.Source })
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeLoadBalancerTargetGroupsOutput{
		LoadBalancerTargetGroups: []types.LoadBalancerTargetGroupState{}, NextToken: next}
	for _, t := range page {
		out.LoadBalancerTargetGroups = append(out.LoadBalancerTargetGroups, types.LoadBalancerTargetGroupState{
			LoadBalancerTargetGroupARN: &t.Identifier, State: new(states[t.ID])})
	}
	return out, nil
}

// DescribeTrafficSources describes the traffic sources of a group: all, or those of a type.
func (s *Service) DescribeTrafficSources(ctx context.Context, in *autoscaling.DescribeTrafficSourcesInput) (
	*autoscaling.DescribeTrafficSourcesOutput, error) {
	kind := aws.ToString(in.TrafficSourceType)
	switch kind {
	case "", record.TrafficClassic, record.TrafficTargetGroup, "vpc-lattice":
	default:
		return nil, validation("Traffic source type %s is invalid. Valid values: [elb, elbv2, vpc-lattice]", kind)
	}
	page, next, states, err := s.trafficOf(ctx, in.AutoScalingGroupName, pagesOf50, in.MaxRecords, in.NextToken,
		func(t record.AutoScalingTrafficSource) bool { return kind == "" || t.Type == kind })
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeTrafficSourcesOutput{TrafficSources: []types.TrafficSourceState{}, NextToken: next}
	for _, t := range page {
		out.TrafficSources = append(out.TrafficSources, types.TrafficSourceState{Identifier: &t.Identifier,
			TrafficSource: &t.Identifier, Type: &t.Type, State: new(states[t.ID])})
	}
	return out, nil
}

// TrafficSourceGone removes a traffic source from its group that was detached, and of which no instance is left.
func (u Upkeep) TrafficSourceGone(ctx context.Context, account, region, group, id string) error {
	return u.s.updateGroup(accountContext(ctx, account, region), &group,
		func(g *record.AutoScalingGroup) ([]store.Op, error) {
			g.Traffic = slices.DeleteFunc(slices.Clone(g.Traffic),
				func(t record.AutoScalingTrafficSource) bool { return t.ID == id && !t.DetachedAt.IsZero() })
			return nil, nil
		})
}
