package autoscaling

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// terminationPolicies say which instance goes first.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-instance-termination.html
var terminationPolicies = []string{
	"AllocationStrategy", "ClosestToNextInstanceHour", "Default", "NewestInstance", "OldestInstance",
	"OldestLaunchConfiguration", "OldestLaunchTemplate",
}

// catalogHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) catalogHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeTerminationPolicyTypes, wire.OnAll),
		wire.Handle(s.DescribeAccountLimits, wire.OnAll),
		wire.Handle(s.DescribeAdjustmentTypes, wire.OnAll),
		wire.Handle(s.DescribeMetricCollectionTypes, wire.OnAll),
		wire.Handle(s.EnableMetricsCollection, func(
			ctx context.Context, action string, in *autoscaling.EnableMetricsCollectionInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.DisableMetricsCollection, func(
			ctx context.Context, action string, in *autoscaling.DisableMetricsCollectionInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
	}
}

// DescribeTerminationPolicyTypes lists the termination policies.
func (s *Service) DescribeTerminationPolicyTypes(context.Context, *autoscaling.DescribeTerminationPolicyTypesInput) (
	*autoscaling.DescribeTerminationPolicyTypesOutput, error) {
	return &autoscaling.DescribeTerminationPolicyTypesOutput{TerminationPolicyTypes: terminationPolicies}, nil
}

// DescribeAccountLimits returns the quotas of the account and its usage.
func (s *Service) DescribeAccountLimits(ctx context.Context, _ *autoscaling.DescribeAccountLimitsInput) (
	*autoscaling.DescribeAccountLimitsOutput, error) {
	rows, err := s.groups.List(ctx, scopeOf(ctx).keyPrefix())
	if err != nil {
		return nil, err
	}
	return &autoscaling.DescribeAccountLimitsOutput{
		MaxNumberOfAutoScalingGroups: aws.Int32(maxGroups), NumberOfAutoScalingGroups: new(int32(len(rows))),
		MaxNumberOfLaunchConfigurations: aws.Int32(0), NumberOfLaunchConfigurations: aws.Int32(0),
	}, nil
}

// DescribeAdjustmentTypes lists in which ways a scaling policy changes a capacity.
func (s *Service) DescribeAdjustmentTypes(context.Context, *autoscaling.DescribeAdjustmentTypesInput) (
	*autoscaling.DescribeAdjustmentTypesOutput, error) {
	out := &autoscaling.DescribeAdjustmentTypesOutput{}
	for _, t := range adjustmentTypes {
		out.AdjustmentTypes = append(out.AdjustmentTypes, types.AdjustmentType{AdjustmentType: &t})
	}
	return out, nil
}

// metrics are the metrics that a group may collect. There is no CloudWatch to show them; whether they are collected is
// recorded, because tools set and read it.
var metrics = []string{
	"GroupDesiredCapacity", "GroupInServiceCapacity", "GroupInServiceInstances", "GroupMaxSize", "GroupMinSize",
	"GroupPendingCapacity", "GroupPendingInstances",
	"GroupStandbyCapacity", "GroupStandbyInstances", "GroupTerminatingCapacity", "GroupTerminatingInstances",
	"GroupTotalCapacity", "GroupTotalInstances",
}

// DescribeMetricCollectionTypes lists the metrics of groups.
func (s *Service) DescribeMetricCollectionTypes(context.Context, *autoscaling.DescribeMetricCollectionTypesInput) (
	*autoscaling.DescribeMetricCollectionTypesOutput, error) {
	out := &autoscaling.DescribeMetricCollectionTypesOutput{Granularities: []types.MetricGranularityType{
		{Granularity: aws.String("1Minute")}}}
	for _, m := range metrics {
		out.Metrics = append(out.Metrics, types.MetricCollectionType{Metric: &m})
	}
	return out, nil
}

func checkMetrics(asked []string) ([]string, error) {
	for _, m := range asked {
		if !slices.Contains(metrics, m) {
			return nil, validation("Metric %s is invalid. Valid metrics: [%s]", m, strings.Join(metrics, ", "))
		}
	}
	if len(asked) == 0 {
		return metrics, nil
	}
	return asked, nil
}

// EnableMetricsCollection records that metrics of a group are collected.
func (s *Service) EnableMetricsCollection(ctx context.Context, in *autoscaling.EnableMetricsCollectionInput) (
	*autoscaling.EnableMetricsCollectionOutput, error) {
	asked, err := checkMetrics(in.Metrics)
	if err != nil {
		return nil, err
	}
	if *in.Granularity != "1Minute" {
		return nil, validation("Granularity %s is invalid. Valid values: [1Minute]", *in.Granularity)
	}
	if err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		g.Metrics = slices.Compact(slices.Sorted(slices.Values(slices.Concat(g.Metrics, asked))))
		return nil, nil
	}); err != nil {
		return nil, err
	}
	return &autoscaling.EnableMetricsCollectionOutput{}, nil
}

// DisableMetricsCollection ends that.
func (s *Service) DisableMetricsCollection(ctx context.Context, in *autoscaling.DisableMetricsCollectionInput) (
	*autoscaling.DisableMetricsCollectionOutput, error) {
	asked, err := checkMetrics(in.Metrics)
	if err != nil {
		return nil, err
	}
	if err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		g.Metrics = slices.DeleteFunc(slices.Clone(g.Metrics), func(m string) bool { return slices.Contains(asked, m) })
		return nil, nil
	}); err != nil {
		return nil, err
	}
	return &autoscaling.DisableMetricsCollectionOutput{}, nil
}
