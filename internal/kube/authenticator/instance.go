package authenticator

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/record"
)

// Instances is the part of the EC2 client that the authenticator uses.
type Instances interface {
	DescribeInstances(context.Context, *ec2.DescribeInstancesInput,
		...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error)
}

// privateDNSName returns the name of an instance's node. EC2 is asked each time: a terminated instance has no name any
// more, while credentials from it live on, and another instance may have got its address. One of another VPC may have
// the address, and with it the name, of a node of the cluster.
func (a *Authenticator) privateDNSName(ctx context.Context, c record.Cluster, instanceID string) (string, error) {
	if a.instances == nil {
		return "", fmt.Errorf("private DNS name of instance %s: no EC2 to ask", instanceID)
	}
	client := a.instances(c)
	out, err := client.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{instanceID}})
	if err != nil {
		return "", fmt.Errorf("private DNS name of instance %s: %w", instanceID, err)
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			if aws.ToString(i.InstanceId) != instanceID || aws.ToString(i.PrivateDnsName) == "" {
				continue
			}
			if vpc := aws.ToString(i.VpcId); vpc != c.VPCID {
				return "", fmt.Errorf("private DNS name of instance %s: it is in %s, and the cluster's nodes are in %s",
					instanceID, vpc, c.VPCID)
			}
			return *i.PrivateDnsName, nil
		}
	}
	return "", fmt.Errorf("private DNS name of instance %s: the instance has none", instanceID)
}
