package ec2_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// What a policy denies on a resource is denied however the request names the resource.
func TestDeniedByWhateverName(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx, p := w.Context(), aws.String
	group := *awstest.Must[*ec2.CreateSecurityGroupOutput](t)(w.CreateSecurityGroup(ctx,
		&ec2.CreateSecurityGroupInput{GroupName: p("g"), Description: p("g")})).GroupId
	key := *awstest.Must[*ec2.CreateKeyPairOutput](t)(
		w.CreateKeyPair(ctx, &ec2.CreateKeyPairInput{KeyName: p("k")})).KeyPairId
	address := w.Address()
	vpc := w.VPC("10.0.0.0/16")
	w.InternetGateway(vpc)
	subnet := w.Subnet(vpc, "10.0.0.0/24", "a")
	ni := *w.NetworkInterface(subnet).NetworkInterfaceId
	held := w.Address()
	association := awstest.Must[*ec2.AssociateAddressOutput](t)(w.AssociateAddress(ctx,
		&ec2.AssociateAddressInput{AllocationId: held.AllocationId, NetworkInterfaceId: &ni})).AssociationId
	table := *awstest.Must[*ec2.CreateRouteTableOutput](t)(w.CreateRouteTable(ctx,
		&ec2.CreateRouteTableInput{VpcId: &vpc})).RouteTable.RouteTableId
	routed := awstest.Must[*ec2.AssociateRouteTableOutput](t)(w.AssociateRouteTable(ctx,
		&ec2.AssociateRouteTableInput{RouteTableId: &table, SubnetId: &subnet})).AssociationId
	other := *awstest.Must[*ec2.CreateRouteTableOutput](t)(w.CreateRouteTable(ctx,
		&ec2.CreateRouteTableInput{VpcId: &vpc})).RouteTable.RouteTableId
	acls := awstest.Must[*ec2.DescribeNetworkAclsOutput](t)(w.DescribeNetworkAcls(ctx,
		&ec2.DescribeNetworkAclsInput{})).NetworkAcls
	var acl, aclAssociation string
	for _, a := range acls {
		for _, s := range a.Associations {
			if *s.SubnetId == subnet {
				acl, aclAssociation = *a.NetworkAclId, *s.NetworkAclAssociationId
			}
		}
	}
	newACL := *awstest.Must[*ec2.CreateNetworkAclOutput](t)(w.CreateNetworkAcl(ctx,
		&ec2.CreateNetworkAclInput{VpcId: &vpc})).NetworkAcl.NetworkAclId
	block := awstest.Must[*ec2.AssociateVpcCidrBlockOutput](t)(w.AssociateVpcCidrBlock(ctx,
		&ec2.AssociateVpcCidrBlockInput{VpcId: &vpc, CidrBlock: p("10.1.0.0/16")})).CidrBlockAssociation.AssociationId
	machine := runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet})
	instance, primary := *machine.InstanceId, *machine.NetworkInterfaces[0].NetworkInterfaceId

	var defaultVPC string
	for _, v := range awstest.Must[*ec2.DescribeVpcsOutput](t)(w.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})).Vpcs {
		if *v.IsDefault {
			defaultVPC = *v.VpcId
		}
	}

	before := w.Dump()
	for _, test := range []struct {
		name     string
		resource string // its id
		call     func() error
	}{
		{"ingress by group name", group, func() error {
			_, err := w.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupName: p("g"),
				IpProtocol: p("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22), CidrIp: p("0.0.0.0/0")})
			return err
		}},
		{"create a group in the default VPC", defaultVPC, func() error {
			_, err := w.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: p("new"), Description: p("new")})
			return err
		}},
		{"delete a group by name", group, func() error {
			_, err := w.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupName: p("g")})
			return err
		}},
		{"delete a key by id, where the policy names it as AWS does", "k", func() error {
			_, err := w.DeleteKeyPair(ctx, &ec2.DeleteKeyPairInput{KeyPairId: &key})
			return err
		}},
		{"create a key", "other", func() error {
			_, err := w.CreateKeyPair(ctx, &ec2.CreateKeyPairInput{KeyName: p("other")})
			return err
		}},
		{"delete a key by name", "k", func() error {
			_, err := w.DeleteKeyPair(ctx, &ec2.DeleteKeyPairInput{KeyName: p("k")})
			return err
		}},
		{"release an address by itself", *address.AllocationId, func() error {
			_, err := w.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{PublicIp: address.PublicIp})
			return err
		}},
		{"associate an address by itself", *address.AllocationId, func() error {
			_, err := w.AssociateAddress(ctx, &ec2.AssociateAddressInput{PublicIp: address.PublicIp,
				NetworkInterfaceId: &ni, AllowReassociation: aws.Bool(true)})
			return err
		}},
		{"associate an address with the only interface of an instance", primary, func() error {
			_, err := w.AssociateAddress(ctx, &ec2.AssociateAddressInput{
				AllocationId: address.AllocationId, InstanceId: &instance,
			})
			return err
		}},
		{"disassociate an address", *held.AllocationId, func() error {
			_, err := w.DisassociateAddress(ctx, &ec2.DisassociateAddressInput{AssociationId: association})
			return err
		}},
		{"disassociate an address by itself", ni, func() error {
			_, err := w.DisassociateAddress(ctx, &ec2.DisassociateAddressInput{PublicIp: held.PublicIp})
			return err
		}},
		{"disassociate a route table", table, func() error {
			_, err := w.DisassociateRouteTable(ctx, &ec2.DisassociateRouteTableInput{AssociationId: routed})
			return err
		}},
		{"replace the route table of a subnet", subnet, func() error {
			_, err := w.ReplaceRouteTableAssociation(ctx, &ec2.ReplaceRouteTableAssociationInput{AssociationId: routed,
				RouteTableId: &other})
			return err
		}},
		{"replace a network ACL", acl, func() error {
			_, err := w.ReplaceNetworkAclAssociation(ctx,
				&ec2.ReplaceNetworkAclAssociationInput{AssociationId: &aclAssociation, NetworkAclId: &newACL})
			return err
		}},
		{"take a block from a VPC", vpc, func() error {
			_, err := w.DisassociateVpcCidrBlock(ctx, &ec2.DisassociateVpcCidrBlockInput{AssociationId: block})
			return err
		}},
	} {
		w.Mu.Lock()
		w.Deny = func(_ wire.Caller, t wire.Target) bool { return strings.HasSuffix(t.Resource, "/"+test.resource) }
		w.Mu.Unlock()
		if got, _, _ := awstest.Failure(test.call()); got != "UnauthorizedOperation" {
			t.Errorf("%s: %q", test.name, got)
		}
	}
	if w.Dump() != before {
		t.Error("denied requests changed the store")
	}
}

