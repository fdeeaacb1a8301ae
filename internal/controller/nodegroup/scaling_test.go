package nodegroup

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// takenName is an Auto Scaling that has a group with the name.
type takenName struct {
	AutoScaling
	name string
}

func (a takenName) DescribeAutoScalingGroups(context.Context, *autoscaling.DescribeAutoScalingGroupsInput,
	...func(*autoscaling.Options)) (*autoscaling.DescribeAutoScalingGroupsOutput, error) {
	return &autoscaling.DescribeAutoScalingGroupsOutput{AutoScalingGroups: []astypes.AutoScalingGroup{
		{AutoScalingGroupName: &a.name, MaxSize: aws.Int32(1)}}}, nil
}

func (a takenName) CreateAutoScalingGroup(context.Context, *autoscaling.CreateAutoScalingGroupInput,
	...func(*autoscaling.Options)) (*autoscaling.CreateAutoScalingGroupOutput, error) {
	return nil, &astypes.AlreadyExistsFault{}
}

// Whoever learns the name of the Auto Scaling group before EKS has created it must not choose what EKS launches.
func TestScalingGroupsOfOthersAreNotAdopted(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for creator, adopted := range map[string]bool{
		"arn:aws:sts::111122223333:assumed-role/AWSServiceRoleForAmazonEKSNodegroup/EKS": true,
		"arn:aws:iam::111122223333:user/dev":                                             false,
		"":                                                                               false,
	} {
		g := &group{
			c:   New(Options{Store: s}),
			row: record.Nodegroup{Account: "111122223333", Region: "eu-west-1", Cluster: "c", Name: "n", ID: "1"},
		}
		g.scaling = takenName{name: g.scalingName()}
		key := record.AutoScalingGroupKey(g.row.Account, g.row.Region, g.scalingName())
		if _, err := record.AutoScalingGroups(s).Put(t.Context(), key, record.AutoScalingGroup{
			Account: g.row.Account, Region: g.row.Region, Name: g.scalingName(), CreatedBy: creator}); err != nil {
			t.Fatal(err)
		}
		if err := g.describeScalingGroup(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := g.ensureScalingGroup(t.Context())
		var issue *problem
		if adopted && err != nil || !adopted && !errors.As(err, &issue) {
			t.Errorf("a group of %q: %v", creator, err)
		}
		if got := g.asg != nil && g.state.AutoScalingGroup != ""; got != adopted {
			t.Errorf("a group of %q is adopted: %t", creator, got)
		}
		if adopted {
			if err := record.NodegroupStates(s).Delete(t.Context(), g.saved); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, gone, err := g.removeScalingGroup(t.Context()); !gone || err != nil {
			t.Errorf("a group of %q is to be deleted: %v", creator, err)
		}
	}
}
