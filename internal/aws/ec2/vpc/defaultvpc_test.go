package vpc_test

import (
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

func TestDefaultVPCIsMadeOnceAtFirstUse(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	clients := []*ec2.Client{w.Client, w.NewClient(w.Daemon(), ec2test.Region)}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := clients[i%2].DescribeVpcs(w.Context(), &ec2.DescribeVpcsInput{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	vpcs := awstest.Must[*ec2.DescribeVpcsOutput](t)(w.DescribeVpcs(w.Context(),
		&ec2.DescribeVpcsInput{Filters: []types.Filter{ec2test.Filter("is-default", "true")}})).Vpcs
	if len(vpcs) != 1 {
		t.Fatalf("%d default VPCs after eight calls at once, want 1", len(vpcs))
	}
	v := vpcs[0]
	ec2test.WantID(t, v.VpcId, "vpc-")
	if *v.CidrBlock != "172.31.0.0/16" || *v.OwnerId != ec2test.Account || v.State != types.VpcStateAvailable ||
		len(v.CidrBlockAssociationSet) != 1 {
		t.Errorf("default VPC: %+v", v)
	}
	inVPC := []types.Filter{ec2test.Filter("vpc-id", *v.VpcId)}

	subnets := awstest.Must[*ec2.DescribeSubnetsOutput](t)(w.DescribeSubnets(w.Context(),
		&ec2.DescribeSubnetsInput{Filters: append(inVPC, ec2test.Filter("default-for-az", "true"))})).Subnets
	zones := map[string]string{}
	for _, s := range subnets {
		ec2test.WantID(t, s.SubnetId, "subnet-")
		zones[*s.AvailabilityZone+" "+*s.AvailabilityZoneId] = *s.CidrBlock
		if *s.AvailableIpAddressCount != 4091 || !*s.MapPublicIpOnLaunch {
			t.Errorf("default subnet: %d free addresses, public %v", *s.AvailableIpAddressCount, *s.MapPublicIpOnLaunch)
		}
		if want := "arn:aws:ec2:eu-west-1:111122223333:subnet/" + *s.SubnetId; *s.SubnetArn != want {
			t.Errorf("ARN %s, want %s", *s.SubnetArn, want)
		}
	}
	for zone, cidr := range map[string]string{"eu-west-1a euw1-az1": "172.31.0.0/20",
		"eu-west-1b euw1-az2": "172.31.16.0/20", "eu-west-1c euw1-az3": "172.31.32.0/20"} {
		if zones[zone] != cidr {
			t.Errorf("zone %s has the subnet %s, want %s", zone, zones[zone], cidr)
		}
	}

	tables := awstest.Must[*ec2.DescribeRouteTablesOutput](t)(w.DescribeRouteTables(w.Context(),
		&ec2.DescribeRouteTablesInput{Filters: append(inVPC, ec2test.Filter("association.main", "true"))})).RouteTables
	if len(tables) != 1 || len(tables[0].Routes) != 2 || *tables[0].Routes[0].GatewayId != "local" ||
		tables[0].Routes[1].State != types.RouteStateActive {
		t.Errorf("main route table: %+v", tables)
	}
	gateways := awstest.Must[*ec2.DescribeInternetGatewaysOutput](t)(w.DescribeInternetGateways(w.Context(),
		&ec2.DescribeInternetGatewaysInput{Filters: []types.Filter{ec2test.Filter("attachment.vpc-id",
			*v.VpcId)}})).InternetGateways
	if len(gateways) != 1 || *gateways[0].InternetGatewayId != *tables[0].Routes[1].GatewayId {
		t.Errorf("internet gateways: %+v", gateways)
	}
	acls := awstest.Must[*ec2.DescribeNetworkAclsOutput](t)(w.DescribeNetworkAcls(w.Context(),
		&ec2.DescribeNetworkAclsInput{Filters: append(inVPC, ec2test.Filter("default", "true"))})).NetworkAcls
	if len(acls) != 1 || len(acls[0].Associations) != 3 || len(acls[0].Entries) != 4 {
		t.Errorf("default network ACL: %+v", acls)
	}
	groups := awstest.Must[*ec2.DescribeSecurityGroupsOutput](t)(w.DescribeSecurityGroups(w.Context(),
		&ec2.DescribeSecurityGroupsInput{Filters: append(inVPC, ec2test.Filter("group-name", "default"))})).SecurityGroups
	if len(groups) != 1 || *groups[0].IpPermissions[0].UserIdGroupPairs[0].GroupId != *groups[0].GroupId ||
		*groups[0].IpPermissionsEgress[0].IpRanges[0].CidrIp != "0.0.0.0/0" {
		t.Errorf("default security group: %+v", groups)
	}
	options := awstest.Must[*ec2.DescribeDhcpOptionsOutput](t)(w.DescribeDhcpOptions(w.Context(),
		&ec2.DescribeDhcpOptionsInput{DhcpOptionsIds: []string{*v.DhcpOptionsId}})).DhcpOptions
	if len(options) != 1 || *options[0].DhcpConfigurations[0].Values[0].Value != "eu-west-1.compute.internal" {
		t.Errorf("DHCP options: %+v", options)
	}

	other := awstest.Must[*ec2.DescribeVpcsOutput](t)(w.NewClient(w.URL, "us-east-1").DescribeVpcs(w.Context(),
		&ec2.DescribeVpcsInput{})).Vpcs
	if len(other) != 1 || *other[0].VpcId == *v.VpcId {
		t.Errorf("VPCs of another region: %+v", other)
	}
}

func TestDeletedDefaultVPCComesBackOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	_, err := w.CreateDefaultVpc(w.Context(), &ec2.CreateDefaultVpcInput{})
	awstest.WantCode(t, err, "DefaultVpcAlreadyExists")

	id := awstest.Must[*ec2.DescribeVpcsOutput](t)(w.DescribeVpcs(w.Context(), &ec2.DescribeVpcsInput{})).Vpcs[0].VpcId
	subnets := awstest.Must[*ec2.DescribeSubnetsOutput](t)(
		w.DescribeSubnets(w.Context(), &ec2.DescribeSubnetsInput{}),
	).Subnets
	_, err = w.CreateDefaultSubnet(w.Context(),
		&ec2.CreateDefaultSubnetInput{AvailabilityZone: subnets[0].AvailabilityZone})
	awstest.WantCode(t, err, "DefaultSubnetAlreadyExistsInAvailabilityZone")
	awstest.Must[*ec2.DeleteSubnetOutput](t)(
		w.DeleteSubnet(w.Context(), &ec2.DeleteSubnetInput{SubnetId: subnets[0].SubnetId}),
	)
	made := awstest.Must[*ec2.CreateDefaultSubnetOutput](t)(w.CreateDefaultSubnet(w.Context(),
		&ec2.CreateDefaultSubnetInput{AvailabilityZone: subnets[0].AvailabilityZone})).Subnet
	if *made.CidrBlock != *subnets[0].CidrBlock || !*made.DefaultForAz {
		t.Errorf("the new default subnet is %s, want the free %s", *made.CidrBlock, *subnets[0].CidrBlock)
	}

	for _, s := range awstest.Must[*ec2.DescribeSubnetsOutput](t)(w.DescribeSubnets(w.Context(),
		&ec2.DescribeSubnetsInput{})).Subnets {
		awstest.Must[*ec2.DeleteSubnetOutput](t)(w.DeleteSubnet(w.Context(), &ec2.DeleteSubnetInput{SubnetId: s.SubnetId}))
	}
	_, err = w.DeleteVpc(w.Context(), &ec2.DeleteVpcInput{VpcId: id})
	awstest.WantCode(t, err, "DependencyViolation")
	gateway := awstest.Must[*ec2.DescribeInternetGatewaysOutput](t)(w.DescribeInternetGateways(w.Context(),
		&ec2.DescribeInternetGatewaysInput{})).InternetGateways[0].InternetGatewayId
	awstest.Must[*ec2.DetachInternetGatewayOutput](t)(w.DetachInternetGateway(w.Context(),
		&ec2.DetachInternetGatewayInput{InternetGatewayId: gateway, VpcId: id}))
	awstest.Must[*ec2.DeleteVpcOutput](t)(w.DeleteVpc(w.Context(), &ec2.DeleteVpcInput{VpcId: id}))

	if left := awstest.Must[*ec2.DescribeVpcsOutput](t)(w.DescribeVpcs(w.Context(), &ec2.DescribeVpcsInput{})).Vpcs; len(
		left) != 0 {
		t.Errorf("%d VPCs after the default one was deleted", len(left))
	}
	for what, n := range map[string]int{
		"security groups": len(awstest.Must[*ec2.DescribeSecurityGroupsOutput](t)(w.DescribeSecurityGroups(w.Context(),
			&ec2.DescribeSecurityGroupsInput{})).SecurityGroups),
		"route tables": len(awstest.Must[*ec2.DescribeRouteTablesOutput](t)(w.DescribeRouteTables(w.Context(),
			&ec2.DescribeRouteTablesInput{})).RouteTables),
		"network ACLs": len(awstest.Must[*ec2.DescribeNetworkAclsOutput](t)(w.DescribeNetworkAcls(w.Context(),
			&ec2.DescribeNetworkAclsInput{})).NetworkAcls),
	} {
		if n != 0 {
			t.Errorf("%d %s are left of a deleted VPC", n, what)
		}
	}
	for _, o := range awstest.Must[*ec2.DescribeDhcpOptionsOutput](t)(w.DescribeDhcpOptions(w.Context(),
		&ec2.DescribeDhcpOptionsInput{})).DhcpOptions {
		awstest.Must[*ec2.DeleteDhcpOptionsOutput](t)(w.DeleteDhcpOptions(w.Context(),
			&ec2.DeleteDhcpOptionsInput{DhcpOptionsId: o.DhcpOptionsId}))
	}
	again := awstest.Must[*ec2.CreateDefaultVpcOutput](t)(
		w.CreateDefaultVpc(w.Context(), &ec2.CreateDefaultVpcInput{}),
	).Vpc
	if !aws.ToBool(again.IsDefault) || *again.VpcId == *id || *again.DhcpOptionsId != "default" {
		t.Errorf("the new default VPC: %+v", again)
	}
}
