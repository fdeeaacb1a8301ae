package networkinsights_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// fixture has two network interfaces in two subnets of a VPC, and its internet gateway.
type fixture struct {
	*ec2test.Fixture
	vpc, gateway, group, client, server string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: ec2test.New(t)}
	f.vpc = f.VPC("10.0.0.0/16")
	f.gateway, f.group = f.InternetGateway(f.vpc), f.SecurityGroup(f.vpc, "servers")
	f.client = *f.NetworkInterface(f.Subnet(f.vpc, "10.0.0.0/24", "a")).NetworkInterfaceId
	f.server = *awstest.Must[*ec2.CreateNetworkInterfaceOutput](t)(f.CreateNetworkInterface(t.Context(),
		&ec2.CreateNetworkInterfaceInput{SubnetId: aws.String(f.Subnet(f.vpc, "10.0.1.0/24", "b")),
			Groups: []string{f.group}})).NetworkInterface.NetworkInterfaceId
	return f
}

// path creates a path.
func (f *fixture) path(in ec2.CreateNetworkInsightsPathInput) types.NetworkInsightsPath {
	f.T.Helper()
	return *awstest.Must[*ec2.CreateNetworkInsightsPathOutput](f.T)(
		f.CreateNetworkInsightsPath(f.Context(), &in)).NetworkInsightsPath
}

// analysis starts an analysis, and returns it as it is described.
func (f *fixture) analysis(in ec2.StartNetworkInsightsAnalysisInput) types.NetworkInsightsAnalysis {
	f.T.Helper()
	started := *awstest.Must[*ec2.StartNetworkInsightsAnalysisOutput](f.T)(
		f.StartNetworkInsightsAnalysis(f.Context(), &in)).NetworkInsightsAnalysis
	if started.Status != types.AnalysisStatusRunning || started.NetworkPathFound != nil {
		f.T.Errorf("started %+v", started)
	}
	return awstest.Must[*ec2.DescribeNetworkInsightsAnalysesOutput](f.T)(f.DescribeNetworkInsightsAnalyses(f.Context(),
		&ec2.DescribeNetworkInsightsAnalysesInput{NetworkInsightsAnalysisIds: []string{
			*started.NetworkInsightsAnalysisId}})).NetworkInsightsAnalyses[0]
}

// instance launches an instance with a network interface, and lets it run.
func (f *fixture) instance(eni string) string {
	f.T.Helper()
	launched := awstest.Must[*ec2.RunInstancesOutput](f.T)(f.RunInstances(f.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String(image(f.T)), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0),
			NetworkInterfaceId: &eni}}}))
	id := *launched.Instances[0].InstanceId
	f.observe(id, types.InstanceStateNameRunning)
	return id
}

// image returns an image for nodes.
func image(t testing.TB) string {
	t.Helper()
	i := slices.IndexFunc(ami.All(ec2test.Region), func(i ami.Image) bool {
		return i.Family == ami.AL2023 && i.Architecture == "x86_64" && i.KubernetesVersion != ""
	})
	return ami.All(ec2test.Region)[i].ID
}

// observe records the state of the machine of an instance.
func (f *fixture) observe(id string, state types.InstanceStateName) {
	f.T.Helper()
	if _, err := record.Machines(f.Store).Put(f.Context(), record.EC2Key(ec2test.Account, ec2test.Region, id),
		record.Machine{InstanceID: id, State: state}); err != nil {
		f.T.Fatal(err)
	}
}

// stop stops an instance.
func (f *fixture) stop(id string) {
	f.T.Helper()
	awstest.Must[any](f.T)(f.StopInstances(f.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}))
	f.observe(id, types.InstanceStateNameStopped)
}

func codesOf(a types.NetworkInsightsAnalysis) string {
	var all []string
	for _, e := range a.Explanations {
		all = append(all, *e.ExplanationCode)
	}
	return strings.Join(all, " ")
}

