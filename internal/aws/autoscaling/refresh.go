package autoscaling

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// refreshHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) refreshHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.StartInstanceRefresh, func(
			ctx context.Context, action string, in *autoscaling.StartInstanceRefreshInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.CancelInstanceRefresh, func(
			ctx context.Context, action string, in *autoscaling.CancelInstanceRefreshInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.RollbackInstanceRefresh, func(
			ctx context.Context, action string, in *autoscaling.RollbackInstanceRefreshInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.DescribeInstanceRefreshes, wire.OnAll),
	}
}

// StartInstanceRefresh begins to replace the instances of a group, some at a time.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/asg-instance-refresh.html
func (s *Service) StartInstanceRefresh(ctx context.Context, in *autoscaling.StartInstanceRefreshInput) (
	*autoscaling.StartInstanceRefreshOutput, error) {
	if in.Strategy != "" && in.Strategy != types.RefreshStrategyRolling {
		return nil, unserved("Strategy "+string(in.Strategy), "instances are replaced one after the other: Rolling")
	}
	id := newUUID()
	err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		if _, status, err := s.refreshOf(ctx, *g); err != nil {
			return nil, err
		} else if isActive(status.Status) {
			return nil, &types.InstanceRefreshInProgressFault{
				Message: new(
					"An Instance Refresh is already in progress and blocks the execution of this Instance Refresh.")}
		}
		r := record.AutoScalingRefresh{
			ID: id, GroupName: g.Name, GroupID: g.ID, StartedAt: s.timestamp(),
			Before: types.DesiredConfiguration{LaunchTemplate: g.LaunchTemplate, MixedInstancesPolicy: g.Mixed},
		}
		if d := in.DesiredConfiguration; d != nil && (d.LaunchTemplate != nil || d.MixedInstancesPolicy != nil) {
			if d.LaunchTemplate != nil && d.MixedInstancesPolicy != nil {
				return nil, validation("DesiredConfiguration must have either LaunchTemplate or MixedInstancesPolicy")
			}
			chosen, err := s.configure(ctx, d.LaunchTemplate, d.MixedInstancesPolicy, g.Mixed, targetOf(*g))
			if err != nil {
				return nil, err
			}
			r.Desired = &types.DesiredConfiguration{LaunchTemplate: chosen.template, MixedInstancesPolicy: chosen.mixed}
		}
		var err error
		if r.Preferences, err = preferences(*g, in.Preferences); err != nil {
			return nil, err
		}
		if aws.ToBool(r.Preferences.AutoRollback) {
			if fault := checkReversible(r); fault != nil {
				return nil, validation("AutoRollback is not possible: %s", fault.ErrorMessage())
			}
		}
		g.RefreshID = id
		return []store.Op{s.refreshes.CreateOp(store.Key(g.Account, g.Region, g.Name, id), r)}, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.StartInstanceRefreshOutput{InstanceRefreshId: &id}, nil
}

// preferences returns the preferences of a request, with the defaults.
func preferences(g record.AutoScalingGroup, asked *types.RefreshPreferences) (types.RefreshPreferences, error) {
	p := types.RefreshPreferences{}
	if asked != nil {
		p = *asked
	}
	if p.AlarmSpecification != nil && len(p.AlarmSpecification.Alarms) > 0 {
		return p, unserved("AlarmSpecification", "there are no CloudWatch alarms")
	}
	least, most := int32(90), int32(100)
	if g.Maintenance != nil {
		least, most = *g.Maintenance.MinHealthyPercentage, *g.Maintenance.MaxHealthyPercentage
	}
	if p.MinHealthyPercentage == nil {
		p.MinHealthyPercentage = &least
	}
	if p.MaxHealthyPercentage == nil {
		p.MaxHealthyPercentage = &most
	}
	if p.InstanceWarmup == nil {
		warmup := g.HealthCheckGracePeriod
		if g.DefaultInstanceWarmup >= 0 {
			warmup = g.DefaultInstanceWarmup
		}
		p.InstanceWarmup = &warmup
	}
	if p.SkipMatching == nil {
		p.SkipMatching = aws.Bool(false)
	}
	if p.AutoRollback == nil {
		p.AutoRollback = aws.Bool(false)
	}
	p.ScaleInProtectedInstances = cmp.Or(p.ScaleInProtectedInstances, types.ScaleInProtectedInstancesWait)
	p.StandbyInstances = cmp.Or(p.StandbyInstances, types.StandbyInstancesWait)
	switch min, max := *p.MinHealthyPercentage, *p.MaxHealthyPercentage; {
	case min < 0 || min > 100:
		return p, validation("MinHealthyPercentage must be from 0 to 100, but is %d", min)
	case max < 100 || max > 200:
		return p, validation("MaxHealthyPercentage must be from 100 to 200, but is %d", max)
	case max-min > 100:
		return p,
			validation(
				"The difference between MinHealthyPercentage (%d) and MaxHealthyPercentage (%d) cannot be greater "+
					"than 100", min, max)
	case *p.InstanceWarmup < 0:
		return p, validation("InstanceWarmup must not be negative, but is %d", *p.InstanceWarmup)
	case aws.ToInt32(p.BakeTime) < 0 || aws.ToInt32(p.BakeTime) > 172_800:
		return p, validation("BakeTime must be from 0 to 172800 seconds, but is %d", *p.BakeTime)
	case aws.ToInt32(p.CheckpointDelay) < 0 || aws.ToInt32(p.CheckpointDelay) > 172_800:
		return p, validation("CheckpointDelay must be from 0 to 172800 seconds, but is %d", *p.CheckpointDelay)
	case p.CheckpointDelay != nil && len(p.CheckpointPercentages) == 0:
		return p, validation("CheckpointDelay needs CheckpointPercentages")
	case !slices.Contains(p.ScaleInProtectedInstances.Values(), p.ScaleInProtectedInstances):
		return p, validation("ScaleInProtectedInstances %s is invalid. Valid values: [Refresh, Ignore, Wait]",
			p.ScaleInProtectedInstances)
	case !slices.Contains(p.StandbyInstances.Values(), p.StandbyInstances):
		return p, validation("StandbyInstances %s is invalid. Valid values: [Terminate, Ignore, Wait]",
			p.StandbyInstances)
	}
	if len(p.CheckpointPercentages) > 0 && p.CheckpointDelay == nil {
		p.CheckpointDelay = aws.Int32(3600)
	}
	for i, n := range p.CheckpointPercentages {
		if n < 1 || n > 100 || i > 0 && n <= p.CheckpointPercentages[i-1] {
			return p, validation("CheckpointPercentages %v are invalid: they rise, from 1 to 100",
				p.CheckpointPercentages)
		}
	}
	return p, nil
}

