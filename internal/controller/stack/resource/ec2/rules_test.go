package ec2_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/ec2"
)

// rules returns the rules of a group as short texts, sorted.
func (w *fixture) rules(group string) []string {
	w.T.Helper()
	var rules []string
	out := awstest.Must[*ec2sdk.DescribeSecurityGroupRulesOutput](w.T)(w.DescribeSecurityGroupRules(w.Context(),
		&ec2sdk.DescribeSecurityGroupRulesInput{Filters: []types.Filter{ec2test.Filter("group-id", group)}}))
	for _, r := range out.SecurityGroupRules {
		direction := "in"
		if aws.ToBool(r.IsEgress) {
			direction = "out"
		}
		rules = append(rules, strings.TrimSpace(strings.Join([]string{direction, aws.ToString(r.IpProtocol),
			aws.ToString(r.CidrIpv4) + aws.ToString(r.CidrIpv6), aws.ToString(r.Description)}, " ")))
	}
	slices.Sort(rules)
	return rules
}

func TestSecurityGroupsHaveTheirRulesAndLeaveThoseOfOthers(t *testing.T) {
	t.Parallel()
	const kind = "AWS::EC2::SecurityGroup"
	w := newFixture(t)
	w.network()
	r := w.request("Group", `{"VpcId": "$vpc", "GroupDescription": "a group", "SecurityGroupIngress": [
		{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "10.0.0.1/8", "Description": "ssh"},
		{"IpProtocol": "-1", "CidrIpv6": "::/0"}]}`)
	w.create(kind, r)
	want := func(rules ...string) {
		t.Helper()
		if got := w.rules(r.PhysicalID); !slices.Equal(got, rules) {
			t.Errorf("rules %q, want %q", got, rules)
		}
	}
	want("in -1 ::/0", "in tcp 10.0.0.0/8 ssh", "out -1 0.0.0.0/0")

	w.names["group"] = r.PhysicalID
	w.make("rule", "AWS::EC2::SecurityGroupIngress",
		`{"GroupId": "$group", "IpProtocol": "udp", "FromPort": 53, "ToPort": 53, "CidrIp": "10.0.0.0/8"}`)
	update := func(properties string) {
		t.Helper()
		r.Previous, r.Properties, r.Progress = r.Properties, w.expand(properties), nil
		r.PreviousTags = r.Tags
		w.update(kind, r)
	}
	update(`{"VpcId": "$vpc", "GroupDescription": "a group", "SecurityGroupIngress": [
		{"IpProtocol": "6", "FromPort": "22", "ToPort": "22", "CidrIp": "10.0.0.0/8", "Description": "shells"}],
		"SecurityGroupEgress": [{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"}]}`)
	want("in tcp 10.0.0.0/8 shells", "in udp 10.0.0.0/8", "out tcp 0.0.0.0/0")
	update(`{"VpcId": "$vpc", "GroupDescription": "a group"}`)
	want("in udp 10.0.0.0/8", "out -1 0.0.0.0/0")
}

func TestRulesWithoutOrWithTwoPeersAreRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.network()
	w.make("sg", "AWS::EC2::SecurityGroup", `{"VpcId": "$vpc", "GroupDescription": "a group"}`)
	for _, properties := range []string{
		`{"GroupId": "$sg", "IpProtocol": "-1"}`,
		`{"GroupId": "$sg", "IpProtocol": "-1", "CidrIp": "0.0.0.0/0", "CidrIpv6": "::/0"}`,
		`{"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}`,
	} {
		before := w.Dump()
		_, err := ec2.Types["AWS::EC2::SecurityGroupIngress"].Create(t.Context(), w.request("Rule", properties))
		if resource.Classify(err) != resource.InvalidRequest || w.Dump() != before {
			t.Errorf("%s: got %v", properties, err)
		}
	}
}

