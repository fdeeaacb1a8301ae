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

// maxNames bounds the names that are remembered. An instance never changes its name.
const maxNames = 10_000

func (a *Authenticator) privateDNSName(ctx context.Context, c record.Cluster, instanceID string) (string, error) {
	key := c.Account + "/" + c.Region + "/" + instanceID
	a.mu.Lock()
	name, ok := a.names[key]
	a.mu.Unlock()
	if ok {
		return name, nil
	}
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
			if aws.ToString(i.InstanceId) == instanceID && aws.ToString(i.PrivateDnsName) != "" {
				name = *i.PrivateDnsName
			}
		}
	}
	if name == "" {
		return "", fmt.Errorf("private DNS name of instance %s: the instance has none", instanceID)
	}
	a.mu.Lock()
	if len(a.names) >= maxNames {
		clear(a.names)
	}
	a.names[key] = name
	a.mu.Unlock()
	return name, nil
}
