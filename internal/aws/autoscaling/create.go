package autoscaling

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
	"github.com/coracle-eks/coracle/internal/store"
)

// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-quotas.html
const (
	maxGroups   = 500
	maxHooks    = 50
	maxPolicies = 50
	maxActions  = 125
	maxTags     = 50
	maxCapacity = 10_000
)

const (
	launching   = "autoscaling:EC2_INSTANCE_LAUNCHING"
	terminating = "autoscaling:EC2_INSTANCE_TERMINATING"
)

// createHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) createHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateAutoScalingGroup, func(
			ctx context.Context, action string, in *autoscaling.CreateAutoScalingGroupInput,
		) ([]wire.Target, error) {
			return onNew(ctx, action, in, func(c conditions) {
				c.addSizes(in.MinSize, in.MaxSize)
				c.launchTemplate(in.LaunchTemplate)
				c.addZones(in.VPCZoneIdentifier)
				c.addTraffic(in.TargetGroupARNs, in.LoadBalancerNames, in.TrafficSources)
			})
		}),
	}
}

// CreateAutoScalingGroup records a group; the controller launches its instances.
func (s *Service) CreateAutoScalingGroup(ctx context.Context, in *autoscaling.CreateAutoScalingGroupInput) (
	*autoscaling.CreateAutoScalingGroupOutput, error) {
	at, now := scopeOf(ctx), s.timestamp()
	name := *in.AutoScalingGroupName
	if err := checkName(name); err != nil {
		return nil, err
	}
	if _, err := s.groups.Get(ctx, at.groupKey(name)); err == nil {
		return nil,
			alreadyExists("AutoScalingGroup by this name already exists - A group with the name %s already exists",
				name)
	}
	if s.groups.Count(at.keyPrefix()) >= maxGroups {
		return nil, limitExceeded("You have already reached your limit of Auto Scaling groups (%d) in this region",
			maxGroups)
	}
	switch {
	case in.InstanceId != nil:
		return nil, noConfigurations("InstanceId")
	case in.LaunchConfigurationName != nil && (in.LaunchTemplate != nil || in.MixedInstancesPolicy != nil),
		in.LaunchTemplate != nil && in.MixedInstancesPolicy != nil:
		return nil,
			validation(
				"Valid requests must contain either LaunchTemplate, LaunchConfigurationName, InstanceId or " +
					"MixedInstancesPolicy parameter.")
	case in.LaunchConfigurationName != nil:
		return nil, validation("Launch configuration name not found - Launch configuration %s not found",
			*in.LaunchConfigurationName)
	case in.LaunchTemplate == nil && in.MixedInstancesPolicy == nil:
		return nil,
			validation(
				"Valid requests must contain either LaunchTemplate, LaunchConfigurationName, InstanceId or " +
					"MixedInstancesPolicy parameter.")
	case in.Operator != nil:
		return nil, unserved("Operator", "it is for AWS services")
	}

	g := record.AutoScalingGroup{
		Account: at.account, Region: at.region, Name: name, ID: newUUID(), CreatedAt: now,
		CreatedBy: wire.CallerFrom(ctx).ARN,
		Min:       *in.MinSize, Max: *in.MaxSize, Desired: *in.MinSize,
		HealthCheckType: "EC2", DefaultCooldown: 300, DefaultInstanceWarmup: -1,
		TerminationPolicies: []string{"Default"},
		ZoneDistribution: &types.AvailabilityZoneDistribution{
			CapacityDistributionStrategy: types.CapacityDistributionStrategyBalancedBestEffort},
	}
	if in.DesiredCapacity != nil {
		g.Desired = *in.DesiredCapacity
	}
	settings := settingsOf(in)
	if err := settings.apply(&g); err != nil {
		return nil, err
	}
	if err := checkSizes(g); err != nil {
		return nil, err
	}
	if err := s.resolveZones(ctx, &g, in.AvailabilityZones, in.AvailabilityZoneIds, in.VPCZoneIdentifier); err != nil {
		return nil, err
	}
	chosen, err := s.configure(ctx, in.LaunchTemplate, in.MixedInstancesPolicy, nil, targetOf(g))
	if err != nil {
		return nil, err
	}
	g.LaunchTemplate, g.Mixed = chosen.template, chosen.mixed
	if g.Tags, err = mergeTags(ctx, in.Tags, name, nil); err != nil {
		return nil, err
	}
	for _, h := range in.LifecycleHookSpecificationList {
		hook, err := buildHook(nil, hookRequest{h.LifecycleHookName, h.LifecycleTransition, h.DefaultResult,
			h.HeartbeatTimeout, h.NotificationMetadata, h.NotificationTargetARN, h.RoleARN})
		if err != nil {
			return nil, err
		}
		if err := putHook(&g, hook); err != nil {
			return nil, err
		}
	}
	if err := s.attachNew(ctx, &g, in); err != nil {
		return nil, err
	}
	if err := s.ensureServiceRole(ctx, &g, in.ServiceLinkedRoleARN); err != nil {
		return nil, err
	}
	g.Change = record.AutoScalingChange{ID: newUUID(), At: now, By: "a user request created an AutoScalingGroup",
		From: 0, To: g.Desired}
	err = s.store.Txn(ctx, s.groups.CreateOp(g.Key(), g))
	if errors.Is(err, store.ErrExists) {
		return nil,
			alreadyExists("AutoScalingGroup by this name already exists - A group with the name %s already exists",
				name)
	}
	if err != nil {
		return nil, err
	}
	return &autoscaling.CreateAutoScalingGroupOutput{}, nil
}

