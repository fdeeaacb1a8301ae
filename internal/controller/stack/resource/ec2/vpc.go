package ec2

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var vpcs = kind[types.Vpc]{
	resource: types.ResourceTypeVpc,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.Vpc, error) {
		out, err := c.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: ids, Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.Vpcs, nil
	},
	id: func(v *types.Vpc) *string { return v.VpcId },
}

// wholeVPC is a VPC with what comes with it.
type wholeVPC struct {
	types.Vpc
	networkACL, securityGroup string
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-vpc.html
var vpc = resource.Type{
	Tagged:   true,
	Volatile: []string{"CidrBlockAssociations", "Ipv6CidrBlocks"},
	Refused:  []string{"Ipv4IpamPoolId", "Ipv4NetmaskLength", "VpcEncryptionControl"},
	Handler: resource.Handle(resource.Table[*ec2.Client, wholeVPC]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateVpc, nil,
			func(out *ec2.CreateVpcOutput) *string { return out.Vpc.VpcId },
			func(r *resource.Request, in *ec2.CreateVpcInput) error {
				in.TagSpecifications = vpcs.tags(r)
				return nil
			}),
		Find:     vpcs.find,
		Describe: describeVPC,
		State: func(v *wholeVPC) (resource.State, error) {
			if v.State == types.VpcStatePending {
				return resource.Creating, nil
			}
			return resource.Ready, nil
		},
		Configure: []resource.Step[*ec2.Client]{
			{Properties: []string{"InstanceTenancy"}, Update: true, Run: modifyTenancy},
			{Properties: []string{"EnableDnsSupport"}, Run: func(ctx context.Context, c *ec2.Client,
				r *resource.Request) error {
				_, err := c.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: &r.PhysicalID,
					EnableDnsSupport: flag(r, "EnableDnsSupport", true)})
				return err
			}},
			{Properties: []string{"EnableDnsHostnames"}, Run: func(ctx context.Context, c *ec2.Client,
				r *resource.Request) error {
				_, err := c.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: &r.PhysicalID,
					EnableDnsHostnames: flag(r, "EnableDnsHostnames", false)})
				return err
			}},
			retag,
		},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: &r.PhysicalID})
			return err
		},
		Attributes: func(_ *resource.Request, v *wholeVPC) map[string]any {
			associations, blocks := []any{}, []any{}
			for _, a := range v.CidrBlockAssociationSet {
				associations = append(associations, aws.ToString(a.AssociationId))
			}
			for _, a := range v.Ipv6CidrBlockAssociationSet {
				blocks = append(blocks, aws.ToString(a.Ipv6CidrBlock))
			}
			return map[string]any{
				"VpcId": aws.ToString(v.VpcId), "CidrBlock": aws.ToString(v.CidrBlock),
				"CidrBlockAssociations": associations, "Ipv6CidrBlocks": blocks,
				"DefaultNetworkAcl": v.networkACL, "DefaultSecurityGroup": v.securityGroup,
			}
		},
		Properties: func(ctx context.Context, c *ec2.Client, r *resource.Request, v *wholeVPC) (map[string]any, error) {
			support, err := c.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: &r.PhysicalID,
				Attribute: types.VpcAttributeNameEnableDnsSupport})
			if err != nil {
				return nil, err
			}
			hostnames, err := c.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: &r.PhysicalID,
				Attribute: types.VpcAttributeNameEnableDnsHostnames})
			if err != nil {
				return nil, err
			}
			return encode(map[string]any{"CidrBlock": aws.ToString(v.CidrBlock),
				"InstanceTenancy": string(v.InstanceTenancy)}, nil, v.Tags, map[string]any{
				"EnableDnsSupport":   aws.ToBool(support.EnableDnsSupport.Value),
				"EnableDnsHostnames": aws.ToBool(hostnames.EnableDnsHostnames.Value),
			}), nil
		},
	}),
}

// describeVPC returns a VPC with its default network ACL and security group.
func describeVPC(ctx context.Context, c *ec2.Client, r *resource.Request) (*wholeVPC, error) {
	v, err := vpcs.describe(ctx, c, r)
	if err != nil {
		return nil, err
	}
	whole := &wholeVPC{Vpc: *v}
	acls, err := c.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{
		Filters: []types.Filter{filter("vpc-id", r.PhysicalID), filter("default", "true")}})
	if err != nil {
		return nil, err
	}
	for _, acl := range acls.NetworkAcls {
		whole.networkACL = aws.ToString(acl.NetworkAclId)
	}
	groups, err := c.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{filter("vpc-id", r.PhysicalID), filter("group-name", "default")}})
	if err != nil {
		return nil, err
	}
	for _, group := range groups.SecurityGroups {
		whole.securityGroup = aws.ToString(group.GroupId)
	}
	return whole, nil
}

