package elb_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
)

// newApplicationGroup creates a target group of Application Load Balancers.
func (f *fixture) newApplicationGroup(name string, port int32) types.TargetGroup {
	f.t.Helper()
	return awstest.Must[*v2.CreateTargetGroupOutput](f.t)(f.v2.CreateTargetGroup(f.t.Context(),
		&v2.CreateTargetGroupInput{Name: &name, Protocol: types.ProtocolEnumTcp, Port: &port, VpcId: &f.vpc,
			TargetType: types.TargetTypeEnumAlb})).TargetGroups[0]
}

func (f *fixture) register(group, target string, port *int32) error {
	return failed(f.v2.RegisterTargets(f.t.Context(), &v2.RegisterTargetsInput{TargetGroupArn: &group,
		Targets: []types.TargetDescription{{Id: &target, Port: port}}}))
}

// TestApplicationLoadBalancersAreTargetsTwice has three target groups for one Application Load Balancer, at once.
func TestApplicationLoadBalancersAreTargetsTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	application := *f.newApplication("app").LoadBalancerArn
	f.newHTTPListener(application, 80, fixed("200"))
	var registered atomic.Int32
	var requests sync.WaitGroup
	groups := make([]string, 3)
	for i := range groups {
		groups[i] = *f.newApplicationGroup(fmt.Sprint("front-", i), 80).TargetGroupArn
		requests.Go(func() {
			if err := f.register(groups[i], application, nil); err == nil {
				registered.Add(1)
			} else {
				awstest.WantCode(t, err, "TooManyRegistrationsForTargetId")
			}
		})
	}
	requests.Wait()
	if n := registered.Load(); n != 2 {
		t.Errorf("%d target groups have the load balancer, want 2", n)
	}
}

// TestApplicationLoadBalancerIsATarget has a Network Load Balancer in front of an Application Load Balancer.
func TestApplicationLoadBalancerIsATarget(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	application, network := *f.newApplication("app").LoadBalancerArn, *f.newNetwork("net").LoadBalancerArn
	targeted := f.newHTTPListener(application, 8080, fixed("200"))
	other := f.newHTTPListener(application, 8081, fixed("200"))
	group := f.newApplicationGroup("front", 80)
	if group.TargetType != types.TargetTypeEnumAlb || group.HealthCheckProtocol != types.ProtocolEnumHttp ||
		*group.HealthCheckPath != "/" || *group.Matcher.HttpCode != "200-399" || *group.HealthCheckPort != "traffic-port" ||
		*group.HealthCheckTimeoutSeconds != 6 || *group.HealthCheckIntervalSeconds != 30 {
		t.Errorf("the target group is %+v", group)
	}
	arn := *group.TargetGroupArn
	for _, a := range awstest.Must[*v2.DescribeTargetGroupAttributesOutput](t)(f.v2.DescribeTargetGroupAttributes(ctx,
		&v2.DescribeTargetGroupAttributesInput{TargetGroupArn: &arn})).Attributes {
		if *a.Key == "preserve_client_ip.enabled" && *a.Value != "true" {
			t.Errorf("the client's address is not preserved: %s", *a.Value)
		}
	}
	for range 2 { // the second time it is there
		if err := f.register(arn, application, aws.Int32(8080)); err != nil {
			t.Fatal(err)
		}
	}
	health := func(want types.TargetHealthStateEnum) {
		t.Helper()
		got := awstest.Must[*v2.DescribeTargetHealthOutput](t)(f.v2.DescribeTargetHealth(ctx,
			&v2.DescribeTargetHealthInput{TargetGroupArn: &arn})).TargetHealthDescriptions
		if len(got) != 1 || *got[0].Target.Id != application || *got[0].Target.Port != 8080 ||
			*got[0].HealthCheckPort != "8080" || got[0].TargetHealth.State != want {
			t.Errorf("health is %+v, want %s", got, want)
		}
	}
	health(types.TargetHealthStateEnumUnused)
	f.newListener(network, arn, 80)
	health(types.TargetHealthStateEnumInitial)
	row, err := record.TargetGroups(f.Store).Get(ctx, record.TargetGroupKey(account, region, "front"))
	if err != nil {
		t.Fatal(err)
	}
	observe := func(one, two string, registered time.Time) {
		t.Helper()
		if _, err := record.TargetHealths(f.Store).Put(ctx, row.Value.TargetHealthKey(), record.TargetHealth{
			Owner: row.Value.ID, Targets: map[string]record.TargetState{
				balancing.TargetName("172.31.0.10", 8080):  {State: one, RegisteredAt: registered},
				balancing.TargetName("172.31.16.10", 8080): {State: two, RegisteredAt: registered}}}); err != nil {
			t.Fatal(err)
		}
	}
	registered := row.Value.Targets[0].RegisteredAt
	observe(record.TargetUnhealthy, record.TargetUnhealthy, registered)
	health(types.TargetHealthStateEnumUnhealthy)
	observe(record.TargetUnhealthy, record.TargetHealthy, registered)
	health(types.TargetHealthStateEnumHealthy)
	observe(record.TargetHealthy, record.TargetHealthy, registered.Add(-time.Second)) // of a registration before
	health(types.TargetHealthStateEnumInitial)

	// What leads to nothing then cannot go.
	before := f.rows()
	deleted := func(listener string) error {
		return failed(f.v2.DeleteListener(ctx, &v2.DeleteListenerInput{ListenerArn: &listener}))
	}
	awstest.WantCode(t, deleted(targeted), "ResourceInUse")
	awstest.WantCode(t, failed(f.v2.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &targeted,
		Port: aws.Int32(8082)})), "ResourceInUse")
	gone := func() error {
		return failed(f.v2.DeleteLoadBalancer(ctx, &v2.DeleteLoadBalancerInput{LoadBalancerArn: &application}))
	}
	awstest.WantCode(t, gone(), "ResourceInUse")
	if diff := cmp.Diff(before, f.rows()); diff != "" {
		t.Errorf("a refused deletion has changed something: %s", diff)
	}
	if err := errors.Join(deleted(other), failed(f.v2.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &targeted,
		DefaultActions: fixed("201")}))); err != nil {
		t.Errorf("a listener that is no target, and the actions of one that is: %v", err)
	}

	awstest.Must[*v2.DeregisterTargetsOutput](t)(f.v2.DeregisterTargets(ctx, &v2.DeregisterTargetsInput{
		TargetGroupArn: &arn, Targets: []types.TargetDescription{{Id: &application, Port: aws.Int32(8080)}}}))
	health(types.TargetHealthStateEnumDraining)
	second := *f.newApplication("second").LoadBalancerArn
	f.newHTTPListener(second, 80, fixed("200"))
	if err := errors.Join(deleted(targeted), gone(), f.register(arn, second, nil)); err != nil {
		t.Errorf("once the load balancer is no target: %v", err)
	}
}