func TestPaths(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.path(ec2.CreateNetworkInsightsPathInput{Source: &f.client, Protocol: types.ProtocolTcp,
		Destination: aws.String("arn:aws:ec2:eu-west-1:" + ec2test.Account + ":network-interface/" + f.server),
		SourceIp:    aws.String("10.0.0.9"), DestinationPort: aws.Int32(443), ClientToken: aws.String("a"),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeNetworkInsightsPath,
			Tags: []types.Tag{{Key: aws.String("for"), Value: aws.String("console")}}}}})
	ec2test.WantID(t, p.NetworkInsightsPathId, "nip-")
	if *p.Destination != f.server || !strings.HasSuffix(*p.DestinationArn, ":network-interface/"+f.server) ||
		*p.Source != f.client || *p.DestinationPort != 443 || len(p.Tags) != 1 {
		t.Errorf("created %+v", p)
	}
	tags := awstest.Must[*ec2.DescribeTagsOutput](t)(f.DescribeTags(t.Context(), &ec2.DescribeTagsInput{
		Filters: []types.Filter{ec2test.Filter("resource-type", "network-insights-path")}})).Tags
	if len(tags) != 1 || *tags[0].ResourceId != *p.NetworkInsightsPathId {
		t.Errorf("DescribeTags shows %+v", tags)
	}
	filtered := f.path(ec2.CreateNetworkInsightsPathInput{Source: &f.gateway, Destination: &f.server,
		Protocol: types.ProtocolUdp, FilterAtSource: &types.PathRequestFilter{
			DestinationPortRange: &types.RequestFilterPortRange{FromPort: aws.Int32(1), ToPort: aws.Int32(9)}}})
	for _, c := range []struct {
		name, value string
		want        *string
	}{
		{"source", f.client, p.NetworkInsightsPathId},
		{"protocol", "udp", filtered.NetworkInsightsPathId},
		{"filter-at-source.destination-port-range", "1-9", filtered.NetworkInsightsPathId},
		{"tag:for", "console", p.NetworkInsightsPathId},
	} {
		found := awstest.Must[*ec2.DescribeNetworkInsightsPathsOutput](t)(f.DescribeNetworkInsightsPaths(t.Context(),
			&ec2.DescribeNetworkInsightsPathsInput{Filters: []types.Filter{ec2test.Filter(c.name, c.value)}},
		)).NetworkInsightsPaths
		if len(found) != 1 || *found[0].NetworkInsightsPathId != *c.want {
			t.Errorf("filter %s found %+v", c.name, found)
		}
	}
	again := f.path(ec2.CreateNetworkInsightsPathInput{Source: &f.gateway, Destination: &f.client,
		Protocol: types.ProtocolTcp, ClientToken: aws.String("b")})
	if same := f.path(ec2.CreateNetworkInsightsPathInput{Source: &f.gateway, Destination: &f.client,
		Protocol:    types.ProtocolTcp,
		ClientToken: aws.String("b")}); *same.NetworkInsightsPathId != *again.NetworkInsightsPathId {
		t.Error("the client token made another path")
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := aws.String
	before := f.Dump()
	for _, c := range []struct {
		what, code string
		in         ec2.CreateNetworkInsightsPathInput
	}{
		{"no source", "MissingParameter", ec2.CreateNetworkInsightsPathInput{Source: s(""), Destination: &f.server,
			Protocol: types.ProtocolTcp}},
		{"no destination", "MissingParameter", ec2.CreateNetworkInsightsPathInput{Source: &f.client,
			Protocol: types.ProtocolTcp}},
		{"an unknown protocol", "InvalidParameterValue", ec2.CreateNetworkInsightsPathInput{Source: &f.client,
			Destination: &f.server, Protocol: "sctp"}},
		{"an instance that does not exist", "InvalidInstanceID.NotFound", ec2.CreateNetworkInsightsPathInput{
			Source: s("i-0123456789abcdef0"), Destination: &f.server, Protocol: types.ProtocolTcp}},
		{"a VPC", "InvalidParameterValue", ec2.CreateNetworkInsightsPathInput{Source: &f.vpc, Destination: &f.server,
			Protocol: types.ProtocolTcp}},
		{"a resource of another account", "InvalidParameterValue", ec2.CreateNetworkInsightsPathInput{Source: &f.client,
			Destination: s("arn:aws:ec2:eu-west-1:444455556666:network-interface/" + f.server),
			Protocol:    types.ProtocolTcp}},
		{"both ends the same", "InvalidParameterCombination", ec2.CreateNetworkInsightsPathInput{Source: &f.client,
			Destination: &f.client, Protocol: types.ProtocolTcp}},
		{"no address", "InvalidParameterValue", ec2.CreateNetworkInsightsPathInput{Source: &f.client,
			DestinationIp: s("10.0.0"), Protocol: types.ProtocolTcp}},
		{"no port", "InvalidParameterValue", ec2.CreateNetworkInsightsPathInput{Source: &f.client,
			Destination: &f.server, DestinationPort: aws.Int32(65536), Protocol: types.ProtocolTcp}},
		{"a filter and a port", "InvalidParameterCombination", ec2.CreateNetworkInsightsPathInput{Source: &f.client,
			Destination: &f.server, DestinationPort: aws.Int32(1), Protocol: types.ProtocolTcp,
			FilterAtSource: &types.PathRequestFilter{SourceAddress: s("10.0.0.1")}}},
	} {
		_, err := f.CreateNetworkInsightsPath(t.Context(), &c.in)
		if got, message, _ := awstest.Failure(err); got != c.code {
			t.Errorf("%s: %s: %s, want %s", c.what, got, message, c.code)
		}
	}
	if f.Dump() != before {
		t.Error("a refused request changes the store")
	}
}

