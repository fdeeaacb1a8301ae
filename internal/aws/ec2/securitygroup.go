package ec2

import (
	"context"
	"regexp"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) securityGroupKind() kind[record.SecurityGroup, types.SecurityGroup] {
	type v = types.SecurityGroup
	k := kind[record.SecurityGroup, v]{
		naming: naming{
			resource: types.ResourceTypeSecurityGroup, prefix: "sg-", noun: "security group", param: "groupId",
			notFound: "InvalidGroup.NotFound", malformed: "InvalidGroupId.Malformed",
		},
		table:  record.SecurityGroups(s.store),
		view:   s.viewGroup,
		tagged: func(x v) []types.Tag { return x.Tags },
		vpc:    func(r record.SecurityGroup) string { return r.VPCID },
		filters: filters[v]{
			"description": stringFilter(func(x v) *string { return x.Description }),
			"group-id":    stringFilter(func(x v) *string { return x.GroupId }),
			"group-name":  stringFilter(func(x v) *string { return x.GroupName }),
			"owner-id":    stringFilter(func(x v) *string { return x.OwnerId }),
			"vpc-id":      stringFilter(func(x v) *string { return x.VpcId }),
		},
	}
	permissions := map[string]func(v) []types.IpPermission{
		"ip-permission.":        func(x v) []types.IpPermission { return x.IpPermissions },
		"egress.ip-permission.": func(x v) []types.IpPermission { return x.IpPermissionsEgress },
	}
	for prefix, list := range permissions {
		for name, values := range map[string]func(types.IpPermission) []string{
			"cidr": func(p types.IpPermission) []string {
				return collectValues(p.IpRanges, func(r types.IpRange) *string { return r.CidrIp })
			},
			"ipv6-cidr": func(p types.IpPermission) []string {
				return collectValues(p.Ipv6Ranges, func(r types.Ipv6Range) *string { return r.CidrIpv6 })
			},
			"prefix-list-id": func(p types.IpPermission) []string {
				return collectValues(p.PrefixListIds, func(r types.PrefixListId) *string { return r.PrefixListId })
			},
			"group-id": func(p types.IpPermission) []string {
				return collectValues(p.UserIdGroupPairs, func(r types.UserIdGroupPair) *string { return r.GroupId })
			},
			"group-name": func(p types.IpPermission) []string {
				return collectValues(p.UserIdGroupPairs, func(r types.UserIdGroupPair) *string { return r.GroupName })
			},
			"user-id": func(p types.IpPermission) []string {
				return collectValues(p.UserIdGroupPairs, func(r types.UserIdGroupPair) *string { return r.UserId })
			},
			"protocol":  stringFilter(func(p types.IpPermission) *string { return p.IpProtocol }),
			"from-port": intFilter(func(p types.IpPermission) *int32 { return p.FromPort }),
			"to-port":   intFilter(func(p types.IpPermission) *int32 { return p.ToPort }),
		} {
			k.filters[prefix+name] = func(x v) []string {
				var all []string
				for _, p := range list(x) {
					all = append(all, values(p)...)
				}
				return all
			}
		}
	}
	return k
}

func (s *Service) viewGroup(in scope, r record.SecurityGroup) types.SecurityGroup {
	return types.SecurityGroup{
		Description:         aws.String(r.Description),
		GroupId:             aws.String(r.ID),
		GroupName:           aws.String(r.Name),
		IpPermissions:       permissions(r, false),
		IpPermissionsEgress: permissions(r, true),
		OwnerId:             aws.String(r.Account),
		SecurityGroupArn:    aws.String(in.arn(types.ResourceTypeSecurityGroup, r.ID)),
		Tags:                s.listTags(in, r.ID),
		VpcId:               aws.String(r.VPCID),
	}
}

// intFilter is the filter of a numeric member.
func intFilter[V any](member func(V) *int32) func(V) []string {
	return func(v V) []string {
		if n := member(v); n != nil {
			return []string{strconv.Itoa(int(*n))}
		}
		return nil
	}
}

// newGroup is a security group that lets everything out.
func (c *change) newGroup(id, vpcID, name, description string) record.SecurityGroup {
	return record.SecurityGroup{
		EC2Resource: c.identity(id, nil),
		VPCID:       vpcID,
		Name:        name,
		Description: description,
		Rules: []record.SecurityGroupRule{{ID: newID(rulePrefix), Egress: true, Protocol: "-1", FromPort: -1,
			ToPort: -1, CIDRIPv4: "0.0.0.0/0"}},
	}
}

