package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// VPCEndpoint reaches an AWS service from inside a VPC: by routes (Gateway) or by network interfaces (Interface). It is
// small: the network of its VPC is made after it, and each request from there asks for it.
//
// Writer: internal/aws/ec2.
type VPCEndpoint struct {
	EC2Resource
	VPCID       string
	Type        ec2types.VpcEndpointType
	ServiceName string // "com.amazonaws.eu-west-1.s3"
	// InlinePolicy is the policy of an endpoint from before policies had records of their own, until it is changed.
	InlinePolicy      string `json:"PolicyDocument,omitempty"`
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

// InterfaceEndpointsByVPC finds interface endpoints by the EC2Key of their VPC.
func InterfaceEndpointsByVPC(s *store.Store) store.Index[VPCEndpoint] {
	return store.NewIndex(VPCEndpoints(s), "interface", func(e VPCEndpoint) string {
		if e.Type != ec2types.VpcEndpointTypeInterface {
			return ""
		}
		return EC2Key(e.Account, e.Region, e.VPCID)
	})
}

// GatewayEndpointsByRegion finds gateway endpoints by the Key of their account and region.
func GatewayEndpointsByRegion(s *store.Store) store.Index[VPCEndpoint] {
	return store.NewIndex(VPCEndpoints(s), "gateway", func(e VPCEndpoint) string {
		if e.Type != ec2types.VpcEndpointTypeGateway {
			return ""
		}
		return store.Key(e.Account, e.Region)
	})
}

// VPCEndpointPolicy is the policy of a VPC endpoint, unless it is the one that lets everybody do everything. It is a
// record of its own because it may be long, and only API calls read it.
//
// Writer: internal/aws/ec2.
type VPCEndpointPolicy struct{ Document string }

// VPCEndpointPolicies returns the table of policies of VPC endpoints, by EC2Key of the endpoint.
func VPCEndpointPolicies(s *store.Store) store.Table[VPCEndpointPolicy] {
	return store.NewTable[VPCEndpointPolicy](s, "vpcendpointpolicies")
}
