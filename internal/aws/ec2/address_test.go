package ec2_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// An account has half of the public addresses at most, in all regions; those of others do not count.
func TestPublicAddressesOfAnAccount(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	// 256, without those of the hosts of machines
	w.Service.NetworkInterfaces.PublicRange = netip.MustParsePrefix("198.18.0.0/23")
	addresses := record.PublicIPs(w.Store)
	for account, many := range map[string]int{ec2test.Account: 127, "444455556666": 100} {
		var ops []store.Op
		for i := range many {
			ops = append(ops, addresses.CreateOp(store.Key(fmt.Sprintf("%s-%d", account, i)),
				record.PublicIP{Account: account, Region: "us-west-2", OwnerID: "eipalloc-1"}))
		}
		if err := w.Store.Txn(w.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	awstest.Must[*ec2.AllocateAddressOutput](t)(w.AllocateAddress(w.Context(), &ec2.AllocateAddressInput{}))
	_, err := w.AllocateAddress(w.Context(), &ec2.AllocateAddressInput{})
	awstest.WantCode(t, err, "InsufficientAddressCapacity")
}

// What a service does with an address that it was given, here a NAT gateway, goes on: nobody takes it away.
func TestAddressesOfServicesAreNotTaken(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	w.InternetGateway(vpc)
	subnet := w.Subnet(vpc, "10.0.0.0/24", "a")
	address := w.Address()
	awstest.Must[*ec2.CreateNatGatewayOutput](t)(w.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{SubnetId: &subnet,
		AllocationId: address.AllocationId}))
	mine := w.NetworkInterface(subnet).NetworkInterfaceId
	_, err := w.AssociateAddress(ctx, &ec2.AssociateAddressInput{AllocationId: address.AllocationId,
		NetworkInterfaceId: mine, AllowReassociation: aws.Bool(true)})
	awstest.WantCode(t, err, "AuthFailure")
}

// Rules are described by their IDs in no other words than by what they allow.
func TestDescriptionsOfRulesAreChecked(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	group := awstest.Must[*ec2.CreateSecurityGroupOutput](t)(w.CreateSecurityGroup(ctx,
		&ec2.CreateSecurityGroupInput{GroupName: aws.String("g"), Description: aws.String("g")})).GroupId
	rules := awstest.Must[*ec2.DescribeSecurityGroupRulesOutput](t)(w.DescribeSecurityGroupRules(ctx,
		&ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{ec2test.Filter("group-id", *group)}}))
	for _, text := range []string{strings.Repeat("x", 256), "\x1b[2J"} {
		_, err := w.UpdateSecurityGroupRuleDescriptionsEgress(ctx, &ec2.UpdateSecurityGroupRuleDescriptionsEgressInput{
			GroupId: group, SecurityGroupRuleDescriptions: []types.SecurityGroupRuleDescription{{Description: &text,
				SecurityGroupRuleId: rules.SecurityGroupRules[0].SecurityGroupRuleId}}})
		awstest.WantCode(t, err, "InvalidParameterValue")
	}
}
