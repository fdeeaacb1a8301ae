package elb

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// targetHandlers returns the handlers of this file's operations and how each is authorized.
func (s V2) targetHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.RegisterTargets, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.RegisterTargetsInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.TargetGroupArn, groups)
		}),
		wire.Handle(s.DeregisterTargets, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.DeregisterTargetsInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.TargetGroupArn, groups)
		}),
		wire.Handle(s.DescribeTargetHealth, wire.OnAll),
	}
}

func invalidTarget(format string, args ...any) error {
	return wire.Errorf("InvalidTarget", format, args...)
}

// forgetDrained removes the targets that have been deregistered for longer than the delay.
func forgetDrained(g *record.TargetGroup, now time.Time) {
	g.Targets = slices.DeleteFunc(g.Targets, func(t record.Target) bool {
		return !t.DeregisteredAt.IsZero() && !now.Before(t.DeregisteredAt.Add(g.DeregistrationDelay()))
	})
}

// RegisterTargets adds targets to a target group.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RegisterTargets.html
func (s V2) RegisterTargets(ctx context.Context, in *elasticloadbalancingv2.RegisterTargetsInput) (
	*elasticloadbalancingv2.RegisterTargetsOutput, error) {
	if len(in.Targets) == 0 {
		return nil, invalid("At least one target must be specified")
	}
	found, err := s.getGroup(ctx, aws.ToString(in.TargetGroupArn))
	if err != nil {
		return nil, err
	}
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.groups.Copy(c, found.Key)
		if err == nil && row.Value.ID != found.Value.ID || errors.Is(err, store.ErrNotFound) {
			return groupNotFound()
		}
		if err != nil {
			return err
		}
		g := &row.Value
		c.Add("targetgroup/"+row.Key, func() store.Op { return s.groups.UpdateOp(row) })
		now := s.now().UTC()
		forgetDrained(g, now)
		for _, wanted := range in.Targets {
			t, err := s.newTarget(c, *g, wanted)
			if err != nil {
				return err
			}
			if has, registered := g.Application(); registered && (has.ID != t.ID || has.Port != t.Port) {
				return wire.Errorf("TooManyTargets", "A target group can have one Application Load Balancer as its target, at one "+
					"port: deregister '%s' at port %d first", has.ID, has.Port)
			}
			t.RegisteredAt = now
			i := slices.IndexFunc(g.Targets, func(r record.Target) bool { return r.ID == t.ID && r.Port == t.Port })
			switch {
			case i < 0:
				g.Targets = append(g.Targets, t)
			case !g.Targets[i].DeregisteredAt.IsZero():
				g.Targets[i] = t
			}
		}
		if len(g.Targets) > maxTargetsPerGroup {
			return wire.Errorf("TooManyTargets", "The maximum number of targets of a target group, %d, has been reached",
				maxTargetsPerGroup)
		}
		if g.LoadBalancer == "" {
			return nil
		}
		user, err := s.balancers.Get(c, record.LoadBalancerKey(g.Account, g.Region, record.NetworkLoadBalancer,
			g.LoadBalancer))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		s.planUpdate(c, user) // as it is: of two changes that count targets, one sees the other's
		return s.checkLed(c, user.Value, g)
	})
	return &elasticloadbalancingv2.RegisterTargetsOutput{}, err
}

// newTarget returns the target that a request describes.
func (s V2) newTarget(c *resource.Change, g record.TargetGroup, in types.TargetDescription) (record.Target, error) {
	t := record.Target{ID: aws.ToString(in.Id), Port: g.Port, AvailabilityZone: aws.ToString(in.AvailabilityZone)}
	if in.QuicServerId != nil {
		return t, invalid("A QUIC server ID is for the targets of target groups with the protocol QUIC or TCP_QUIC, and "+
			"not %s", g.Protocol)
	}
	if in.Port != nil {
		t.Port = *in.Port
	}
	if err := checkRange("Target port", t.Port, 1, 65535); err != nil {
		return t, err
	}
	switch g.TargetType {
	case "ip":
		return t, s.checkAddress(c.Scope, g, t)
	case "alb":
		return t, s.holdApplication(c, g, t)
	}
	r, there, err := s.getInstance(c.Scope, t.ID)
	if err != nil {
		return t, err
	}
	switch state := s.ec2.InstanceState(c.Scope, r); {
	case !there || !strings.HasPrefix(t.ID, "i-") || state == ec2types.InstanceStateNameTerminated:
		return t, invalidTarget("The following targets are not valid instances: '%s'", t.ID)
	case r.VPCID != g.VPCID:
		return t, invalidTarget("The following targets are not in the target group VPC '%s': '%s'", g.VPCID, t.ID)
	case state != ec2types.InstanceStateNameRunning && state != ec2types.InstanceStateNamePending:
		return t, invalidTarget("The following targets are not in a running state and cannot be registered: '%s'", t.ID)
	case t.AvailabilityZone != "" && t.AvailabilityZone != "all" && t.AvailabilityZone != r.AvailabilityZone:
		return t, invalid("An Availability Zone can be given for targets that are addresses alone")
	}
	return t, nil
}

