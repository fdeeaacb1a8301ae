package securitygroup

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// UntagRules removes the tags of rules that are deleted.
func UntagRules(c *resource.Change, rules ...record.SecurityGroupRule) {
	for _, r := range rules {
		if c.ListTags(c.Scope, r.ID) != nil {
			c.RemoveTags(r.ID)
		}
	}
}

// permissions shows the rules of one direction as AWS groups them: by protocol and ports.
func permissions(g record.SecurityGroup, egress bool) []types.IpPermission {
	list := []types.IpPermission{}
	at := map[string]int{}
	for _, r := range g.Rules {
		if r.Egress != egress {
			continue
		}
		name := fmt.Sprint(r.Protocol, r.FromPort, r.ToPort)
		i, ok := at[name]
		if !ok {
			i = len(list)
			at[name] = i
			p := types.IpPermission{
				IpProtocol: aws.String(r.Protocol), IpRanges: []types.IpRange{}, Ipv6Ranges: []types.Ipv6Range{},
				PrefixListIds: []types.PrefixListId{}, UserIdGroupPairs: []types.UserIdGroupPair{},
			}
			if hasPorts(r.Protocol) {
				p.FromPort, p.ToPort = aws.Int32(r.FromPort), aws.Int32(r.ToPort)
			}
			list = append(list, p)
		}
		p, description := &list[i], resource.OrNil(r.Description)
		switch {
		case r.CIDRIPv4 != "":
			p.IpRanges = append(p.IpRanges, types.IpRange{CidrIp: aws.String(r.CIDRIPv4), Description: description})
		case r.CIDRIPv6 != "":
			p.Ipv6Ranges = append(p.Ipv6Ranges, types.Ipv6Range{CidrIpv6: aws.String(r.CIDRIPv6),
				Description: description})
		case r.PrefixListID != "":
			p.PrefixListIds = append(p.PrefixListIds, types.PrefixListId{PrefixListId: aws.String(r.PrefixListID),
				Description: description})
		default:
			p.UserIdGroupPairs = append(p.UserIdGroupPairs, types.UserIdGroupPair{GroupId: aws.String(r.GroupID),
				UserId: aws.String(g.Account), Description: description})
		}
	}
	return list
}

// hasPorts reports whether rules of a protocol have ports, or ICMP types and codes.
func hasPorts(protocol string) bool {
	return slices.Contains([]string{"tcp", "udp", "icmp", "icmpv6"}, protocol)
}

func (s *Service) viewRule(
	in resource.Scope,
	g record.SecurityGroup,
	r record.SecurityGroupRule,
) types.SecurityGroupRule {
	v := types.SecurityGroupRule{
		CidrIpv4:             resource.OrNil(r.CIDRIPv4),
		CidrIpv6:             resource.OrNil(r.CIDRIPv6),
		Description:          resource.OrNil(r.Description),
		FromPort:             aws.Int32(r.FromPort),
		GroupId:              aws.String(g.ID),
		GroupOwnerId:         aws.String(g.Account),
		IpProtocol:           aws.String(r.Protocol),
		IsEgress:             aws.Bool(r.Egress),
		PrefixListId:         resource.OrNil(r.PrefixListID),
		SecurityGroupRuleArn: aws.String(in.ARN(resource.RuleNaming.Resource, r.ID)),
		SecurityGroupRuleId:  aws.String(r.ID),
		Tags:                 s.ListTagSet(in, r.ID),
		ToPort:               aws.Int32(r.ToPort),
	}
	if r.GroupID != "" {
		v.ReferencedGroupInfo = &types.ReferencedSecurityGroup{GroupId: aws.String(r.GroupID),
			UserId: aws.String(g.Account)}
	}
	return v
}

