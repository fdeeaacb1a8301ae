package ec2

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) networkACLKind() kind[record.NetworkACL, types.NetworkAcl] {
	type v = types.NetworkAcl
	association := func(member func(types.NetworkAclAssociation) *string) func(v) []string {
		return func(x v) []string { return collectValues(x.Associations, member) }
	}
	entry := func(values func(types.NetworkAclEntry) []string) func(v) []string {
		return func(x v) []string {
			var all []string
			for _, e := range x.Entries {
				all = append(all, values(e)...)
			}
			return all
		}
	}
	icmp := func(member func(types.IcmpTypeCode) *int32) func(v) []string {
		return entry(func(e types.NetworkAclEntry) []string {
			if e.IcmpTypeCode == nil {
				return nil
			}
			return intFilter(member)(*e.IcmpTypeCode)
		})
	}
	ports := func(member func(types.PortRange) *int32) func(v) []string {
		return entry(func(e types.NetworkAclEntry) []string {
			if e.PortRange == nil {
				return nil
			}
			return intFilter(member)(*e.PortRange)
		})
	}
	return kind[record.NetworkACL, v]{
		naming: naming{
			resource: types.ResourceTypeNetworkAcl, prefix: "acl-", noun: "networkAcl ID", param: "networkAclId",
			notFound: "InvalidNetworkAclID.NotFound", malformed: "InvalidNetworkAclId.Malformed",
		},
		table:  record.NetworkACLs(s.store),
		view:   s.viewACL,
		tagged: func(x v) []types.Tag { return x.Tags },
		vpc:    func(r record.NetworkACL) string { return r.VPCID },
		filters: filters[v]{
			"association.association-id": association(
				func(a types.NetworkAclAssociation) *string { return a.NetworkAclAssociationId }),
			"association.network-acl-id": association(
				func(a types.NetworkAclAssociation) *string { return a.NetworkAclId }),
			"association.subnet-id": association(
				func(a types.NetworkAclAssociation) *string { return a.SubnetId }),
			"default": boolFilter(func(x v) *bool { return x.IsDefault }),
			"entry.cidr": entry(
				stringFilter(func(e types.NetworkAclEntry) *string { return e.CidrBlock })),
			"entry.ipv6-cidr": entry(
				stringFilter(func(e types.NetworkAclEntry) *string { return e.Ipv6CidrBlock })),
			"entry.icmp.code":       icmp(func(i types.IcmpTypeCode) *int32 { return i.Code }),
			"entry.icmp.type":       icmp(func(i types.IcmpTypeCode) *int32 { return i.Type }),
			"entry.port-range.from": ports(func(p types.PortRange) *int32 { return p.From }),
			"entry.port-range.to":   ports(func(p types.PortRange) *int32 { return p.To }),
			"entry.protocol": entry(func(e types.NetworkAclEntry) []string {
				if name, ok := protocolNames[*e.Protocol]; ok {
					return []string{*e.Protocol, name}
				}
				return []string{*e.Protocol}
			}),
			"entry.rule-action": entry(enumFilter(
				func(e types.NetworkAclEntry) types.RuleAction { return e.RuleAction })),
			"entry.egress":      entry(boolFilter(func(e types.NetworkAclEntry) *bool { return e.Egress })),
			"entry.rule-number": entry(intFilter(func(e types.NetworkAclEntry) *int32 { return e.RuleNumber })),
			"network-acl-id":    stringFilter(func(x v) *string { return x.NetworkAclId }),
			"owner-id":          stringFilter(func(x v) *string { return x.OwnerId }),
			"vpc-id":            stringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewACL(in scope, r record.NetworkACL) types.NetworkAcl {
	v := types.NetworkAcl{
		Associations: []types.NetworkAclAssociation{},
		Entries:      []types.NetworkAclEntry{},
		IsDefault:    aws.Bool(r.Default),
		NetworkAclId: aws.String(r.ID),
		OwnerId:      aws.String(r.Account),
		Tags:         s.listTagSet(in, r.ID),
		VpcId:        aws.String(r.VPCID),
	}
	for _, sub := range mustRead(s.subnets.list(in, func(sub record.Subnet) bool { return sub.NetworkACLID == r.ID })) {
		v.Associations = append(v.Associations, types.NetworkAclAssociation{
			NetworkAclAssociationId: aws.String(sub.NetworkACLAssociationID), NetworkAclId: aws.String(r.ID),
			SubnetId: aws.String(sub.ID),
		})
	}
	entries := slices.Clone(r.Entries)
	for _, egress := range []bool{true, false} {
		entries = append(entries, record.NetworkACLEntry{Number: lastEntry, Egress: egress, Protocol: "-1",
			Action: types.RuleActionDeny, CIDR: "0.0.0.0/0"})
	}
	slices.SortStableFunc(entries, func(a, b record.NetworkACLEntry) int {
		if a.Egress != b.Egress {
			return map[bool]int{true: -1, false: 1}[a.Egress]
		}
		return cmp.Compare(a.Number, b.Number)
	})
	for _, e := range entries {
		v.Entries = append(v.Entries, types.NetworkAclEntry{
			CidrBlock: optional(e.CIDR), Egress: aws.Bool(e.Egress), IcmpTypeCode: e.ICMP,
			Ipv6CidrBlock: optional(e.IPv6CIDR),
			PortRange:     e.Ports, Protocol: aws.String(e.Protocol), RuleAction: e.Action,
			RuleNumber: aws.Int32(e.Number),
		})
	}
	return v
}

// lastEntry is the number of the entries that deny what no other allowed; AWS shows them as "*".
const lastEntry = 32767

// openEntries let everything in and out: the entries of a default network ACL.
func openEntries() []record.NetworkACLEntry {
	return []record.NetworkACLEntry{
		{Number: 100, Egress: true, Protocol: "-1", Action: types.RuleActionAllow, CIDR: "0.0.0.0/0"},
		{Number: 100, Egress: false, Protocol: "-1", Action: types.RuleActionAllow, CIDR: "0.0.0.0/0"},
	}
}

// defaultACL is the id of the default network ACL of a VPC.
func (s *Service) defaultACL(c *change, vpcID string) (string, error) {
	found, err := s.acls.list(c.scope, func(r record.NetworkACL) bool { return r.VPCID == vpcID && r.Default })
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", s.vpcs.missing(vpcID) // deleted a moment ago, with its VPC
	}
	return found[0].ID, nil
}

// networkACLHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) networkACLHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateNetworkAcl, creating[ec2.CreateNetworkAclInput](s, types.ResourceTypeNetworkAcl)),
		wire.Handle(s.DescribeNetworkAcls, onRegion),
		wire.Handle(s.DeleteNetworkAcl, touching[ec2.DeleteNetworkAclInput](s)),
		wire.Handle(s.ReplaceNetworkAclAssociation, touching[ec2.ReplaceNetworkAclAssociationInput](s)),
		wire.Handle(s.CreateNetworkAclEntry, touching[ec2.CreateNetworkAclEntryInput](s)),
		wire.Handle(s.ReplaceNetworkAclEntry, touching[ec2.ReplaceNetworkAclEntryInput](s)),
		wire.Handle(s.DeleteNetworkAclEntry, touching[ec2.DeleteNetworkAclEntryInput](s)),
	}
}

