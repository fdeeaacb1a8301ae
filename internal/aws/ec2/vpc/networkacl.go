package vpc

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

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/ec2/securitygroup"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) newNetworkACLView() resource.View[record.NetworkACL, types.NetworkAcl] {
	type v = types.NetworkAcl
	association := func(member func(types.NetworkAclAssociation) *string) func(v) []string {
		return func(x v) []string { return resource.CollectValues(x.Associations, member) }
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
			return resource.IntFilter(member)(*e.IcmpTypeCode)
		})
	}
	ports := func(member func(types.PortRange) *int32) func(v) []string {
		return entry(func(e types.NetworkAclEntry) []string {
			if e.PortRange == nil {
				return nil
			}
			return resource.IntFilter(member)(*e.PortRange)
		})
	}
	return resource.View[record.NetworkACL, v]{
		Kind:    s.NetworkACLs,
		Show:    s.viewACL,
		ShowAll: s.aclViewer,
		Tagged:  func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"association.association-id": association(
				func(a types.NetworkAclAssociation) *string { return a.NetworkAclAssociationId }),
			"association.network-acl-id": association(
				func(a types.NetworkAclAssociation) *string { return a.NetworkAclId }),
			"association.subnet-id": association(
				func(a types.NetworkAclAssociation) *string { return a.SubnetId }),
			"default": resource.BoolFilter(func(x v) *bool { return x.IsDefault }),
			"entry.cidr": entry(
				resource.StringFilter(func(e types.NetworkAclEntry) *string { return e.CidrBlock })),
			"entry.ipv6-cidr": entry(
				resource.StringFilter(func(e types.NetworkAclEntry) *string { return e.Ipv6CidrBlock })),
			"entry.icmp.code":       icmp(func(i types.IcmpTypeCode) *int32 { return i.Code }),
			"entry.icmp.type":       icmp(func(i types.IcmpTypeCode) *int32 { return i.Type }),
			"entry.port-range.from": ports(func(p types.PortRange) *int32 { return p.From }),
			"entry.port-range.to":   ports(func(p types.PortRange) *int32 { return p.To }),
			"entry.protocol": entry(func(e types.NetworkAclEntry) []string {
				if name, ok := securitygroup.ProtocolNames[*e.Protocol]; ok {
					return []string{*e.Protocol, name}
				}
				return []string{*e.Protocol}
			}),
			"entry.rule-action": entry(resource.EnumFilter(
				func(e types.NetworkAclEntry) types.RuleAction { return e.RuleAction })),
			"entry.egress":      entry(resource.BoolFilter(func(e types.NetworkAclEntry) *bool { return e.Egress })),
			"entry.rule-number": entry(resource.IntFilter(func(e types.NetworkAclEntry) *int32 { return e.RuleNumber })),
			"network-acl-id":    resource.StringFilter(func(x v) *string { return x.NetworkAclId }),
			"owner-id":          resource.StringFilter(func(x v) *string { return x.OwnerId }),
			"vpc-id":            resource.StringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewACL(sc resource.Scope, r record.NetworkACL) types.NetworkAcl {
	return s.aclViewer(sc)(r)
}

// aclViewer lists what is associated with network ACLs, and returns how a network ACL looks.
func (s *Service) aclViewer(sc resource.Scope) func(record.NetworkACL) types.NetworkAcl {
	subnets := resource.GroupBy(resource.MustRead(s.Subnets.List(sc, nil)),
		func(sub record.Subnet) string { return sub.NetworkACLID })
	return func(r record.NetworkACL) types.NetworkAcl { return s.showACL(sc, r, subnets[r.ID]) }
}

func (s *Service) showACL(sc resource.Scope, r record.NetworkACL, subnets []record.Subnet) types.NetworkAcl {
	v := types.NetworkAcl{
		Associations: []types.NetworkAclAssociation{},
		Entries:      []types.NetworkAclEntry{},
		IsDefault:    aws.Bool(r.Default),
		NetworkAclId: aws.String(r.ID),
		OwnerId:      aws.String(r.Account),
		Tags:         s.ListTagSet(sc, r.ID),
		VpcId:        aws.String(r.VPCID),
	}
	for _, sub := range subnets {
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
			CidrBlock: resource.OrNil(e.CIDR), Egress: aws.Bool(e.Egress), IcmpTypeCode: e.ICMP,
			Ipv6CidrBlock: resource.OrNil(e.IPv6CIDR),
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

// defaultACL returns the ID of the default network ACL of a VPC.
func defaultACL(s *resource.Records, c *resource.Change, vpcID string) (string, error) {
	found, err := s.NetworkACLs.List(c.Scope, func(r record.NetworkACL) bool { return r.VPCID == vpcID && r.Default })
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", s.VPCs.Missing(vpcID) // deleted a moment ago, with its VPC
	}
	return found[0].ID, nil
}

// networkACLHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) networkACLHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(
			s.CreateNetworkAcl,
			resource.Creating[ec2.CreateNetworkAclInput](s.Records, types.ResourceTypeNetworkAcl),
		),
		wire.Handle(s.DescribeNetworkAcls, resource.OnRegion),
		wire.Handle(s.DeleteNetworkAcl, resource.Touching[ec2.DeleteNetworkAclInput](s.Records)),
		wire.Handle(s.ReplaceNetworkAclAssociation, resource.Touching[ec2.ReplaceNetworkAclAssociationInput](s.Records)),
		wire.Handle(s.CreateNetworkAclEntry, resource.Touching[ec2.CreateNetworkAclEntryInput](s.Records)),
		wire.Handle(s.ReplaceNetworkAclEntry, resource.Touching[ec2.ReplaceNetworkAclEntryInput](s.Records)),
		wire.Handle(s.DeleteNetworkAclEntry, resource.Touching[ec2.DeleteNetworkAclEntryInput](s.Records)),
	}
}