// groupText is what names and descriptions of groups may consist of.
var groupText = regexp.MustCompile(`^[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{1,255}$`)

// securityGroupHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) securityGroupHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateSecurityGroup, creating[ec2.CreateSecurityGroupInput](s, types.ResourceTypeSecurityGroup)),
		wire.Handle(s.DescribeSecurityGroups, onRegion),
		wire.Handle(s.DeleteSecurityGroup, touching[ec2.DeleteSecurityGroupInput](s)),
		wire.Handle(s.GetSecurityGroupsForVpc, touching[ec2.GetSecurityGroupsForVpcInput](s)),
	}
}

// CreateSecurityGroup makes a security group; in the default VPC unless the request names another.
func (s *Service) CreateSecurityGroup(ctx context.Context, in *ec2.CreateSecurityGroupInput) (
	*ec2.CreateSecurityGroupOutput, error) {
	group, err := createResource(ctx, s, s.groups, creation{dryRun: in.DryRun, tags: in.TagSpecifications},
		func(c *change, id string) error {
			name, description := aws.ToString(in.GroupName), aws.ToString(in.Description)
			switch {
			case name == "":
				return missing("groupName")
			case description == "":
				return missing("groupDescription")
			case len(name) > 3 && name[:3] == "sg-":
				return invalidValue(name, "groupName", "Group names may not be in the format sg-*.")
			case name == "default":
				return wire.Errorf("InvalidParameterValue", "Cannot use reserved security group name: %s", name)
			case !groupText.MatchString(name):
				return invalidValue(name, "groupName", "Character sets beyond ASCII are not supported.")
			case !groupText.MatchString(description):
				return invalidValue(description, "groupDescription", "Character sets beyond ASCII are not supported.")
			}
			vpcID := aws.ToString(in.VpcId)
			if in.VpcId == nil {
				vpc, err := s.defaultVPC(c.scope)
				if err != nil {
					return err
				}
				if vpc == nil {
					return wire.Errorf("VPCIdNotSpecified",
						"No default VPC for this user. GroupName is only supported for EC2-Classic and default VPC.")
				}
				vpcID = vpc.ID
			}
			if _, err := c.holdVPC(&vpcID); err != nil {
				return err
			}
			all, err := s.groups.list(c.scope, nil)
			if err != nil {
				return err
			}
			if len(all) >= maxGroups {
				return wire.Errorf("SecurityGroupLimitExceeded",
					"The maximum number of security groups has been reached.")
			}
			if slices.ContainsFunc(all, func(g record.SecurityGroup) bool {
				return g.VPCID == vpcID &&
					g.Name == name
			}) {
				return wire.Errorf("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'",
					name,
					vpcID)
			}
			s.groups.createRecord(c, c.newGroup(id, vpcID, name, description))
			return nil
		})
	if err != nil {
		return nil, err
	}
	return &ec2.CreateSecurityGroupOutput{GroupId: group.GroupId, SecurityGroupArn: group.SecurityGroupArn,
		Tags: group.Tags}, nil
}

// DescribeSecurityGroups lists security groups.
func (s *Service) DescribeSecurityGroups(ctx context.Context, in *ec2.DescribeSecurityGroupsInput) (
	*ec2.DescribeSecurityGroupsOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(in.GroupIds)
	for _, name := range in.GroupNames {
		group, err := s.groupNamed(sc, "", name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, group.ID)
	}
	found, next, err := describe(ctx, s, s.groups, query{in.DryRun, ids, in.Filters, in.MaxResults, in.NextToken})
	return &ec2.DescribeSecurityGroupsOutput{SecurityGroups: found, NextToken: next}, err
}

// groupNamed is the group of that name in a VPC, the default VPC when vpcID is empty.
func (s *Service) groupNamed(in scope, vpcID, name string) (record.SecurityGroup, error) {
	if vpcID == "" {
		vpc, err := s.defaultVPC(in)
		if err != nil {
			return record.SecurityGroup{}, err
		}
		if vpc == nil {
			return record.SecurityGroup{}, wire.Errorf("VPCIdNotSpecified",
				"No default VPC for this user. GroupName is only supported for EC2-Classic and default VPC.")
		}
		vpcID = vpc.ID
	}
	found, err := s.groups.list(in, func(g record.SecurityGroup) bool { return g.VPCID == vpcID && g.Name == name })
	if err != nil {
		return record.SecurityGroup{}, err
	}
	if len(found) == 0 {
		return record.SecurityGroup{}, wire.Errorf("InvalidGroup.NotFound",
			"The security group '%s' does not exist in VPC '%s'", name, vpcID)
	}
	return found[0], nil
}

