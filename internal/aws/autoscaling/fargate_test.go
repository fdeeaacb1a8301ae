package autoscaling_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestFargateMachinesAreNoMembers attaches the machine of a Fargate pod, which the account does not have.
func TestFargateMachinesAreNoMembers(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("nodes", 0, 4, 1)
	w.serves("nodes", 1)
	i := record.Instance{
		EC2Resource: record.EC2Resource{Account: account, Region: region, ID: "i-0123456789abcdef0"},
		VPCID:       w.vpc, SubnetID: w.subnets[0], AvailabilityZone: region + "a",
		Wanted: ec2types.InstanceStateNameRunning, Boot: 1, Fargate: &record.FargateMachine{Capacity: "1"},
	}
	if _, err := record.Instances(w.store).Create(t.Context(), i.Key(), i); err != nil {
		t.Fatal(err)
	}
	_, err := w.AttachInstances(t.Context(), &autoscaling.AttachInstancesInput{AutoScalingGroupName: aws.String("nodes"),
		InstanceIds: []string{i.ID}})
	if code, message, _ := awstest.Failure(err); code != "ValidationError" ||
		!strings.Contains(message, "Invalid Instance ID(s): ["+i.ID+"]") {
		t.Errorf("got %v", err)
	}
}
