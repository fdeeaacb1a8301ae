package elb_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	v2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestClassicLoadBalancer takes a load balancer through what the cloud controller manager does with it.
func TestClassicLoadBalancer(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	name := aws.String("web")
	f.newClassic(*name)
	instance := f.instance("i-0123456789abcdef0", f.vpc)
	describe := func() classictypes.LoadBalancerDescription {
		t.Helper()
		return awstest.Must[*classic.DescribeLoadBalancersOutput](t)(f.classic.DescribeLoadBalancers(ctx,
			&classic.DescribeLoadBalancersInput{LoadBalancerNames: []string{*name}})).LoadBalancerDescriptions[0]
	}
	d := describe()
	if len(d.Subnets) != 2 || *d.Scheme != "internet-facing" || *d.VPCId != f.vpc || len(d.SecurityGroups) != 1 ||
		*d.ListenerDescriptions[0].Listener.InstancePort != 30080 || *d.HealthCheck.Target != "TCP:30080" {
		t.Errorf("described as %+v", d)
	}
	if n := f.interfaces(); n != 2 {
		t.Errorf("%d network interfaces, want 2", n)
	}
	awstest.Must[*classic.ConfigureHealthCheckOutput](t)(f.classic.ConfigureHealthCheck(ctx,
		&classic.ConfigureHealthCheckInput{LoadBalancerName: name, HealthCheck: &classictypes.HealthCheck{
			Target: aws.String("HTTP:30080/healthz"), Interval: aws.Int32(10), Timeout: aws.Int32(5),
			HealthyThreshold: aws.Int32(2), UnhealthyThreshold: aws.Int32(6)}}))
	awstest.Must[*classic.CreateLoadBalancerPolicyOutput](t)(f.classic.CreateLoadBalancerPolicy(ctx,
		&classic.CreateLoadBalancerPolicyInput{LoadBalancerName: name, PolicyName: aws.String("proxy"),
			PolicyTypeName: aws.String("ProxyProtocolPolicyType"), PolicyAttributes: []classictypes.PolicyAttribute{{
				AttributeName: aws.String("ProxyProtocol"), AttributeValue: aws.String("true")}}}))
	awstest.Must[*classic.SetLoadBalancerPoliciesForBackendServerOutput](t)(
		f.classic.SetLoadBalancerPoliciesForBackendServer(ctx, &classic.SetLoadBalancerPoliciesForBackendServerInput{
			LoadBalancerName: name, InstancePort: aws.Int32(30080), PolicyNames: []string{"proxy"}}))
	awstest.Must[*classic.DetachLoadBalancerFromSubnetsOutput](t)(f.classic.DetachLoadBalancerFromSubnets(ctx,
		&classic.DetachLoadBalancerFromSubnetsInput{LoadBalancerName: name, Subnets: []string{f.subnets["b"]}}))
	if n := f.interfaces(); n != 1 {
		t.Errorf("%d network interfaces after a subnet was detached, want 1", n)
	}
	awstest.Must[*classic.AttachLoadBalancerToSubnetsOutput](t)(f.classic.AttachLoadBalancerToSubnets(ctx,
		&classic.AttachLoadBalancerToSubnetsInput{LoadBalancerName: name, Subnets: []string{f.subnets["b"]}}))
	awstest.Must[*classic.ModifyLoadBalancerAttributesOutput](t)(f.classic.ModifyLoadBalancerAttributes(ctx,
		&classic.ModifyLoadBalancerAttributesInput{LoadBalancerName: name,
			LoadBalancerAttributes: &classictypes.LoadBalancerAttributes{
				ConnectionSettings: &classictypes.ConnectionSettings{IdleTimeout: aws.Int32(120)},
				ConnectionDraining: &classictypes.ConnectionDraining{Enabled: true, Timeout: aws.Int32(30)}}}))
	attributes := awstest.Must[*classic.DescribeLoadBalancerAttributesOutput](t)(
		f.classic.DescribeLoadBalancerAttributes(ctx, &classic.DescribeLoadBalancerAttributesInput{
			LoadBalancerName: name})).LoadBalancerAttributes
	if *attributes.ConnectionSettings.IdleTimeout != 120 || !attributes.ConnectionDraining.Enabled {
		t.Errorf("attributes are %+v", attributes)
	}

	awstest.Must[*classic.RegisterInstancesWithLoadBalancerOutput](t)(f.classic.RegisterInstancesWithLoadBalancer(ctx,
		&classic.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: name,
			Instances: []classictypes.Instance{{InstanceId: &instance}}}))
	health := func(want string) {
		t.Helper()
		got := awstest.Must[*classic.DescribeInstanceHealthOutput](t)(f.classic.DescribeInstanceHealth(ctx,
			&classic.DescribeInstanceHealthInput{LoadBalancerName: name})).InstanceStates
		if len(got) != 1 || *got[0].State != want {
			t.Errorf("health is %+v, want %s", got, want)
		}
	}
	health("OutOfService")
	row, err := record.LoadBalancers(f.Store).Get(ctx,
		record.LoadBalancerKey(account, region, record.ClassicLoadBalancer, *name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := record.TargetHealths(f.Store).Put(ctx, row.Key, record.TargetHealth{Owner: row.Value.ID,
		Targets: map[string]record.TargetState{balancing.TargetName(instance, 0): {State: record.TargetHealthy,
			RegisteredAt: row.Value.Classic.Instances[0].RegisteredAt}}}); err != nil {
		t.Fatal(err)
	}
	health("InService")
	awstest.Must[*classic.DeregisterInstancesFromLoadBalancerOutput](t)(f.classic.DeregisterInstancesFromLoadBalancer(ctx,
		&classic.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: name,
			Instances: []classictypes.Instance{{InstanceId: &instance}}}))
	if d := describe(); len(d.Instances) > 0 || len(d.BackendServerDescriptions) != 1 || len(d.Subnets) != 2 {
		t.Errorf("described as %+v", d)
	}
	for range 2 { // the second time there is none
		awstest.Must[*classic.DeleteLoadBalancerOutput](t)(f.classic.DeleteLoadBalancer(ctx,
			&classic.DeleteLoadBalancerInput{LoadBalancerName: name}))
	}
	if n := f.interfaces(); n != 0 {
		t.Errorf("%d network interfaces of a load balancer that was deleted", n)
	}
}

