package instance

import (
	"cmp"
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// instanceStatusHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) instanceStatusHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeInstanceStatus, resource.OnRegion),
	}
}

// DescribeInstanceStatus lists the status checks of running instances, or of all.
func (s *Service) DescribeInstanceStatus(ctx context.Context, in *ec2.DescribeInstanceStatusInput) (
	*ec2.DescribeInstanceStatusOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeInstanceStatus", DryRun: in.DryRun, IDs: in.InstanceIds,
		Filters: in.Filters, Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	rows, err := s.Instances.ListByID(sc, in.InstanceIds)
	if err != nil {
		return nil, err
	}
	var items []resource.Item[types.InstanceStatus]
	for _, r := range rows {
		machine := s.Machine(sc, r)
		state := record.InstanceState(r, machine)
		if state != types.InstanceStateNameRunning && !aws.ToBool(in.IncludeAllInstances) {
			continue
		}
		z, _ := sc.FindZone(r.AvailabilityZone)
		v := types.InstanceStatus{
			AvailabilityZone: aws.String(r.AvailabilityZone), AvailabilityZoneId: aws.String(z.ID),
			InstanceId: aws.String(r.ID), InstanceState: viewState(state),
			InstanceStatus: instanceStatus(state, machine),
			SystemStatus:   statusSummary(state, machine.SystemStatus, machine.ImpairedSince),
			Operator:       &types.OperatorResponse{Managed: aws.Bool(false)},
		}
		ebs := statusSummary(state, machine.SystemStatus, machine.ImpairedSince)
		v.AttachedEbsStatus = &types.EbsStatusSummary{Status: ebs.Status}
		for _, d := range ebs.Details {
			v.AttachedEbsStatus.Details = append(v.AttachedEbsStatus.Details,
				types.EbsStatusDetails{ImpairedSince: d.ImpairedSince, Name: d.Name, Status: d.Status})
		}
		items = append(items, resource.Item[types.InstanceStatus]{ID: r.ID, View: v})
	}
	reachability := func(summary func(types.InstanceStatus) *types.InstanceStatusSummary) func(
		types.InstanceStatus) []string {
		return func(x types.InstanceStatus) []string {
			return resource.CollectValues(summary(x).Details,
				func(d types.InstanceStatusDetails) *types.StatusType { return &d.Status })
		}
	}
	none := func(types.InstanceStatus) []string { return nil }
	found, next, err := resource.DescribeItems(
		ctx,
		query,
		items,
		resource.Filters[types.InstanceStatus]{
			"attached-ebs-status.status": resource.EnumFilter(
				func(x types.InstanceStatus) types.SummaryStatus { return x.AttachedEbsStatus.Status }),
			"availability-zone": resource.StringFilter(func(x types.InstanceStatus) *string { return x.AvailabilityZone }),
			"availability-zone-id": resource.StringFilter(
				func(x types.InstanceStatus) *string { return x.AvailabilityZoneId }),
			"event.code": none, "event.description": none, "event.instance-event-id": none,
			"event.not-after": none, "event.not-before": none, "event.not-before-deadline": none,
			"instance-state-code": resource.IntFilter(func(x types.InstanceStatus) *int32 { return x.InstanceState.Code }),
			"instance-state-name": resource.EnumFilter(
				func(x types.InstanceStatus) types.InstanceStateName { return x.InstanceState.Name }),
			"instance-status.reachability": reachability(
				func(x types.InstanceStatus) *types.InstanceStatusSummary { return x.InstanceStatus }),
			"instance-status.status": resource.EnumFilter(
				func(x types.InstanceStatus) types.SummaryStatus { return x.InstanceStatus.Status }),
			"operator.managed": resource.BoolFilter(func(x types.InstanceStatus) *bool { return x.Operator.Managed }),
			"operator.principal": resource.StringFilter(
				func(x types.InstanceStatus) *string { return x.Operator.Principal }),
			"system-status.reachability": reachability(
				func(x types.InstanceStatus) *types.InstanceStatusSummary { return x.SystemStatus }),
			"system-status.status": resource.EnumFilter(
				func(x types.InstanceStatus) types.SummaryStatus { return x.SystemStatus.Status }),
		},
		func(x types.InstanceStatus) []types.Tag { return s.ListTags(sc, *x.InstanceId) },
	)
	if found == nil {
		found = []types.InstanceStatus{}
	}
	return &ec2.DescribeInstanceStatusOutput{InstanceStatuses: found, NextToken: next}, err
}

// instanceStatus returns the instance status check. Unlike on EC2, it also fails for a machine whose units fail again
// and again; Auto Scaling replaces no instance for that.
func instanceStatus(state types.InstanceStateName, m record.Machine) *types.InstanceStatusSummary {
	if m.Failing != "" && m.InstanceStatus == types.SummaryStatusOk {
		return statusSummary(state, types.SummaryStatusImpaired, m.FailingSince)
	}
	return statusSummary(state, m.InstanceStatus, m.ImpairedSince)
}

// statusSummary returns a status check as EC2 shows it.
func statusSummary(state types.InstanceStateName, observed types.SummaryStatus,
	since time.Time) *types.InstanceStatusSummary {
	if state != types.InstanceStateNameRunning {
		return &types.InstanceStatusSummary{Status: types.SummaryStatusNotApplicable}
	}
	observed = cmp.Or(observed, types.SummaryStatusInitializing)
	detail := types.InstanceStatusDetails{Name: types.StatusNameReachability}
	switch observed {
	case types.SummaryStatusOk:
		detail.Status = types.StatusTypePassed
	case types.SummaryStatusImpaired:
		detail.Status = types.StatusTypeFailed
		if !since.IsZero() {
			detail.ImpairedSince = aws.Time(since)
		}
	case types.SummaryStatusInitializing:
		detail.Status = types.StatusTypeInitializing
	default:
		detail.Status = types.StatusTypeInsufficientData
	}
	return &types.InstanceStatusSummary{Status: observed, Details: []types.InstanceStatusDetails{detail}}
}