// ProtocolNames has the protocols that AWS shows by name.
var ProtocolNames = map[string]string{"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "all": "-1"}

// ReadRule reads protocol and ports of a rule.
func ReadRule(protocol string, from, to *int32) (record.SecurityGroupRule, error) {
	r := record.SecurityGroupRule{Protocol: strings.ToLower(protocol), FromPort: -1, ToPort: -1}
	if name, ok := ProtocolNames[r.Protocol]; ok {
		r.Protocol = name
	}
	n, err := strconv.Atoi(r.Protocol)
	switch {
	case r.Protocol == "":
		return r, resource.MissingParameter("ipProtocol")
	case !hasPorts(r.Protocol) && (err != nil || n < -1 || n > 255):
		return r, resource.Invalid("Invalid value '%s' for IP protocol. Unknown protocol.", protocol)
	case !hasPorts(r.Protocol):
		return r, nil
	case from == nil || to == nil:
		if strings.HasPrefix(r.Protocol, "icmp") {
			return r, resource.Invalid("Invalid value 'Must specify both type and code with ICMP.' for portRange.")
		}
		return r, resource.Invalid("Invalid value 'Must specify both from and to ports with TCP/UDP.' for portRange.")
	}
	r.FromPort, r.ToPort = *from, *to
	if strings.HasPrefix(r.Protocol, "icmp") {
		if r.FromPort < -1 || r.FromPort > 255 || r.ToPort < -1 || r.ToPort > 255 {
			return r, resource.Invalid("ICMP code (%d) out of range", r.ToPort)
		}
		return r, nil
	}
	for _, port := range []int32{r.FromPort, r.ToPort} {
		if port < 0 || port > 65535 {
			return r, resource.Invalid("Invalid value '%d' for portRange. Must be between 0 and 65535.", port)
		}
	}
	if r.FromPort > r.ToPort {
		return r, resource.Invalid("Invalid TCP/UDP port range (%d:%d)", r.FromPort, r.ToPort)
	}
	return r, nil
}

// peer is the source or destination that a request gives for a rule.
type peer struct {
	cidrIPv4, cidrIPv6, prefixList, group, groupName, description *string
}

// withPeer completes a rule of a group with its peer. A referenced group must exist, and stays as long as the rule.
func withPeer(c *resource.Change, g record.SecurityGroup, r record.SecurityGroupRule, p peer) (record.SecurityGroupRule,
	error) {
	r.Description = aws.ToString(p.description)
	if r.Description != "" && !groupText.MatchString(r.Description) {
		return r,
			resource.Invalid("Invalid rule description. Valid descriptions are strings less than 256 characters from the " +
				"following set: a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*")
	}
	switch {
	case p.cidrIPv4 != nil:
		block, err := netip.ParsePrefix(*p.cidrIPv4)
		if err != nil || !block.Addr().Is4() {
			return r, resource.Invalid("CIDR block %s is malformed", *p.cidrIPv4)
		}
		r.CIDRIPv4 = block.Masked().String()
	case p.cidrIPv6 != nil:
		block, err := netip.ParsePrefix(*p.cidrIPv6)
		if err != nil || !block.Addr().Is6() {
			return r, resource.Invalid("CIDR block %s is malformed", *p.cidrIPv6)
		}
		r.CIDRIPv6 = block.Masked().String()
	case p.prefixList != nil:
		if _, err := c.Scope.PrefixList(*p.prefixList); err != nil {
			return r, err
		}
		r.PrefixListID = *p.prefixList
	default:
		other, err := peerGroup(c, g, p)
		if err != nil {
			return r, err
		}
		r.GroupID = other.ID
		if other.ID != g.ID {
			if err := c.SecurityGroups.Require(c, other.ID); err != nil {
				return r, err
			}
			c.TouchVPC(g.VPCID)
		}
	}
	return r, nil
}

func peerGroup(c *resource.Change, g record.SecurityGroup, p peer) (record.SecurityGroup, error) {
	if p.group == nil && p.groupName == nil {
		return g, resource.MissingParameter("groupId")
	}
	if p.group == nil {
		return c.SecurityGroupNamed(c.Scope, g.VPCID, *p.groupName)
	}
	other, err := c.SecurityGroups.GetRecord(c.Scope, p.group)
	if err == nil && other.VPCID != g.VPCID {
		err = wire.Errorf("InvalidGroup.NotFound",
			"You have specified two resources that belong to different networks.")
	}
	return other, err
}

// eachWanted calls each with every rule that permissions stand for.
func eachWanted(c *resource.Change, g record.SecurityGroup, egress bool, permissions []types.IpPermission,
	each func(record.SecurityGroupRule) error) error {
	for _, p := range permissions {
		shape, err := ReadRule(aws.ToString(p.IpProtocol), p.FromPort, p.ToPort)
		if err != nil {
			return err
		}
		shape.Egress = egress
		var peers []peer
		for _, r := range p.IpRanges {
			peers = append(peers, peer{cidrIPv4: r.CidrIp, description: r.Description})
		}
		for _, r := range p.Ipv6Ranges {
			peers = append(peers, peer{cidrIPv6: r.CidrIpv6, description: r.Description})
		}
		for _, r := range p.PrefixListIds {
			peers = append(peers, peer{prefixList: r.PrefixListId, description: r.Description})
		}
		for _, r := range p.UserIdGroupPairs {
			peers = append(peers, peer{group: r.GroupId, groupName: r.GroupName, description: r.Description})
		}
		if len(peers) == 0 {
			return wire.Errorf("MissingParameter",
				"The request must contain a CIDR block, a prefix list or a security group for each rule.")
		}
		for _, p := range peers {
			rule, err := withPeer(c, g, shape, p)
			if err != nil {
				return err
			}
			if err := each(rule); err != nil {
				return err
			}
		}
	}
	return nil
}

// equalRules reports whether two rules allow the same.
func equalRules(a, b record.SecurityGroupRule) bool {
	a.ID, a.Description, b.ID, b.Description = "", "", "", ""
	return a == b
}

// sentence is a rule as AWS names it in errors: "peer: 0.0.0.0/0, TCP, from port: 22, to port: 22, ALLOW".
func sentence(r record.SecurityGroupRule) string {
	parts := []string{"peer: " + r.CIDRIPv4 + r.CIDRIPv6 + r.PrefixListID + r.GroupID}
	switch r.Protocol {
	case "-1":
		parts = append(parts, "ALL")
	case "tcp", "udp":
		parts = append(parts, strings.ToUpper(r.Protocol), fmt.Sprintf("from port: %d", r.FromPort),
			fmt.Sprintf("to port: %d", r.ToPort))
	case "icmp", "icmpv6":
		parts = append(parts, strings.ToUpper(r.Protocol), fmt.Sprintf("type: %d", r.FromPort),
			fmt.Sprintf("code: %d", r.ToPort))
	default:
		parts = append(parts, "protocol: "+r.Protocol)
	}
	return strings.Join(append(parts, "ALLOW"), ", ")
}

// ruleRequest is what the four calls that authorize and revoke rules have in common.
type ruleRequest struct {
	dryRun      *bool
	group, name *string
	egress      bool
	permissions []types.IpPermission
	ids         []string // of rules to revoke
	tags        []types.TagSpecification
	// The older form, which names one rule.
	cidr, protocol, source *string
	from, to               *int32
}

func (q ruleRequest) requestedPermissions() ([]types.IpPermission, error) {
	if q.cidr == nil && q.protocol == nil && q.source == nil {
		return q.permissions, nil
	}
	if len(q.permissions) > 0 {
		return nil, wire.Errorf("InvalidParameterCombination",
			"The parameter ipPermissions may not be used in combination with ipProtocol, fromPort, toPort, cidrIp "+
				"and sourceSecurityGroupName")
	}
	p := types.IpPermission{IpProtocol: q.protocol, FromPort: q.from, ToPort: q.to}
	if p.IpProtocol == nil && q.source != nil {
		p.IpProtocol = aws.String("-1")
	}
	if q.cidr != nil {
		p.IpRanges = []types.IpRange{{CidrIp: q.cidr}}
	}
	if q.source != nil {
		p.UserIdGroupPairs = []types.UserIdGroupPair{{GroupName: q.source}}
	}
	return []types.IpPermission{p}, nil
}

// authorize adds rules to a group.
func (s *Service) authorize(ctx context.Context, q ruleRequest) ([]types.SecurityGroupRule, error) {
	var id string
	var added []record.SecurityGroupRule
	err := s.ApplyChange(ctx, q.dryRun, func(c *resource.Change) (err error) {
		added = nil
		if id, err = s.RequestedSecurityGroup(c.Scope, q.group, q.name); err != nil {
			return err
		}
		wanted, err := q.requestedPermissions()
		if err != nil {
			return err
		}
		if len(wanted) == 0 {
			return resource.MissingParameter("ipPermissions")
		}
		return s.SecurityGroups.UpdateRecord(c, id, func(g *record.SecurityGroup) error {
			err := eachWanted(c, *g, q.egress, wanted, func(r record.SecurityGroupRule) error {
				if slices.ContainsFunc(g.Rules, func(old record.SecurityGroupRule) bool { return equalRules(old, r) }) {
					return wire.Errorf("InvalidPermission.Duplicate", `the specified rule "%s" already exists`,
						sentence(r))
				}
				r.ID = resource.NewID(resource.RulePrefix)
				g.Rules, added = append(g.Rules, r), append(added, r)
				return c.AddTags(resource.RuleNaming.Resource, r.ID, q.tags)
			})
			if err != nil {
				return err
			}
			return withinRuleLimit(*g)
		})
	})
	if err != nil {
		return nil, err
	}
	return s.viewRules(ctx, id, added)
}

func withinRuleLimit(g record.SecurityGroup) error {
	var count [2]int
	for _, r := range g.Rules {
		if r.Egress {
			count[1]++
		} else {
			count[0]++
		}
	}
	if max(count[0], count[1]) > resource.MaxRulesPerSecurityGroup {
		return wire.Errorf("RulesPerSecurityGroupLimitExceeded",
			"The maximum number of rules per security group has been reached.")
	}
	return nil
}

func (s *Service) viewRules(ctx context.Context, groupID string, rules []record.SecurityGroupRule) (
	[]types.SecurityGroupRule, error) {
	in, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	views := []types.SecurityGroupRule{}
	for _, r := range rules {
		views = append(views, s.viewRule(in, record.SecurityGroup{EC2Resource: record.EC2Resource{Account: in.Account,
			ID: groupID}}, r))
	}
	return views, nil
}

// revokeRules removes rules from a group: all that it names, or none.
func (s *Service) revokeRules(ctx context.Context, q ruleRequest) ([]types.RevokedSecurityGroupRule, error) {
	var id string
	var gone []record.SecurityGroupRule
	err := s.ApplyChange(ctx, q.dryRun, func(c *resource.Change) (err error) {
		gone = nil
		if id, err = s.RequestedSecurityGroup(c.Scope, q.group, q.name); err != nil {
			return err
		}
		wanted, err := q.requestedPermissions()
		if err != nil {
			return err
		}
		if len(wanted)+len(q.ids) == 0 {
			return wire.Errorf("MissingParameter",
				"Either 'ipPermissions' or 'securityGroupRuleIds' should be provided.")
		}
		return s.SecurityGroups.UpdateRecord(c, id, func(g *record.SecurityGroup) error {
			remove := func(fits func(record.SecurityGroupRule) bool, otherwise error) error {
				i := slices.IndexFunc(g.Rules, fits)
				if i < 0 {
					return otherwise
				}
				gone = append(gone, g.Rules[i])
				UntagRules(c, g.Rules[i])
				g.Rules = slices.Delete(g.Rules, i, i+1)
				return nil
			}
			for _, ruleID := range q.ids {
				if err := resource.RuleNaming.Validate(ruleID); err != nil {
					return err
				}
				fits := func(r record.SecurityGroupRule) bool { return r.ID == ruleID && r.Egress == q.egress }
				if err := remove(fits, resource.RuleNaming.Missing(ruleID)); err != nil {
					return err
				}
			}
			return eachWanted(c, *g, q.egress, wanted, func(r record.SecurityGroupRule) error {
				fits := func(old record.SecurityGroupRule) bool { return equalRules(old, r) }
				return remove(fits, wire.Errorf("InvalidPermission.NotFound",
					"The specified rule does not exist in this security group."))
			})
		})
	})
	if err != nil {
		return nil, err
	}
	views := []types.RevokedSecurityGroupRule{}
	for _, r := range gone {
		views = append(views, types.RevokedSecurityGroupRule{
			CidrIpv4: resource.OrNil(
				r.CIDRIPv4,
			), CidrIpv6: resource.OrNil(r.CIDRIPv6), Description: resource.OrNil(r.Description),
			FromPort: aws.Int32(r.FromPort), GroupId: aws.String(id), IpProtocol: aws.String(r.Protocol),
			IsEgress:     aws.Bool(r.Egress),
			PrefixListId: resource.OrNil(r.PrefixListID), ReferencedGroupId: resource.OrNil(r.GroupID),
			SecurityGroupRuleId: aws.String(r.ID), ToPort: aws.Int32(r.ToPort),
		})
	}
	return views, nil
}

// securityGroupRuleHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) securityGroupRuleHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AuthorizeSecurityGroupIngress, resource.Creating[ec2.AuthorizeSecurityGroupIngressInput](s.Records,
			types.ResourceTypeSecurityGroupRule)),
		wire.Handle(s.AuthorizeSecurityGroupEgress, resource.Creating[ec2.AuthorizeSecurityGroupEgressInput](s.Records,
			types.ResourceTypeSecurityGroupRule)),
		wire.Handle(s.RevokeSecurityGroupIngress, resource.Touching[ec2.RevokeSecurityGroupIngressInput](s.Records)),
		wire.Handle(s.RevokeSecurityGroupEgress, resource.Touching[ec2.RevokeSecurityGroupEgressInput](s.Records)),
		wire.Handle(s.DescribeSecurityGroupRules, resource.OnRegion),
		wire.Handle(s.ModifySecurityGroupRules, resource.Touching[ec2.ModifySecurityGroupRulesInput](s.Records)),
		wire.Handle(s.UpdateSecurityGroupRuleDescriptionsIngress,
			resource.Touching[ec2.UpdateSecurityGroupRuleDescriptionsIngressInput](s.Records)),
		wire.Handle(s.UpdateSecurityGroupRuleDescriptionsEgress,
			resource.Touching[ec2.UpdateSecurityGroupRuleDescriptionsEgressInput](s.Records)),
	}
}

