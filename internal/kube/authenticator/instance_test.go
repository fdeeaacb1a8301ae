package authenticator

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// endingInstance is an EC2 with one instance, which has no name once it is terminated.
type endingInstance struct{ name, vpc string }

func (e *endingInstance) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (
	*ec2.DescribeInstancesOutput, error) {
	return &ec2.DescribeInstancesOutput{Reservations: []ec2types.Reservation{{Instances: []ec2types.Instance{{
		InstanceId: &in.InstanceIds[0], PrivateDnsName: &e.name, VpcId: &e.vpc,
	}}}}}, nil
}

// Credentials outlive their instance: they must not name the node that has got its address.
func TestATerminatedInstanceIsNoNode(t *testing.T) {
	t.Parallel()
	e := &endingInstance{name: "ip-10-0-1-7.eu-west-1.compute.internal"}
	a := New(Options{Instances: func(record.Cluster) Instances { return e }})
	name, err := a.privateDNSName(t.Context(), record.Cluster{}, "i-1")
	if err != nil || name != e.name {
		t.Errorf("it is %s, %v", name, err)
	}
	e.name = ""
	if name, err = a.privateDNSName(t.Context(), record.Cluster{}, "i-1"); err == nil ||
		!strings.Contains(err.Error(), "has none") {
		t.Errorf("once it is terminated it is %s, %v", name, err)
	}
}

// VPCs may have the same addresses, and so the same names of instances.
func TestAnInstanceOfAnotherVPCIsNoNode(t *testing.T) {
	t.Parallel()
	e := &endingInstance{name: "ip-10-0-1-7.eu-west-1.compute.internal", vpc: "vpc-2"}
	a := New(Options{Instances: func(record.Cluster) Instances { return e }})
	if name, err := a.privateDNSName(t.Context(), record.Cluster{VPCID: "vpc-1"}, "i-1"); err == nil ||
		!strings.Contains(err.Error(), "it is in vpc-2, and the cluster's nodes are in vpc-1") {
		t.Errorf("it is %s, %v", name, err)
	}
	if name, err := a.privateDNSName(t.Context(), record.Cluster{VPCID: "vpc-2"}, "i-1"); err != nil || name != e.name {
		t.Errorf("in the cluster's VPC it is %s, %v", name, err)
	}
}
