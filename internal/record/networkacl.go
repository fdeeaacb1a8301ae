package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// NetworkACL is a network access control list. Which subnets use it stands in their rows.
//
// Writer: internal/aws/ec2.
type NetworkACL struct {
	EC2Resource
	VPCID   string
	Default bool // the list of new subnets of its VPC
	// Entries are the rules beside the final "*" rules (number 32767), which deny what none allowed.
	Entries []NetworkACLEntry
}

// NetworkACLEntry is a rule of a network ACL. The first that matches decides, by number.
type NetworkACLEntry struct {
	Number   int32
	Egress   bool
	Protocol string // a protocol number, or "-1" for all
	Action   ec2types.RuleAction
	// CIDR or IPv6CIDR is set.
	CIDR     string `json:",omitempty"`
	IPv6CIDR string `json:",omitempty"`
	// Ports are set for TCP and UDP; ICMP for ICMP.
	Ports *ec2types.PortRange    `json:",omitempty"`
	ICMP  *ec2types.IcmpTypeCode `json:",omitempty"`
}

// NetworkACLs returns the table of network ACLs, by EC2Key.
func NetworkACLs(s *store.Store) store.Table[NetworkACL] {
	return store.NewTable[NetworkACL](s, "networkacls")
}