// AuthorizeSecurityGroupIngress adds rules for traffic that comes in.
func (s *Service) AuthorizeSecurityGroupIngress(ctx context.Context, in *ec2.AuthorizeSecurityGroupIngressInput) (
	*ec2.AuthorizeSecurityGroupIngressOutput, error) {
	added, err := s.authorize(ctx, ruleRequest{
		dryRun: in.DryRun, group: in.GroupId, name: in.GroupName, permissions: in.IpPermissions,
		tags: in.TagSpecifications,
		cidr: in.CidrIp, protocol: in.IpProtocol, source: in.SourceSecurityGroupName, from: in.FromPort, to: in.ToPort,
	})
	return &ec2.AuthorizeSecurityGroupIngressOutput{Return: aws.Bool(true), SecurityGroupRules: added}, err
}

// AuthorizeSecurityGroupEgress adds rules for traffic that goes out.
func (s *Service) AuthorizeSecurityGroupEgress(ctx context.Context, in *ec2.AuthorizeSecurityGroupEgressInput) (
	*ec2.AuthorizeSecurityGroupEgressOutput, error) {
	added, err := s.authorize(ctx, ruleRequest{
		dryRun: in.DryRun, group: in.GroupId, egress: true, permissions: in.IpPermissions, tags: in.TagSpecifications,
		cidr: in.CidrIp, protocol: in.IpProtocol, source: in.SourceSecurityGroupName, from: in.FromPort, to: in.ToPort,
	})
	return &ec2.AuthorizeSecurityGroupEgressOutput{Return: aws.Bool(true), SecurityGroupRules: added}, err
}

