package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// InternetGateway connects a VPC with the internet.
//
// Writer: internal/aws/ec2.
type InternetGateway struct {
	EC2Resource
	VPCID string // empty while detached
	// RouteTableID is the route table of traffic that enters through the gateway, if it has one.
	RouteTableID            string `json:",omitempty"`
	RouteTableAssociationID string `json:",omitempty"`
}

// InternetGateways returns the table of internet gateways, by EC2Key.
func InternetGateways(s *store.Store) store.Table[InternetGateway] {
	return store.NewTable[InternetGateway](s, "internetgateways")
}

// EgressOnlyInternetGateway lets a VPC open IPv6 connections to the internet.
//
// Writer: internal/aws/ec2.
type EgressOnlyInternetGateway struct {
	EC2Resource
	VPCID string
}

// EgressOnlyInternetGateways returns the table of egress-only internet gateways, by EC2Key.
func EgressOnlyInternetGateways(s *store.Store) store.Table[EgressOnlyInternetGateway] {
	return store.NewTable[EgressOnlyInternetGateway](s, "egressonlyinternetgateways")
}

// NATGateway lets a subnet's neighbors open connections to the internet (public) or to other networks (private). Its
// addresses are those of its network interface.
//
// Writer: internal/aws/ec2.
type NATGateway struct {
	EC2Resource
	VPCID              string
	SubnetID           string
	ConnectivityType   ec2types.ConnectivityType
	NetworkInterfaceID string
}

// NATGateways returns the table of NAT gateways, by EC2Key.
func NATGateways(s *store.Store) store.Table[NATGateway] {
	return store.NewTable[NATGateway](s, "natgateways")
}
