package networkinterface_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestNetworkInterface(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	subnet, group := w.Subnet(vpc, "10.0.0.0/24", "b"), w.SecurityGroup(vpc, "web")
	ni := awstest.Must[*ec2.CreateNetworkInterfaceOutput](t)(
		w.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{
			SubnetId: &subnet, Groups: []string{group}, Description: aws.String("mine"),
			PrivateIpAddresses: []types.PrivateIpAddressSpecification{
				{PrivateIpAddress: aws.String("10.0.0.20"), Primary: aws.Bool(false)},
				{PrivateIpAddress: aws.String("10.0.0.10"), Primary: aws.Bool(true)},
			},
			Ipv4Prefixes: []types.Ipv4PrefixSpecificationRequest{{Ipv4Prefix: aws.String("10.0.0.32/28")}},
		}),
	).NetworkInterface
	id := ni.NetworkInterfaceId
	ec2test.WantID(t, id, "eni-")
	if *ni.PrivateIpAddress != "10.0.0.10" || *ni.PrivateIpAddresses[1].PrivateIpAddress != "10.0.0.20" ||
		*ni.AvailabilityZone != "eu-west-1b" ||
		ni.Status != "pending" || !*ni.SourceDestCheck || *ni.RequesterManaged || !strings.HasPrefix(*ni.MacAddress,
		"02:") {
		t.Errorf("created %+v", ni)
	}
	if now := ec2test.DescribeInterface(w, id); now.Status != types.NetworkInterfaceStatusAvailable {
		t.Errorf("status %s, want available", now.Status)
	}
	if free := ec2test.CountFreeAddresses(w, subnet); free != 251-2-16 {
		t.Errorf("%d addresses free, want %d", free, 251-2-16)
	}
	_, err := w.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &group})
	awstest.WantCode(t, err, "DependencyViolation")

	got := awstest.Must[*ec2.AssignPrivateIpAddressesOutput](t)(w.AssignPrivateIpAddresses(ctx,
		&ec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: id,
			SecondaryPrivateIpAddressCount: aws.Int32(3)})).AssignedPrivateIpAddresses
	awstest.Must[*ec2.UnassignPrivateIpAddressesOutput](t)(w.UnassignPrivateIpAddresses(ctx,
		&ec2.UnassignPrivateIpAddressesInput{NetworkInterfaceId: id,
			PrivateIpAddresses: []string{*got[0].PrivateIpAddress, "10.0.0.20"}}))
	awstest.Must[*ec2.UnassignPrivateIpAddressesOutput](t)(w.UnassignPrivateIpAddresses(ctx,
		&ec2.UnassignPrivateIpAddressesInput{NetworkInterfaceId: id, Ipv4Prefixes: []string{"10.0.0.32/28"}}))
	if now := ec2test.DescribeInterface(w, id); len(got) != 3 || len(now.PrivateIpAddresses) != 3 ||
		len(now.Ipv4Prefixes) != 0 ||
		ec2test.CountFreeAddresses(w, subnet) != 251-3 {
		t.Errorf(
			"after assigning three and unassigning two: %+v, %d free",
			now.PrivateIpAddresses, ec2test.CountFreeAddresses(w, subnet),
		)
	}

	second := w.NetworkInterface(subnet)
	wanted := ec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: second.NetworkInterfaceId,
		PrivateIpAddresses: []string{*got[1].PrivateIpAddress}}
	_, err = w.AssignPrivateIpAddresses(ctx, &wanted)
	awstest.WantCode(t, err, "InvalidIPAddress.InUse")
	wanted.AllowReassignment = aws.Bool(true)
	awstest.Must[*ec2.AssignPrivateIpAddressesOutput](t)(w.AssignPrivateIpAddresses(ctx, &wanted))
	if first, now := ec2test.DescribeInterface(w, id), ec2test.DescribeInterface(w, second.NetworkInterfaceId); len(
		first.PrivateIpAddresses) != 2 || len(now.PrivateIpAddresses) != 2 {
		t.Errorf("an address was to move: %+v and %+v", first.PrivateIpAddresses, now.PrivateIpAddresses)
	}

	for _, change := range []ec2.ModifyNetworkInterfaceAttributeInput{
		{Description: &types.AttributeValue{Value: aws.String("yours")}},
		{SourceDestCheck: &types.AttributeBooleanValue{Value: aws.Bool(false)}},
		{Groups: []string{*second.Groups[0].GroupId}},
	} {
		change.NetworkInterfaceId = id
		awstest.Must[*ec2.ModifyNetworkInterfaceAttributeOutput](t)(w.ModifyNetworkInterfaceAttribute(ctx, &change))
	}
	if now := ec2test.DescribeInterface(w, id); *now.Description != "yours" || *now.SourceDestCheck ||
		*now.Groups[0].GroupName != "default" {
		t.Errorf("after changes: %+v", now)
	}
	awstest.Must[*ec2.DeleteSecurityGroupOutput](t)(
		w.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &group}),
	)
	groups := awstest.Must[*ec2.DescribeNetworkInterfaceAttributeOutput](t)(w.DescribeNetworkInterfaceAttribute(ctx,
		&ec2.DescribeNetworkInterfaceAttributeInput{NetworkInterfaceId: id,
			Attribute: types.NetworkInterfaceAttributeGroupSet})).Groups
	if len(groups) != 1 {
		t.Errorf("groups: %+v", groups)
	}
}