func TestAnalyses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client, server := f.instance(f.client), f.instance(f.server)
	path := f.path(ec2.CreateNetworkInsightsPathInput{Source: &client, Destination: &server,
		Protocol: types.ProtocolTcp, DestinationPort: aws.Int32(443)})
	closed := f.analysis(ec2.StartNetworkInsightsAnalysisInput{NetworkInsightsPathId: path.NetworkInsightsPathId})
	ec2test.WantID(t, closed.NetworkInsightsAnalysisId, "nia-")
	if closed.Status != types.AnalysisStatusSucceeded || *closed.NetworkPathFound ||
		codesOf(closed) != "SG_HAS_NO_RULES" || *closed.Explanations[0].Direction != "ingress" ||
		*closed.Explanations[0].NetworkInterface.Id != f.server || *closed.Explanations[0].SecurityGroup.Id != f.group {
		t.Errorf("analyzed %+v, explanations %s", closed, codesOf(closed))
	}
	awstest.Must[any](t)(f.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId: &f.group, IpProtocol: aws.String("tcp"), FromPort: aws.Int32(443), ToPort: aws.Int32(443),
		CidrIp: aws.String("10.0.0.0/24")}))
	open := f.analysis(ec2.StartNetworkInsightsAnalysisInput{NetworkInsightsPathId: path.NetworkInsightsPathId})
	if !*open.NetworkPathFound || len(open.Explanations) > 0 {
		t.Fatalf("found no path: %s", codesOf(open))
	}
	var ways [2][]string
	for i, components := range [][]types.PathComponent{open.ForwardPathComponents, open.ReturnPathComponents} {
		for _, c := range components {
			id := *c.Component.Id
			ways[i] = append(ways[i], id[:strings.Index(id, "-")])
		}
	}
	if got := strings.Join(ways[0], " "); got != "i eni sg acl rtb acl sg eni i" {
		t.Errorf("forward by %s", got)
	}
	if got := strings.Join(ways[1], " "); got != "i eni sg acl rtb acl sg eni i" {
		t.Errorf("back by %s", got)
	}
	rule, route := open.ForwardPathComponents[6].SecurityGroupRule, open.ForwardPathComponents[4].RouteTableRoute
	if *rule.Cidr != "10.0.0.0/24" || *rule.PortRange.From != 443 || *rule.Protocol != "tcp" ||
		*route.DestinationCidr != "10.0.0.0/16" || *route.GatewayId != "local" ||
		*open.ForwardPathComponents[3].AclRule.RuleNumber != 100 {
		t.Errorf("decided by %+v and %+v", rule, route)
	}
	if h := open.ForwardPathComponents[0].OutboundHeader; *h.DestinationPortRanges[0].To != 443 ||
		*h.SourcePortRanges[0].To != 65535 || *h.Protocol != "6" {
		t.Errorf("begins with %+v", h)
	}

	t.Run("filters", func(t *testing.T) {
		got := f.analysis(ec2.StartNetworkInsightsAnalysisInput{NetworkInsightsPathId: path.NetworkInsightsPathId,
			FilterOutArns: []string{*open.ForwardPathComponents[3].Component.Arn}})
		if *got.NetworkPathFound || codesOf(got) != "COMPONENT_FILTER_RESTRICTION" {
			t.Errorf("a path without its network ACL: %s", codesOf(got))
		}
		found := awstest.Must[*ec2.DescribeNetworkInsightsAnalysesOutput](t)(f.DescribeNetworkInsightsAnalyses(
			t.Context(), &ec2.DescribeNetworkInsightsAnalysesInput{NetworkInsightsPathId: path.NetworkInsightsPathId,
				Filters: []types.Filter{ec2test.Filter("path-found", "true")}})).NetworkInsightsAnalyses
		if len(found) != 1 || *found[0].NetworkInsightsAnalysisId != *open.NetworkInsightsAnalysisId {
			t.Errorf("path-found=true found %d", len(found))
		}
	})
	t.Run("an instance that is stopped", func(t *testing.T) {
		f.stop(server)
		got := f.analysis(ec2.StartNetworkInsightsAnalysisInput{NetworkInsightsPathId: path.NetworkInsightsPathId})
		if codesOf(got) != "BAD_STATE" || *got.Explanations[0].State != "stopped" {
			t.Errorf("explanations %s", codesOf(got))
		}
	})
	t.Run("what nobody may read is not shown", func(t *testing.T) {
		for _, action := range []string{"ec2:DescribeSecurityGroups", "ec2:StartNetworkInsightsAnalysis"} {
			f.Mu.Lock()
			f.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == action }
			f.Mu.Unlock()
			_, err := f.StartNetworkInsightsAnalysis(t.Context(), &ec2.StartNetworkInsightsAnalysisInput{
				NetworkInsightsPathId: path.NetworkInsightsPathId})
			awstest.WantCode(t, err, "UnauthorizedOperation")
		}
		f.Mu.Lock()
		f.Deny = nil
		f.Mu.Unlock()
	})
	t.Run("deletion", func(t *testing.T) {
		remove := func() error {
			_, err := f.DeleteNetworkInsightsPath(t.Context(), &ec2.DeleteNetworkInsightsPathInput{
				NetworkInsightsPathId: path.NetworkInsightsPathId})
			return err
		}
		awstest.WantCode(t, remove(), "AnalysisExistsForNetworkInsightsPath")
		for _, a := range awstest.Must[*ec2.DescribeNetworkInsightsAnalysesOutput](t)(f.DescribeNetworkInsightsAnalyses(
			t.Context(), &ec2.DescribeNetworkInsightsAnalysesInput{})).NetworkInsightsAnalyses {
			awstest.Must[any](t)(f.DeleteNetworkInsightsAnalysis(t.Context(), &ec2.DeleteNetworkInsightsAnalysisInput{
				NetworkInsightsAnalysisId: a.NetworkInsightsAnalysisId}))
		}
		if err := remove(); err != nil {
			t.Error(err)
		}
		_, err := f.StartNetworkInsightsAnalysis(t.Context(), &ec2.StartNetworkInsightsAnalysisInput{
			NetworkInsightsPathId: path.NetworkInsightsPathId})
		awstest.WantCode(t, err, "InvalidNetworkInsightsPathId.NotFound")
	})
}