func TestInterfaceEndpointsHaveNoPrivateNamesUnlessAsked(t *testing.T) {
	t.Parallel()
	const kind = "AWS::EC2::VPCEndpoint"
	w := newFixture(t)
	w.network()
	w.make("sg", "AWS::EC2::SecurityGroup", `{"VpcId": "$vpc", "GroupDescription": "a group"}`)
	r := w.request("Endpoint", `{"VpcId": "$vpc", "ServiceName": "com.amazonaws.eu-west-1.sts",
		"VpcEndpointType": "Interface", "SubnetIds": ["$subnet"], "SecurityGroupIds": ["$sg"]}`)
	w.create(kind, r)
	live := func() map[string]any {
		t.Helper()
		properties, _, err := ec2.Types[kind].Read(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return properties
	}
	wantProperties(t, w.expand(`{"PrivateDnsEnabled": false, "SubnetIds": ["$subnet"], "SecurityGroupIds": ["$sg"]}`),
		live())
	r.Previous, r.PreviousTags, r.Progress = r.Properties, r.Tags, nil
	r.Properties = w.expand(`{"VpcId": "$vpc", "ServiceName": "com.amazonaws.eu-west-1.sts",
		"VpcEndpointType": "Interface", "SubnetIds": ["$other"], "PrivateDnsEnabled": "true", "SecurityGroupIds": ["$sg"]}`)
	w.update(kind, r)
	wantProperties(t, w.expand(`{"PrivateDnsEnabled": true, "SubnetIds": ["$other"], "SecurityGroupIds": ["$sg"]}`),
		live())
	w.delete(kind, r)
}

func TestDeletionsThatOthersAreInTheWayOfAreRetryable(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.network()
	attachGateway(w)
	w.make("ip", "AWS::EC2::EIP", `{"Domain": "vpc"}`)
	w.make("nat", "AWS::EC2::NatGateway", `{"SubnetId": "$subnet", "AllocationId": "$ip.AllocationId"}`)
	for name, kind := range map[string]string{"vpc": "VPC", "subnet": "Subnet", "igw": "InternetGateway", "ip": "EIP",
		"attachment": "VPCGatewayAttachment"} {
		r := w.request(name, `{}`)
		r.PhysicalID = w.names[name]
		if _, err := ec2.Types["AWS::EC2::"+kind].Delete(t.Context(), r); !resource.Retryable(err) {
			t.Errorf("delete %s: %v (%s) is not retryable", kind, err, resource.Classify(err))
		}
	}
}

func TestReplacementsAreAskedForBeforeAnythingChanges(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.network()
	r := w.request("VPC", `{"CidrBlock": "10.9.0.0/16"}`)
	w.create("AWS::EC2::VPC", r)
	r.Previous, r.PreviousTags, r.Progress = r.Properties, r.Tags, nil
	r.Properties = w.expand(`{"CidrBlock": "10.9.0.0/16", "InstanceTenancy": "dedicated", "EnableDnsHostnames": true}`)
	before := w.Dump()
	if _, err := ec2.Types["AWS::EC2::VPC"].Update(t.Context(), r); resource.Classify(err) != resource.NotUpdatable {
		t.Errorf("got %v", err)
	}
	if w.Dump() != before {
		t.Error("something has changed")
	}
}

// A property that is a wildcard finds nothing of others: a stack would have it as its own, and delete it.
func TestWildcardsFindNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.network()
	attachGateway(w)
	w.make("ip", "AWS::EC2::EIP", `{"Domain": "vpc"}`)
	w.make("nic", "AWS::EC2::NetworkInterface", `{"SubnetId": "$subnet"}`)
	w.make("table", "AWS::EC2::RouteTable", `{"VpcId": "$vpc"}`)
	theirs := map[string]string{}
	for kind, properties := range map[string]string{
		"AWS::EC2::EIPAssociation":              `{"AllocationId": "$ip.AllocationId", "NetworkInterfaceId": "$nic"}`,
		"AWS::EC2::SubnetRouteTableAssociation": `{"SubnetId": "$subnet", "RouteTableId": "$table"}`,
	} {
		r := w.request("Theirs", properties)
		theirs[kind] = w.create(kind, r).PhysicalID
	}
	for kind, properties := range map[string]string{
		"AWS::EC2::EIPAssociation":              `{"AllocationId": "*"}`,
		"AWS::EC2::SubnetRouteTableAssociation": `{"SubnetId": "subnet-*", "RouteTableId": "$table"}`,
	} {
		r := w.request("Ours", properties)
		r.Progress, r.Retried = map[string]string{"noted": ""}, true
		if result, err := ec2.Types[kind].Create(w.Context(), r); err == nil || result.PhysicalID != "" {
			t.Errorf("%s: created %s, %v", kind, result.PhysicalID, err)
		}
		w.delete(kind, w.request("Ours", properties))
		found := w.request("Theirs", "{}")
		found.PhysicalID = theirs[kind]
		if _, _, err := ec2.Types[kind].Read(w.Context(), found); err != nil {
			t.Errorf("%s of somebody else: %v", kind, err)
		}
	}
}