func TestInterfacesOfAServiceAreItsOwn(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	owner := w.Caller
	service := wire.Caller{
		Account: ec2test.Account, UserID: "AROAEXAMPLE:AmazonEKS", ARN: "arn:aws:sts::" + ec2test.Account +
			":assumed-role/AWSServiceRoleForAmazonEKS/AmazonEKS",
		PrincipalARN: "arn:aws:iam::" + ec2test.Account + ":role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS",
	}
	w.As(service)
	ni := awstest.Must[*ec2.CreateNetworkInterfaceOutput](t)(
		w.CreateNetworkInterface(w.Context(), &ec2.CreateNetworkInterfaceInput{
			SubnetId: &subnet, Description: aws.String("Amazon EKS ironman-2022"),
			TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeNetworkInterface,
				Tags: []types.Tag{{Key: aws.String("aws:eks:cluster-name"), Value: aws.String("ironman-2022")}}}},
		}),
	).NetworkInterface

	w.As(owner)
	found := awstest.Must[*ec2.DescribeNetworkInterfacesOutput](t)(w.DescribeNetworkInterfaces(w.Context(),
		&ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{
			ec2test.Filter(
				"description",
				"Amazon EKS *",
			), ec2test.Filter("requester-managed", "false"), ec2test.Filter("status", "in-use"),
			ec2test.Filter("attachment.instance-owner-id", record.EKSAccount),
			ec2test.Filter("requester-id", "AROAEXAMPLE:AmazonEKS"),
		}})).NetworkInterfaces
	if len(found) != 1 || *found[0].NetworkInterfaceId != *ni.NetworkInterfaceId ||
		found[0].InterfaceType != types.NetworkInterfaceTypeInterface || found[0].Attachment == nil {
		t.Fatalf("the service's interface: %+v", found)
	}
	_, err := w.DeleteNetworkInterface(w.Context(),
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: ni.NetworkInterfaceId})
	awstest.WantCode(t, err, "AuthFailure")
	_, err = w.DetachNetworkInterface(w.Context(),
		&ec2.DetachNetworkInterfaceInput{AttachmentId: found[0].Attachment.AttachmentId})
	awstest.WantCode(t, err, "OperationNotPermitted")
	_, err = w.DeleteSubnet(w.Context(), &ec2.DeleteSubnetInput{SubnetId: &subnet})
	awstest.WantCode(t, err, "DependencyViolation")

	service.UserID = "AROAEXAMPLE:another-session"
	w.As(service)
	awstest.Must[*ec2.DeleteNetworkInterfaceOutput](t)(w.DeleteNetworkInterface(w.Context(),
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: ni.NetworkInterfaceId}))
}

