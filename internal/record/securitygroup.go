package record

import "github.com/coracle-eks/coracle/internal/store"

// SecurityGroup is a security group with its rules.
//
// Writer: internal/aws/ec2.
type SecurityGroup struct {
	EC2Resource
	VPCID       string
	Name        string // "default" is the group that came with the VPC
	Description string
	Rules       []SecurityGroupRule
}

// SecurityGroupRule allows traffic from or to one peer.
type SecurityGroupRule struct {
	ID       string // "sgr-…"
	Egress   bool
	Protocol string // "tcp", "udp", "icmp", "icmpv6", a protocol number, or "-1" for all
	// FromPort and ToPort are ports, or ICMP type and code; -1 for all.
	FromPort int32
	ToPort   int32
	// One of the following is set.
	CIDRIPv4     string `json:",omitempty"`
	CIDRIPv6     string `json:",omitempty"`
	PrefixListID string `json:",omitempty"`
	GroupID      string `json:",omitempty"` // a group of the same VPC
	Description  string `json:",omitempty"`
}

// SecurityGroups returns the table of security groups, by EC2Key.
func SecurityGroups(s *store.Store) store.Table[SecurityGroup] {
	return store.NewTable[SecurityGroup](s, "securitygroups")
}