// modifyTenancy makes a VPC of dedicated tenancy one of default tenancy, which is the only change that EC2 allows.
func modifyTenancy(ctx context.Context, c *ec2.Client, r *resource.Request) error {
	if r.Text("InstanceTenancy") != "default" {
		return resource.ErrReplace
	}
	_, err := c.ModifyVpcTenancy(ctx, &ec2.ModifyVpcTenancyInput{VpcId: &r.PhysicalID,
		InstanceTenancy: types.VpcTenancyDefault})
	return err
}

// vpcBlock is an IPv4 or IPv6 block of a VPC.
type vpcBlock struct {
	vpc, id, cidr string
	six           *types.VpcIpv6CidrBlockAssociation
}

// blocksOf returns the blocks of a VPC, without the primary one.
func blocksOf(v *types.Vpc) []vpcBlock {
	var blocks []vpcBlock
	for _, a := range v.CidrBlockAssociationSet {
		if aws.ToString(a.CidrBlock) != aws.ToString(v.CidrBlock) {
			blocks = append(blocks, vpcBlock{aws.ToString(v.VpcId), aws.ToString(a.AssociationId),
				aws.ToString(a.CidrBlock), nil})
		}
	}
	for _, a := range v.Ipv6CidrBlockAssociationSet {
		blocks = append(blocks, vpcBlock{aws.ToString(v.VpcId), aws.ToString(a.AssociationId),
			aws.ToString(a.Ipv6CidrBlock), &a})
	}
	return blocks
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-vpccidrblock.html
var vpcCIDRBlock = resource.Type{
	Refused: []string{"Ipv4IpamPoolId", "Ipv4NetmaskLength", "Ipv6CidrBlock", "Ipv6CidrBlockNetworkBorderGroup",
		"Ipv6IpamPoolId", "Ipv6NetmaskLength", "Ipv6Pool"},
	Handler: resource.Note(resource.Table[*ec2.Client, vpcBlock]{
		Client: client,
		Create: resource.Create((*ec2.Client).AssociateVpcCidrBlock, nil,
			func(out *ec2.AssociateVpcCidrBlockOutput) *string {
				if out.Ipv6CidrBlockAssociation != nil {
					return out.Ipv6CidrBlockAssociation.AssociationId
				}
				return out.CidrBlockAssociation.AssociationId
			}),
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			v, err := vpcs.get(ctx, c, r.Text("VpcId"))
			if err != nil {
				return "", err
			}
			for _, block := range slices.Backward(blocksOf(v)) { // the last one may be the stack's
				if block.six == nil && r.Text("CidrBlock") == block.cidr ||
					block.six != nil && aws.ToBool(r.Flag("AmazonProvidedIpv6CidrBlock")) {
					return block.id, nil
				}
			}
			return "", resource.ErrNotFound
		},
		Describe: func(ctx context.Context, c *ec2.Client, r *resource.Request) (*vpcBlock, error) {
			for _, name := range []string{"cidr-block-association.association-id",
				"ipv6-cidr-block-association.association-id"} {
				found, err := vpcs.list(ctx, c, nil, []types.Filter{filter(name, r.PhysicalID)})
				if err != nil {
					return nil, err
				}
				for i := range found {
					for _, block := range blocksOf(&found[i]) {
						if block.id == r.PhysicalID {
							return &block, nil
						}
					}
				}
			}
			return nil, resource.ErrNotFound
		},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DisassociateVpcCidrBlock(ctx, &ec2.DisassociateVpcCidrBlockInput{AssociationId: &r.PhysicalID})
			return err
		},
		Attributes: func(_ *resource.Request, block *vpcBlock) map[string]any {
			attributes := map[string]any{"Id": block.id}
			if block.six != nil {
				attributes["IpSource"] = string(block.six.IpSource)
				attributes["Ipv6AddressAttribute"] = string(block.six.Ipv6AddressAttribute)
			}
			return attributes
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, block *vpcBlock) (map[string]any, error) {
			if block.six != nil {
				return map[string]any{"VpcId": block.vpc, "AmazonProvidedIpv6CidrBlock": true}, nil
			}
			return map[string]any{"VpcId": block.vpc, "CidrBlock": block.cidr}, nil
		},
	}),
}
