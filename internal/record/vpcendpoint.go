package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// VPCEndpoint reaches an AWS service from inside a VPC: by routes (Gateway) or by network interfaces (Interface).
//
// Writer: internal/aws/ec2.
type VPCEndpoint struct {
	EC2Resource
	VPCID             string
	Type              ec2types.VpcEndpointType
	ServiceName       string // "com.amazonaws.eu-west-1.s3"
	PolicyDocument    string
	PrivateDNSEnabled bool
	IPAddressType     ec2types.IpAddressType
	// Gateway endpoints have route tables (whose rows carry the route), interface endpoints subnets, groups and one
	// network interface in each subnet, in the subnets' order.
	RouteTableIDs       []string
	SubnetIDs           []string
	SecurityGroupIDs    []string
	NetworkInterfaceIDs []string
	RequesterManaged    bool
}

// VPCEndpoints returns the table of VPC endpoints, by EC2Key.
func VPCEndpoints(s *store.Store) store.Table[VPCEndpoint] {
	return store.NewTable[VPCEndpoint](s, "vpcendpoints")
}