// CreateNetworkAcl makes a network ACL that lets nothing through.
func (s *Service) CreateNetworkAcl(ctx context.Context, in *ec2.CreateNetworkAclInput) (
	*ec2.CreateNetworkAclOutput, error) {
	out, err := s.networkACLView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications,
		Token: in.ClientToken, Request: in}, func(c *resource.Change, id string) error {
		vpc, err := c.HoldVPC(in.VpcId)
		if err != nil {
			return err
		}
		inVPC := func(r record.NetworkACL) bool { return r.VPCID == vpc.ID }
		if err := s.NetworkACLs.CheckQuota(c.Scope, resource.MaxACLsPerVPC, inVPC, "NetworkAclLimitExceeded",
			"network ACLs"); err != nil {
			return err
		}
		s.NetworkACLs.CreateRecord(c, record.NetworkACL{EC2Resource: c.NewResource(id, in.ClientToken), VPCID: vpc.ID})
		return nil
	})
	return &ec2.CreateNetworkAclOutput{NetworkAcl: out, ClientToken: in.ClientToken}, err
}

// DescribeNetworkAcls lists network ACLs.
func (s *Service) DescribeNetworkAcls(ctx context.Context, in *ec2.DescribeNetworkAclsInput) (
	*ec2.DescribeNetworkAclsOutput, error) {
	found, next, err := s.networkACLView.Describe(
		ctx,
		resource.Query{Operation: "DescribeNetworkAcls", DryRun: in.DryRun, IDs: in.NetworkAclIds, Filters: in.Filters,
			Max:   in.MaxResults,
			Token: in.NextToken},
	)
	return &ec2.DescribeNetworkAclsOutput{NetworkAcls: found, NextToken: next}, err
}

// DeleteNetworkAcl deletes a network ACL that no subnet uses.
func (s *Service) DeleteNetworkAcl(ctx context.Context, in *ec2.DeleteNetworkAclInput) (
	*ec2.DeleteNetworkAclOutput, error) {
	return &ec2.DeleteNetworkAclOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		acl, err := s.NetworkACLs.DeleteRecord(c, aws.ToString(in.NetworkAclId))
		if err != nil {
			return err
		}
		if acl.Default {
			return wire.Errorf("InvalidParameterValue", "cannot delete default network ACL %s", acl.ID)
		}
		if err := c.RequireUnchanged(acl.VPCID); err != nil {
			return err
		}
		if used, err := s.Subnets.HasMatch(c.Scope,
			func(r record.Subnet) bool { return r.NetworkACLID == acl.ID }); err != nil {
			return err
		} else if used {
			return resource.DependencyViolation("networkAcl", acl.ID)
		}
		return nil
	})
}

