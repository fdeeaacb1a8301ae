package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// VPC is a virtual private cloud.
//
// Writer: internal/aws/ec2.
type VPC struct {
	EC2Resource
	// CIDRs are its IPv4 blocks, the primary first; IPv6CIDRs the /56 blocks that Amazon provided.
	CIDRs     []CIDRAssociation
	IPv6CIDRs []CIDRAssociation `json:",omitempty"`
	Tenancy   ec2types.Tenancy
	Default   bool // the default VPC of its account and region
	// DHCPOptionsID is "default" for a VPC that was dissociated from all options.
	DHCPOptionsID string
	// MainRouteTableID is the route table of every subnet that has none of its own.
	MainRouteTableID            string
	MainRouteTableAssociationID string

	EnableDNSSupport                 bool
	EnableDNSHostnames               bool
	EnableNetworkAddressUsageMetrics bool
}

// CIDRAssociation is a CIDR block of a VPC or a subnet.
type CIDRAssociation struct {
	AssociationID string // "vpc-cidr-assoc-…" or "subnet-cidr-assoc-…"
	CIDR          string
}

// VPCs returns the table of VPCs, by EC2Key.
func VPCs(s *store.Store) store.Table[VPC] { return store.NewTable[VPC](s, "vpcs") }

// VPCContents has no facts of its own; its revision in the store is the fact. Whoever adds something to a VPC, or lets
// one thing in it refer to another, writes the row in the same transaction. Whoever relies on there being no such thing
// (no overlapping subnet, no group of that name, nothing left that uses a subnet) read the row before looking, and
// writes it at that revision: had anything come between, that transaction fails, and the look is taken again.
//
// Writer: internal/aws/ec2. The row is created and deleted with its VPC.
type VPCContents struct{}

// VPCContentsTable returns the table of VPC contents, by EC2Key of the VPC.
func VPCContentsTable(s *store.Store) store.Table[VPCContents] {
	return store.NewTable[VPCContents](s, "vpccontents")
}
