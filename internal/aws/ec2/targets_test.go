package ec2_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

const arn = "arn:aws:ec2:eu-west-1:111122223333:"

func TestTargets(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	awstest.Must[*ec2.CreateTagsOutput](t)(w.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{vpc},
		Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}))
	awstest.Must[*ec2.CreateSubnetOutput](t)(w.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &vpc,
		CidrBlock: aws.String("10.0.0.0/24"), TagSpecifications: []types.TagSpecification{
			{ResourceType: types.ResourceTypeSubnet,
				Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("x")}}},
		}}))
	find := func(action, resource string) wire.Target {
		t.Helper()
		all := w.Targets(action)
		i := slices.IndexFunc(all, func(t wire.Target) bool { return t.Resource == resource })
		if i < 0 {
			t.Fatalf("nobody was asked about %s on %s, but about %+v", action, resource, all)
		}
		return all[i]
	}
	has := func(target wire.Target, key string, want ...string) {
		t.Helper()
		if got := target.Conditions[key]; !slices.Equal(got, want) {
			t.Errorf("%s on %s: %s is %q, want %q", target.Action, target.Resource, key, got, want)
		}
	}
	inVPC := find("ec2:CreateSubnet", arn+"vpc/"+vpc)
	has(inVPC, "aws:ResourceTag/team", "a")
	has(inVPC, "ec2:Vpc", arn+"vpc/"+vpc)
	fresh := find("ec2:CreateSubnet", arn+"subnet/*")
	has(fresh, "aws:RequestTag/Name", "x")
	has(fresh, "aws:TagKeys", "Name")
	has(fresh, "ec2:Vpc", arn+"vpc/"+vpc)
	has(fresh, "ec2:Region", "eu-west-1")
	tagging := find("ec2:CreateTags", arn+"subnet/*")
	has(tagging, "ec2:CreateAction", "CreateSubnet")
	has(tagging, "aws:RequestTag/Name", "x")
	has(find("ec2:CreateTags", arn+"vpc/"+vpc), "aws:RequestTag/team", "a")

	awstest.Must[*ec2.DescribeVpcsOutput](t)(w.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{}))
	find("ec2:DescribeVpcs", "*")
	igw := w.InternetGateway(vpc)
	find("ec2:AttachInternetGateway", arn+"internet-gateway/"+igw)
	find("ec2:AttachInternetGateway", arn+"vpc/"+vpc)
}

func TestDeniedRequestChangesNothing(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	vpc := w.VPC("10.0.0.0/16")
	before := w.Dump()
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "ec2:CreateTags" }
	_, err := w.CreateSubnet(w.Context(), &ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: aws.String("10.0.0.0/24"),
		TagSpecifications: []types.TagSpecification{
			{ResourceType: types.ResourceTypeSubnet,
				Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("x")}}},
		}})
	awstest.WantCode(t, err, "UnauthorizedOperation")
	if w.Dump() != before {
		t.Error("a denied request changed the store")
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	subnet := w.Subnet(vpc, "10.0.0.0/24", "a")
	of := func(id string) map[string]string {
		all := map[string]string{}
		for _, d := range awstest.Must[*ec2.DescribeTagsOutput](t)(w.DescribeTags(ctx,
			&ec2.DescribeTagsInput{Filters: []types.Filter{ec2test.Filter("resource-id", id)}})).Tags {
			all[*d.Key] = *d.Value
		}
		return all
	}
	key := func(k string, v *string) types.Tag { return types.Tag{Key: &k, Value: v} }
	awstest.Must[*ec2.CreateTagsOutput](t)(w.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{vpc, subnet},
		Tags: []types.Tag{key("a", aws.String("1")), key("b", aws.String("2")), key("c", aws.String(""))}}))
	awstest.Must[*ec2.CreateTagsOutput](t)(w.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{vpc},
		Tags: []types.Tag{key("a", aws.String("3"))}}))
	if got := of(vpc); len(got) != 3 || got["a"] != "3" {
		t.Errorf("tags %v", got)
	}
	awstest.Must[*ec2.DeleteTagsOutput](t)(w.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{vpc, subnet},
		Tags: []types.Tag{key("a", aws.String("1")), key("b", nil)}}))
	if v, s := of(vpc), of(subnet); len(v) != 2 || len(s) != 1 {
		t.Errorf("tags left: %v and %v; only the value 1 of a was to go", v, s)
	}
	awstest.Must[*ec2.DeleteTagsOutput](t)(w.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{vpc}}))
	asked := w.Targets("ec2:DeleteTags")
	if keys := asked[len(asked)-1].Conditions["aws:TagKeys"]; !slices.Equal(keys, []string{"a", "c"}) {
		t.Errorf("asked about the keys %v, not about all that were deleted", keys)
	}
	if got := of(vpc); len(got) != 0 {
		t.Errorf("tags left: %v", got)
	}
	awstest.Must[*ec2.DeleteSubnetOutput](t)(w.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &subnet}))
	if got := of(subnet); len(got) != 0 {
		t.Errorf("a deleted subnet has tags: %v", got)
	}
}