// CreateNetworkAcl makes a network ACL that lets nothing through.
func (s *Service) CreateNetworkAcl(ctx context.Context, in *ec2.CreateNetworkAclInput) (*ec2.CreateNetworkAclOutput,
	error) {
	out, err := createResource(ctx, s, s.acls, creation{dryRun: in.DryRun, tags: in.TagSpecifications,
		token: in.ClientToken, request: in}, func(c *change, id string) error {
		vpc, err := c.holdVPC(in.VpcId)
		if err != nil {
			return err
		}
		inVPC := func(r record.NetworkACL) bool { return r.VPCID == vpc.ID }
		if err := s.acls.checkQuota(c.scope, maxACLsPerVPC, inVPC, "NetworkAclLimitExceeded",
			"network ACLs"); err != nil {
			return err
		}
		s.acls.createRecord(c, record.NetworkACL{EC2Resource: c.identity(id, in.ClientToken), VPCID: vpc.ID})
		return nil
	})
	return &ec2.CreateNetworkAclOutput{NetworkAcl: out, ClientToken: in.ClientToken}, err
}

// DescribeNetworkAcls lists network ACLs.
func (s *Service) DescribeNetworkAcls(ctx context.Context, in *ec2.DescribeNetworkAclsInput) (
	*ec2.DescribeNetworkAclsOutput, error) {
	found, next, err := describe(ctx, s, s.acls, query{in.DryRun, in.NetworkAclIds, in.Filters, in.MaxResults,
		in.NextToken})
	return &ec2.DescribeNetworkAclsOutput{NetworkAcls: found, NextToken: next}, err
}

