package autoscaling

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/robfig/cron/v3"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// recurrence reads a cron expression in a time zone, UTC unless one is named.
func recurrence(expression, zone string) (cron.Schedule, error) {
	if zone == "" {
		zone = "Etc/UTC"
	}
	if _, err := time.LoadLocation(zone); err != nil {
		return nil, validation("Time zone %s is not valid: use a name of the IANA Time Zone Database", zone)
	}
	if len(strings.Fields(expression)) != 5 {
		return nil,
			validation(
				"Given recurrence string: %s is invalid. It has five fields: [Minute] [Hour] [Day_of_Month] "+
					"[Month_of_Year] [Day_of_Week]", expression)
	}
	schedule, err := cron.ParseStandard("CRON_TZ=" + zone + " " + expression)
	if err != nil {
		return nil, validation("Given recurrence string: %s is invalid: %v", expression, err)
	}
	return schedule, nil
}

// nextRun returns when an action is due after a time; zero when it is not any more.
func nextRun(a types.ScheduledUpdateGroupAction, after time.Time) time.Time {
	if aws.ToString(a.Recurrence) == "" {
		return time.Time{}
	}
	schedule, err := recurrence(*a.Recurrence, aws.ToString(a.TimeZone))
	if err != nil {
		return time.Time{}
	}
	next := schedule.Next(after).UTC()
	if a.EndTime != nil && next.After(*a.EndTime) {
		return time.Time{}
	}
	return next
}

// scheduleOp returns the op that makes or changes a scheduled action.
func (s *Service) scheduleOp(ctx context.Context, g record.AutoScalingGroup,
	in types.ScheduledUpdateGroupActionRequest) (store.Op, error) {
	now := s.timestamp()
	a := types.ScheduledUpdateGroupAction{
		AutoScalingGroupName: &g.Name, ScheduledActionName: in.ScheduledActionName, MinSize: in.MinSize,
		MaxSize: in.MaxSize, DesiredCapacity: in.DesiredCapacity,
		StartTime: in.StartTime, EndTime: in.EndTime, Recurrence: in.Recurrence, TimeZone: in.TimeZone,
	}
	switch {
	case a.MinSize == nil && a.MaxSize == nil && a.DesiredCapacity == nil:
		return store.Op{}, validation("At least one of MinSize, MaxSize and DesiredCapacity must be specified")
	case a.MinSize != nil && a.MaxSize != nil && *a.MinSize > *a.MaxSize:
		return store.Op{}, validation("Max bound, %d, must be greater than or equal to min bound, %d", *a.MaxSize,
			*a.MinSize)
	case a.StartTime == nil && aws.ToString(a.Recurrence) == "":
		return store.Op{}, validation("Either StartTime or Recurrence must be specified")
	case a.StartTime != nil && a.StartTime.Before(now):
		return store.Op{}, validation("Given start time is in the past: %s", formatTime(*a.StartTime))
	case a.EndTime != nil && a.EndTime.Before(now):
		return store.Op{}, validation("Given end time is in the past: %s", formatTime(*a.EndTime))
	case a.EndTime != nil && a.StartTime != nil && a.EndTime.Before(*a.StartTime):
		return store.Op{}, validation("Given end time %s is before the start time %s", formatTime(*a.EndTime),
			formatTime(*a.StartTime))
	}
	if aws.ToString(a.Recurrence) != "" {
		if _, err := recurrence(*a.Recurrence, aws.ToString(a.TimeZone)); err != nil {
			return store.Op{}, err
		}
	}
	row := record.AutoScalingSchedule{ID: newUUID(), Next: nextRun(a, now)}
	if a.StartTime != nil {
		row.Next = a.StartTime.UTC()
	}
	if row.Next.IsZero() {
		return store.Op{}, validation("The recurrence %s has no time before the end time", *a.Recurrence)
	}
	a.StartTime, a.Time = &row.Next, &row.Next
	key := store.Key(g.Account, g.Region, g.Name, *in.ScheduledActionName)
	before, err := s.schedules.Get(ctx, key)
	switch {
	case err == nil:
		row.ID = before.Value.ID
	case !errors.Is(err, store.ErrNotFound):
		return store.Op{}, err
	default:
		rows, err := s.schedules.List(ctx, store.Prefix(g.Account, g.Region, g.Name))
		if err != nil {
			return store.Op{}, err
		}
		if len(rows) >= maxActions {
			return store.Op{}, limitExceeded(
				"You have already reached your limit of scheduled actions (%d) for group %s", maxActions, g.Name)
		}
		for _, other := range rows {
			if other.Value.Next.Equal(row.Next) && aws.ToString(other.Value.Action.Recurrence) == "" &&
				aws.ToString(a.Recurrence) == "" {
				return store.Op{}, alreadyExists("Scheduled action %s of group %s has the same start time",
					*other.Value.Action.ScheduledActionName, g.Name)
			}
		}
	}
	a.ScheduledActionARN = aws.String("arn:aws:autoscaling:" + g.Region + ":" + g.Account +
		":scheduledUpdateGroupAction:" + row.ID + ":autoScalingGroupName/" + g.Name + ":scheduledActionName/" +
		*a.ScheduledActionName)
	row.Action = a
	return s.schedules.PutOp(key, row), nil
}

// scheduleHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) scheduleHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutScheduledUpdateGroupAction, func(
			ctx context.Context, action string, in *autoscaling.PutScheduledUpdateGroupActionInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName}, func(c conditions) {
				c.addSizes(in.MinSize, in.MaxSize)
			})
		}),
		wire.Handle(s.BatchPutScheduledUpdateGroupAction, func(
			ctx context.Context, action string, in *autoscaling.BatchPutScheduledUpdateGroupActionInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.DeleteScheduledAction, func(
			ctx context.Context, action string, in *autoscaling.DeleteScheduledActionInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.BatchDeleteScheduledAction, func(
			ctx context.Context, action string, in *autoscaling.BatchDeleteScheduledActionInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.DescribeScheduledActions, wire.OnAll),
	}
}

// PutScheduledUpdateGroupAction schedules a change of the sizes of a group, once or repeatedly.
func (s *Service) PutScheduledUpdateGroupAction(ctx context.Context,
	in *autoscaling.PutScheduledUpdateGroupActionInput) (*autoscaling.PutScheduledUpdateGroupActionOutput, error) {
	err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		op, err := s.scheduleOp(ctx, *g, types.ScheduledUpdateGroupActionRequest{
			ScheduledActionName: in.ScheduledActionName, MinSize: in.MinSize, MaxSize: in.MaxSize,
			DesiredCapacity: in.DesiredCapacity,
			StartTime:       cmp.Or(in.StartTime, in.Time), EndTime: in.EndTime, Recurrence: in.Recurrence,
			TimeZone: in.TimeZone,
		})
		return []store.Op{op}, err
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.PutScheduledUpdateGroupActionOutput{}, nil
}

// BatchPutScheduledUpdateGroupAction makes several scheduled actions; those that could not be come back.
func (s *Service) BatchPutScheduledUpdateGroupAction(ctx context.Context,
	in *autoscaling.BatchPutScheduledUpdateGroupActionInput) (
	*autoscaling.BatchPutScheduledUpdateGroupActionOutput, error) {
	out := &autoscaling.BatchPutScheduledUpdateGroupActionOutput{
		FailedScheduledUpdateGroupActions: []types.FailedScheduledUpdateGroupActionRequest{}}
	if err := s.checkGroupExists(ctx, in.AutoScalingGroupName); err != nil {
		return nil, err
	}
	for _, action := range in.ScheduledUpdateGroupActions {
		err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
			op, err := s.scheduleOp(ctx, *g, action)
			return []store.Op{op}, err
		})
		if failed, err := failedAction(action.ScheduledActionName, err); err != nil {
			return nil, err
		} else if failed != nil {
			out.FailedScheduledUpdateGroupActions = append(out.FailedScheduledUpdateGroupActions, *failed)
		}
	}
	return out, nil
}

