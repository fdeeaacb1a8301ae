package securitygroup

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// ruleRequest is the common part of the four calls that authorize and revoke rules.
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
				if g.Rules, added = append(g.Rules, r), append(added, r); len(added) > resource.MaxRulesPerSecurityGroup {
					return tooManyRules() // before thousands of rules are made
				}
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
		return tooManyRules()
	}
	return nil
}

func tooManyRules() error {
	return wire.Errorf("RulesPerSecurityGroupLimitExceeded",
		"The maximum number of rules per security group has been reached.")
}

func (s *Service) viewRules(ctx context.Context, groupID string, rules []record.SecurityGroupRule) (
	[]types.SecurityGroupRule, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	views := []types.SecurityGroupRule{}
	for _, r := range rules {
		views = append(views, s.viewRule(sc, record.SecurityGroup{EC2Resource: record.EC2Resource{Account: sc.Account,
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

// securityGroupRuleHandlers returns the handlers of this file's operations and how each is authorized.
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
	query := resource.Query{Operation: "DescribeSecurityGroupRules", DryRun: in.DryRun, IDs: in.SecurityGroupRuleIds,
		Filters: in.Filters, Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	groups, err := s.SecurityGroups.List(sc, nil)
	if err != nil {
		return nil, err
	}
	var all []resource.Item[groupRule]
	unknown := slices.Clone(in.SecurityGroupRuleIds)
	for i := range groups {
		g := &groups[i]
		for j := range g.Rules {
			r := &g.Rules[j]
			if len(in.SecurityGroupRuleIds) == 0 || slices.Contains(in.SecurityGroupRuleIds, r.ID) {
				all = append(all, resource.Item[groupRule]{ID: r.ID, View: groupRule{g, r}})
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
	slices.SortFunc(all, func(a, b resource.Item[groupRule]) int { return strings.Compare(a.ID, b.ID) })
	found, next, err := resource.DescribeItems(
		ctx,
		query,
		all,
		resource.Filters[groupRule]{
			"group-id":               func(r groupRule) []string { return []string{r.group.ID} },
			"security-group-rule-id": func(r groupRule) []string { return []string{r.rule.ID} },
		},
		func(r groupRule) []types.Tag { return s.ListTagSet(sc, r.rule.ID) },
	)
	if err != nil {
		return nil, err
	}
	views := make([]types.SecurityGroupRule, len(found))
	for i, r := range found {
		views[i] = s.viewRule(sc, *r.group, *r.rule)
	}
	return &ec2.DescribeSecurityGroupRulesOutput{SecurityGroupRules: views, NextToken: next}, nil
}

// groupRule is a rule of a group, which is shown only if it is asked for: a region may have some hundred thousand, each
// with its tags.
type groupRule struct {
	group *record.SecurityGroup
	rule  *record.SecurityGroupRule
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
				if err := checkDescription(aws.ToString(d.Description)); err != nil {
					return err
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
	in *ec2.UpdateSecurityGroupRuleDescriptionsIngressInput) (
	*ec2.UpdateSecurityGroupRuleDescriptionsIngressOutput, error) {
	err := s.describeRules(ctx, ruleRequest{dryRun: in.DryRun, group: in.GroupId, name: in.GroupName,
		permissions: in.IpPermissions}, in.SecurityGroupRuleDescriptions)
	return &ec2.UpdateSecurityGroupRuleDescriptionsIngressOutput{Return: aws.Bool(err == nil)}, err
}

// UpdateSecurityGroupRuleDescriptionsEgress changes the descriptions of rules for traffic that goes out.
func (s *Service) UpdateSecurityGroupRuleDescriptionsEgress(ctx context.Context,
	in *ec2.UpdateSecurityGroupRuleDescriptionsEgressInput) (*ec2.UpdateSecurityGroupRuleDescriptionsEgressOutput, error) {
	err := s.describeRules(ctx, ruleRequest{dryRun: in.DryRun, group: in.GroupId, name: in.GroupName, egress: true,
		permissions: in.IpPermissions}, in.SecurityGroupRuleDescriptions)
	return &ec2.UpdateSecurityGroupRuleDescriptionsEgressOutput{Return: aws.Bool(err == nil)}, err
}