// holdApplication refuses what is no Application Load Balancer with a listener at the target's port. It plans to write
// the load balancer as it is: who deletes it or the listener at the same time sees the target, or the other way around.
func (s V2) holdApplication(c *resource.Change, g record.TargetGroup, t record.Target) error {
	row, err := s.getBalancer(c, &t.ID)
	_, refused := errors.AsType[*wire.Error](err)
	switch b := row.Value; {
	case refused || err == nil && b.Kind != record.ApplicationLoadBalancer:
		return invalidTarget("The following targets are not valid Application Load Balancers: '%s'", t.ID)
	case err != nil:
		return err
	case b.VPCID != g.VPCID:
		return invalidTarget("The following targets are not in the target group VPC '%s': '%s'", g.VPCID, t.ID)
	case t.AvailabilityZone != "":
		return invalid("An Availability Zone can be given for targets that are addresses alone")
	case !listensAt(b, t.Port):
		return invalid("If the target type is ALB, the target must have at least one listener that matches the target group "+
			"port or any specified port overrides: '%s' has none at port %d", t.ID, t.Port)
	}
	if has, registered := g.Application(); (!registered || has.ID != t.ID) &&
		s.leading.Count(row.Value.ARN()) >= maxGroupsToApplication {
		return wire.Errorf("TooManyRegistrationsForTargetId", "Load balancer '%s' is registered with %d target groups, the "+
			"maximum: deregister it from one", t.ID, maxGroupsToApplication)
	}
	s.planUpdate(c, row)
	return nil
}

// checkAddress refuses an address that cannot be a target: one of the internet, or of the VPC's family but no subnet.
func (s V2) checkAddress(sc resource.Scope, g record.TargetGroup, t record.Target) error {
	address, err := netip.ParseAddr(t.ID)
	if err != nil || !address.Is4() {
		return invalidTarget("The IP address '%s' is not a valid IPv4 address", t.ID)
	}
	vpc, err := s.ec2.VPCs.GetRecord(sc, &g.VPCID)
	if err != nil {
		return invalidTarget("The VPC '%s' of the target group does not exist", g.VPCID)
	}
	for _, block := range vpc.CIDRs {
		if p, err := netip.ParsePrefix(block.CIDR); err == nil && p.Contains(address) {
			return nil
		}
	}
	return invalidTarget("The IP address '%s' is not within a valid VPC subnet: coracle has targets in the VPC of the "+
		"target group alone", t.ID)
}

// DeregisterTargets removes targets from a target group. They drain.
func (s V2) DeregisterTargets(ctx context.Context, in *elasticloadbalancingv2.DeregisterTargetsInput) (
	*elasticloadbalancingv2.DeregisterTargetsOutput, error) {
	if len(in.Targets) == 0 {
		return nil, invalid("At least one target must be specified")
	}
	_, err := s.modifyGroup(ctx, in.TargetGroupArn, func(g *record.TargetGroup) error {
		now := s.now().UTC()
		for _, unwanted := range in.Targets {
			id, found := aws.ToString(unwanted.Id), false
			for i, t := range g.Targets {
				if t.ID != id || unwanted.Port != nil && *unwanted.Port != t.Port {
					continue
				}
				if found = true; t.DeregisteredAt.IsZero() {
					g.Targets[i].DeregisteredAt = now
				}
			}
			if !found && g.TargetType == "instance" && !strings.HasPrefix(id, "i-") {
				return invalidTarget("The following targets are not valid instances: '%s'", id)
			}
		}
		if g.LoadBalancer == "" { // nothing drains
			g.Targets = slices.DeleteFunc(g.Targets, func(t record.Target) bool { return !t.DeregisteredAt.IsZero() })
		}
		forgetDrained(g, now)
		return nil
	})
	return &elasticloadbalancingv2.DeregisterTargetsOutput{}, err
}

