// Package shield answers what clients of load balancers ask AWS Shield: no account has a subscription to Shield
// Advanced, so nothing is protected by it.
//
// https://docs.aws.amazon.com/waf/latest/DDOSAPIReference/Welcome.html
package shield

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/shield"
	"github.com/aws/aws-sdk-go-v2/service/shield/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsshield.html
func Register(mux *wire.Mux) {
	mux.Register(wire.Shield,
		wire.Handle(getSubscriptionState, wire.OnAll),
		wire.Handle(describeSubscription, wire.OnAll),
		wire.Handle(describeProtection, func(
			ctx context.Context, action string, in *shield.DescribeProtectionInput,
		) ([]wire.Target, error) {
			t := wire.Target{Action: action, Resource: "*"}
			switch {
			case in.ProtectionId != nil:
				t.Resource = "arn:aws:shield::" + wire.CallerFrom(ctx).Account + ":protection/" + *in.ProtectionId
			case in.ResourceArn != nil:
				t.Resource = *in.ResourceArn
				if parts := strings.SplitN(t.Resource, ":", 6); len(parts) == 6 {
					t.Owner = parts[4]
				}
			}
			return []wire.Target{t}, nil
		}),
		wire.Handle(listProtections, wire.OnAll),
	)
}

func getSubscriptionState(context.Context, *shield.GetSubscriptionStateInput) (
	*shield.GetSubscriptionStateOutput, error) {
	return &shield.GetSubscriptionStateOutput{SubscriptionState: types.SubscriptionStateInactive}, nil
}

func describeSubscription(context.Context, *shield.DescribeSubscriptionInput) (
	*shield.DescribeSubscriptionOutput, error) {
	return nil, &types.ResourceNotFoundException{Message: aws.String("The subscription does not exist.")}
}

func describeProtection(_ context.Context, in *shield.DescribeProtectionInput) (
	*shield.DescribeProtectionOutput, error) {
	if (in.ProtectionId == nil) == (in.ResourceArn == nil) {
		return nil, &types.InvalidParameterException{
			Message: aws.String("Specify either the ProtectionId or the ResourceArn of a protection."),
		}
	}
	return nil, &types.ResourceNotFoundException{Message: aws.String("The referenced protection does not exist.")}
}

func listProtections(context.Context, *shield.ListProtectionsInput) (*shield.ListProtectionsOutput, error) {
	return &shield.ListProtectionsOutput{Protections: []types.Protection{}}, nil
}
