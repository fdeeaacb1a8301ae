package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// activityHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) activityHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeScalingActivities, wire.OnAll),
	}
}

// DescribeScalingActivities returns the activities of a group, or of all groups, newest first.
func (s *Service) DescribeScalingActivities(ctx context.Context, in *autoscaling.DescribeScalingActivitiesInput) (
	*autoscaling.DescribeScalingActivitiesOutput, error) {
	at := scopeOf(ctx)
	prefix := at.keyPrefix()
	if in.AutoScalingGroupName != nil {
		row, err := s.getGroup(ctx, in.AutoScalingGroupName)
		if err != nil {
			if in.IncludeDeletedGroups != nil && *in.IncludeDeletedGroups {
				return &autoscaling.DescribeScalingActivitiesOutput{Activities: []types.Activity{}}, nil
			}
			return nil, err
		}
		prefix = store.Prefix(at.account, at.region, row.Value.Name)
	}
	rows, err := s.activities.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	if len(in.ActivityIds) > 0 {
		rows = slices.DeleteFunc(rows, func(r store.Row[record.AutoScalingActivity]) bool {
			return !slices.Contains(in.ActivityIds, r.Value.ID)
		})
		if len(rows) < len(in.ActivityIds) {
			return nil, validation("Activity not found: one of %v", in.ActivityIds)
		}
	}
	slices.SortStableFunc(rows, func(a, b store.Row[record.AutoScalingActivity]) int {
		if c := b.Value.StartTime.Compare(a.Value.StartTime); c != 0 {
			return c
		}
		return cmp.Compare(b.Created, a.Created)
	})
	rows, next, err := paginate(ctx, rows, pagesOf100, in.MaxRecords, in.NextToken,
		func(r store.Row[record.AutoScalingActivity]) string {
			return fmt.Sprintf("%019d %019d", math.MaxInt64-r.Value.StartTime.UnixNano(), math.MaxInt64-r.Created)
		})
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeScalingActivitiesOutput{Activities: []types.Activity{}, NextToken: next}
	for _, row := range rows {
		out.Activities = append(out.Activities, showActivity(at, row.Value))
	}
	return out, nil
}

func showActivity(at scope, a record.AutoScalingActivity) types.Activity {
	g := record.AutoScalingGroup{Account: at.account, Region: at.region, Name: a.GroupName, ID: a.GroupID}
	shown := types.Activity{
		ActivityId: &a.ID, AutoScalingGroupName: &a.GroupName, AutoScalingGroupARN: new(g.ARN()), Cause: &a.Cause,
		Description: &a.Description,
		Details:     &a.Details, Progress: &a.Progress, StartTime: &a.StartTime, StatusCode: a.StatusCode,
		StatusMessage: optional(a.StatusMessage),
	}
	if !a.EndTime.IsZero() {
		shown.EndTime = &a.EndTime
	}
	return shown
}