func checkName(name string) error {
	if strings.Contains(name, ":") || strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 }) ||
		strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > 255 {
		return validation(
			"The Auto Scaling group name '%s' is invalid: it has 1 to 255 characters, no colons and no control "+
				"characters", name)
	}
	return nil
}

// checkSizes refuses sizes that contradict each other.
func checkSizes(g record.AutoScalingGroup) error {
	switch {
	case g.Min < 0:
		return validation(
			"1 validation error detected: Value '%d' at 'minSize' failed to satisfy constraint: Member must have "+
				"value greater than or equal to 0", g.Min)
	case g.Max < 0:
		return validation(
			"1 validation error detected: Value '%d' at 'maxSize' failed to satisfy constraint: Member must have "+
				"value greater than or equal to 0", g.Max)
	case g.Max > maxCapacity:
		return validation("Max bound, %d, must be at most %d", g.Max, maxCapacity)
	case g.Max < g.Min:
		return validation("Max bound, %d, must be greater than or equal to min bound, %d", g.Max, g.Min)
	case g.Desired < g.Min || g.Desired > g.Max:
		return validation("Desired capacity:%d must be between the specified min size:%d and max size:%d", g.Desired,
			g.Min, g.Max)
	}
	return nil
}

// resolveZones gives a group its zones and subnets. A parameter that is nil stays as it was.
func (s *Service) resolveZones(ctx context.Context, g *record.AutoScalingGroup, zones, zoneIDs []string,
	subnets *string) error {
	if len(zones) == 0 && len(zoneIDs) == 0 && subnets == nil {
		if len(g.Zones) > 0 {
			return nil
		}
		return validation("At least one Availability Zone or VPC Subnet is required.")
	}
	ids := region.ZoneIDs(g.Region)
	names := make(map[string]string) // by ID
	for name, id := range ids {
		names[id] = name
	}
	var wanted []string
	for _, id := range zoneIDs {
		if names[id] == "" {
			return validation("The Availability Zone ID '%s' is invalid", id)
		}
		wanted = append(wanted, names[id])
	}
	for _, zone := range zones {
		if ids[zone] == "" {
			return validation("The availability zone '%s' does not exist in region %s", zone, g.Region)
		}
		wanted = append(wanted, zone)
	}
	g.SubnetIDs, g.Zones = nil, nil
	vpc := ""
	for _, id := range subnetIDs(aws.ToString(subnets)) {
		row, err := record.Subnets(s.store).Get(ctx, record.EC2Key(g.Account, g.Region, id))
		if errors.Is(err, store.ErrNotFound) {
			return validation("The subnet ID '%s' does not exist", id)
		} else if err != nil {
			return err
		}
		if vpc = cmp.Or(vpc, row.Value.VPCID); vpc != row.Value.VPCID {
			return validation("The subnets %s are in different VPCs; the subnets of a group are in one",
				aws.ToString(subnets))
		}
		zone := row.Value.AvailabilityZone
		if len(wanted) > 0 && !slices.Contains(wanted, zone) {
			return validation(
				"The availability zones of the specified subnets and the AutoScalingGroup do not match: %s is in %s",
				id, zone)
		}
		g.SubnetIDs, g.Zones = append(g.SubnetIDs, id), append(g.Zones, zone)
	}
	if len(g.SubnetIDs) == 0 {
		g.Zones = wanted
	}
	for _, zone := range wanted {
		if !slices.Contains(g.Zones, zone) {
			return validation(
				"The availability zones of the specified subnets and the AutoScalingGroup do not match: no subnet is in %s", zone)
		}
	}
	slices.Sort(g.Zones)
	g.Zones = slices.Compact(g.Zones)
	if len(g.Zones) == 0 {
		return validation("At least one Availability Zone or VPC Subnet is required.")
	}
	return nil
}