func TestAnalysesOfWhatIsNotConnected(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.VPC("10.9.0.0/16")
	far := *f.NetworkInterface(f.Subnet(other, "10.9.0.0/24", "a")).NetworkInterfaceId
	detached := *awstest.Must[*ec2.CreateInternetGatewayOutput](t)(f.CreateInternetGateway(t.Context(),
		&ec2.CreateInternetGatewayInput{})).InternetGateway.InternetGatewayId
	for _, c := range []struct {
		what, source, destination, code string
	}{
		{"another VPC", f.client, far, "NO_ROUTE_TO_DESTINATION"},
		{"a gateway that is attached to nothing", detached, f.client, "BAD_STATE_ATTACHMENT"},
		{"a network interface that is attached to nothing", f.client, f.gateway, "BAD_STATE_ATTACHMENT"},
	} {
		path := f.path(ec2.CreateNetworkInsightsPathInput{Source: &c.source, Destination: &c.destination,
			Protocol: types.ProtocolTcp})
		got := f.analysis(ec2.StartNetworkInsightsAnalysisInput{NetworkInsightsPathId: path.NetworkInsightsPathId})
		if got.Status != types.AnalysisStatusSucceeded || *got.NetworkPathFound ||
			!strings.Contains(codesOf(got), c.code) {
			t.Errorf("%s: %s %s", c.what, got.Status, codesOf(got))
		}
	}
	gone := f.path(ec2.CreateNetworkInsightsPathInput{Source: &f.client, Destination: &far, Protocol: types.ProtocolTcp})
	awstest.Must[any](t)(f.DeleteNetworkInterface(t.Context(), &ec2.DeleteNetworkInterfaceInput{
		NetworkInterfaceId: &far}))
	got := f.analysis(ec2.StartNetworkInsightsAnalysisInput{NetworkInsightsPathId: gone.NetworkInsightsPathId})
	if got.Status != types.AnalysisStatusFailed || !strings.Contains(aws.ToString(got.StatusMessage), far) {
		t.Errorf("of what is gone: %s %v", got.Status, aws.ToString(got.StatusMessage))
	}
}