// TestNetworkLoadBalancer takes a load balancer through what the cloud controller manager does with it.
func TestNetworkLoadBalancer(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	instance := f.instance("i-0123456789abcdef0", f.vpc)
	b := f.newNetwork("net")
	if len(b.AvailabilityZones) != 2 || b.State.Code != v2types.LoadBalancerStateEnumProvisioning ||
		len(b.SecurityGroups) > 0 {
		t.Errorf("created as %+v", b)
	}
	arn, one, two := *b.LoadBalancerArn, f.newGroup("one"), f.newGroup("two")
	target := []v2types.TargetDescription{{Id: &instance}}
	awstest.Must[*v2.RegisterTargetsOutput](t)(f.v2.RegisterTargets(ctx, &v2.RegisterTargetsInput{TargetGroupArn: &one,
		Targets: target}))
	health := func(want v2types.TargetHealthStateEnum, reason v2types.TargetHealthReasonEnum) {
		t.Helper()
		got := awstest.Must[*v2.DescribeTargetHealthOutput](t)(f.v2.DescribeTargetHealth(ctx,
			&v2.DescribeTargetHealthInput{TargetGroupArn: &one})).TargetHealthDescriptions
		if len(got) != 1 || got[0].TargetHealth.State != want || got[0].TargetHealth.Reason != reason {
			t.Errorf("health is %+v, want %s", got, want)
		}
	}
	health("unused", "Target.NotInUse")
	listener := f.newListener(arn, one, 80)
	health("initial", "Elb.RegistrationInProgress")
	uses := func(group string, want ...string) {
		t.Helper()
		got := awstest.Must[*v2.DescribeTargetGroupsOutput](t)(f.v2.DescribeTargetGroups(ctx,
			&v2.DescribeTargetGroupsInput{TargetGroupArns: []string{group}})).TargetGroups[0]
		if !slices.Equal(got.LoadBalancerArns, want) {
			t.Errorf("%s is used by %v, want %v", group, got.LoadBalancerArns, want)
		}
	}
	uses(one, arn)
	awstest.Must[*v2.ModifyListenerOutput](t)(f.v2.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &listener,
		DefaultActions: forward(two)}))
	uses(one)
	uses(two, arn)
	awstest.Must[*v2.ModifyListenerOutput](t)(f.v2.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &listener,
		DefaultActions: forward(one)}))
	row, err := record.LoadBalancers(f.Store).Get(ctx,
		record.LoadBalancerKey(account, region, record.NetworkLoadBalancer, "net"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := record.LoadBalancerStatuses(f.Store).Put(ctx, row.Key, record.LoadBalancerStatus{ID: row.Value.ID,
		Active: true}); err != nil {
		t.Fatal(err)
	}
	got := awstest.Must[*v2.DescribeLoadBalancersOutput](t)(f.v2.DescribeLoadBalancers(ctx,
		&v2.DescribeLoadBalancersInput{Names: []string{"net"}})).LoadBalancers[0]
	if got.State.Code != v2types.LoadBalancerStateEnumActive {
		t.Errorf("state is %+v", got.State)
	}
	awstest.Must[*v2.AddTagsOutput](t)(f.v2.AddTags(ctx, &v2.AddTagsInput{ResourceArns: []string{arn, one, listener},
		Tags: []v2types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}))
	for _, d := range awstest.Must[*v2.DescribeTagsOutput](t)(f.v2.DescribeTags(ctx, &v2.DescribeTagsInput{
		ResourceArns: []string{arn, one, listener}})).TagDescriptions {
		if len(d.Tags) != 1 || *d.Tags[0].Value != "a" {
			t.Errorf("tags of %s are %+v", *d.ResourceArn, d.Tags)
		}
	}
	awstest.Must[*v2.DeregisterTargetsOutput](t)(f.v2.DeregisterTargets(ctx, &v2.DeregisterTargetsInput{
		TargetGroupArn: &one, Targets: target}))
	health("draining", "Target.DeregistrationInProgress")
	awstest.Must[*v2.DeleteListenerOutput](t)(f.v2.DeleteListener(ctx, &v2.DeleteListenerInput{ListenerArn: &listener}))
	awstest.Must[*v2.DeleteTargetGroupOutput](t)(f.v2.DeleteTargetGroup(ctx,
		&v2.DeleteTargetGroupInput{TargetGroupArn: &one}))
	f.newListener(arn, two, 80)
	awstest.Must[*v2.DeleteLoadBalancerOutput](t)(f.v2.DeleteLoadBalancer(ctx,
		&v2.DeleteLoadBalancerInput{LoadBalancerArn: &arn}))
	uses(two)
	if n := f.interfaces(); n != 0 {
		t.Errorf("%d network interfaces of a load balancer that was deleted", n)
	}
}

// TestSecurityGroupsOnPrivateLink sets what the AWS Load Balancer Controller sets for the annotation
// aws-load-balancer-inbound-sg-rules-on-private-link-traffic, and compares with what is described.
func TestSecurityGroupsOnPrivateLink(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	group := *awstest.Must[*ec2.CreateSecurityGroupOutput](t)(f.ec2.CreateSecurityGroup(ctx,
		&ec2.CreateSecurityGroupInput{GroupName: aws.String("front"), Description: aws.String("front"),
			VpcId: &f.vpc})).GroupId
	create := func(name string, kind v2types.LoadBalancerTypeEnum, groups ...string) v2types.LoadBalancer {
		t.Helper()
		return awstest.Must[*v2.CreateLoadBalancerOutput](t)(f.v2.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{
			Name: &name, Type: kind, Subnets: []string{f.subnets["a"], f.subnets["b"]}, SecurityGroups: groups,
		})).LoadBalancers[0]
	}
	enforced := func(b v2types.LoadBalancer) string {
		t.Helper()
		return aws.ToString(awstest.Must[*v2.DescribeLoadBalancersOutput](t)(f.v2.DescribeLoadBalancers(ctx,
			&v2.DescribeLoadBalancersInput{LoadBalancerArns: []string{*b.LoadBalancerArn}},
		)).LoadBalancers[0].EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic)
	}
	open, application := create("open", v2types.LoadBalancerTypeEnumNetwork),
		create("application", v2types.LoadBalancerTypeEnumApplication, group)
	for _, b := range []v2types.LoadBalancer{open, application} {
		if got := enforced(b); got != "" {
			t.Errorf("%s enforces security groups: %q", *b.LoadBalancerName, got)
		}
	}
	b := create("network", v2types.LoadBalancerTypeEnumNetwork, group)
	if got := aws.ToString(b.EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic); got != "on" {
		t.Errorf("created with %q, want on", got)
	}
	set := func(b v2types.LoadBalancer, to v2types.EnforceSecurityGroupInboundRulesOnPrivateLinkTrafficEnum) (
		*v2.SetSecurityGroupsOutput, error) {
		return f.v2.SetSecurityGroups(ctx, &v2.SetSecurityGroupsInput{LoadBalancerArn: b.LoadBalancerArn,
			SecurityGroups: []string{group}, EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic: to})
	}
	for _, c := range []struct{ to, want string }{{"off", "off"}, {"", "off"}, {"on", "on"}} {
		out := awstest.Must[*v2.SetSecurityGroupsOutput](t)(
			set(b, v2types.EnforceSecurityGroupInboundRulesOnPrivateLinkTrafficEnum(c.to)))
		answered, described := string(out.EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic), enforced(b)
		if answered != c.want || described != c.want {
			t.Errorf("set to %q, it is %q, and described as %q", c.to, answered, described)
		}
	}
	before := f.rows()
	if got := awstest.Code(failed(set(b, "yes"))); got != "ValidationError" {
		t.Errorf("another value: %q", got)
	}
	if got := awstest.Code(failed(set(application, "off"))); got != "InvalidConfigurationRequest" {
		t.Errorf("an Application Load Balancer: %q", got)
	}
	if diff := cmp.Diff(before, f.rows()); diff != "" {
		t.Errorf("bad requests have changed something: %s", diff)
	}
}