// TestTargetsAndTheirListenersAreOfOneMind registers an Application Load Balancer while its listener is deleted.
func TestTargetsAndTheirListenersAreOfOneMind(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	application, group := *f.newApplication("app").LoadBalancerArn, *f.newApplicationGroup("front", 80).TargetGroupArn
	for range 8 {
		listener := f.newHTTPListener(application, 80, fixed("200"))
		var requests sync.WaitGroup
		var registered, deleted error
		requests.Go(func() { registered = f.register(group, application, nil) })
		requests.Go(func() {
			deleted = failed(f.v2.DeleteListener(ctx, &v2.DeleteListenerInput{ListenerArn: &listener}))
		})
		requests.Wait()
		if registered != nil {
			awstest.WantCode(t, registered, "ValidationError")
		} else {
			awstest.WantCode(t, deleted, "ResourceInUse")
			awstest.Must[*v2.DeregisterTargetsOutput](t)(f.v2.DeregisterTargets(ctx, &v2.DeregisterTargetsInput{
				TargetGroupArn: &group, Targets: []types.TargetDescription{{Id: &application}}}))
			awstest.Must[*v2.DeleteListenerOutput](t)(f.v2.DeleteListener(ctx, &v2.DeleteListenerInput{
				ListenerArn: &listener}))
		}
	}
}