// checkReversible returns the error for an instance refresh that cannot be rolled back.
func checkReversible(r record.AutoScalingRefresh) *types.IrreversibleInstanceRefreshFault {
	irreversible := func(why string) *types.IrreversibleInstanceRefreshFault {
		return &types.IrreversibleInstanceRefreshFault{Message: &why}
	}
	if r.Desired == nil {
		return irreversible("The instance refresh has no desired configuration to roll back from.")
	}
	floats := func(spec *types.LaunchTemplateSpecification) bool {
		return spec != nil && strings.HasPrefix(aws.ToString(spec.Version), "$")
	}
	if m := r.Before.MixedInstancesPolicy; floats(r.Before.LaunchTemplate) || m != nil &&
		floats(m.LaunchTemplate.LaunchTemplateSpecification) {
		return irreversible("The Auto Scaling group uses the launch template version $Latest or $Default.")
	}
	return nil
}

func isActive(status types.InstanceRefreshStatus) bool {
	switch status {
	case types.InstanceRefreshStatusPending, types.InstanceRefreshStatusInProgress,
		types.InstanceRefreshStatusCancelling, types.InstanceRefreshStatusRollbackInProgress,
		types.InstanceRefreshStatusBaking:
		return true
	}
	return false
}

// refreshOf returns the newest instance refresh of a group, and how far it has come; zero when there was none.
func (s *Service) refreshOf(ctx context.Context, g record.AutoScalingGroup) (
	store.Row[record.AutoScalingRefresh], record.AutoScalingRefreshProgress, error) {
	if g.RefreshID == "" {
		return store.Row[record.AutoScalingRefresh]{}, record.AutoScalingRefreshProgress{}, nil
	}
	row, err := s.refreshes.Copy(ctx, store.Key(g.Account, g.Region, g.Name, g.RefreshID))
	if err != nil {
		return row, record.AutoScalingRefreshProgress{}, err
	}
	progress, err := s.progressOf(ctx, row.Key)
	return row, progress, err
}

func (s *Service) progressOf(ctx context.Context, key string) (record.AutoScalingRefreshProgress, error) {
	row, err := s.progress.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return record.AutoScalingRefreshProgress{Status: types.InstanceRefreshStatusPending}, nil
	}
	return row.Value, err
}

func (s *Service) endRefresh(ctx context.Context, group *string, end func(*record.AutoScalingRefresh,
	record.AutoScalingRefreshProgress) error) (string, error) {
	id := ""
	err := s.updateGroup(ctx, group, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		row, status, err := s.refreshOf(ctx, *g)
		if err != nil {
			return nil, err
		}
		if !isActive(status.Status) {
			return nil, &types.ActiveInstanceRefreshNotFoundFault{
				Message: new("No in progress or pending Instance Refresh found for Auto Scaling group " + g.Name)}
		}
		id = row.Value.ID
		if err := end(&row.Value, status); err != nil {
			return nil, err
		}
		return []store.Op{s.refreshes.UpdateOp(row)}, nil
	})
	return id, err
}