// A call may tag more resources than fit into one transaction of etcd.
func TestTagsOfManyResources(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	var ids []string
	for range 15 {
		for _, r := range awstest.Must[*ec2.AuthorizeSecurityGroupIngressOutput](t)(
			w.AuthorizeSecurityGroupIngress(w.Context(),
				&ec2.AuthorizeSecurityGroupIngressInput{
					GroupId: aws.String(w.SecurityGroup(w.VPC("10.0.0.0/16"), "web")),
					IpPermissions: []types.IpPermission{{IpProtocol: aws.String("-1"), IpRanges: []types.IpRange{
						{CidrIp: aws.String("10.0.0.0/8")}, {CidrIp: aws.String("11.0.0.0/8")},
						{CidrIp: aws.String("12.0.0.0/8")}, {CidrIp: aws.String("13.0.0.0/8")},
						{CidrIp: aws.String("14.0.0.0/8")}, {CidrIp: aws.String("15.0.0.0/8")},
						{CidrIp: aws.String("16.0.0.0/8")}, {CidrIp: aws.String("17.0.0.0/8")},
						{CidrIp: aws.String("18.0.0.0/8")}, {CidrIp: aws.String("19.0.0.0/8")},
					}}},
				})).SecurityGroupRules {
			ids = append(ids, *r.SecurityGroupRuleId)
		}
	}
	team := []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}
	_, err := w.CreateTags(w.Context(), &ec2.CreateTagsInput{Resources: append(slices.Clone(ids), "sgr-fffffffffffffffff"),
		Tags: team})
	awstest.WantCode(t, err, "InvalidSecurityGroupRuleId.NotFound")
	tagged := func() int {
		return len(awstest.Must[*ec2.DescribeTagsOutput](t)(w.DescribeTags(w.Context(), &ec2.DescribeTagsInput{})).Tags)
	}
	if n := tagged(); n != 0 {
		t.Errorf("%d resources were tagged by a call that failed", n)
	}
	awstest.Must[*ec2.CreateTagsOutput](t)(w.CreateTags(w.Context(), &ec2.CreateTagsInput{Resources: ids, Tags: team}))
	if n := tagged(); n != len(ids) {
		t.Errorf("%d of %d resources were tagged", n, len(ids))
	}
}

func TestRegionsAndZones(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	open := awstest.Must[*ec2.DescribeRegionsOutput](t)(w.DescribeRegions(ctx, &ec2.DescribeRegionsInput{})).Regions
	all := awstest.Must[*ec2.DescribeRegionsOutput](t)(w.DescribeRegions(ctx,
		&ec2.DescribeRegionsInput{AllRegions: aws.Bool(true)})).Regions
	if len(open) != 17 || len(all) != 34 {
		t.Errorf("%d regions open to all of %d, want 17 of 34", len(open), len(all))
	}
	for region, want := range map[string]string{"us-east-1": "use1-az1", "eu-west-1": "euw1-az1",
		"ap-northeast-1": "apne1-az4", "ap-southeast-2": "apse2-az1", "mx-central-1": "mxc1-az1"} {
		zones := awstest.Must[*ec2.DescribeAvailabilityZonesOutput](t)(
			w.NewClient(w.URL, region).DescribeAvailabilityZones(ctx,
				&ec2.DescribeAvailabilityZonesInput{}),
		).AvailabilityZones
		if len(zones) < 3 || *zones[0].ZoneName != region+"a" || *zones[0].ZoneId != want ||
			zones[0].State != types.AvailabilityZoneStateAvailable {
			t.Errorf("zones of %s: %+v", region, zones)
		}
	}
	_, err := w.NewClient(w.URL, "mars-1").DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
	awstest.WantCode(t, err, "AuthFailure")
}