// RevokeSecurityGroupIngress removes rules for traffic that comes in.
func (s *Service) RevokeSecurityGroupIngress(ctx context.Context, in *ec2.RevokeSecurityGroupIngressInput) (
	*ec2.RevokeSecurityGroupIngressOutput, error) {
	gone, err := s.revokeRules(ctx, ruleRequest{
		dryRun: in.DryRun, group: in.GroupId, name: in.GroupName, permissions: in.IpPermissions,
		ids:  in.SecurityGroupRuleIds,
		cidr: in.CidrIp, protocol: in.IpProtocol, source: in.SourceSecurityGroupName, from: in.FromPort, to: in.ToPort,
	})
	return &ec2.RevokeSecurityGroupIngressOutput{Return: aws.Bool(true), RevokedSecurityGroupRules: gone}, err
}

// RevokeSecurityGroupEgress removes rules for traffic that goes out.
func (s *Service) RevokeSecurityGroupEgress(ctx context.Context, in *ec2.RevokeSecurityGroupEgressInput) (
	*ec2.RevokeSecurityGroupEgressOutput, error) {
	gone, err := s.revokeRules(ctx, ruleRequest{
		dryRun: in.DryRun, group: in.GroupId, egress: true, permissions: in.IpPermissions, ids: in.SecurityGroupRuleIds,
		cidr: in.CidrIp, protocol: in.IpProtocol, source: in.SourceSecurityGroupName, from: in.FromPort, to: in.ToPort,
	})
	return &ec2.RevokeSecurityGroupEgressOutput{Return: aws.Bool(true), RevokedSecurityGroupRules: gone}, err
}

