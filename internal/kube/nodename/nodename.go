// Package nodename relates EC2 instances to the names of their Kubernetes nodes.
package nodename

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Allowed returns the names that the node of an instance may have, in lower case. They come from EC2, because a node
// can claim any other fact about itself.
func Allowed(i ec2types.Instance) (names []string) {
	add := func(name *string) {
		if aws.ToString(name) != "" {
			names = append(names, strings.ToLower(*name))
		}
	}
	add(i.InstanceId)
	add(i.PrivateDnsName)
	add(i.PublicDnsName)
	for _, n := range i.NetworkInterfaces {
		for _, p := range n.PrivateIpAddresses {
			if p.Association != nil {
				add(p.Association.PublicDnsName)
			}
		}
	}
	return names
}