// groupAsked is the id of the group that a request names by id or, in the default VPC, by name.
func (s *Service) groupAsked(in scope, id, name *string) (string, error) {
	switch {
	case id != nil:
		return *id, nil
	case name != nil:
		group, err := s.groupNamed(in, "", *name)
		return group.ID, err
	}
	return "", wire.Errorf("MissingParameter", "The request must contain the parameter groupName or groupId")
}

// DeleteSecurityGroup deletes a group that no interface, endpoint or rule of another group uses.
func (s *Service) DeleteSecurityGroup(ctx context.Context, in *ec2.DeleteSecurityGroupInput) (
	*ec2.DeleteSecurityGroupOutput, error) {
	var id string
	err := s.applyChange(ctx, in.DryRun, func(c *change) (err error) {
		if id, err = s.groupAsked(c.scope, in.GroupId, in.GroupName); err != nil {
			return err
		}
		group, err := s.groups.deleteRecord(c, id)
		if err != nil {
			return err
		}
		if group.Name == "default" {
			return wire.Errorf("CannotDelete", `the specified group: "%s" name: "default" cannot be deleted by a user`,
				group.ID)
		}
		if err := c.requireUnchanged(group.VPCID); err != nil {
			return err
		}
		if used, err := s.groupUsed(c.scope, group.ID); err != nil {
			return err
		} else if used {
			return wire.Errorf("DependencyViolation", "resource %s has a dependent object", group.ID)
		}
		c.untagRules(group.Rules...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &ec2.DeleteSecurityGroupOutput{GroupId: aws.String(id), Return: aws.Bool(true)}, nil
}

func (s *Service) groupUsed(in scope, id string) (bool, error) {
	if used, err := s.interfaces.hasMatch(in,
		func(r record.NetworkInterface) bool { return slices.Contains(r.SecurityGroupIDs, id) }); used || err != nil {
		return used, err
	}
	if used, err := s.endpoints.hasMatch(in,
		func(r record.VPCEndpoint) bool { return slices.Contains(r.SecurityGroupIDs, id) }); used || err != nil {
		return used, err
	}
	return s.groups.hasMatch(in, func(g record.SecurityGroup) bool {
		return g.ID != id && slices.ContainsFunc(g.Rules,
			func(r record.SecurityGroupRule) bool { return r.GroupID == id })
	})
}

// GetSecurityGroupsForVpc lists the security groups that interfaces of a VPC can have: its own.
func (s *Service) GetSecurityGroupsForVpc(ctx context.Context, in *ec2.GetSecurityGroupsForVpcInput) (
	*ec2.GetSecurityGroupsForVpcOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	vpc, err := s.vpcs.getRecord(sc, in.VpcId)
	if err != nil {
		return nil, err
	}
	groups, err := s.groups.list(sc, func(r record.SecurityGroup) bool { return r.VPCID == vpc.ID })
	if err != nil {
		return nil, err
	}
	type v = types.SecurityGroupForVpc
	items := make([]item[v], len(groups))
	for i, g := range groups {
		items[i] = item[v]{g.ID, v{
			Description: aws.String(g.Description), GroupId: aws.String(g.ID), GroupName: aws.String(g.Name),
			OwnerId:      aws.String(g.Account),
			PrimaryVpcId: aws.String(g.VPCID), Tags: s.listTagSet(sc, g.ID),
		}}
	}
	found, next, err := describeItems(ctx, query{DryRun: in.DryRun, Filters: in.Filters, Max: in.MaxResults,
		Token: in.NextToken}, "", items, filters[v]{
		"group-id":       stringFilter(func(x v) *string { return x.GroupId }),
		"description":    stringFilter(func(x v) *string { return x.Description }),
		"group-name":     stringFilter(func(x v) *string { return x.GroupName }),
		"owner-id":       stringFilter(func(x v) *string { return x.OwnerId }),
		"primary-vpc-id": stringFilter(func(x v) *string { return x.PrimaryVpcId }),
	}, func(x v) []types.Tag { return x.Tags })
	return &ec2.GetSecurityGroupsForVpcOutput{SecurityGroupForVpcs: found, NextToken: next}, err
}