// DescribeSecurityGroupRules lists rules.
func (s *Service) DescribeSecurityGroupRules(ctx context.Context, in *ec2.DescribeSecurityGroupRulesInput) (
	*ec2.DescribeSecurityGroupRulesOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := s.SecurityGroups.List(sc, nil)
	if err != nil {
		return nil, err
	}
	var all []resource.Item[types.SecurityGroupRule]
	unknown := slices.Clone(in.SecurityGroupRuleIds)
	for _, g := range groups {
		for _, r := range g.Rules {
			if len(in.SecurityGroupRuleIds) == 0 || slices.Contains(in.SecurityGroupRuleIds, r.ID) {
				all = append(all, resource.Item[types.SecurityGroupRule]{ID: r.ID, View: s.viewRule(sc, g, r)})
				unknown = slices.DeleteFunc(unknown, func(id string) bool { return id == r.ID })
			}
		}
	}
	for _, id := range unknown {
		if err := resource.RuleNaming.Validate(id); err != nil {
			return nil, err
		}
	}
	if len(unknown) > 0 {
		return nil, resource.RuleNaming.Missing(unknown...)
	}
	slices.SortFunc(all, func(a, b resource.Item[types.SecurityGroupRule]) int { return strings.Compare(a.ID, b.ID) })
	found, next, err := resource.DescribeItems(
		ctx,
		resource.Query{DryRun: in.DryRun, IDs: in.SecurityGroupRuleIds, Filters: in.Filters, Max: in.MaxResults,
			Token: in.NextToken},
		resource.RuleNaming.Parameter+"s",
		all,
		resource.Filters[types.SecurityGroupRule]{
			"group-id": resource.StringFilter(func(r types.SecurityGroupRule) *string { return r.GroupId }),
			"security-group-rule-id": resource.StringFilter(
				func(r types.SecurityGroupRule) *string { return r.SecurityGroupRuleId }),
		},
		func(r types.SecurityGroupRule) []types.Tag { return r.Tags },
	)
	return &ec2.DescribeSecurityGroupRulesOutput{SecurityGroupRules: found, NextToken: next}, err
}

