package ec2_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// What a policy denies on a resource is denied however the request names the resource.
func TestDeniedByWhateverName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, p := w.ctx(), aws.String
	group := *must[*ec2.CreateSecurityGroupOutput](t)(w.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: p("g"), Description: p("g")})).GroupId
	key := *must[*ec2.CreateKeyPairOutput](t)(w.CreateKeyPair(ctx, &ec2.CreateKeyPairInput{KeyName: p("k")})).KeyPairId
	address := w.address()
	vpc := w.vpc("10.0.0.0/16")
	w.internet(vpc)
	subnet := w.subnet(vpc, "10.0.0.0/24", "a")
	ni := *w.networkInterface(subnet).NetworkInterfaceId
	held := w.address()
	association := must[*ec2.AssociateAddressOutput](t)(w.AssociateAddress(ctx, &ec2.AssociateAddressInput{AllocationId: held.AllocationId, NetworkInterfaceId: &ni})).AssociationId
	table := *must[*ec2.CreateRouteTableOutput](t)(w.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: &vpc})).RouteTable.RouteTableId
	routed := must[*ec2.AssociateRouteTableOutput](t)(w.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{RouteTableId: &table, SubnetId: &subnet})).AssociationId
	other := *must[*ec2.CreateRouteTableOutput](t)(w.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: &vpc})).RouteTable.RouteTableId
	acls := must[*ec2.DescribeNetworkAclsOutput](t)(w.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{})).NetworkAcls
	var acl, aclAssociation string
	for _, a := range acls {
		for _, s := range a.Associations {
			if *s.SubnetId == subnet {
				acl, aclAssociation = *a.NetworkAclId, *s.NetworkAclAssociationId
			}
		}
	}
	newACL := *must[*ec2.CreateNetworkAclOutput](t)(w.CreateNetworkAcl(ctx, &ec2.CreateNetworkAclInput{VpcId: &vpc})).NetworkAcl.NetworkAclId
	block := must[*ec2.AssociateVpcCidrBlockOutput](t)(w.AssociateVpcCidrBlock(ctx, &ec2.AssociateVpcCidrBlockInput{VpcId: &vpc, CidrBlock: p("10.1.0.0/16")})).CidrBlockAssociation.AssociationId

	before := w.dump()
	for _, test := range []struct {
		name     string
		resource string // its id
		call     func() error
	}{
		{"ingress by group name", group, func() error {
			_, err := w.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupName: p("g"), IpProtocol: p("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22), CidrIp: p("0.0.0.0/0")})
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
			_, err := w.AssociateAddress(ctx, &ec2.AssociateAddressInput{PublicIp: address.PublicIp, NetworkInterfaceId: &ni, AllowReassociation: aws.Bool(true)})
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
			_, err := w.ReplaceRouteTableAssociation(ctx, &ec2.ReplaceRouteTableAssociationInput{AssociationId: routed, RouteTableId: &other})
			return err
		}},
		{"replace a network ACL", acl, func() error {
			_, err := w.ReplaceNetworkAclAssociation(ctx, &ec2.ReplaceNetworkAclAssociationInput{AssociationId: &aclAssociation, NetworkAclId: &newACL})
			return err
		}},
		{"take a block from a VPC", vpc, func() error {
			_, err := w.DisassociateVpcCidrBlock(ctx, &ec2.DisassociateVpcCidrBlockInput{AssociationId: block})
			return err
		}},
	} {
		w.mu.Lock()
		w.deny = func(t wire.Target) bool { return strings.HasSuffix(t.Resource, "/"+test.resource) }
		w.mu.Unlock()
		if got, _, _ := code(test.call()); got != "UnauthorizedOperation" {
			t.Errorf("%s: %q", test.name, got)
		}
	}
	if w.dump() != before {
		t.Error("denied requests changed the store")
	}
}
