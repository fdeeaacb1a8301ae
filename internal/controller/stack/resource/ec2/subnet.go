package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var subnets = kind[types.Subnet]{
	resource: types.ResourceTypeSubnet,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.Subnet, error) {
		out, err := c.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: ids, Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.Subnets, nil
	},
	id: func(s *types.Subnet) *string { return s.SubnetId },
}

// wholeSubnet is a subnet with the association of its network ACL.
type wholeSubnet struct {
	types.Subnet
	aclAssociation string
}

// modifySubnet returns a step that sets a property by an attribute of the subnet.
func modifySubnet(property string,
	set func(r *resource.Request, in *ec2.ModifySubnetAttributeInput)) resource.Step[*ec2.Client] {
	return resource.Step[*ec2.Client]{Properties: []string{property},
		Run: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			in := &ec2.ModifySubnetAttributeInput{SubnetId: &r.PhysicalID}
			set(r, in)
			_, err := c.ModifySubnetAttribute(ctx, in)
			return err
		}}
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-subnet.html
var subnet = resource.Type{
	Tagged:   true,
	Volatile: []string{"Ipv6CidrBlocks", "NetworkAclAssociationId"},
	Refused: []string{"EnableLniAtDeviceIndex", "Ipv4IpamPoolId", "Ipv4NetmaskLength", "Ipv6IpamPoolId", "Ipv6Native",
		"Ipv6NetmaskLength", "OutpostArn"},
	Handler: resource.Handle(resource.Table[*ec2.Client, wholeSubnet]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateSubnet, nil,
			func(out *ec2.CreateSubnetOutput) *string { return out.Subnet.SubnetId },
			func(r *resource.Request, in *ec2.CreateSubnetInput) error {
				in.TagSpecifications = subnets.tags(r)
				return nil
			}),
		Find:     subnets.find,
		Describe: describeSubnet,
		State: func(s *wholeSubnet) (resource.State, error) {
			if s.State == types.SubnetStatePending {
				return resource.Creating, nil
			}
			return resource.Ready, nil
		},
		Configure: []resource.Step[*ec2.Client]{
			{Properties: []string{"Ipv6CidrBlock"}, Update: true, Run: replaceSubnetBlock},
			modifySubnet("MapPublicIpOnLaunch", func(r *resource.Request, in *ec2.ModifySubnetAttributeInput) {
				in.MapPublicIpOnLaunch = flag(r, "MapPublicIpOnLaunch", false)
			}),
			modifySubnet("AssignIpv6AddressOnCreation", func(r *resource.Request, in *ec2.ModifySubnetAttributeInput) {
				in.AssignIpv6AddressOnCreation = flag(r, "AssignIpv6AddressOnCreation", false)
			}),
			modifySubnet("EnableDns64", func(r *resource.Request, in *ec2.ModifySubnetAttributeInput) {
				in.EnableDns64 = flag(r, "EnableDns64", false)
			}),
			{Properties: []string{"PrivateDnsNameOptionsOnLaunch"}, Run: modifySubnetNames},
			retag,
		},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &r.PhysicalID})
			return err
		},
		Attributes: func(_ *resource.Request, s *wholeSubnet) map[string]any {
			blocks := []any{}
			for _, a := range s.Ipv6CidrBlockAssociationSet {
				blocks = append(blocks, aws.ToString(a.Ipv6CidrBlock))
			}
			return map[string]any{
				"SubnetId": aws.ToString(s.SubnetId), "VpcId": aws.ToString(s.VpcId),
				"AvailabilityZone":   aws.ToString(s.AvailabilityZone),
				"AvailabilityZoneId": aws.ToString(s.AvailabilityZoneId),
				"CidrBlock":          aws.ToString(s.CidrBlock), "Ipv6CidrBlocks": blocks,
				"NetworkAclAssociationId": s.aclAssociation, "OutpostArn": aws.ToString(s.OutpostArn),
			}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, s *wholeSubnet) (map[string]any, error) {
			var six any
			for _, a := range s.Ipv6CidrBlockAssociationSet {
				six = aws.ToString(a.Ipv6CidrBlock)
			}
			options := map[string]any{}
			if o := s.PrivateDnsNameOptionsOnLaunch; o != nil {
				options = map[string]any{
					"HostnameType":                    string(o.HostnameType),
					"EnableResourceNameDnsARecord":    aws.ToBool(o.EnableResourceNameDnsARecord),
					"EnableResourceNameDnsAAAARecord": aws.ToBool(o.EnableResourceNameDnsAAAARecord),
				}
			}
			return encode(s.Subnet, nil, s.Tags, map[string]any{
				"Ipv6CidrBlock": six, "PrivateDnsNameOptionsOnLaunch": options,
			}), nil
		},
	}),
}

func describeSubnet(ctx context.Context, c *ec2.Client, r *resource.Request) (*wholeSubnet, error) {
	s, err := subnets.describe(ctx, c, r)
	if err != nil {
		return nil, err
	}
	whole := &wholeSubnet{Subnet: *s}
	association, err := aclAssociationOf(ctx, c, r.PhysicalID)
	if err != nil && !resource.IsNotFound(err) {
		return nil, err
	}
	if association != nil {
		whole.aclAssociation = aws.ToString(association.NetworkAclAssociationId)
	}
	return whole, nil
}