// ensureServiceRole gives a group the service-linked role through which it acts, made with the account's first group.
func (s *Service) ensureServiceRole(ctx context.Context, g *record.AutoScalingGroup, arn *string) error {
	prefix := "arn:aws:iam::" + g.Account + ":role/aws-service-role/" + servicePrincipal + "/"
	if arn != nil && *arn != "" {
		// A role that somebody has created may have the name, and another ARN than the one that may be passed.
		name, ok := strings.CutPrefix(*arn, prefix)
		role, err := s.roles.Get(ctx, record.RoleKey(g.Account, name))
		if !ok || err != nil || role.Value.ARN() != *arn || role.Value.LinkedService != servicePrincipal {
			return validation("ARN specified for Service-Linked Role does not exist: %s", *arn)
		}
		if g.ServiceLinkedRoleARN != *arn {
			if err := wire.Authorize(ctx, wire.Target{Action: "iam:PassRole", Resource: *arn,
				Conditions: map[string][]string{"iam:PassedToService": {servicePrincipal}}}); err != nil {
				return err
			}
		}
		g.ServiceLinkedRoleARN = *arn
		return nil
	}
	if g.ServiceLinkedRoleARN != "" {
		return nil
	}
	g.ServiceLinkedRoleARN = prefix + serviceLinkedRole
	role, err := s.roles.Get(ctx, record.RoleKey(g.Account, serviceLinkedRole))
	if err == nil && role.Value.LinkedService != servicePrincipal {
		return &types.ServiceLinkedRoleFailure{Message: new("The name " + serviceLinkedRole + " has been taken in this " +
			"account by a role that is not linked to " + servicePrincipal + ": delete that role.")}
	}
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return err
	}
	err = wire.Authorize(ctx, wire.Target{
		Action: "iam:CreateServiceLinkedRole", Resource: g.ServiceLinkedRoleARN,
		Conditions: map[string][]string{"iam:AWSServiceName": {servicePrincipal}},
	})
	var denied *wire.Denied
	if errors.As(err, &denied) {
		return &types.ServiceLinkedRoleFailure{
			Message: new("The default Service-Linked Role for Auto Scaling could not be created: " + denied.Error())}
	} else if err != nil {
		return err
	}
	return s.linked.Ensure(ctx, g.Account, servicePrincipal)
}

// settings are the parameters that a group is created with and can be given later alike. Those that are nil stay as
// they are.
type settings struct {
	cooldown, gracePeriod, warmup, lifetime *int32
	healthCheckType                         *string
	terminationPolicies                     []string
	protectNew, rebalance                   *bool
	deletionProtection                      types.DeletionProtection
	capacityType, placementGroup, context   *string
	maintenance                             *types.InstanceMaintenancePolicy
	distribution                            *types.AvailabilityZoneDistribution
	impairment                              *types.AvailabilityZoneImpairmentPolicy
	reservations                            *types.CapacityReservationSpecification
	retention                               *types.InstanceLifecyclePolicy
}

func settingsOf(in *autoscaling.CreateAutoScalingGroupInput) settings {
	return settings{
		in.DefaultCooldown, in.HealthCheckGracePeriod, in.DefaultInstanceWarmup, in.MaxInstanceLifetime,
		in.HealthCheckType, in.TerminationPolicies,
		in.NewInstancesProtectedFromScaleIn, in.CapacityRebalance, in.DeletionProtection, in.DesiredCapacityType,
		in.PlacementGroup, in.Context,
		in.InstanceMaintenancePolicy, in.AvailabilityZoneDistribution, in.AvailabilityZoneImpairmentPolicy,
		in.CapacityReservationSpecification, in.InstanceLifecyclePolicy,
	}
}

func changedSettings(in *autoscaling.UpdateAutoScalingGroupInput) settings {
	return settings{
		in.DefaultCooldown, in.HealthCheckGracePeriod, in.DefaultInstanceWarmup, in.MaxInstanceLifetime,
		in.HealthCheckType, in.TerminationPolicies,
		in.NewInstancesProtectedFromScaleIn, in.CapacityRebalance, in.DeletionProtection, in.DesiredCapacityType,
		in.PlacementGroup, in.Context,
		in.InstanceMaintenancePolicy, in.AvailabilityZoneDistribution, in.AvailabilityZoneImpairmentPolicy,
		in.CapacityReservationSpecification, in.InstanceLifecyclePolicy,
	}
}

