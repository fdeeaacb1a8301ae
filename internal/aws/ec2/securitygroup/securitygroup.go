package securitygroup

import (
	"context"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) newSecurityGroupView() resource.View[record.SecurityGroup, types.SecurityGroup] {
	type v = types.SecurityGroup
	k := resource.View[record.SecurityGroup, v]{
		Kind:   s.SecurityGroups,
		Show:   s.viewGroup,
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"description": resource.StringFilter(func(x v) *string { return x.Description }),
			"group-id":    resource.StringFilter(func(x v) *string { return x.GroupId }),
			"group-name":  resource.StringFilter(func(x v) *string { return x.GroupName }),
			"owner-id":    resource.StringFilter(func(x v) *string { return x.OwnerId }),
			"vpc-id":      resource.StringFilter(func(x v) *string { return x.VpcId }),
		},
	}
	permissions := map[string]func(v) []types.IpPermission{
		"ip-permission.":        func(x v) []types.IpPermission { return x.IpPermissions },
		"egress.ip-permission.": func(x v) []types.IpPermission { return x.IpPermissionsEgress },
	}
	for prefix, list := range permissions {
		for name, values := range map[string]func(types.IpPermission) []string{
			"cidr": func(p types.IpPermission) []string {
				return resource.CollectValues(p.IpRanges, func(r types.IpRange) *string { return r.CidrIp })
			},
			"ipv6-cidr": func(p types.IpPermission) []string {
				return resource.CollectValues(p.Ipv6Ranges, func(r types.Ipv6Range) *string { return r.CidrIpv6 })
			},
			"prefix-list-id": func(p types.IpPermission) []string {
				return resource.CollectValues(p.PrefixListIds, func(r types.PrefixListId) *string { return r.PrefixListId })
			},
			"group-id": func(p types.IpPermission) []string {
				return resource.CollectValues(p.UserIdGroupPairs, func(r types.UserIdGroupPair) *string { return r.GroupId })
			},
			"group-name": func(p types.IpPermission) []string {
				return resource.CollectValues(p.UserIdGroupPairs, func(r types.UserIdGroupPair) *string { return r.GroupName })
			},
			"user-id": func(p types.IpPermission) []string {
				return resource.CollectValues(p.UserIdGroupPairs, func(r types.UserIdGroupPair) *string { return r.UserId })
			},
			"protocol":  resource.StringFilter(func(p types.IpPermission) *string { return p.IpProtocol }),
			"from-port": resource.IntFilter(func(p types.IpPermission) *int32 { return p.FromPort }),
			"to-port":   resource.IntFilter(func(p types.IpPermission) *int32 { return p.ToPort }),
		} {
			k.Filters[prefix+name] = func(x v) []string {
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

func (s *Service) viewGroup(sc resource.Scope, r record.SecurityGroup) types.SecurityGroup {
	return types.SecurityGroup{
		Description:         aws.String(r.Description),
		GroupId:             aws.String(r.ID),
		GroupName:           aws.String(r.Name),
		IpPermissions:       permissions(r, false),
		IpPermissionsEgress: permissions(r, true),
		OwnerId:             aws.String(r.Account),
		SecurityGroupArn:    aws.String(sc.ARN(types.ResourceTypeSecurityGroup, r.ID)),
		Tags:                s.ListTags(sc, r.ID),
		VpcId:               aws.String(r.VPCID),
	}
}

// NewGroup returns a security group that lets everything out.
func NewGroup(c *resource.Change, id, vpcID, name, description string) record.SecurityGroup {
	return record.SecurityGroup{
		EC2Resource: c.NewResource(id, nil),
		VPCID:       vpcID,
		Name:        name,
		Description: description,
		Rules: []record.SecurityGroupRule{
			{ID: resource.NewID(resource.RulePrefix), Egress: true, Protocol: "-1", FromPort: -1,
				ToPort: -1, CIDRIPv4: "0.0.0.0/0"},
		},
	}
}

// groupText matches the names and descriptions that groups may have.
var groupText = regexp.MustCompile(`^[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{1,255}$`)

// securityGroupHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) securityGroupHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(
			s.CreateSecurityGroup,
			resource.Creating[ec2.CreateSecurityGroupInput](s.Records, types.ResourceTypeSecurityGroup),
		),
		wire.Handle(s.DescribeSecurityGroups, resource.OnRegion),
		wire.Handle(s.DeleteSecurityGroup, resource.Touching[ec2.DeleteSecurityGroupInput](s.Records)),
		wire.Handle(s.GetSecurityGroupsForVpc, resource.Touching[ec2.GetSecurityGroupsForVpcInput](s.Records)),
	}
}