func TestElasticAddress(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	subnet := w.Subnet(vpc, "10.0.0.0/24", "a")
	ni, address, second := w.NetworkInterface(subnet), w.Address(), w.Address()
	ec2test.WantID(t, address.AllocationId, "eipalloc-")
	associate := &ec2.AssociateAddressInput{AllocationId: address.AllocationId,
		NetworkInterfaceId: ni.NetworkInterfaceId}
	_, err := w.AssociateAddress(ctx, associate)
	awstest.WantCode(t, err, "Gateway.NotAttached")
	w.InternetGateway(vpc)
	association := awstest.Must[*ec2.AssociateAddressOutput](t)(w.AssociateAddress(ctx, associate)).AssociationId
	if again := awstest.Must[*ec2.AssociateAddressOutput](t)(w.AssociateAddress(ctx,
		associate)).AssociationId; *again != *association {
		t.Errorf("the same association again has the id %s, want %s", *again, *association)
	}
	if now := ec2test.DescribeInterface(w, ni.NetworkInterfaceId); now.Association == nil ||
		*now.Association.PublicIp != *address.PublicIp || *now.Association.AllocationId != *address.AllocationId {
		t.Errorf("association of the interface: %+v", now.Association)
	}
	byIP := awstest.Must[*ec2.DescribeNetworkInterfacesOutput](t)(w.DescribeNetworkInterfaces(ctx,
		&ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{ec2test.Filter("association.public-ip",
			*address.PublicIp)}}))
	if len(byIP.NetworkInterfaces) != 1 {
		t.Errorf("found %d interfaces by their public address", len(byIP.NetworkInterfaces))
	}
	associate.AllocationId, associate.AllowReassociation = second.AllocationId, aws.Bool(true)
	awstest.Must[*ec2.AssociateAddressOutput](t)(w.AssociateAddress(ctx, associate))
	awstest.Must[*ec2.ReleaseAddressOutput](t)(w.ReleaseAddress(ctx,
		&ec2.ReleaseAddressInput{AllocationId: address.AllocationId}))
	awstest.Must[*ec2.DeleteNetworkInterfaceOutput](t)(w.DeleteNetworkInterface(ctx,
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: ni.NetworkInterfaceId}))
	left := awstest.Must[*ec2.DescribeAddressesOutput](t)(w.DescribeAddresses(ctx,
		&ec2.DescribeAddressesInput{PublicIps: []string{*second.PublicIp}})).Addresses
	if len(left) != 1 || left[0].AssociationId != nil {
		t.Errorf("addresses after their interface went: %+v", left)
	}
	named := awstest.Must[*ec2.ModifyAddressAttributeOutput](t)(w.ModifyAddressAttribute(ctx,
		&ec2.ModifyAddressAttributeInput{AllocationId: second.AllocationId,
			DomainName: aws.String("mail.example.com")})).Address
	if aws.ToString(named.PtrRecord) != "mail.example.com" {
		t.Errorf("PTR record: %+v", named)
	}
}