// TestBadRequestsOfApplicationTargets shows that each gets AWS's error, and changes nothing.
func TestBadRequestsOfApplicationTargets(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	application, second, network := *f.newApplication("app").LoadBalancerArn, *f.newApplication("second").LoadBalancerArn,
		*f.newNetwork("net").LoadBalancerArn
	f.newHTTPListener(application, 80, fixed("200"))
	f.newHTTPListener(application, 81, fixed("200"))
	f.newHTTPListener(second, 80, fixed("200"))
	f.newListener(network, f.newGroup("tcp"), 80)
	certificate := f.certificate("1", "ISSUED")
	group, full := *f.newApplicationGroup("front", 80).TargetGroupArn, *f.newApplicationGroup("full", 80).TargetGroupArn
	if err := f.register(full, application, nil); err != nil {
		t.Fatal(err)
	}
	bound := f.newListener(network, full, 90)
	foreign := *awstest.Must[*ec2.CreateVpcOutput](t)(f.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{
		CidrBlock: aws.String("10.9.0.0/16")})).Vpc.VpcId
	elsewhere := *awstest.Must[*v2.CreateTargetGroupOutput](t)(f.v2.CreateTargetGroup(ctx, &v2.CreateTargetGroupInput{
		Name: aws.String("elsewhere"), Protocol: types.ProtocolEnumTcp, Port: aws.Int32(80), VpcId: &foreign,
		TargetType: types.TargetTypeEnumAlb})).TargetGroups[0].TargetGroupArn
	create := func(edit func(*v2.CreateTargetGroupInput)) func() error {
		return func() error {
			in := &v2.CreateTargetGroupInput{Name: aws.String("new"), Protocol: types.ProtocolEnumTcp, Port: aws.Int32(80),
				VpcId: &f.vpc, TargetType: types.TargetTypeEnumAlb}
			edit(in)
			return failed(f.v2.CreateTargetGroup(ctx, in))
		}
	}
	listen := func(balancer string, protocol types.ProtocolEnum, certificates ...types.Certificate) func() error {
		return func() error {
			return failed(f.v2.CreateListener(ctx, &v2.CreateListenerInput{LoadBalancerArn: &balancer, Protocol: protocol,
				Port: aws.Int32(99), Certificates: certificates, DefaultActions: forward(group)}))
		}
	}
	register := func(group, target string, port *int32) func() error {
		return func() error { return f.register(group, target, port) }
	}
	instance := f.instance("i-0123456789abcdef0", f.vpc)
	before := f.rows()
	for _, c := range []struct {
		name, code string
		do         func() error
	}{
		{"protocol HTTP", "InvalidConfigurationRequest", create(func(in *v2.CreateTargetGroupInput) {
			in.Protocol = types.ProtocolEnumHttp
		})},
		{"protocol TLS", "InvalidConfigurationRequest", create(func(in *v2.CreateTargetGroupInput) {
			in.Protocol = types.ProtocolEnumTls
		})},
		{"protocol TCP_UDP", "InvalidConfigurationRequest", create(func(in *v2.CreateTargetGroupInput) {
			in.Protocol = types.ProtocolEnumTcpUdp
		})},
		{"health check by TCP", "InvalidConfigurationRequest", create(func(in *v2.CreateTargetGroupInput) {
			in.HealthCheckProtocol = types.ProtocolEnumTcp
		})},
		{"no health check", "InvalidConfigurationRequest", create(func(in *v2.CreateTargetGroupInput) {
			in.HealthCheckEnabled = aws.Bool(false)
		})},
		{"matcher", "ValidationError", create(func(in *v2.CreateTargetGroupInput) {
			in.Matcher = &types.Matcher{HttpCode: aws.String("600")}
		})},
		{"health check by TCP, later", "InvalidConfigurationRequest", func() error {
			return failed(f.v2.ModifyTargetGroup(ctx, &v2.ModifyTargetGroupInput{TargetGroupArn: &group,
				HealthCheckProtocol: types.ProtocolEnumTcp}))
		}},
		{"attribute", "InvalidConfigurationRequest", func() error {
			return failed(f.v2.ModifyTargetGroupAttributes(ctx, &v2.ModifyTargetGroupAttributesInput{TargetGroupArn: &group,
				Attributes: []types.TargetGroupAttribute{{Key: aws.String("preserve_client_ip.enabled"),
					Value: aws.String("false")}}}))
		}},
		{"listener of TLS", "IncompatibleProtocols", listen(network, types.ProtocolEnumTls,
			types.Certificate{CertificateArn: &certificate})},
		{"listener of UDP", "IncompatibleProtocols", listen(network, types.ProtocolEnumUdp)},
		{"listener of TCP_UDP", "IncompatibleProtocols", listen(network, types.ProtocolEnumTcpUdp)},
		{"listener of an Application Load Balancer", "IncompatibleProtocols", listen(application, types.ProtocolEnumHttp)},
		{"listener of TLS, later", "IncompatibleProtocols", func() error {
			return failed(f.v2.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &bound,
				Protocol: types.ProtocolEnumTls, Certificates: certificates(certificate)}))
		}},
		{"target that is an instance", "InvalidTarget", register(group, instance, nil)},
		{"target that is an address", "InvalidTarget", register(group, "172.31.0.10", nil)},
		{"target that there is not", "InvalidTarget", register(group, application+"0", nil)},
		{"target of another account", "InvalidTarget", register(group,
			"arn:aws:elasticloadbalancing:"+region+":999999999999:loadbalancer/app/app/0123456789abcdef", nil)},
		{"Network Load Balancer", "InvalidTarget", register(group, network, nil)},
		{"Application Load Balancer of another VPC", "InvalidTarget", register(elsewhere, application, nil)},
		{"Application Load Balancer without a listener at the port", "ValidationError", register(group, second,
			aws.Int32(81))},
		{"zone of an Application Load Balancer", "ValidationError", func() error {
			return failed(f.v2.RegisterTargets(ctx, &v2.RegisterTargetsInput{TargetGroupArn: &group,
				Targets: []types.TargetDescription{{Id: &application, AvailabilityZone: aws.String("all")}}}))
		}},
		{"second Application Load Balancer", "TooManyTargets", register(full, second, nil)},
		{"second port of an Application Load Balancer", "TooManyTargets", register(full, application, aws.Int32(81))},
		{"two Application Load Balancers", "TooManyTargets", func() error {
			return failed(f.v2.RegisterTargets(ctx, &v2.RegisterTargetsInput{TargetGroupArn: &group,
				Targets: []types.TargetDescription{{Id: &application}, {Id: &second}}}))
		}},
	} {
		if got := awstest.Code(c.do()); got != c.code {
			t.Errorf("%s: got %q, want %s", c.name, got, c.code)
		}
	}
	if diff := cmp.Diff(before, f.rows()); diff != "" {
		t.Errorf("bad requests have changed something: %s", diff)
	}
}
