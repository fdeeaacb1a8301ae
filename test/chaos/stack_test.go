package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// network is the template of a stack with resources of five services. Another number replaces the subnet and the
// security group, and what is in them.
func network(number, days int, more string) string {
	const nested = `data:,{"Resources":{"Inner":{"Type":"AWS::Logs::LogGroup"}}}`
	return fmt.Sprintf(`{"Resources":{
		"Vpc":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":"10.0.0.0/16"}},
		"Gateway":{"Type":"AWS::EC2::InternetGateway"},
		"Attachment":{"Type":"AWS::EC2::VPCGatewayAttachment","Properties":{"VpcId":{"Ref":"Vpc"},
			"InternetGatewayId":{"Ref":"Gateway"}}},
		"Table":{"Type":"AWS::EC2::RouteTable","Properties":{"VpcId":{"Ref":"Vpc"}}},
		"Route":{"Type":"AWS::EC2::Route","DependsOn":"Attachment","Properties":{"RouteTableId":{"Ref":"Table"},
			"DestinationCidrBlock":"0.0.0.0/0","GatewayId":{"Ref":"Gateway"}}},
		"Subnet":{"Type":"AWS::EC2::Subnet","Properties":{"VpcId":{"Ref":"Vpc"},"CidrBlock":"10.0.%[1]d.0/24"}},
		"Association":{"Type":"AWS::EC2::SubnetRouteTableAssociation","Properties":{"SubnetId":{"Ref":"Subnet"},
			"RouteTableId":{"Ref":"Table"}}},
		"Address":{"Type":"AWS::EC2::EIP","DependsOn":"Attachment","Properties":{"Domain":"vpc"}},
		"Nat":{"Type":"AWS::EC2::NatGateway","Properties":{"SubnetId":{"Ref":"Subnet"},"ConnectivityType":"private"}},
		"Nodes":{"Type":"AWS::EC2::SecurityGroup","Properties":{"VpcId":{"Ref":"Vpc"},
			"GroupDescription":"nodes %[1]d"}},
		"Rule":{"Type":"AWS::EC2::SecurityGroupIngress","Properties":{"GroupId":{"Ref":"Nodes"},"IpProtocol":"-1",
			"SourceSecurityGroupId":{"Ref":"Nodes"}}},
		"Role":{"Type":"AWS::IAM::Role","Properties":{"AssumeRolePolicyDocument":{"Version":"2012-10-17","Statement":[{
			"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}}},
		"Profile":{"Type":"AWS::IAM::InstanceProfile","Properties":{"Roles":[{"Ref":"Role"}]}},
		"Parameter":{"Type":"AWS::SSM::Parameter","Properties":{"Type":"String","Value":{"Ref":"Nat"}}},
		"Nested":{"Type":"AWS::CloudFormation::Stack","Properties":{"TemplateURL":%[4]q}},
		"Logs":{"Type":"AWS::Logs::LogGroup","DependsOn":"Nat","Properties":{"RetentionInDays":%[2]d}}%[3]s}}`,
		number, days, more, nested)
}

// mortalStack is a stack of a daemon that dies at every point of the engine of stacks.
type mortalStack struct {
	*phoenix
	stacks *cloudformation.Client
	id     string
	died   map[string]bool
}

// operate asks for an operation and waits for the status of the stack, while the daemon dies at each point that it
// comes to.
func (m *mortalStack) operate(what string, want types.StackStatus,
	call func(ctx context.Context, token *string) error) {
	m.t.Helper()
	m.Kill()
	m.points = slices.DeleteFunc(crash.Points(), func(p string) bool { return !strings.HasPrefix(p, "stack/") })
	m.start()
	before := len(m.visited)
	m.do(what, func(ctx context.Context) error { return call(ctx, aws.String("token-"+what)) },
		func(error) bool { return false })
	eventually.Nil(m.t, fmt.Sprintf("%s: the stack becomes %s", what, want), func() error {
		m.revive()
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
		defer cancel()
		out, err := m.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &m.id})
		if err != nil {
			return err
		}
		s := out.Stacks[0]
		if s.StackStatus == want {
			return nil
		}
		err = fmt.Errorf("it is %s: %s", s.StackStatus, aws.ToString(s.StackStatusReason))
		if !strings.HasSuffix(string(s.StackStatus), "_IN_PROGRESS") {
			return eventually.Never(errors.Join(err, m.failures()))
		}
		return err
	})
	m.t.Logf("%s: died at %v", what, m.visited[before:])
	for _, point := range m.visited[before:] {
		m.died[point] = true
	}
	m.points = nil
	m.Kill()
	m.start()
}

// failures returns the events of the stack that tell of failures.
func (m *mortalStack) failures() error {
	out, err := m.stacks.DescribeStackEvents(context.Background(), &cloudformation.DescribeStackEventsInput{
		StackName: &m.id})
	if err != nil {
		return err
	}
	var all []error
	for _, e := range out.StackEvents {
		if strings.HasSuffix(string(e.ResourceStatus), "_FAILED") {
			all = append(all, fmt.Errorf("%s: %s", *e.LogicalResourceId, aws.ToString(e.ResourceStatusReason)))
		}
	}
	return errors.Join(all...)
}