func TestSecurityGroupRules(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	web, db := w.SecurityGroup(vpc, "web"), w.SecurityGroup(vpc, "db")
	added := awstest.Must[*ec2.AuthorizeSecurityGroupIngressOutput](t)(w.AuthorizeSecurityGroupIngress(ctx,
		&ec2.AuthorizeSecurityGroupIngressInput{
			GroupId: &db,
			IpPermissions: []types.IpPermission{
				{IpProtocol: aws.String("6"), FromPort: aws.Int32(5432), ToPort: aws.Int32(5432),
					UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: &web, Description: aws.String("from the web")}},
					IpRanges:         []types.IpRange{{CidrIp: aws.String("10.0.0.9/24")}}},
				{IpProtocol: aws.String("icmp"), FromPort: aws.Int32(8), ToPort: aws.Int32(-1),
					Ipv6Ranges: []types.Ipv6Range{{CidrIpv6: aws.String("::/0")}}},
			},
			TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSecurityGroupRule,
				Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}},
		})).SecurityGroupRules
	if len(added) != 3 || *added[0].CidrIpv4 != "10.0.0.0/24" || *added[1].ReferencedGroupInfo.GroupId != web ||
		len(added[2].Tags) != 1 {
		t.Fatalf("added %+v", added)
	}
	the := func(id string) types.SecurityGroup {
		return awstest.Must[*ec2.DescribeSecurityGroupsOutput](t)(w.DescribeSecurityGroups(ctx,
			&ec2.DescribeSecurityGroupsInput{GroupIds: []string{id}})).SecurityGroups[0]
	}
	if p := the(db).IpPermissions; len(p) != 2 || *p[0].IpProtocol != "tcp" || len(p[0].IpRanges) != 1 ||
		len(p[0].UserIdGroupPairs) != 1 || *p[0].UserIdGroupPairs[0].Description != "from the web" {
		t.Errorf("permissions: %+v", p)
	}
	usable := awstest.Must[*ec2.GetSecurityGroupsForVpcOutput](t)(w.GetSecurityGroupsForVpc(ctx,
		&ec2.GetSecurityGroupsForVpcInput{VpcId: &vpc,
			Filters: []types.Filter{ec2test.Filter("group-name", "db", "web")}})).SecurityGroupForVpcs
	if len(usable) != 2 || *usable[0].PrimaryVpcId != vpc {
		t.Errorf("groups for the VPC: %+v", usable)
	}
	byPermission := awstest.Must[*ec2.DescribeSecurityGroupsOutput](t)(w.DescribeSecurityGroups(ctx,
		&ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{ec2test.Filter("ip-permission.group-id", web),
			ec2test.Filter("ip-permission.from-port", "5432")}})).SecurityGroups
	if len(byPermission) != 1 || *byPermission[0].GroupId != db {
		t.Errorf("found by a permission: %+v", byPermission)
	}
	_, err := w.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &web})
	awstest.WantCode(t, err, "DependencyViolation")

	awstest.Must[*ec2.ModifySecurityGroupRulesOutput](t)(w.ModifySecurityGroupRules(ctx,
		&ec2.ModifySecurityGroupRulesInput{GroupId: &db, SecurityGroupRules: []types.SecurityGroupRuleUpdate{{
			SecurityGroupRuleId: added[1].SecurityGroupRuleId,
			SecurityGroupRule: &types.SecurityGroupRuleRequest{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(1),
				ToPort: aws.Int32(2), CidrIpv4: aws.String("1.2.3.4/32")},
		}}}))
	awstest.Must[*ec2.UpdateSecurityGroupRuleDescriptionsIngressOutput](t)(
		w.UpdateSecurityGroupRuleDescriptionsIngress(ctx,
			&ec2.UpdateSecurityGroupRuleDescriptionsIngressInput{GroupId: &db,
				SecurityGroupRuleDescriptions: []types.SecurityGroupRuleDescription{
					{SecurityGroupRuleId: added[1].SecurityGroupRuleId, Description: aws.String("one host")}}}),
	)
	rules := awstest.Must[*ec2.DescribeSecurityGroupRulesOutput](t)(w.DescribeSecurityGroupRules(ctx,
		&ec2.DescribeSecurityGroupRulesInput{SecurityGroupRuleIds: []string{*added[1].SecurityGroupRuleId},
			Filters: []types.Filter{ec2test.Filter("tag:team", "a")}})).SecurityGroupRules
	if len(rules) != 1 || aws.ToString(rules[0].CidrIpv4) != "1.2.3.4/32" || *rules[0].Description != "one host" ||
		rules[0].ReferencedGroupInfo != nil {
		t.Errorf("changed rule: %+v", rules)
	}
	awstest.Must[*ec2.DeleteSecurityGroupOutput](t)(
		w.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &web}),
	)

	gone := awstest.Must[*ec2.RevokeSecurityGroupIngressOutput](t)(w.RevokeSecurityGroupIngress(ctx,
		&ec2.RevokeSecurityGroupIngressInput{GroupId: &db,
			SecurityGroupRuleIds: []string{*added[0].SecurityGroupRuleId}})).RevokedSecurityGroupRules
	if len(gone) != 1 || *gone[0].CidrIpv4 != "10.0.0.0/24" {
		t.Errorf("revoked %+v", gone)
	}
	awstest.Must[*ec2.RevokeSecurityGroupEgressOutput](t)(w.RevokeSecurityGroupEgress(ctx,
		&ec2.RevokeSecurityGroupEgressInput{GroupId: &db,
			IpPermissions: []types.IpPermission{{IpProtocol: aws.String("-1"),
				IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}}}))
	if now := the(db); len(now.IpPermissionsEgress) != 0 || len(now.IpPermissions) != 2 {
		t.Errorf("after revoking: %+v", now)
	}
	awstest.Must[*ec2.AuthorizeSecurityGroupIngressOutput](t)(w.AuthorizeSecurityGroupIngress(ctx,
		&ec2.AuthorizeSecurityGroupIngressInput{GroupId: &db, IpProtocol: aws.String("udp"), FromPort: aws.Int32(53),
			ToPort: aws.Int32(53), CidrIp: aws.String("0.0.0.0/0")}))
	left := awstest.Must[*ec2.DescribeTagsOutput](t)(w.DescribeTags(ctx,
		&ec2.DescribeTagsInput{Filters: []types.Filter{ec2test.Filter("resource-type", "security-group-rule")}})).Tags
	if slices.ContainsFunc(left,
		func(d types.TagDescription) bool { return *d.ResourceId == *added[0].SecurityGroupRuleId }) {
		t.Error("a revoked rule still has tags")
	}
}

// An interface that is attached to nothing has no more addresses than one that is attached to the largest instance.
func TestAddressesOfDetachedInterfacesAreBounded(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ni := w.NetworkInterface(w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")).NetworkInterfaceId
	assign := func(count int32) error {
		_, err := w.AssignPrivateIpAddresses(w.Context(), &ec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: ni,
			SecondaryPrivateIpAddressCount: &count})
		return err
	}
	if err := assign(50); err != nil {
		t.Fatal(err)
	}
	awstest.WantCode(t, assign(50), "PrivateIpAddressLimitExceeded")
}