// modifySubnetNames sets how the DNS names of instances in a subnet are made. EC2 takes one attribute in a call.
func modifySubnetNames(ctx context.Context, c *ec2.Client, r *resource.Request) error {
	options, _ := r.Properties["PrivateDnsNameOptionsOnLaunch"].(map[string]any)
	inner := &resource.Request{Properties: options}
	for _, in := range []*ec2.ModifySubnetAttributeInput{
		{PrivateDnsHostnameTypeOnLaunch: types.HostnameType(inner.Text("HostnameType"))},
		{EnableResourceNameDnsARecordOnLaunch: flag(inner, "EnableResourceNameDnsARecord", false)},
		{EnableResourceNameDnsAAAARecordOnLaunch: flag(inner, "EnableResourceNameDnsAAAARecord", false)},
	} {
		if in.EnableResourceNameDnsAAAARecordOnLaunch == nil && in.EnableResourceNameDnsARecordOnLaunch == nil &&
			in.PrivateDnsHostnameTypeOnLaunch == "" {
			in.PrivateDnsHostnameTypeOnLaunch = types.HostnameTypeIpName
		}
		in.SubnetId = &r.PhysicalID
		if _, err := c.ModifySubnetAttribute(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// replaceSubnetBlock gives a subnet another IPv6 block, or takes it away.
func replaceSubnetBlock(ctx context.Context, c *ec2.Client, r *resource.Request) error {
	s, err := subnets.describe(ctx, c, r)
	if err != nil {
		return err
	}
	wanted := r.Text("Ipv6CidrBlock")
	for _, a := range s.Ipv6CidrBlockAssociationSet {
		if aws.ToString(a.Ipv6CidrBlock) == wanted {
			return nil
		}
		if _, err := c.DisassociateSubnetCidrBlock(ctx, &ec2.DisassociateSubnetCidrBlockInput{
			AssociationId: a.AssociationId}); err != nil {
			return err
		}
	}
	if wanted == "" {
		return nil
	}
	_, err = c.AssociateSubnetCidrBlock(ctx, &ec2.AssociateSubnetCidrBlockInput{SubnetId: &r.PhysicalID,
		Ipv6CidrBlock: &wanted})
	return err
}

// subnetBlock is an IPv6 block of a subnet.
type subnetBlock struct {
	types.SubnetIpv6CidrBlockAssociation
	subnet string
}

// subnetBlocks returns the IPv6 blocks of the subnets that a filter names.
func subnetBlocks(ctx context.Context, c *ec2.Client, by types.Filter) ([]subnetBlock, error) {
	found, err := subnets.list(ctx, c, nil, []types.Filter{by})
	if err != nil {
		return nil, err
	}
	var blocks []subnetBlock
	for _, s := range found {
		for _, a := range s.Ipv6CidrBlockAssociationSet {
			blocks = append(blocks, subnetBlock{a, aws.ToString(s.SubnetId)})
		}
	}
	return blocks, nil
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-subnetcidrblock.html
var subnetCIDRBlock = resource.Type{
	Refused: []string{"Ipv6IpamPoolId", "Ipv6NetmaskLength"},
	Handler: resource.Note(resource.Table[*ec2.Client, subnetBlock]{
		Client: client,
		Create: resource.Create((*ec2.Client).AssociateSubnetCidrBlock, nil,
			func(out *ec2.AssociateSubnetCidrBlockOutput) *string {
				return out.Ipv6CidrBlockAssociation.AssociationId
			}),
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			blocks, err := subnetBlocks(ctx, c, filter("subnet-id", r.Text("SubnetId")))
			for _, block := range blocks {
				if aws.ToString(block.Ipv6CidrBlock) == r.Text("Ipv6CidrBlock") {
					return aws.ToString(block.AssociationId), nil
				}
			}
			if err == nil {
				err = resource.ErrNotFound
			}
			return "", err
		},
		Describe: func(ctx context.Context, c *ec2.Client, r *resource.Request) (*subnetBlock, error) {
			return only(subnetBlocks(ctx, c, filter("ipv6-cidr-block-association.association-id", r.PhysicalID)))
		},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DisassociateSubnetCidrBlock(ctx,
				&ec2.DisassociateSubnetCidrBlockInput{AssociationId: &r.PhysicalID})
			return err
		},
		Attributes: func(_ *resource.Request, block *subnetBlock) map[string]any {
			return map[string]any{"Id": aws.ToString(block.AssociationId), "IpSource": string(block.IpSource),
				"Ipv6AddressAttribute": string(block.Ipv6AddressAttribute)}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, block *subnetBlock) (map[string]any, error) {
			return map[string]any{"SubnetId": block.subnet, "Ipv6CidrBlock": aws.ToString(block.Ipv6CidrBlock)}, nil
		},
	}),
}
