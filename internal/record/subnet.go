package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Subnet is a subnet of a VPC.
//
// Writer: internal/aws/ec2.
type Subnet struct {
	EC2Resource
	VPCID            string
	CIDR             string           // IPv4, "10.0.1.0/24"
	IPv6             *CIDRAssociation `json:",omitempty"` // a /64
	AvailabilityZone string           // "eu-west-1a"
	DefaultForAZ     bool

	MapPublicIPOnLaunch             bool
	AssignIPv6AddressOnCreation     bool
	EnableDNS64                     bool
	HostnameType                    ec2types.HostnameType
	EnableResourceNameDNSARecord    bool
	EnableResourceNameDNSAAAARecord bool

	NetworkACLID            string
	NetworkACLAssociationID string
	// RouteTableID is empty while the VPC's main route table applies.
	RouteTableID            string `json:",omitempty"`
	RouteTableAssociationID string `json:",omitempty"`
}

// Subnets returns the table of subnets, by EC2Key.
func Subnets(s *store.Store) store.Table[Subnet] { return store.NewTable[Subnet](s, "subnets") }

// SubnetsByVPC finds subnets by the EC2Key of their VPC.
func SubnetsByVPC(s *store.Store) store.Index[Subnet] {
	return store.NewIndex(Subnets(s), "vpc", func(r Subnet) string { return EC2Key(r.Account, r.Region, r.VPCID) })
}

// AddressBlock records who uses which addresses in one aligned block of a subnet: a /28 of its IPv4 range or a /80 of
// its IPv6 range, the sizes that EC2 delegates as prefixes. A block is either delegated whole or has single addresses
// in use; as one row it cannot be both, and no address is given twice. A block without users has no row.
//
// Writer: internal/aws/ec2, in the transaction that changes the network interface's row.
type AddressBlock struct {
	// PrefixOf is the network interface to which the whole block is delegated.
	PrefixOf string `json:",omitempty"`
	// Addresses are the network interfaces by address.
	Addresses map[string]string `json:",omitempty"`
}

// AddressBlockKey returns the key of the block that begins with the given address.
func AddressBlockKey(account, region, subnetID, first string) string {
	return store.Key(account, region, subnetID, first)
}

// AddressBlocks returns the table of address blocks in use, by AddressBlockKey.
func AddressBlocks(s *store.Store) store.Table[AddressBlock] {
	return store.NewTable[AddressBlock](s, "addressblocks")
}