func (c settings) apply(g *record.AutoScalingGroup) error {
	for _, n := range []struct {
		asked       *int32
		into        *int32
		parameter   string
		least, most int32
	}{
		{c.cooldown, &g.DefaultCooldown, "DefaultCooldown", 0, 1 << 30},
		{c.gracePeriod, &g.HealthCheckGracePeriod, "HealthCheckGracePeriod", 0, 1 << 30},
		{c.warmup, &g.DefaultInstanceWarmup, "DefaultInstanceWarmup", -1, 1 << 30},
		{c.lifetime, &g.MaxInstanceLifetime, "MaxInstanceLifetime", 0, 31_536_000},
	} {
		if n.asked == nil {
			continue
		}
		if *n.asked < n.least || *n.asked > n.most {
			return validation("%s must be from %d to %d seconds, but is %d", n.parameter, n.least, n.most, *n.asked)
		}
		*n.into = *n.asked
	}
	if l := g.MaxInstanceLifetime; l != 0 && l < 86_400 {
		return validation("MaxInstanceLifetime must be 0, or from 86400 to 31536000 seconds, but is %d", l)
	}
	if c.healthCheckType != nil {
		for _, check := range strings.Split(*c.healthCheckType, ",") {
			switch strings.TrimSpace(check) {
			case "EC2", "ELB":
			case "VPC_LATTICE", "EBS":
				return unserved("HealthCheckType "+*c.healthCheckType, "instances are checked as EC2 and load balancers see "+
					"them")
			default:
				return validation("Health check type %s is invalid. Valid values: [EC2, EBS, ELB, VPC_LATTICE]", check)
			}
		}
		g.HealthCheckType = *c.healthCheckType
	}
	if len(c.terminationPolicies) > 0 {
		for _, p := range c.terminationPolicies {
			if strings.HasPrefix(p, "arn:aws:lambda:") {
				return unserved("TerminationPolicies", "there is no AWS Lambda")
			}
			if !slices.Contains(terminationPolicies, p) {
				return validation("Termination policy %s is invalid. Valid values: [%s]", p,
					strings.Join(terminationPolicies, ", "))
			}
		}
		g.TerminationPolicies = c.terminationPolicies
	}
	if c.protectNew != nil {
		g.ProtectNew = *c.protectNew
	}
	if c.rebalance != nil {
		g.CapacityRebalance = *c.rebalance
	}
	if c.deletionProtection != "" {
		if !slices.Contains(c.deletionProtection.Values(), c.deletionProtection) {
			return validation("DeletionProtection %s is invalid", c.deletionProtection)
		}
		g.DeletionProtection = c.deletionProtection
	}
	if t := aws.ToString(c.capacityType); t != "" && t != "units" {
		if t != "vcpu" && t != "memory-mib" {
			return validation("DesiredCapacityType %s is invalid. Valid values: [units, vcpu, memory-mib]", t)
		}
		return unserved("DesiredCapacityType "+t, "capacity is counted in units")
	} else if t != "" {
		g.DesiredCapacityType = t
	}
	if c.placementGroup != nil {
		g.PlacementGroup = *c.placementGroup
	}
	if c.context != nil {
		g.Context = *c.context
	}
	if m := c.maintenance; m != nil {
		least, most := aws.ToInt32(m.MinHealthyPercentage), aws.ToInt32(m.MaxHealthyPercentage)
		if m.MinHealthyPercentage == nil || m.MaxHealthyPercentage == nil || least == -1 && most == -1 {
			if least != -1 && (m.MinHealthyPercentage == nil || m.MaxHealthyPercentage == nil) {
				return validation("InstanceMaintenancePolicy needs both MinHealthyPercentage and MaxHealthyPercentage")
			}
			g.Maintenance = nil
		} else {
			if least < 0 || least > 100 || most < 100 || most > 200 || most-least > 100 {
				return validation(
					"InstanceMaintenancePolicy is invalid: MinHealthyPercentage (%d) is from 0 to 100, "+
						"MaxHealthyPercentage (%d) from 100 to 200, and they are at most 100 apart", least, most)
			}
			g.Maintenance = m
		}
	}
	if c.distribution != nil {
		if strategy := c.distribution.CapacityDistributionStrategy; !slices.Contains(strategy.Values(), strategy) {
			return validation("CapacityDistributionStrategy %s is invalid", strategy)
		}
		g.ZoneDistribution = c.distribution
	}
	if c.impairment != nil && aws.ToBool(c.impairment.ZonalShiftEnabled) {
		return unserved("AvailabilityZoneImpairmentPolicy", "there is no zonal shift")
	}
	if r := c.reservations; r != nil && r.CapacityReservationPreference != types.CapacityReservationPreferenceDefault &&
		r.CapacityReservationPreference != types.CapacityReservationPreferenceNone {
		return unserved("CapacityReservationSpecification", "there are no capacity reservations")
	}
	if c.retention != nil && c.retention.RetentionTriggers != nil &&
		c.retention.RetentionTriggers.TerminateHookAbandon == "retain" {
		return unserved("InstanceLifecyclePolicy", "instances are not retained")
	}
	return nil
}