// A request that is sent again with its client token is authorized as the first was: the token opens nothing.
func TestClientTokensDoNotReplacePermission(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx, token := w.Context(), aws.String("token")
	vpc := w.VPC("10.0.0.0/16")
	subnet := w.Subnet(vpc, "10.0.0.0/24", "a")
	template := &types.RequestLaunchTemplateData{ImageId: aws.String(image(t, "x86_64")), InstanceType: "m5.large"}
	for _, test := range []struct {
		action string
		call   func() error
	}{
		{"ec2:CreateNetworkAcl", func() error {
			_, err := w.CreateNetworkAcl(ctx, &ec2.CreateNetworkAclInput{VpcId: &vpc, ClientToken: token})
			return err
		}},
		{"ec2:CreateRouteTable", func() error {
			_, err := w.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: &vpc, ClientToken: token})
			return err
		}},
		{"ec2:CreateEgressOnlyInternetGateway", func() error {
			_, err := w.CreateEgressOnlyInternetGateway(
				ctx, &ec2.CreateEgressOnlyInternetGatewayInput{VpcId: &vpc, ClientToken: token},
			)
			return err
		}},
		{"ec2:CreateNetworkInterface", func() error {
			_, err := w.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
				ClientToken: token})
			return err
		}},
		{"ec2:CreateNatGateway", func() error {
			_, err := w.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{
				SubnetId: &subnet, ConnectivityType: types.ConnectivityTypePrivate, ClientToken: token,
			})
			return err
		}},
		{"ec2:CreateVpcEndpoint", func() error {
			_, err := w.CreateVpcEndpoint(ctx, &ec2.CreateVpcEndpointInput{
				VpcId: &vpc, ServiceName: aws.String("com.amazonaws." + ec2test.Region + ".s3"), ClientToken: token,
			})
			return err
		}},
		{"ec2:CreateLaunchTemplate", func() error {
			_, err := w.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
				LaunchTemplateName: aws.String("nodes"), LaunchTemplateData: template, ClientToken: token,
			})
			return err
		}},
		{"ec2:CreateLaunchTemplateVersion", func() error {
			_, err := w.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
				LaunchTemplateName: aws.String("nodes"), LaunchTemplateData: template, ClientToken: token,
			})
			return err
		}},
		{"ec2:RunInstances", func() error {
			_, err := w.RunInstances(ctx, &ec2.RunInstancesInput{
				ImageId: template.ImageId, InstanceType: template.InstanceType, SubnetId: &subnet,
				MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ClientToken: token,
			})
			return err
		}},
	} {
		deny := func(deny func(wire.Caller, wire.Target) bool) {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			w.Deny = deny
		}
		for range 2 {
			if err := test.call(); err != nil {
				t.Fatalf("%s: %v", test.action, err)
			}
		}
		before := w.Dump()
		deny(func(_ wire.Caller, t wire.Target) bool { return t.Action == test.action })
		if got, _, _ := awstest.Failure(test.call()); got != "UnauthorizedOperation" {
			t.Errorf("%s, sent again by somebody without permission: %q", test.action, got)
		}
		deny(nil)
		if w.Dump() != before {
			t.Errorf("%s changed the store", test.action)
		}
	}
}