// ModifySecurityGroupRules replaces rules by others of the same direction, under their ids.
func (s *Service) ModifySecurityGroupRules(ctx context.Context, in *ec2.ModifySecurityGroupRulesInput) (
	*ec2.ModifySecurityGroupRulesOutput, error) {
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		if len(in.SecurityGroupRules) == 0 {
			return resource.MissingParameter("securityGroupRules")
		}
		return s.SecurityGroups.UpdateRecord(c, aws.ToString(in.GroupId), func(g *record.SecurityGroup) error {
			for _, update := range in.SecurityGroupRules {
				id, want := aws.ToString(update.SecurityGroupRuleId), update.SecurityGroupRule
				if err := resource.RuleNaming.Validate(id); err != nil {
					return err
				}
				i := slices.IndexFunc(g.Rules, func(r record.SecurityGroupRule) bool { return r.ID == id })
				if i < 0 {
					return resource.RuleNaming.Missing(id)
				}
				if want == nil {
					return resource.MissingParameter("securityGroupRule")
				}
				rule, err := ReadRule(aws.ToString(want.IpProtocol), want.FromPort, want.ToPort)
				if err != nil {
					return err
				}
				rule.ID, rule.Egress = id, g.Rules[i].Egress
				rule, err = withPeer(c, *g, rule, peer{cidrIPv4: want.CidrIpv4, cidrIPv6: want.CidrIpv6,
					prefixList: want.PrefixListId, group: want.ReferencedGroupId, description: want.Description})
				if err != nil {
					return err
				}
				if slices.ContainsFunc(g.Rules, func(r record.SecurityGroupRule) bool {
					return r.ID != id &&
						equalRules(r, rule)
				}) {
					return wire.Errorf("InvalidPermission.Duplicate", `the specified rule "%s" already exists`,
						sentence(rule))
				}
				g.Rules[i] = rule
			}
			return nil
		})
	})
	return &ec2.ModifySecurityGroupRulesOutput{Return: aws.Bool(err == nil)}, err
}