// DescribeTargetHealth describes the targets of a target group: those that the request names, or all.
func (s V2) DescribeTargetHealth(ctx context.Context, in *elasticloadbalancingv2.DescribeTargetHealthInput) (
	*elasticloadbalancingv2.DescribeTargetHealthOutput, error) {
	row, err := s.getGroup(ctx, aws.ToString(in.TargetGroupArn))
	if err != nil {
		return nil, err
	}
	g := row.Value
	forgetDrained(&g, s.now())
	observed, err := s.getHealth(ctx, g.TargetHealthKey(), g.ID)
	if err != nil {
		return nil, err
	}
	out := &elasticloadbalancingv2.DescribeTargetHealthOutput{
		TargetHealthDescriptions: []types.TargetHealthDescription{}}
	seen := make([]bool, len(in.Targets))
	for _, t := range g.Targets {
		asked := len(in.Targets) == 0
		for i, wanted := range in.Targets {
			if aws.ToString(wanted.Id) == t.ID && (wanted.Port == nil || *wanted.Port == t.Port) {
				asked, seen[i] = true, true
			}
		}
		if asked {
			out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, describeTarget(g, t, observed))
		}
	}
	for i, wanted := range in.Targets {
		if seen[i] {
			continue
		}
		port := wanted.Port
		if port == nil {
			port = &g.Port
		}
		out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, types.TargetHealthDescription{
			Target: &types.TargetDescription{Id: wanted.Id, Port: port},
			TargetHealth: &types.TargetHealth{State: types.TargetHealthStateEnumUnused,
				Reason: types.TargetHealthReasonEnumNotRegistered, Description: aws.String("Target is not registered to " +
					"the target group")},
		})
	}
	return out, nil
}

func describeTarget(g record.TargetGroup, t record.Target, observed map[string]record.TargetState,
) types.TargetHealthDescription {
	d := types.TargetHealthDescription{
		Target:       &types.TargetDescription{Id: &t.ID, Port: &t.Port},
		TargetHealth: &types.TargetHealth{State: types.TargetHealthStateEnumInitial},
	}
	if t.AvailabilityZone != "" {
		d.Target.AvailabilityZone = &t.AvailabilityZone
	}
	port := strconv.Itoa(int(t.Port))
	if g.HealthCheck.Port != 0 {
		port = strconv.Itoa(int(g.HealthCheck.Port))
	}
	d.HealthCheckPort = &port
	h := d.TargetHealth
	state, seen := observed[balancing.TargetName(t.ID, t.Port)]
	if g.TargetType == "alb" {
		state, seen = stateOfApplication(observed, t)
	}
	switch {
	case !t.DeregisteredAt.IsZero():
		h.State, h.Reason = types.TargetHealthStateEnumDraining, types.TargetHealthReasonEnumDeregistrationInProgress
		h.Description = aws.String("Target deregistration is in progress")
	case g.LoadBalancer == "":
		h.State, h.Reason = types.TargetHealthStateEnumUnused, types.TargetHealthReasonEnumNotInUse
		h.Description = aws.String("Target group is not configured to receive traffic from the load balancer")
	case !seen || !state.RegisteredAt.Equal(t.RegisteredAt):
		h.Reason, h.Description = types.TargetHealthReasonEnumRegistrationInProgress,
			aws.String("Target registration is in progress")
	default:
		h.State, h.Reason = types.TargetHealthStateEnum(state.State), types.TargetHealthReasonEnum(state.Reason)
		if state.Description != "" {
			h.Description = &state.Description
		}
	}
	return d
}

// stateOfApplication returns the state of an Application Load Balancer that is a target: that of one of its addresses,
// a healthy one if there is one.
func stateOfApplication(observed map[string]record.TargetState, t record.Target) (state record.TargetState, seen bool) {
	for _, address := range slices.Sorted(maps.Keys(observed)) {
		one := observed[address]
		if one.RegisteredAt.Equal(t.RegisteredAt) && (!seen || one.State == record.TargetHealthy) {
			state, seen = one, true
		}
	}
	return state, seen
}