// TestPrefixesForSourceNATAreOff describes Network Load Balancers without prefixes for source NAT, as on AWS: the AWS
// Load Balancer Controller compares that with "off", and sets the subnets anew whenever it finds anything else.
func TestPrefixesForSourceNATAreOff(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	mappings := []v2types.SubnetMapping{{SubnetId: aws.String(f.subnets["a"])}, {SubnetId: aws.String(f.subnets["b"])}}
	create := func(kind v2types.LoadBalancerTypeEnum, prefixes v2types.EnablePrefixForIpv6SourceNatEnum) *string {
		t.Helper()
		return awstest.Must[*v2.CreateLoadBalancerOutput](t)(f.v2.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{
			Name: aws.String(string(kind)), Type: kind, SubnetMappings: mappings, EnablePrefixForIpv6SourceNat: prefixes,
		})).LoadBalancers[0].LoadBalancerArn
	}
	set := func(arn *string, prefixes v2types.EnablePrefixForIpv6SourceNatEnum) (*v2.SetSubnetsOutput, error) {
		return f.v2.SetSubnets(ctx, &v2.SetSubnetsInput{LoadBalancerArn: arn, SubnetMappings: mappings,
			EnablePrefixForIpv6SourceNat: prefixes})
	}
	for _, c := range []struct {
		kind v2types.LoadBalancerTypeEnum
		want v2types.EnablePrefixForIpv6SourceNatEnum
	}{{v2types.LoadBalancerTypeEnumNetwork, "off"}, {v2types.LoadBalancerTypeEnumApplication, ""}} {
		arn := create(c.kind, c.want)
		described := awstest.Must[*v2.DescribeLoadBalancersOutput](t)(f.v2.DescribeLoadBalancers(ctx,
			&v2.DescribeLoadBalancersInput{LoadBalancerArns: []string{*arn}})).LoadBalancers[0].EnablePrefixForIpv6SourceNat
		answered := awstest.Must[*v2.SetSubnetsOutput](t)(set(arn, c.want)).EnablePrefixForIpv6SourceNat
		if described != c.want || answered != c.want {
			t.Errorf("%s: described as %q, and answered with %q, want %q", c.kind, described, answered, c.want)
		}
		if got := awstest.Code(failed(set(arn, "on"))); got != "InvalidConfigurationRequest" {
			t.Errorf("%s with prefixes: %q", c.kind, got)
		}
	}
}

