package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var securityGroups = kind[types.SecurityGroup]{
	resource: types.ResourceTypeSecurityGroup,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.SecurityGroup, error) {
		out, err := c.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: ids, Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.SecurityGroups, nil
	},
	id: func(g *types.SecurityGroup) *string { return g.GroupId },
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-securitygroup.html
var securityGroup = resource.Type{
	Tagged:    true,
	NameLimit: 255,
	Names:     []string{"GroupName"},
	Handler: resource.Handle(resource.Table[*ec2.Client, types.SecurityGroup]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateSecurityGroup, resource.Members{"GroupDescription": "Description"},
			func(out *ec2.CreateSecurityGroupOutput) *string { return out.GroupId },
			func(r *resource.Request, in *ec2.CreateSecurityGroupInput) error {
				if in.GroupName == nil {
					in.GroupName = &r.Name
				}
				in.TagSpecifications = securityGroups.tags(r)
				return nil
			}),
		Find:     securityGroups.find,
		Describe: securityGroups.describe,
		Configure: []resource.Step[*ec2.Client]{
			{Properties: []string{"SecurityGroupIngress"}, Run: func(ctx context.Context, c *ec2.Client,
				r *resource.Request) error {
				return setRules(ctx, c, r, ingress)
			}},
			{Properties: []string{"SecurityGroupEgress"}, Run: func(ctx context.Context, c *ec2.Client,
				r *resource.Request) error {
				return setRules(ctx, c, r, egress)
			}},
			retag,
		},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &r.PhysicalID})
			return err
		},
		Attributes: func(_ *resource.Request, g *types.SecurityGroup) map[string]any {
			return map[string]any{"GroupId": aws.ToString(g.GroupId), "Id": aws.ToString(g.GroupId),
				"VpcId": aws.ToString(g.VpcId)}
		},
		Properties: func(ctx context.Context, c *ec2.Client, r *resource.Request, g *types.SecurityGroup) (
			map[string]any, error) {
			rules, err := rulesOf(ctx, c, r.PhysicalID)
			if err != nil {
				return nil, err
			}
			in, out := []any{}, []any{}
			for _, live := range rules {
				if aws.ToBool(live.IsEgress) {
					out = append(out, egress.encode(live))
				} else {
					in = append(in, ingress.encode(live))
				}
			}
			return encode(map[string]any{"GroupName": aws.ToString(g.GroupName),
				"GroupDescription": aws.ToString(g.Description), "VpcId": aws.ToString(g.VpcId)}, nil, g.Tags,
				map[string]any{"SecurityGroupIngress": in, "SecurityGroupEgress": out}), nil
		},
	}),
}

// setRules makes the rules of one direction those of the properties. Rules that others have added stay, such as
// those of AWS::EC2::SecurityGroupIngress: only what the previous properties had is revoked.
func setRules(ctx context.Context, c *ec2.Client, r *resource.Request, d direction) error {
	live, err := rulesOf(ctx, c, r.PhysicalID)
	if err != nil {
		return err
	}
	wanted, err := wantedRules(ctx, c, r.PhysicalID, r.Objects(d.property), d)
	if err != nil {
		return err
	}
	previous, err := wantedRules(ctx, c, r.PhysicalID, resource.Objects(r.Previous[d.property]), d)
	if err != nil {
		return err
	}
	keep := map[ruleKey]rule{}
	for _, w := range wanted {
		keep[w.key] = w
	}
	have := map[ruleKey]types.SecurityGroupRule{}
	for _, l := range live {
		if aws.ToBool(l.IsEgress) == d.egress {
			have[keyOf(l)] = l
		}
	}
	var revoked []string
	for _, p := range previous {
		l, ok := have[p.key]
		if _, stays := keep[p.key]; ok && !stays {
			revoked = append(revoked, aws.ToString(l.SecurityGroupRuleId))
			delete(have, p.key)
		}
	}
	// Missing rules come first, so that traffic that both old and new rules allow is never cut.
	var missing []types.IpPermission
	var renamed []types.SecurityGroupRuleDescription
	for key, w := range keep {
		l, ok := have[key]
		switch {
		case !ok:
			missing = append(missing, w.permission)
		case aws.ToString(l.Description) != w.description:
			renamed = append(renamed, types.SecurityGroupRuleDescription{SecurityGroupRuleId: l.SecurityGroupRuleId,
				Description: &w.description})
		}
	}
	if err := d.authorize(ctx, c, r.PhysicalID, missing); err != nil {
		return err
	}
	if err := d.revoke(ctx, c, r.PhysicalID, revoked); err != nil {
		return err
	}
	return d.describe(ctx, c, r.PhysicalID, renamed)
}