// counts returns how many resources of each kind there are, those of the default VPC included.
func (m *mortalStack) counts() map[string]int {
	m.t.Helper()
	ctx, config := m.t.Context(), m.Config()
	network, all := ec2.NewFromConfig(config), map[string]int{}
	vpcs := must(m.t, network.DescribeVpcs, ctx, &ec2.DescribeVpcsInput{})
	all["vpc"] = len(vpcs.Vpcs)
	all["gateway"] = len(must(m.t, network.DescribeInternetGateways, ctx,
		&ec2.DescribeInternetGatewaysInput{}).InternetGateways)
	all["subnet"] = len(must(m.t, network.DescribeSubnets, ctx, &ec2.DescribeSubnetsInput{}).Subnets)
	for _, table := range must(m.t, network.DescribeRouteTables, ctx, &ec2.DescribeRouteTablesInput{}).RouteTables {
		all["table"]++
		all["route"] += len(table.Routes)
		all["association"] += len(table.Associations)
	}
	all["address"] = len(must(m.t, network.DescribeAddresses, ctx, &ec2.DescribeAddressesInput{}).Addresses)
	for _, n := range must(m.t, network.DescribeNatGateways, ctx, &ec2.DescribeNatGatewaysInput{}).NatGateways {
		if n.State != ec2types.NatGatewayStateDeleted {
			all["nat"]++
		}
	}
	all["interface"] = len(must(m.t, network.DescribeNetworkInterfaces, ctx,
		&ec2.DescribeNetworkInterfacesInput{}).NetworkInterfaces)
	all["group"] = len(must(m.t, network.DescribeSecurityGroups, ctx, &ec2.DescribeSecurityGroupsInput{}).SecurityGroups)
	all["rule"] = len(must(m.t, network.DescribeSecurityGroupRules, ctx,
		&ec2.DescribeSecurityGroupRulesInput{}).SecurityGroupRules)
	all["role"] = len(must(m.t, iam.NewFromConfig(config).ListRoles, ctx, &iam.ListRolesInput{}).Roles)
	all["profile"] = len(must(m.t, iam.NewFromConfig(config).ListInstanceProfiles, ctx,
		&iam.ListInstanceProfilesInput{}).InstanceProfiles)
	all["parameter"] = len(must(m.t, ssm.NewFromConfig(config).DescribeParameters, ctx,
		&ssm.DescribeParametersInput{}).Parameters)
	all["logs"] = len(must(m.t, cloudwatchlogs.NewFromConfig(config).DescribeLogGroups, ctx,
		&cloudwatchlogs.DescribeLogGroupsInput{}).LogGroups)
	return all
}

// must calls an operation that must succeed.
func must[I, O, F any](t testing.TB, call func(context.Context, *I, ...func(*F)) (*O, error), ctx context.Context,
	in *I) *O {
	t.Helper()
	out, err := call(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheDaemonMayDieInTheLifeOfAStack lets the daemon die at every point of the engine of stacks, in each of creation,
// update, rollback and deletion: resources of the real services are made once, and go.
func TestTheDaemonMayDieInTheLifeOfAStack(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	d := harness.Start(t)
	m := &mortalStack{phoenix: &phoenix{Daemon: d, t: t}, stacks: cloudformation.NewFromConfig(d.Config()),
		died: map[string]bool{}}
	before := m.counts()
	capabilities := []types.Capability{types.CapabilityCapabilityIam}
	update := func(body string) func(context.Context, *string) error {
		return func(ctx context.Context, token *string) error {
			_, err := m.stacks.UpdateStack(ctx, &cloudformation.UpdateStackInput{StackName: aws.String("mortal"),
				TemplateBody: &body, Capabilities: capabilities, ClientRequestToken: token})
			return err
		}
	}
	m.operate("create", types.StackStatusCreateComplete, func(ctx context.Context, token *string) error {
		out, err := m.stacks.CreateStack(ctx, &cloudformation.CreateStackInput{StackName: aws.String("mortal"),
			TemplateBody: aws.String(network(1, 7, "")), Capabilities: capabilities, ClientRequestToken: token})
		if err == nil {
			m.id = *out.StackId
		}
		return err
	})
	full := m.counts()
	for kind, n := range map[string]int{"vpc": 1, "gateway": 1, "subnet": 1, "table": 2, "address": 1, "nat": 1,
		"interface": 1, "group": 2, "role": 1, "profile": 1, "parameter": 1, "logs": 2} {
		if full[kind] != before[kind]+n {
			t.Errorf("the stack has %d of %s, want %d", full[kind]-before[kind], kind, n)
		}
	}
	same := func(what string, want map[string]int) {
		t.Helper()
		if got := m.counts(); !maps.Equal(got, want) {
			t.Errorf("after the %s there are %v, want %v", what, got, want)
		}
	}
	// The subnet and the security group are replaced, and with them what is in them.
	m.operate("update", types.StackStatusUpdateComplete, update(network(2, 14, "")))
	same("update", full)
	m.operate("rollback", types.StackStatusUpdateRollbackComplete, update(network(3, 30, `,"Bad":{
		"Type":"AWS::IAM::Role","DependsOn":["Logs","Parameter"],"Properties":{"AssumeRolePolicyDocument":{}}}`)))
	same("rollback", full)
	m.operate("delete", types.StackStatusDeleteComplete, func(ctx context.Context, token *string) error {
		_, err := m.stacks.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &m.id,
			ClientRequestToken: token})
		return err
	})
	eventually.Nil(t, "nothing is left", func() error {
		if got := m.counts(); !maps.Equal(got, before) {
			return fmt.Errorf("there are %v, and were %v", got, before)
		}
		return nil
	})
	for _, point := range crash.Points() {
		if strings.HasPrefix(point, "stack/") && !m.died[point] {
			t.Errorf("the daemon did not come to %s", point)
		}
	}
}
