package autoscaling

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
	"github.com/coracle-eks/coracle/internal/store"
)

// pageSize has the default and the maximum of MaxRecords, as the API reference has them.
type pageSize struct{ usual, most int32 }

// check refuses a MaxRecords that the operation does not take. It comes before the look for a group.
func (s pageSize) check(max *int32) error {
	if max != nil && (*max < 1 || *max > s.most) {
		return validation("MaxRecords must be from 1 to %d, but is %d", s.most, *max)
	}
	return nil
}

var (
	pagesOf50      = pageSize{usual: 50, most: 50}
	pagesOf50Or100 = pageSize{usual: 50, most: 100}
	pagesOf100     = pageSize{usual: 100, most: 100}
)

// maxNames is the number of groups or instances that a request may name.
const maxNames = 50

// paginate returns a page of what a describe operation found.
func paginate[T any](ctx context.Context, items []T, size pageSize, max *int32, token *string, key func(T) string) (
	[]T, *string, error) {
	if err := size.check(max); err != nil {
		return nil, nil, err
	}
	if max == nil {
		max = &size.usual
	}
	return wire.Page(ctx, items, max, token, key)
}

// describeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) describeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeAutoScalingGroups, wire.OnAll),
		wire.Handle(s.DescribeAutoScalingInstances, wire.OnAll),
	}
}

// DescribeAutoScalingGroups returns groups and their instances. It leaves out names of no group without an error.
func (s *Service) DescribeAutoScalingGroups(ctx context.Context, in *autoscaling.DescribeAutoScalingGroupsInput) (
	*autoscaling.DescribeAutoScalingGroupsOutput, error) {
	if len(in.AutoScalingGroupNames) > maxNames {
		return nil, validation("The number of group names that may be passed in is limited to %d", maxNames)
	}
	at := scopeOf(ctx)
	rows, err := s.groups.List(ctx, at.keyPrefix())
	if err != nil {
		return nil, err
	}
	for _, f := range in.Filters {
		if name := aws.ToString(f.Name); name != "tag-key" && name != "tag-value" && !strings.HasPrefix(name, "tag:") {
			return nil,
				validation("Filter type %s is not correct. Allowed Filter types are: tag-key, tag-value, tag:<key>",
					name)
		}
	}
	rows = slices.DeleteFunc(rows, func(r store.Row[record.AutoScalingGroup]) bool {
		g := r.Value
		return len(in.AutoScalingGroupNames) > 0 && !slices.Contains(in.AutoScalingGroupNames, g.Name) &&
			!slices.Contains(in.AutoScalingGroupNames, g.ARN()) || !filtered(g.Tags, in.Filters)
	})
	rows, next, err := paginate(ctx, rows, pagesOf50Or100, in.MaxRecords, in.NextToken,
		func(r store.Row[record.AutoScalingGroup]) string { return r.Key })
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeAutoScalingGroupsOutput{AutoScalingGroups: []types.AutoScalingGroup{}, NextToken: next}
	members, warm, err := s.instancesOf(ctx, at)
	if err != nil {
		return nil, err
	}
	if in.IncludeInstances != nil && !*in.IncludeInstances {
		members = nil
	}
	for _, r := range rows {
		shown := describeGroup(r.Value)
		shown.Instances = cmpOrEmpty(members[r.Value.ID])
		if shown.WarmPoolConfiguration = showPool(r.Value); shown.WarmPoolConfiguration != nil {
			shown.WarmPoolSize = new(warm[r.Value.ID])
		}
		out.AutoScalingGroups = append(out.AutoScalingGroups, shown)
	}
	return out, nil
}