// TestWeightedTargetGroups leads a listener of a Network Load Balancer to several target groups, as the AWS Load
// Balancer Controller does for the annotation actions.TCP-80 of a Service, and back to one.
func TestWeightedTargetGroups(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	b, groups := *f.newNetwork("net").LoadBalancerArn, []string{}
	for i := range 6 {
		groups = append(groups, f.newGroup(fmt.Sprint("g", i)))
	}
	action := func(sticky bool, weights ...int32) []v2types.Action {
		forward := &v2types.ForwardActionConfig{
			TargetGroupStickinessConfig: &v2types.TargetGroupStickinessConfig{Enabled: &sticky}}
		for i, w := range weights {
			forward.TargetGroups = append(forward.TargetGroups,
				v2types.TargetGroupTuple{TargetGroupArn: &groups[i], Weight: &w})
		}
		return []v2types.Action{{Type: v2types.ActionTypeEnumForward, ForwardConfig: forward}}
	}
	create := func(port int32, actions []v2types.Action) (*v2.CreateListenerOutput, error) {
		return f.v2.CreateListener(ctx, &v2.CreateListenerInput{LoadBalancerArn: &b, Protocol: v2types.ProtocolEnumTcp,
			Port: &port, DefaultActions: actions})
	}
	listener := *awstest.Must[*v2.CreateListenerOutput](t)(create(80, action(true, 1, 2, 3))).Listeners[0].ListenerArn
	described := func(want []v2types.Action, used ...string) {
		t.Helper()
		got := awstest.Must[*v2.DescribeListenersOutput](t)(f.v2.DescribeListeners(ctx, &v2.DescribeListenersInput{
			ListenerArns: []string{listener}})).Listeners[0].DefaultActions
		if len(want[0].ForwardConfig.TargetGroups) == 1 {
			want[0].TargetGroupArn = want[0].ForwardConfig.TargetGroups[0].TargetGroupArn
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(v2types.Action{}, v2types.ForwardActionConfig{},
			v2types.TargetGroupStickinessConfig{}, v2types.TargetGroupTuple{})); diff != "" {
			t.Errorf("described: -want +got:\n%s", diff)
		}
		var by []string
		for _, g := range awstest.Must[*v2.DescribeTargetGroupsOutput](t)(f.v2.DescribeTargetGroups(ctx,
			&v2.DescribeTargetGroupsInput{LoadBalancerArn: &b})).TargetGroups {
			by = append(by, *g.TargetGroupArn)
		}
		slices.Sort(by)
		if want := slices.Sorted(slices.Values(used)); !slices.Equal(by, want) {
			t.Errorf("it leads to %q, want %q", by, want)
		}
	}
	described(action(true, 1, 2, 3), groups[:3]...)
	modify := func(actions []v2types.Action) {
		t.Helper()
		awstest.Must[*v2.ModifyListenerOutput](t)(f.v2.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &listener,
			DefaultActions: actions}))
	}
	modify(action(false, 0, 999))
	described(action(false, 0, 999), groups[:2]...)
	before := f.rows()
	if got := awstest.Code(failed(create(81, action(false, 1, 1, 1, 1, 1, 1)))); got != "TooManyTargetGroups" {
		t.Errorf("six target groups: %q", got)
	}
	if got := awstest.Code(failed(create(81, action(false, 1, 1000)))); got != "ValidationError" {
		t.Errorf("a weight of 1000: %q", got)
	}
	if diff := cmp.Diff(before, f.rows()); diff != "" {
		t.Errorf("bad requests have changed something: %s", diff)
	}
	modify(forward(groups[0]))
	described(action(false, 1), groups[0])
	for i := range int32(19) {
		awstest.Must[*v2.CreateListenerOutput](t)(create(100+i, action(false, 1, 1, 1, 1, 1)))
	}
	if got := awstest.Code(failed(create(200, action(false, 1, 1, 1, 1, 1)))); got != "TooManyTargetGroups" {
		t.Errorf("more than a hundred target groups of all listeners: %q", got)
	}
	awstest.Must[*v2.CreateListenerOutput](t)(create(200, action(false, 1, 1, 1, 1)))
}

