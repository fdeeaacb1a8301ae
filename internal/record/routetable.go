package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// RouteTable is a route table. Which subnets use it stands in their rows; whether it is the main one, in the VPC's.
//
// Writer: internal/aws/ec2.
type RouteTable struct {
	EC2Resource
	VPCID string
	// Routes are the routes beside the local ones, which follow from the VPC's CIDR blocks.
	Routes []Route
}

// Route sends packets for a destination to a target. A target that is gone makes it a black hole.
type Route struct {
	// Destination is an IPv4 or IPv6 CIDR block, or the ID of a prefix list.
	Destination string
	// Target is the ID of an internet gateway, egress-only internet gateway, NAT gateway, network interface or
	// VPC endpoint, or "local" for a block of the VPC that was pointed elsewhere and back.
	Target string
	Origin ec2types.RouteOrigin
}

// RouteTables returns the table of route tables, by EC2Key.
func RouteTables(s *store.Store) store.Table[RouteTable] {
	return store.NewTable[RouteTable](s, "routetables")
}
