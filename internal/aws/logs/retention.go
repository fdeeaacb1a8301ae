package logs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/record"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// retentions are the days for which log events can be kept.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
var retentions = []int32{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922,
	3288, 3653}

// deliveryRetention is the only retention of log groups of the class DELIVERY.
const deliveryRetention = 1

// retentionHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) retentionHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutRetentionPolicy, func(
			ctx context.Context, action string, in *cloudwatchlogs.PutRetentionPolicyInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.LogGroupName, nil)
		}),
		wire.Handle(s.DeleteRetentionPolicy, func(
			ctx context.Context, action string, in *cloudwatchlogs.DeleteRetentionPolicyInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.LogGroupName, nil)
		}),
	}
}

// PutRetentionPolicy sets for how many days the events of a log group are kept.
func (s *Service) PutRetentionPolicy(ctx context.Context, in *cloudwatchlogs.PutRetentionPolicyInput) (
	*cloudwatchlogs.PutRetentionPolicyOutput, error) {
	days := aws.ToInt32(in.RetentionInDays)
	if !slices.Contains(retentions, days) {
		return nil, invalidValue("retentionInDays", days, "Member must satisfy enum value set: "+
			strings.ReplaceAll(fmt.Sprint(retentions), " ", ", "))
	}
	err := s.setRetention(ctx, aws.ToString(in.LogGroupName), days)
	if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.PutRetentionPolicyOutput{}, nil
}

// DeleteRetentionPolicy sets the retention of a log group to forever.
func (s *Service) DeleteRetentionPolicy(ctx context.Context, in *cloudwatchlogs.DeleteRetentionPolicyInput) (
	*cloudwatchlogs.DeleteRetentionPolicyOutput, error) {
	if err := s.setRetention(ctx, aws.ToString(in.LogGroupName), 0); err != nil {
		return nil, err
	}
	return &cloudwatchlogs.DeleteRetentionPolicyOutput{}, nil
}

func (s *Service) setRetention(ctx context.Context, group string, days int32) error {
	return s.modifyGroup(ctx, group, func(g *record.LogGroup) error {
		if g.Class == types.LogGroupClassDelivery && days != deliveryRetention {
			return invalidParameter("The retention of log groups of the class DELIVERY is %d day and can't be changed",
				deliveryRetention)
		}
		g.RetentionDays = days
		return nil
	})
}