// DeleteNetworkAcl deletes a network ACL that no subnet uses.
func (s *Service) DeleteNetworkAcl(ctx context.Context, in *ec2.DeleteNetworkAclInput) (*ec2.DeleteNetworkAclOutput,
	error) {
	return &ec2.DeleteNetworkAclOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		acl, err := s.acls.deleteRecord(c, aws.ToString(in.NetworkAclId))
		if err != nil {
			return err
		}
		if acl.Default {
			return wire.Errorf("InvalidParameterValue", "cannot delete default network ACL %s", acl.ID)
		}
		if err := c.requireUnchanged(acl.VPCID); err != nil {
			return err
		}
		if used, err := s.subnets.hasMatch(c.scope,
			func(r record.Subnet) bool { return r.NetworkACLID == acl.ID }); err != nil {
			return err
		} else if used {
			return dependency("networkAcl", acl.ID)
		}
		return nil
	})
}

// ReplaceNetworkAclAssociation gives a subnet another network ACL.
func (s *Service) ReplaceNetworkAclAssociation(ctx context.Context, in *ec2.ReplaceNetworkAclAssociationInput) (
	*ec2.ReplaceNetworkAclAssociationOutput, error) {
	id := newID("aclassoc-")
	err := s.applyChange(ctx, in.DryRun, func(c *change) error {
		acl, err := s.acls.getRecord(c.scope, in.NetworkAclId)
		if err != nil {
			return err
		}
		old := aws.ToString(in.AssociationId)
		found, err := s.subnets.list(c.scope, func(r record.Subnet) bool { return r.NetworkACLAssociationID == old })
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return wire.Errorf("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", old)
		}
		if found[0].VPCID != acl.VPCID {
			return wire.Errorf("InvalidParameterValue", "networkAcl %s and subnet %s belong to different networks",
				acl.ID, found[0].ID)
		}
		if err := s.acls.require(c, acl.ID); err != nil {
			return err
		}
		c.touchVPC(acl.VPCID)
		return s.subnets.updateRecord(c, found[0].ID, func(r *record.Subnet) error {
			r.NetworkACLID, r.NetworkACLAssociationID = acl.ID, id
			return nil
		})
	})
	return &ec2.ReplaceNetworkAclAssociationOutput{NewAssociationId: aws.String(id)}, err
}

// newEntry reads an entry of a network ACL from a request to create or replace it.
func newEntry(in *ec2.CreateNetworkAclEntryInput) (record.NetworkACLEntry, error) {
	e := record.NetworkACLEntry{Number: aws.ToInt32(in.RuleNumber), Egress: aws.ToBool(in.Egress),
		Action: in.RuleAction, Protocol: aws.ToString(in.Protocol)}
	for n, name := range protocolNames {
		if e.Protocol == name && name != "-1" {
			e.Protocol = n
		}
	}
	if e.Protocol == "all" {
		e.Protocol = "-1"
	}
	n, err := strconv.Atoi(e.Protocol)
	switch {
	case in.RuleNumber == nil:
		return e, missing("ruleNumber")
	case e.Number < 1 || e.Number > 32766:
		return e, invalidValue(e.Number, "ruleNumber", "Must be between 1 and 32766.")
	case in.Protocol == nil:
		return e, missing("protocol")
	case err != nil || n < -1 || n > 255:
		return e, invalid("Invalid value '%s' for protocol. Must be a protocol number or -1.",
			aws.ToString(in.Protocol))
	case e.Action != types.RuleActionAllow && e.Action != types.RuleActionDeny:
		return e, invalidValue(e.Action, "ruleAction", "Must be allow or deny.")
	case (in.CidrBlock == nil) == (in.Ipv6CidrBlock == nil):
		return e, wire.Errorf("MissingParameter", "Either 'cidrBlock' or 'ipv6CidrBlock' should be provided.")
	}
	if in.CidrBlock != nil {
		block, err := ipv4Block(*in.CidrBlock, "cidrBlock")
		if err != nil {
			return e, err
		}
		e.CIDR = block.String()
	} else {
		block, err := netip.ParsePrefix(*in.Ipv6CidrBlock)
		if err != nil || !block.Addr().Is6() {
			return e, invalidValue(*in.Ipv6CidrBlock, "ipv6CidrBlock", "This is not a valid IPv6 CIDR block.")
		}
		e.IPv6CIDR = block.Masked().String()
	}
	switch name := protocolNames[e.Protocol]; name {
	case "tcp", "udp":
		if in.PortRange == nil || in.PortRange.From == nil || in.PortRange.To == nil {
			return e, missing("portRange")
		}
		if _, err := wantedRule(name, in.PortRange.From, in.PortRange.To); err != nil {
			return e, err
		}
		e.Ports = in.PortRange
	case "icmp", "icmpv6":
		if in.IcmpTypeCode == nil {
			return e, missing("icmpTypeCode.type")
		}
		e.ICMP = in.IcmpTypeCode
	}
	return e, nil
}