// CancelInstanceRefresh ends an instance refresh; what was replaced stays so.
func (s *Service) CancelInstanceRefresh(ctx context.Context, in *autoscaling.CancelInstanceRefreshInput) (
	*autoscaling.CancelInstanceRefreshOutput, error) {
	id, err := s.endRefresh(ctx, in.AutoScalingGroupName, func(r *record.AutoScalingRefresh,
		_ record.AutoScalingRefreshProgress) error {
		if r.CancelledAt.IsZero() {
			r.CancelledAt = s.timestamp()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.CancelInstanceRefreshOutput{InstanceRefreshId: &id}, nil
}

// RollbackInstanceRefresh ends an instance refresh, and replaces what was replaced by what the group launched before.
func (s *Service) RollbackInstanceRefresh(ctx context.Context, in *autoscaling.RollbackInstanceRefreshInput) (
	*autoscaling.RollbackInstanceRefreshOutput, error) {
	id, err := s.endRefresh(ctx, in.AutoScalingGroupName, func(r *record.AutoScalingRefresh,
		status record.AutoScalingRefreshProgress) error {
		if !r.CancelledAt.IsZero() || status.Status == types.InstanceRefreshStatusCancelling {
			return &types.ActiveInstanceRefreshNotFoundFault{Message: new("The Instance Refresh " + r.ID +
				" is being cancelled and cannot be rolled back")}
		}
		if err := checkReversible(*r); err != nil {
			return err
		}
		if r.RollbackAt.IsZero() {
			r.RollbackAt = s.timestamp()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.RollbackInstanceRefreshOutput{InstanceRefreshId: &id}, nil
}

// DescribeInstanceRefreshes returns the instance refreshes of a group, newest first.
func (s *Service) DescribeInstanceRefreshes(ctx context.Context, in *autoscaling.DescribeInstanceRefreshesInput) (
	*autoscaling.DescribeInstanceRefreshesOutput, error) {
	if err := pagesOf50Or100.check(in.MaxRecords); err != nil {
		return nil, err
	}
	g, err := s.getGroup(ctx, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	rows, err := s.refreshes.List(ctx, store.Prefix(g.Value.Account, g.Value.Region, g.Value.Name))
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r store.Row[record.AutoScalingRefresh]) bool {
		return r.Value.GroupID != g.Value.ID || len(in.InstanceRefreshIds) > 0 &&
			!slices.Contains(in.InstanceRefreshIds, r.Value.ID)
	})
	slices.SortFunc(rows, func(a, b store.Row[record.AutoScalingRefresh]) int {
		return cmp.Compare(b.Created,
			a.Created)
	})
	rows, next, err := paginate(ctx, rows, pagesOf50Or100, in.MaxRecords, in.NextToken,
		func(r store.Row[record.AutoScalingRefresh]) string { return r.Key })
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeInstanceRefreshesOutput{InstanceRefreshes: []types.InstanceRefresh{}, NextToken: next}
	for _, row := range rows {
		progress, err := s.progressOf(ctx, row.Key)
		if err != nil {
			return nil, err
		}
		out.InstanceRefreshes = append(out.InstanceRefreshes, showRefresh(row.Value, progress))
	}
	return out, nil
}

func showRefresh(r record.AutoScalingRefresh, p record.AutoScalingRefreshProgress) types.InstanceRefresh {
	shown := types.InstanceRefresh{
		InstanceRefreshId: &r.ID, AutoScalingGroupName: &r.GroupName, Status: p.Status,
		StatusReason: optional(p.Reason),
		Preferences:  &r.Preferences, DesiredConfiguration: r.Desired, Strategy: types.RefreshStrategyRolling,
	}
	if p.Status == types.InstanceRefreshStatusPending {
		return shown
	}
	percent := int32(100)
	if p.Total > 0 {
		percent = (p.Total - min(p.Remaining, p.Total)) * 100 / p.Total
	}
	shown.StartTime, shown.InstancesToUpdate, shown.PercentageComplete = &r.StartedAt, &p.Remaining, &percent
	live := &types.InstanceRefreshProgressDetails{LivePoolProgress: &types.InstanceRefreshLivePoolProgress{
		InstancesToUpdate: &p.Remaining, PercentageComplete: &percent}}
	shown.ProgressDetails = live
	if !p.EndedAt.IsZero() {
		shown.EndTime = &p.EndedAt
	}
	if !p.RolledBackAt.IsZero() {
		shown.RollbackDetails = &types.RollbackDetails{
			RollbackStartTime: &p.RolledBackAt, RollbackReason: optional(p.RollbackReason),
			InstancesToUpdateOnRollback:  &p.Remaining,
			PercentageCompleteOnRollback: &percent, ProgressDetailsOnRollback: live,
		}
	}
	return shown
}
