// Package vpc serves the VPCs of the EC2 API and what they are made of: subnets, route tables, gateways, network
// ACLs, DHCP options, endpoints and prefix lists. The first call of an account in a region creates the default VPC
// there, once.
package vpc

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Service serves the operations. It is safe for concurrent use.
type Service struct {
	*resource.Records

	vpcView                       resource.View[record.VPC, types.Vpc]
	subnetView                    resource.View[record.Subnet, types.Subnet]
	routeTableView                resource.View[record.RouteTable, types.RouteTable]
	internetGatewayView           resource.View[record.InternetGateway, types.InternetGateway]
	egressOnlyInternetGatewayView resource.View[record.EgressOnlyInternetGateway, types.EgressOnlyInternetGateway]
	natGatewayView                resource.View[record.NATGateway, types.NatGateway]
	networkACLView                resource.View[record.NetworkACL, types.NetworkAcl]
	dhcpOptionsView               resource.View[record.DHCPOptions, types.DhcpOptions]
	vpcEndpointView               resource.View[record.VPCEndpoint, types.VpcEndpoint]
}

// New returns the service over the records.
func New(records *resource.Records) *Service {
	s := &Service{Records: records}
	s.vpcView = s.newVPCView()
	s.subnetView = s.newSubnetView()
	s.routeTableView = s.newRouteTableView()
	s.internetGatewayView = s.newInternetGatewayView()
	s.egressOnlyInternetGatewayView = s.newEgressOnlyInternetGatewayView()
	s.natGatewayView = s.newNATGatewayView()
	s.networkACLView = s.newNetworkACLView()
	s.dhcpOptionsView = s.newDHCPOptionsView()
	s.vpcEndpointView = s.newVPCEndpointView()
	return s
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	resource.Register(mux, s.vpcHandlers()...)
	resource.Register(mux, s.subnetHandlers()...)
	resource.Register(mux, s.routeTableHandlers()...)
	resource.Register(mux, s.routeHandlers()...)
	resource.Register(mux, s.gatewayHandlers()...)
	resource.Register(mux, s.natGatewayHandlers()...)
	resource.Register(mux, s.networkACLHandlers()...)
	resource.Register(mux, s.dhcpOptionsHandlers()...)
	resource.Register(mux, s.vpcEndpointHandlers()...)
	resource.Register(mux, s.vpcAttributeHandlers()...)
	resource.Register(mux, s.vpcCIDRHandlers()...)
	resource.Register(mux, s.prefixListHandlers()...)
	resource.Register(mux, s.defaultVPCHandlers()...)
}