// editEntry changes the entries of a network ACL; it gets the entry, if there is one, under a number and direction.
func (c *change) editEntry(id *string, number *int32, egress *bool, edit func(acl *record.NetworkACL,
	i int) error) error {
	return c.s.acls.updateRecord(c, aws.ToString(id), func(r *record.NetworkACL) error {
		return edit(r, slices.IndexFunc(r.Entries, func(e record.NetworkACLEntry) bool {
			return e.Number == aws.ToInt32(number) && e.Egress == aws.ToBool(egress)
		}))
	})
}

func missingEntry(number *int32) error {
	return wire.Errorf("InvalidNetworkAclEntry.NotFound", "The network acl entry identified by %s does not exist",
		fmt.Sprint(aws.ToInt32(number)))
}

// CreateNetworkAclEntry adds an entry to a network ACL.
func (s *Service) CreateNetworkAclEntry(ctx context.Context, in *ec2.CreateNetworkAclEntryInput) (
	*ec2.CreateNetworkAclEntryOutput, error) {
	return &ec2.CreateNetworkAclEntryOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		entry, err := newEntry(in)
		if err != nil {
			return err
		}
		return c.editEntry(in.NetworkAclId, in.RuleNumber, in.Egress, func(r *record.NetworkACL, i int) error {
			if i >= 0 {
				return wire.Errorf("NetworkAclEntryAlreadyExists",
					"The network acl entry identified by %d already exists.", entry.Number)
			}
			if len(r.Entries) >= 40 {
				return wire.Errorf("NetworkAclEntryLimitExceeded",
					"The maximum number of network acl entries has been reached.")
			}
			r.Entries = append(r.Entries, entry)
			return nil
		})
	})
}

// ReplaceNetworkAclEntry replaces an entry of a network ACL.
func (s *Service) ReplaceNetworkAclEntry(ctx context.Context, in *ec2.ReplaceNetworkAclEntryInput) (
	*ec2.ReplaceNetworkAclEntryOutput, error) {
	return &ec2.ReplaceNetworkAclEntryOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		entry, err := newEntry(&ec2.CreateNetworkAclEntryInput{
			CidrBlock: in.CidrBlock, Egress: in.Egress, IcmpTypeCode: in.IcmpTypeCode, Ipv6CidrBlock: in.Ipv6CidrBlock,
			PortRange: in.PortRange, Protocol: in.Protocol, RuleAction: in.RuleAction, RuleNumber: in.RuleNumber,
		})
		if err != nil {
			return err
		}
		return c.editEntry(in.NetworkAclId, in.RuleNumber, in.Egress, func(r *record.NetworkACL, i int) error {
			if i < 0 {
				return missingEntry(in.RuleNumber)
			}
			r.Entries[i] = entry
			return nil
		})
	})
}

// DeleteNetworkAclEntry removes an entry from a network ACL.
func (s *Service) DeleteNetworkAclEntry(ctx context.Context, in *ec2.DeleteNetworkAclEntryInput) (
	*ec2.DeleteNetworkAclEntryOutput, error) {
	return &ec2.DeleteNetworkAclEntryOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		return c.editEntry(in.NetworkAclId, in.RuleNumber, in.Egress, func(r *record.NetworkACL, i int) error {
			if i < 0 {
				return missingEntry(in.RuleNumber)
			}
			r.Entries = slices.Delete(r.Entries, i, i+1)
			return nil
		})
	})
}