// ReplaceNetworkAclAssociation gives a subnet another network ACL.
func (s *Service) ReplaceNetworkAclAssociation(ctx context.Context, in *ec2.ReplaceNetworkAclAssociationInput) (
	*ec2.ReplaceNetworkAclAssociationOutput, error) {
	id := resource.NewID("aclassoc-")
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		acl, err := s.NetworkACLs.GetRecord(c.Scope, in.NetworkAclId)
		if err != nil {
			return err
		}
		old := aws.ToString(in.AssociationId)
		found, err := s.Subnets.List(c.Scope, func(r record.Subnet) bool { return r.NetworkACLAssociationID == old })
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
		if err := s.NetworkACLs.Require(c, acl.ID); err != nil {
			return err
		}
		c.TouchVPC(acl.VPCID)
		return s.Subnets.UpdateRecord(c, found[0].ID, func(r *record.Subnet) error {
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
	for n, name := range securitygroup.ProtocolNames {
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
		return e, resource.MissingParameter("ruleNumber")
	case e.Number < 1 || e.Number > 32766:
		return e, resource.InvalidValue(e.Number, "ruleNumber", "Must be between 1 and 32766.")
	case in.Protocol == nil:
		return e, resource.MissingParameter("protocol")
	case err != nil || n < -1 || n > 255:
		return e, resource.Invalid("Invalid value '%s' for protocol. Must be a protocol number or -1.",
			aws.ToString(in.Protocol))
	case e.Action != types.RuleActionAllow && e.Action != types.RuleActionDeny:
		return e, resource.InvalidValue(e.Action, "ruleAction", "Must be allow or deny.")
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
			return e, resource.InvalidValue(*in.Ipv6CidrBlock, "ipv6CidrBlock", "This is not a valid IPv6 CIDR block.")
		}
		e.IPv6CIDR = block.Masked().String()
	}
	switch name := securitygroup.ProtocolNames[e.Protocol]; name {
	case "tcp", "udp":
		if in.PortRange == nil || in.PortRange.From == nil || in.PortRange.To == nil {
			return e, resource.MissingParameter("portRange")
		}
		if _, err := securitygroup.ReadRule(name, in.PortRange.From, in.PortRange.To); err != nil {
			return e, err
		}
		e.Ports = in.PortRange
	case "icmp", "icmpv6":
		if in.IcmpTypeCode == nil {
			return e, resource.MissingParameter("icmpTypeCode.type")
		}
		e.ICMP = in.IcmpTypeCode
	}
	return e, nil
}

// editEntry changes the entries of a network ACL; it gets the entry, if there is one, under a number and direction.
func editEntry(c *resource.Change, id *string, number *int32, egress *bool, edit func(acl *record.NetworkACL,
	i int) error) error {
	return c.NetworkACLs.UpdateRecord(c, aws.ToString(id), func(r *record.NetworkACL) error {
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
	return &ec2.CreateNetworkAclEntryOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		entry, err := newEntry(in)
		if err != nil {
			return err
		}
		return editEntry(c, in.NetworkAclId, in.RuleNumber, in.Egress, func(r *record.NetworkACL, i int) error {
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
	return &ec2.ReplaceNetworkAclEntryOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		entry, err := newEntry(&ec2.CreateNetworkAclEntryInput{
			CidrBlock: in.CidrBlock, Egress: in.Egress, IcmpTypeCode: in.IcmpTypeCode, Ipv6CidrBlock: in.Ipv6CidrBlock,
			PortRange: in.PortRange, Protocol: in.Protocol, RuleAction: in.RuleAction, RuleNumber: in.RuleNumber,
		})
		if err != nil {
			return err
		}
		return editEntry(c, in.NetworkAclId, in.RuleNumber, in.Egress, func(r *record.NetworkACL, i int) error {
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
	return &ec2.DeleteNetworkAclEntryOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		return editEntry(c, in.NetworkAclId, in.RuleNumber, in.Egress, func(r *record.NetworkACL, i int) error {
			if i < 0 {
				return missingEntry(in.RuleNumber)
			}
			r.Entries = slices.Delete(r.Entries, i, i+1)
			return nil
		})
	})
}
