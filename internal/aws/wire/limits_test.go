package wire_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// wideMux serves operations of four protocols, whatever they are asked.
func wideMux() *wire.Mux {
	m := wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: &policy{}})
	m.Register(wire.EC2, wire.Handle(func(context.Context, *ec2.DescribeInstancesInput) (
		*ec2.DescribeInstancesOutput, error) {
		return &ec2.DescribeInstancesOutput{}, nil
	}, wire.OnAll))
	m.Register(wire.AutoScaling, wire.Handle(func(context.Context, *autoscaling.DescribeAutoScalingGroupsInput) (
		*autoscaling.DescribeAutoScalingGroupsOutput, error) {
		return &autoscaling.DescribeAutoScalingGroupsOutput{}, nil
	}, wire.OnAll))
	m.Register(wire.EKS, wire.Handle(func(context.Context, *eks.CreateNodegroupInput) (*eks.CreateNodegroupOutput, error) {
		return &eks.CreateNodegroupOutput{}, nil
	}, wire.OnAll))
	m.Register(wire.Logs, wire.Handle(func(context.Context, *cloudwatchlogs.PutLogEventsInput) (
		*cloudwatchlogs.PutLogEventsOutput, error) {
		return &cloudwatchlogs.PutLogEventsOutput{}, nil
	}, wire.OnAll))
	return m
}

// Each member of a request costs its handler work, whatever the model says of its length.
func TestMembersWithoutAMaximumAreBounded(t *testing.T) {
	t.Parallel()
	c := config(wideMux())
	instances, groups := ec2.NewFromConfig(c), autoscaling.NewFromConfig(c)
	clusters, logs := eks.NewFromConfig(c), cloudwatchlogs.NewFromConfig(c)
	filter := func(values ...string) *ec2.DescribeInstancesInput {
		return &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{{Name: aws.String("tag-key"), Values: values}}}
	}
	nodegroup := func(subnets int) *eks.CreateNodegroupInput {
		return &eks.CreateNodegroupInput{ClusterName: aws.String("a"), NodegroupName: aws.String("b"),
			NodeRole: aws.String("c"), Subnets: slices.Repeat([]string{"subnet-1"}, subnets)}
	}
	for name, test := range map[string]struct {
		send func() error
		want string // nothing where the request is within the limits
	}{
		"1,000 IDs": {send: func() error {
			_, err := instances.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
				InstanceIds: slices.Repeat([]string{"i-1"}, 1000)})
			return err
		}},
		"1,001 IDs": {func() error {
			_, err := instances.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
				InstanceIds: slices.Repeat([]string{"i-1"}, 1001)})
			return err
		}, `InvalidParameterValue: Value ( ["i-1",`},
		"1,001 values of a filter": {func() error {
			_, err := instances.DescribeInstances(t.Context(), filter(slices.Repeat([]string{"a"}, 1001)...))
			return err
		}, "for parameter filters.1.member.values is invalid. It must have length less than or equal to 1000"},
		"a text as long as a policy": {send: func() error {
			_, err := instances.DescribeInstances(t.Context(), filter(strings.Repeat("é", 131072)))
			return err
		}},
		"a longer text": {func() error {
			_, err := instances.DescribeInstances(t.Context(), filter(strings.Repeat("é", 131073)))
			return err
		}, "is invalid. It must have length less than or equal to 131072"},
		"1,001 names": {func() error {
			_, err := groups.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{
				AutoScalingGroupNames: slices.Repeat([]string{"a"}, 1001)})
			return err
		}, "ValidationError: 1 validation error detected: "},
		"1,000 subnets": {send: func() error {
			_, err := clusters.CreateNodegroup(t.Context(), nodegroup(1000))
			return err
		}},
		"1,001 subnets": {func() error {
			_, err := clusters.CreateNodegroup(t.Context(), nodegroup(1001))
			return err
		}, "InvalidParameterException: 1 validation error detected: "},
		"1,001 labels": {func() error {
			in := nodegroup(1)
			in.Labels = map[string]string{}
			for i := range 1001 {
				in.Labels[fmt.Sprint(i)] = "a"
			}
			_, err := clusters.CreateNodegroup(t.Context(), in)
			return err
		}, "at 'labels' failed to satisfy constraint: Member must have length less than or equal to 1000"},
		"10,000 log events, as many as the model allows": {send: func() error {
			_, err := logs.PutLogEvents(t.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: aws.String("a"),
				LogStreamName: aws.String("b"), LogEvents: slices.Repeat([]logtypes.InputLogEvent{
					{Message: aws.String("m"), Timestamp: aws.Int64(1)}}, 10_000)})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var refused smithy.APIError
			err := test.send()
			if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &refused) ||
				!strings.Contains(refused.ErrorCode()+": "+refused.ErrorMessage(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