// TestPermissions shows that policies can name load balancers and their tags.
// Who does not get an answer asks again, and gets what was made.
func TestCreationsAreIdempotent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	create := func() []string {
		b, group := *f.newNetwork("net").LoadBalancerArn, f.newGroup("one")
		return []string{b, group, f.newListener(b, group, 80)}
	}
	first, before := create(), f.rows()
	if again := create(); !slices.Equal(again, first) {
		t.Errorf("at first %q, then %q", first, again)
	}
	if diff := cmp.Diff(before, f.rows()); diff != "" {
		t.Errorf("a repetition changes: -before +after:\n%s", diff)
	}
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	f.newClassic("web")
	f.newClassic("api")
	arn := *f.newNetwork("net").LoadBalancerArn
	who := f.NewUser(t, "balancer", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
		"Action":"elasticloadbalancing:*","Resource":"arn:aws:elasticloadbalancing:*:*:loadbalancer/web"}]}`)
	classics, networks := f.clients(who)
	if err := failed(classics.DeleteLoadBalancer(ctx, &classic.DeleteLoadBalancerInput{
		LoadBalancerName: aws.String("api")})); awstest.Code(err) != "AccessDenied" {
		t.Errorf("delete another load balancer: %v", err)
	}
	if err := failed(networks.DeleteLoadBalancer(ctx, &v2.DeleteLoadBalancerInput{LoadBalancerArn: &arn})); awstest.Code(
		err) != "AccessDenied" {
		t.Errorf("delete a load balancer of the other API: %v", err)
	}
	awstest.Must[*classic.DeleteLoadBalancerOutput](t)(classics.DeleteLoadBalancer(ctx,
		&classic.DeleteLoadBalancerInput{LoadBalancerName: aws.String("web")}))
}