// failedAction returns what a batch says of an action that was refused. Any other error is the batch's own.
func failedAction(name *string, err error) (*types.FailedScheduledUpdateGroupActionRequest, error) {
	var api interface {
		ErrorCode() string
		ErrorMessage() string
	}
	if !errors.As(err, &api) {
		return nil, err
	}
	return &types.FailedScheduledUpdateGroupActionRequest{ScheduledActionName: name, ErrorCode: new(api.ErrorCode()),
		ErrorMessage: new(api.ErrorMessage())}, nil
}

func (s *Service) unschedule(ctx context.Context, group, name *string) error {
	err := s.updateGroup(ctx, group, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		row, err := s.schedules.Get(ctx, store.Key(g.Account, g.Region, g.Name, *name))
		if errors.Is(err, store.ErrNotFound) {
			return nil, validation("Scheduled action name not found - Scheduled action %s of group %s not found", *name,
				g.Name)
		}
		return []store.Op{s.schedules.DeleteOp(row)}, err
	})
	return err
}

// DeleteScheduledAction deletes a scheduled action.
func (s *Service) DeleteScheduledAction(ctx context.Context, in *autoscaling.DeleteScheduledActionInput) (
	*autoscaling.DeleteScheduledActionOutput, error) {
	if err := s.unschedule(ctx, in.AutoScalingGroupName, in.ScheduledActionName); err != nil {
		return nil, err
	}
	return &autoscaling.DeleteScheduledActionOutput{}, nil
}

// BatchDeleteScheduledAction deletes several scheduled actions.
func (s *Service) BatchDeleteScheduledAction(ctx context.Context, in *autoscaling.BatchDeleteScheduledActionInput) (
	*autoscaling.BatchDeleteScheduledActionOutput, error) {
	out := &autoscaling.BatchDeleteScheduledActionOutput{
		FailedScheduledActions: []types.FailedScheduledUpdateGroupActionRequest{}}
	if err := s.checkGroupExists(ctx, in.AutoScalingGroupName); err != nil {
		return nil, err
	}
	for _, name := range in.ScheduledActionNames {
		if failed, err := failedAction(&name, s.unschedule(ctx, in.AutoScalingGroupName, &name)); err != nil {
			return nil, err
		} else if failed != nil {
			out.FailedScheduledActions = append(out.FailedScheduledActions, *failed)
		}
	}
	return out, nil
}

// DescribeScheduledActions returns scheduled actions that are still due.
func (s *Service) DescribeScheduledActions(ctx context.Context, in *autoscaling.DescribeScheduledActionsInput) (
	*autoscaling.DescribeScheduledActionsOutput, error) {
	at := scopeOf(ctx)
	prefix := at.keyPrefix()
	if in.AutoScalingGroupName != nil {
		g, err := s.getGroup(ctx, in.AutoScalingGroupName)
		if err != nil {
			return nil, err
		}
		prefix = store.Prefix(at.account, at.region, g.Value.Name)
	}
	rows, err := s.schedules.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r store.Row[record.AutoScalingSchedule]) bool {
		if len(in.ScheduledActionNames) > 0 {
			return !slices.Contains(in.ScheduledActionNames, *r.Value.Action.ScheduledActionName)
		}
		return in.StartTime != nil && r.Value.Next.Before(*in.StartTime) || in.EndTime != nil &&
			r.Value.Next.After(*in.EndTime)
	})
	rows, next, err := paginate(ctx, rows, pagesOf50Or100, in.MaxRecords, in.NextToken,
		func(r store.Row[record.AutoScalingSchedule]) string { return r.Key })
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeScheduledActionsOutput{
		ScheduledUpdateGroupActions: []types.ScheduledUpdateGroupAction{}, NextToken: next}
	for _, row := range rows {
		out.ScheduledUpdateGroupActions = append(out.ScheduledUpdateGroupActions, row.Value.Action)
	}
	return out, nil
}
