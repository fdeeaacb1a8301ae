package ec2_test

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

// vpcRefusals returns the bad requests about VPCs, subnets and security groups.
func vpcRefusals(f *networkFixture) []refused {
	w := f.Fixture
	ctx := f.Context()
	s := aws.String
	vpc, subnet, group, otherGroup, ni := f.vpc, f.subnet, f.group, f.otherGroup, f.ni
	ssh, primary := f.ssh, f.primary
	permission := func(change func(*types.IpPermission)) []types.IpPermission {
		p := types.IpPermission{IpProtocol: s("tcp"), FromPort: aws.Int32(80), ToPort: aws.Int32(80),
			IpRanges: []types.IpRange{{CidrIp: s("10.0.0.0/8")}}}
		change(&p)
		return []types.IpPermission{p}
	}
	authorize := func(change func(*types.IpPermission)) func() error {
		return func() error {
			_, err := w.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &group,
				IpPermissions: permission(change)})
			return err
		}
	}
	createSubnet := func(in ec2.CreateSubnetInput) func() error {
		return func() error { _, err := w.CreateSubnet(ctx, &in); return err }
	}
	describeVPCs := func(in ec2.DescribeVpcsInput) func() error {
		return func() error { _, err := w.DescribeVpcs(ctx, &in); return err }
	}
	return []refused{
		{"VPC without a block", func() error { _, err := w.CreateVpc(ctx, &ec2.CreateVpcInput{}); return err },
			"MissingParameter", "cidrBlock"},
		{"VPC block is no block", func() error {
			_,
				err := w.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: s("10.0.0.0")})
			return err
		}, "InvalidParameterValue",
			"Value (10.0.0.0) for parameter cidrBlock is invalid. This is not a valid CIDR block."},
		{"VPC too large", func() error {
			_,
				err := w.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: s("10.0.0.0/15")})
			return err
		}, "InvalidVpc.Range", "The CIDR '10.0.0.0/15' is invalid."},
		{"VPC too small", func() error {
			_,
				err := w.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: s("10.0.0.0/29")})
			return err
		}, "InvalidVpc.Range", "The CIDR '10.0.0.0/29' is invalid."},
		{"VPC of strange tenancy", func() error {
			_, err := w.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: s("10.9.0.0/16"), InstanceTenancy: "sublet"})
			return err
		}, "UnsupportedTenancy", "sublet"},
		{"dry run of a good request", func() error {
			_, err := w.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: s("10.9.0.0/16"), DryRun: aws.Bool(true)})
			return err
		}, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."},
		{"dry run of a bad request", func() error {
			_, err := w.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: s("vpc-" + gone), DryRun: aws.Bool(true)})
			return err
		}, "InvalidVpcID.NotFound", ""},
		{"VPC does not exist", describeVPCs(ec2.DescribeVpcsInput{VpcIds: []string{"vpc-" + gone}}),
			"InvalidVpcID.NotFound", "The vpc ID 'vpc-0123456789abcdef0' does not exist"},
		{"two VPCs do not exist", describeVPCs(ec2.DescribeVpcsInput{VpcIds: []string{"vpc-" + gone, "vpc-00000000"}}),
			"InvalidVpcID.NotFound", "The vpc IDs 'vpc-00000000, vpc-0123456789abcdef0' do not exist"},
		{"VPC id of another kind", describeVPCs(ec2.DescribeVpcsInput{VpcIds: []string{subnet}}),
			"InvalidVpcID.Malformed", `(expecting "vpc-...")`},
		{"VPC id with strange digits", describeVPCs(ec2.DescribeVpcsInput{VpcIds: []string{"vpc-xyz"}}),
			"InvalidVpcID.Malformed", `Invalid id: "vpc-xyz"`},
		{"unknown filter", describeVPCs(ec2.DescribeVpcsInput{Filters: []types.Filter{ec2test.Filter("color", "blue")}}),
			"InvalidParameterValue", "The filter 'color' is invalid"},
		{"page too small", describeVPCs(ec2.DescribeVpcsInput{MaxResults: aws.Int32(4)}), "InvalidParameterValue",
			"MaxResults"},
		{"page too large", describeVPCs(ec2.DescribeVpcsInput{MaxResults: aws.Int32(1001)}), "InvalidParameterValue",
			"MaxResults"},
		{"page of named VPCs", describeVPCs(ec2.DescribeVpcsInput{MaxResults: aws.Int32(5), VpcIds: []string{vpc}}),
			"InvalidParameterCombination", "The parameter VpcIds cannot be used with the parameter MaxResults"},
		{"token is none of ours", describeVPCs(ec2.DescribeVpcsInput{MaxResults: aws.Int32(5),
			NextToken: s("tomorrow")}), "InvalidParameterValue", "NextToken"},
		{"VPC in use", func() error { _, err := w.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: &vpc}); return err },
			"DependencyViolation", "The vpc '" + vpc + "' has dependencies and cannot be deleted."},
		{"VPC attribute unknown", func() error {
			_, err := w.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: &vpc, Attribute: "color"})
			return err
		}, "InvalidParameterValue", "color"},
		{"no VPC attribute to modify", func() error {
			_, err := w.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: &vpc})
			return err
		}, "MissingParameter", ""},
		{"two VPC attributes to modify", func() error {
			_, err := w.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: &vpc,
				EnableDnsHostnames: &types.AttributeBooleanValue{Value: aws.Bool(true)},
				EnableDnsSupport:   &types.AttributeBooleanValue{Value: aws.Bool(true)}})
			return err
		}, "InvalidParameterCombination", ""},
		{"VPC block overlaps", func() error {
			_, err := w.AssociateVpcCidrBlock(ctx, &ec2.AssociateVpcCidrBlockInput{VpcId: &vpc,
				CidrBlock: s("10.0.128.0/17")})
			return err
		}, "InvalidVpc.Range", "conflicts"},
		{"primary VPC block", func() error {
			_, err := w.DisassociateVpcCidrBlock(ctx, &ec2.DisassociateVpcCidrBlockInput{AssociationId: primary})
			return err
		}, "OperationNotPermitted", "It is the primary IPv4 CIDR block of the VPC"},
		{"VPC block association unknown", func() error {
			_, err := w.DisassociateVpcCidrBlock(ctx,
				&ec2.DisassociateVpcCidrBlockInput{AssociationId: s("vpc-cidr-assoc-" + gone)})
			return err
		}, "InvalidVpcCidrBlockAssociationID.NotFound", gone},

		{"subnet of no VPC", createSubnet(ec2.CreateSubnetInput{VpcId: s("vpc-" + gone), CidrBlock: s("10.0.1.0/24")}),
			"InvalidVpcID.NotFound", gone},
		{"subnet without a block", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc}), "MissingParameter", "cidrBlock"},
		{"subnet block is no block", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.1.0/33")}),
			"InvalidParameterValue", "Value (10.0.1.0/33) for parameter cidrBlock is invalid."},
		{"subnet outside its VPC", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.7.0.0/24")}),
			"InvalidSubnet.Range", "The CIDR '10.7.0.0/24' is invalid."},
		{"subnet larger than its VPC", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.0.0/15")}),
			"InvalidSubnet.Range", ""},
		{"subnet too small", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.1.0/29")}),
			"InvalidSubnet.Range", "The CIDR '10.0.1.0/29' is invalid."},
		{"subnet overlaps", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.0.128/25")}),
			"InvalidSubnet.Conflict", "The CIDR '10.0.0.128/25' conflicts with another subnet"},
		{"subnet in a zone of another region",
			createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.1.0/24"),
				AvailabilityZone: s("us-east-1a")}), "InvalidParameterValue",
			"Subnets can currently only be created in the following availability zones: eu-west-1a, eu-west-1b, " +
				"eu-west-1c."},
		{"subnet with tags of a VPC", createSubnet(ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: s("10.0.1.0/24"),
			TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeVpc,
				Tags: []types.Tag{{Key: s("a"), Value: s("b")}}}}}), "InvalidParameter",
			"'vpc' is not a valid taggable resource type for this operation."},
		{"subnet in use", func() error {
			_, err := w.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &subnet})
			return err
		}, "DependencyViolation", "The subnet '" + subnet + "' has dependencies and cannot be deleted."},
		{"subnet does not exist", func() error {
			_, err := w.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: s("subnet-" + gone)})
			return err
		}, "InvalidSubnetID.NotFound", "The subnet ID 'subnet-0123456789abcdef0' does not exist"},
		{"IPv6 addresses by default without IPv6", func() error {
			_, err := w.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{SubnetId: &subnet,
				AssignIpv6AddressOnCreation: &types.AttributeBooleanValue{Value: aws.Bool(true)}})
			return err
		}, "InvalidParameterValue", ""},

		{"group name taken", func() error {
			_, err := w.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: s("web"),
				Description: s("x")})
			return err
		}, "InvalidGroup.Duplicate", "The security group 'web' already exists for VPC '" + vpc + "'"},
		{"group without a description", func() error {
			_, err := w.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: s("web2"),
				Description: s("")})
			return err
		}, "MissingParameter", ""},
		{"group named like an id", func() error {
			_, err := w.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: s("sg-web"),
				Description: s("x")})
			return err
		}, "InvalidParameterValue", "Group names may not be in the format sg-*."},
		{"group does not exist", func() error {
			_, err := w.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: s("sg-" + gone)})
			return err
		}, "InvalidGroup.NotFound", "The security group 'sg-0123456789abcdef0' does not exist"},
		{"group id malformed", func() error {
			_, err := w.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: s("web")})
			return err
		}, "InvalidGroupId.Malformed", `Invalid id: "web" (expecting "sg-...")`},
		{"default group", func() error {
			_, err := w.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: ni.Groups[0].GroupId})
			return err
		}, "CannotDelete", `name: "default" cannot be deleted by a user`},
		{"rule exists", authorize(func(p *types.IpPermission) { *p = ssh }), "InvalidPermission.Duplicate",
			`the specified rule "peer: 0.0.0.0/0, TCP, from port: 22, to port: 22, ALLOW" already exists`},
		{"rule of an unknown protocol", authorize(func(p *types.IpPermission) { p.IpProtocol = s("smoke") }),
			"InvalidParameterValue", "Invalid value 'smoke' for IP protocol. Unknown protocol."},
		{"rule without ports", authorize(func(p *types.IpPermission) { p.FromPort = nil }), "InvalidParameterValue",
			"Must specify both from and to ports with TCP/UDP."},
		{"rule with ports the wrong way round", authorize(func(p *types.IpPermission) { p.FromPort = aws.Int32(90) }),
			"InvalidParameterValue", "Invalid TCP/UDP port range (90:80)"},
		{"rule with a port beyond 65535", authorize(func(p *types.IpPermission) { p.ToPort = aws.Int32(65536) }),
			"InvalidParameterValue", "65536"},
		{"rule with a malformed block", authorize(
			func(p *types.IpPermission) { p.IpRanges[0].CidrIp = s("10.0.0.0/99") }), "InvalidParameterValue",
			"CIDR block 10.0.0.0/99 is malformed"},
		{"rule for a group of another VPC", authorize(func(p *types.IpPermission) {
			p.IpRanges, p.UserIdGroupPairs = nil, []types.UserIdGroupPair{{GroupId: &otherGroup}}
		}), "InvalidGroup.NotFound", "You have specified two resources that belong to different networks."},
		{"rule for an unknown prefix list", authorize(func(p *types.IpPermission) {
			p.IpRanges, p.PrefixListIds = nil, []types.PrefixListId{{PrefixListId: s("pl-" + gone)}}
		}), "InvalidPrefixListID.NotFound", gone},
		{"rule for nobody", authorize(func(p *types.IpPermission) { p.IpRanges = nil }), "MissingParameter", ""},
		{"revoked rule does not exist", func() error {
			_, err := w.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &group,
				IpPermissions: permission(func(*types.IpPermission) {})})
			return err
		}, "InvalidPermission.NotFound", "The specified rule does not exist in this security group."},
		{"revoked rule id does not exist", func() error {
			_, err := w.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &group,
				SecurityGroupRuleIds: []string{"sgr-" + gone}})
			return err
		}, "InvalidSecurityGroupRuleId.NotFound", "The security group rule ID 'sgr-0123456789abcdef0' does not exist"},
	}
}