func cmpOrEmpty[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// filtered reports whether the tags of a group satisfy all filters.
func filtered(tags []record.AutoScalingTag, filters []types.Filter) bool {
	for _, f := range filters {
		name := aws.ToString(f.Name)
		if !slices.ContainsFunc(tags, func(t record.AutoScalingTag) bool {
			switch key, ok := strings.CutPrefix(name, "tag:"); {
			case ok:
				return t.Key == key && slices.Contains(f.Values, t.Value)
			case name == "tag-key":
				return slices.Contains(f.Values, t.Key)
			}
			return slices.Contains(f.Values, t.Value)
		}) {
			return false
		}
	}
	return true
}

// describeGroup returns a group as the API shows it, without its instances.
func describeGroup(g record.AutoScalingGroup) types.AutoScalingGroup {
	out := types.AutoScalingGroup{
		AutoScalingGroupName: &g.Name, AutoScalingGroupARN: new(g.ARN()), CreatedTime: &g.CreatedAt,
		MinSize: &g.Min, MaxSize: &g.Max, DesiredCapacity: &g.Desired, DefaultCooldown: &g.DefaultCooldown,
		LaunchTemplate: g.LaunchTemplate, MixedInstancesPolicy: g.Mixed,
		AvailabilityZones: g.Zones, VPCZoneIdentifier: new(strings.Join(g.SubnetIDs, ",")),
		HealthCheckType: &g.HealthCheckType, HealthCheckGracePeriod: &g.HealthCheckGracePeriod,
		NewInstancesProtectedFromScaleIn: &g.ProtectNew, CapacityRebalance: &g.CapacityRebalance,
		DeletionProtection:  cmp.Or(g.DeletionProtection, types.DeletionProtectionNone),
		DesiredCapacityType: optional(g.DesiredCapacityType),
		PlacementGroup:      optional(g.PlacementGroup), Context: optional(g.Context),
		ServiceLinkedRoleARN:      &g.ServiceLinkedRoleARN,
		InstanceMaintenancePolicy: g.Maintenance, AvailabilityZoneDistribution: g.ZoneDistribution,
		TerminationPolicies: g.TerminationPolicies,
		LoadBalancerNames:   []string{}, TargetGroupARNs: []string{}, TrafficSources: []types.TrafficSourceIdentifier{},
		SuspendedProcesses: []types.SuspendedProcess{}, EnabledMetrics: []types.EnabledMetric{},
		Tags: []types.TagDescription{},
	}
	ids := region.ZoneIDs(g.Region)
	for _, zone := range g.Zones {
		out.AvailabilityZoneIds = append(out.AvailabilityZoneIds, ids[zone])
	}
	if g.DefaultInstanceWarmup >= 0 {
		out.DefaultInstanceWarmup = &g.DefaultInstanceWarmup
	}
	if g.MaxInstanceLifetime > 0 {
		out.MaxInstanceLifetime = &g.MaxInstanceLifetime
	}
	if g.Deleting {
		out.Status = aws.String("Delete in progress")
	}
	for _, process := range slices.Sorted(maps.Keys(g.Suspended)) {
		out.SuspendedProcesses = append(out.SuspendedProcesses, types.SuspendedProcess{ProcessName: &process,
			SuspensionReason: new(g.Suspended[process])})
	}
	for _, metric := range g.Metrics {
		out.EnabledMetrics = append(out.EnabledMetrics, types.EnabledMetric{Metric: &metric,
			Granularity: aws.String("1Minute")})
	}
	for _, t := range g.Tags {
		out.Tags = append(out.Tags, showTag(g.Name, t))
	}
	for _, t := range attached(g) {
		out.TrafficSources = append(out.TrafficSources, types.TrafficSourceIdentifier{Identifier: &t.Identifier,
			Type: &t.Type})
		if t.Type == record.TrafficClassic {
			out.LoadBalancerNames = append(out.LoadBalancerNames, t.Identifier)
		} else {
			out.TargetGroupARNs = append(out.TargetGroupARNs, t.Identifier)
		}
	}
	return out
}

func showTag(group string, t record.AutoScalingTag) types.TagDescription {
	return types.TagDescription{
		Key: &t.Key, Value: &t.Value, PropagateAtLaunch: &t.PropagateAtLaunch, ResourceId: &group,
		ResourceType: aws.String("auto-scaling-group"),
	}
}

// instancesOf returns the instances of all groups, by the group's ID, and how many more each has in its warm pool.
func (s *Service) instancesOf(ctx context.Context, at scope) (
	members map[string][]types.Instance, warm map[string]int32, err error) {
	rows, err := s.instances.List(ctx, at.keyPrefix())
	if err != nil {
		return nil, nil, err
	}
	members, warm = make(map[string][]types.Instance), make(map[string]int32)
	for _, row := range rows {
		if row.Value.Warm() {
			warm[row.Value.GroupID]++
			continue
		}
		members[row.Value.GroupID] = append(members[row.Value.GroupID], s.showInstance(ctx, at, row))
	}
	return members, warm, nil
}

func (s *Service) showInstance(ctx context.Context, at scope,
	row store.Row[record.AutoScalingInstance]) types.Instance {
	i := row.Value
	return types.Instance{
		InstanceId: &i.ID, InstanceType: &i.InstanceType, ImageId: optional(i.ImageID), AvailabilityZone: &i.Zone,
		AvailabilityZoneId: new(region.ZoneIDs(at.region)[i.Zone]),
		LifecycleState:     i.State, HealthStatus: new(healthStatus(i)),
		ProtectedFromScaleIn: new(s.protected(ctx, row.Key, i)),
		LaunchTemplate:       i.LaunchTemplate, WeightedCapacity: weightedCapacity(i),
	}
}

func healthStatus(i record.AutoScalingInstance) string {
	if i.Unhealthy {
		return "Unhealthy"
	}
	return "Healthy"
}

func weightedCapacity(i record.AutoScalingInstance) *string {
	if !i.Weighted {
		return nil
	}
	return new(strconv.Itoa(int(i.Weight)))
}

// protected reports whether an instance is protected from scale in, as it was launched or as a user has said since.
func (s *Service) protected(ctx context.Context, key string, i record.AutoScalingInstance) bool {
	order, err := s.orders.Get(ctx, key)
	if err == nil && order.Value.GroupID == i.GroupID && order.Value.Protected != nil {
		return *order.Value.Protected
	}
	return i.Protected
}

// DescribeAutoScalingInstances returns instances of groups.
func (s *Service) DescribeAutoScalingInstances(ctx context.Context, in *autoscaling.DescribeAutoScalingInstancesInput) (
	*autoscaling.DescribeAutoScalingInstancesOutput, error) {
	at := scopeOf(ctx)
	if len(in.InstanceIds) > maxNames {
		return nil, validation("The number of instance ids that may be passed in is limited to %d", maxNames)
	}
	rows, err := s.instances.List(ctx, at.keyPrefix())
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r store.Row[record.AutoScalingInstance]) bool {
		return len(in.InstanceIds) > 0 && !slices.Contains(in.InstanceIds, r.Value.ID)
	})
	rows, next, err := paginate(ctx, rows, pagesOf50, in.MaxRecords, in.NextToken,
		func(r store.Row[record.AutoScalingInstance]) string { return r.Key })
	if err != nil {
		return nil, err
	}
	zones := region.ZoneIDs(at.region)
	out := &autoscaling.DescribeAutoScalingInstancesOutput{AutoScalingInstances: []types.AutoScalingInstanceDetails{},
		NextToken: next}
	for _, row := range rows {
		i := row.Value
		out.AutoScalingInstances = append(out.AutoScalingInstances, types.AutoScalingInstanceDetails{
			AutoScalingGroupName: &i.GroupName, InstanceId: &i.ID, InstanceType: &i.InstanceType,
			ImageId:          optional(i.ImageID),
			AvailabilityZone: &i.Zone, AvailabilityZoneId: new(zones[i.Zone]),
			LifecycleState: new(string(i.State)), HealthStatus: new(strings.ToUpper(healthStatus(i))),
			ProtectedFromScaleIn: new(s.protected(ctx, row.Key, i)),
			LaunchTemplate:       i.LaunchTemplate, WeightedCapacity: weightedCapacity(i),
		})
	}
	return out, nil
}