// What somebody else has made is not the stack's, whether it was there before the stack looked or came afterwards: a
// rollback deletes nothing of it.
func TestWhatExistsAlreadyIsNotTheStacks(t *testing.T) {
	t.Parallel()
	for kind, properties := range map[string][2]string{ // theirs and ours
		"AWS::EC2::Route": {`{"RouteTableId": "$table", "DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "$gateway"}`,
			`{"RouteTableId": "$table", "DestinationCidrBlock": "0.0.0.0/0", "NetworkInterfaceId": "$nic"}`},
		"AWS::EC2::NetworkAclEntry": {
			`{"NetworkAclId": "$acl", "RuleNumber": 7, "Protocol": -1, "RuleAction": "deny", "CidrBlock": "10.0.0.0/8"}`,
			`{"NetworkAclId": "$acl", "RuleNumber": 7, "Protocol": -1, "RuleAction": "allow", "CidrBlock": "10.0.0.0/8"}`},
		"AWS::EC2::VPCGatewayAttachment": {`{"VpcId": "$vpc", "InternetGatewayId": "$gateway"}`,
			`{"VpcId": "$vpc", "InternetGatewayId": "$other"}`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.network()
			w.make("gateway", "AWS::EC2::InternetGateway", `{}`)
			w.make("other", "AWS::EC2::InternetGateway", `{}`)
			w.make("nic", "AWS::EC2::NetworkInterface", `{"SubnetId": "$subnet"}`)
			w.make("table", "AWS::EC2::RouteTable", `{"VpcId": "$vpc"}`)
			w.make("acl", "AWS::EC2::NetworkAcl", `{"VpcId": "$vpc"}`)
			if kind == "AWS::EC2::Route" {
				w.make("attachment", "AWS::EC2::VPCGatewayAttachment", `{"VpcId": "$vpc", "InternetGatewayId": "$gateway"}`)
			}
			handler := ec2.Types[kind]
			later := w.request("Ours", properties[1])
			claimed, err := handler.Create(w.Context(), later)
			if err != nil || claimed.Pending == 0 {
				t.Fatalf("the claim: %+v, %v", claimed, err)
			}
			w.create(kind, w.request("Theirs", properties[0]))
			before := w.Dump()
			for _, text := range properties {
				for _, retried := range []bool{false, true} {
					r := w.request("Ours", text)
					r.Retried = retried
					result, err := handler.Create(w.Context(), r)
					if resource.Classify(err) != resource.AlreadyExists || result.PhysicalID != "" {
						t.Errorf("after theirs: got %+v, %v", result, err)
					}
					w.delete(kind, w.request("Ours", text))
				}
			}
			later.PhysicalID, later.Progress, later.Retried = claimed.PhysicalID, claimed.Progress, true
			result, err := handler.Create(w.Context(), later)
			if !errors.Is(err, resource.ErrNothingMade) || result.PhysicalID != "" {
				t.Errorf("theirs after the claim: got %+v, %v", result, err)
			}
			if w.Dump() != before {
				t.Error("something has changed")
			}
		})
	}
}

// What is as the stack wants it, but was there before, stays as it is when the creation of the stack's own fails or is
// given up.
func TestWhatWasThereBeforeIsNotTheStacks(t *testing.T) {
	t.Parallel()
	for kind, properties := range map[string]string{
		"AWS::EC2::NetworkInterfaceAttachment":  `{"InstanceId": "$instance", "NetworkInterfaceId": "$nic", "DeviceIndex": "1"}`,
		"AWS::EC2::SecurityGroupIngress":        `{"GroupId": "$group", "IpProtocol": "tcp", "FromPort": 1, "ToPort": 2, "CidrIp": "10.0.0.0/8"}`,
		"AWS::EC2::SubnetRouteTableAssociation": `{"SubnetId": "$subnet", "RouteTableId": "$table"}`,
		"AWS::EC2::SubnetNetworkAclAssociation": `{"SubnetId": "$subnet", "NetworkAclId": "$acl"}`,
		"AWS::EC2::EIPAssociation":              `{"AllocationId": "$address.AllocationId", "InstanceId": "$instance"}`,
		"AWS::EC2::VPCDHCPOptionsAssociation":   `{"VpcId": "$vpc", "DhcpOptionsId": "$options"}`,
		"AWS::EC2::VPCCidrBlock":                `{"VpcId": "$vpc", "AmazonProvidedIpv6CidrBlock": true}`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.network()
			w.make("attachment", "AWS::EC2::VPCGatewayAttachment", `{"VpcId": "$vpc", "InternetGatewayId": "$igw"}`)
			w.make("nic", "AWS::EC2::NetworkInterface", `{"SubnetId": "$subnet"}`)
			w.makeInstance()
			w.make("group", "AWS::EC2::SecurityGroup", `{"VpcId": "$vpc", "GroupDescription": "rules"}`)
			w.make("acl", "AWS::EC2::NetworkAcl", `{"VpcId": "$vpc"}`)
			w.make("address", "AWS::EC2::EIP", `{"Domain": "vpc"}`)
			w.make("options", "AWS::EC2::DHCPOptions", `{"DomainName": "example.com"}`)
			handler, theirs := ec2.Types[kind], w.request("Theirs", properties)
			w.create(kind, theirs)
			ours := w.request("Ours", properties)
			noted, err := handler.Create(w.Context(), ours)
			if err != nil || noted.Pending == 0 || noted.PhysicalID != "" {
				t.Fatalf("what was there before: %+v, %v", noted, err)
			}
			// The creation is cut off before anything is made, or given up.
			for _, creation := range []map[string]string{nil, noted.Progress} {
				ours.Creation = creation
				w.delete(kind, ours)
				if _, _, err := handler.Read(w.Context(), theirs); err != nil {
					t.Fatalf("it was deleted after %v: %v", creation, err)
				}
			}
			ours.Progress, ours.Retried = noted.Progress, true
			if result, err := handler.Create(w.Context(), ours); err != nil && result.PhysicalID != "" {
				t.Errorf("a creation that failed names %s: %v", result.PhysicalID, err)
			}
			replaced := kind == "AWS::EC2::SubnetNetworkAclAssociation" // a new one each time, as on AWS
			if _, _, err := handler.Read(w.Context(), theirs); err != nil && !replaced {
				t.Errorf("it is gone after a creation: %v", err)
			}
		})
	}
}