// describeRules changes the descriptions of rules of one direction.
func (s *Service) describeRules(ctx context.Context, q ruleRequest,
	descriptions []types.SecurityGroupRuleDescription) error {
	return s.ApplyChange(ctx, q.dryRun, func(c *resource.Change) error {
		id, err := s.RequestedSecurityGroup(c.Scope, q.group, q.name)
		if err != nil {
			return err
		}
		if len(q.permissions)+len(descriptions) == 0 {
			return resource.MissingParameter("ipPermissions")
		}
		return s.SecurityGroups.UpdateRecord(c, id, func(g *record.SecurityGroup) error {
			for _, d := range descriptions {
				i := slices.IndexFunc(g.Rules,
					func(r record.SecurityGroupRule) bool { return r.ID == aws.ToString(d.SecurityGroupRuleId) })
				if i < 0 || g.Rules[i].Egress != q.egress {
					return resource.RuleNaming.Missing(aws.ToString(d.SecurityGroupRuleId))
				}
				g.Rules[i].Description = aws.ToString(d.Description)
			}
			return eachWanted(c, *g, q.egress, q.permissions, func(want record.SecurityGroupRule) error {
				i := slices.IndexFunc(g.Rules, func(r record.SecurityGroupRule) bool { return equalRules(r, want) })
				if i < 0 {
					return wire.Errorf("InvalidPermission.NotFound",
						"The specified rule does not exist in this security group.")
				}
				g.Rules[i].Description = want.Description
				return nil
			})
		})
	})
}

// UpdateSecurityGroupRuleDescriptionsIngress changes the descriptions of rules for traffic that comes in.
func (s *Service) UpdateSecurityGroupRuleDescriptionsIngress(ctx context.Context,
	in *ec2.UpdateSecurityGroupRuleDescriptionsIngressInput) (*ec2.UpdateSecurityGroupRuleDescriptionsIngressOutput,
	error) {
	err := s.describeRules(ctx, ruleRequest{dryRun: in.DryRun, group: in.GroupId, name: in.GroupName,
		permissions: in.IpPermissions}, in.SecurityGroupRuleDescriptions)
	return &ec2.UpdateSecurityGroupRuleDescriptionsIngressOutput{Return: aws.Bool(err == nil)}, err
}

// UpdateSecurityGroupRuleDescriptionsEgress changes the descriptions of rules for traffic that goes out.
func (s *Service) UpdateSecurityGroupRuleDescriptionsEgress(ctx context.Context,
	in *ec2.UpdateSecurityGroupRuleDescriptionsEgressInput) (*ec2.UpdateSecurityGroupRuleDescriptionsEgressOutput,
	error) {
	err := s.describeRules(ctx, ruleRequest{dryRun: in.DryRun, group: in.GroupId, name: in.GroupName, egress: true,
		permissions: in.IpPermissions}, in.SecurityGroupRuleDescriptions)
	return &ec2.UpdateSecurityGroupRuleDescriptionsEgressOutput{Return: aws.Bool(err == nil)}, err
}