// CreateSecurityGroup makes a security group; in the default VPC unless the request names another.
func (s *Service) CreateSecurityGroup(ctx context.Context, in *ec2.CreateSecurityGroupInput) (
	*ec2.CreateSecurityGroupOutput, error) {
	group, err := s.securityGroupView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications},
		func(c *resource.Change, id string) error {
			name, description := aws.ToString(in.GroupName), aws.ToString(in.Description)
			switch {
			case name == "":
				return resource.MissingParameter("groupName")
			case description == "":
				return resource.MissingParameter("groupDescription")
			case len(name) > 3 && name[:3] == "sg-":
				return resource.InvalidValue(name, "groupName", "Group names may not be in the format sg-*.")
			case name == "default":
				return wire.Errorf("InvalidParameterValue", "Cannot use reserved security group name: %s", name)
			case !groupText.MatchString(name):
				return resource.InvalidValue(name, "groupName", "Character sets beyond ASCII are not supported.")
			case !groupText.MatchString(description):
				return resource.InvalidValue(description, "groupDescription", "Character sets beyond ASCII are not supported.")
			}
			vpcID := aws.ToString(in.VpcId)
			if in.VpcId == nil {
				vpc, err := s.DefaultVPC(c.Scope)
				if err != nil {
					return err
				}
				if vpc == nil {
					return wire.Errorf("VPCIdNotSpecified",
						"No default VPC for this user. GroupName is only supported for EC2-Classic and default VPC.")
				}
				vpcID = vpc.ID
			}
			if _, err := c.HoldVPC(&vpcID); err != nil {
				return err
			}
			if s.SecurityGroups.Table.Count(c.KeyPrefix()) >= resource.MaxSecurityGroups {
				return wire.Errorf("SecurityGroupLimitExceeded",
					"The maximum number of security groups has been reached.")
			}
			all, err := s.SecurityGroups.List(c.Scope, nil)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(all, func(g record.SecurityGroup) bool {
				return g.VPCID == vpcID &&
					g.Name == name
			}) {
				return wire.Errorf("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'",
					name,
					vpcID)
			}
			s.SecurityGroups.CreateRecord(c, NewGroup(c, id, vpcID, name, description))
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
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(in.GroupIds)
	for _, name := range in.GroupNames {
		group, err := s.SecurityGroupNamed(sc, "", name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, group.ID)
	}
	found, next, err := s.securityGroupView.Describe(
		ctx,
		resource.Query{Operation: "DescribeSecurityGroups", DryRun: in.DryRun, IDs: ids, Filters: in.Filters,
			Max: in.MaxResults, Token: in.NextToken},
	)
	return &ec2.DescribeSecurityGroupsOutput{SecurityGroups: found, NextToken: next}, err
}

// DeleteSecurityGroup deletes a group that no interface, endpoint or rule of another group uses.
func (s *Service) DeleteSecurityGroup(ctx context.Context, in *ec2.DeleteSecurityGroupInput) (
	*ec2.DeleteSecurityGroupOutput, error) {
	var id string
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) (err error) {
		if id, err = s.RequestedSecurityGroup(c.Scope, in.GroupId, in.GroupName); err != nil {
			return err
		}
		group, err := s.SecurityGroups.DeleteRecord(c, id)
		if err != nil {
			return err
		}
		if group.Name == "default" {
			return wire.Errorf("CannotDelete", `the specified group: "%s" name: "default" cannot be deleted by a user`,
				group.ID)
		}
		if err := c.RequireUnchanged(group.VPCID); err != nil {
			return err
		}
		if used, err := s.groupUsed(c.Scope, group.ID); err != nil {
			return err
		} else if used {
			return wire.Errorf("DependencyViolation", "resource %s has a dependent object", group.ID)
		}
		UntagRules(c, group.Rules...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &ec2.DeleteSecurityGroupOutput{GroupId: aws.String(id), Return: aws.Bool(true)}, nil
}

func (s *Service) groupUsed(sc resource.Scope, id string) (bool, error) {
	if used, err := s.NetworkInterfaces.HasMatch(sc,
		func(r record.NetworkInterface) bool { return slices.Contains(r.SecurityGroupIDs, id) }); used || err != nil {
		return used, err
	}
	if used, err := s.VPCEndpoints.HasMatch(sc,
		func(r record.VPCEndpoint) bool { return slices.Contains(r.SecurityGroupIDs, id) }); used || err != nil {
		return used, err
	}
	return s.SecurityGroups.HasMatch(sc, func(g record.SecurityGroup) bool {
		return g.ID != id && slices.ContainsFunc(g.Rules,
			func(r record.SecurityGroupRule) bool { return r.GroupID == id })
	})
}

// GetSecurityGroupsForVpc lists the security groups that interfaces of a VPC can have: its own.
func (s *Service) GetSecurityGroupsForVpc(ctx context.Context, in *ec2.GetSecurityGroupsForVpcInput) (
	*ec2.GetSecurityGroupsForVpcOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "GetSecurityGroupsForVpc", DryRun: in.DryRun, Filters: in.Filters,
		Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	vpc, err := s.VPCs.GetRecord(sc, in.VpcId)
	if err != nil {
		return nil, err
	}
	groups, err := s.SecurityGroups.List(sc, func(r record.SecurityGroup) bool { return r.VPCID == vpc.ID })
	if err != nil {
		return nil, err
	}
	type v = types.SecurityGroupForVpc
	items := make([]resource.Item[v], len(groups))
	for i, g := range groups {
		items[i] = resource.Item[v]{ID: g.ID, View: v{
			Description: aws.String(g.Description), GroupId: aws.String(g.ID), GroupName: aws.String(g.Name),
			OwnerId:      aws.String(g.Account),
			PrimaryVpcId: aws.String(g.VPCID), Tags: s.ListTagSet(sc, g.ID),
		}}
	}
	found, next, err := resource.DescribeItems(
		ctx,
		query,
		items,
		resource.Filters[v]{
			"group-id":       resource.StringFilter(func(x v) *string { return x.GroupId }),
			"description":    resource.StringFilter(func(x v) *string { return x.Description }),
			"group-name":     resource.StringFilter(func(x v) *string { return x.GroupName }),
			"owner-id":       resource.StringFilter(func(x v) *string { return x.OwnerId }),
			"primary-vpc-id": resource.StringFilter(func(x v) *string { return x.PrimaryVpcId }),
		},
		func(x v) []types.Tag { return x.Tags },
	)
	return &ec2.GetSecurityGroupsForVpcOutput{SecurityGroupForVpcs: found, NextToken: next}, err
}
