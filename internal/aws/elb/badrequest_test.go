package elb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	v2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
)

// TestBadRequests shows that each gets AWS's error, and changes nothing.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	f.newClassic("web")
	nlb := f.newNetwork("net")
	arn, group, other := *nlb.LoadBalancerArn, f.newGroup("one"), f.newGroup("two")
	bound := f.newListener(arn, group, 80)
	second := *f.newNetwork("second").LoadBalancerArn
	foreign := *awstest.Must[*ec2.CreateVpcOutput](t)(f.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{
		CidrBlock: aws.String("10.9.0.0/16")})).Vpc.VpcId
	elsewhere := *awstest.Must[*ec2.CreateSubnetOutput](t)(f.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{
		VpcId: &foreign, CidrBlock: aws.String("10.9.0.0/24"), AvailabilityZone: aws.String(region + "b")})).Subnet.SubnetId
	foreignGroup := *awstest.Must[*ec2.CreateSecurityGroupOutput](t)(f.ec2.CreateSecurityGroup(ctx,
		&ec2.CreateSecurityGroupInput{GroupName: aws.String("x"), Description: aws.String("x"), VpcId: &foreign})).GroupId
	instance := f.instance("i-0123456789abcdef0", f.vpc)
	stranger := f.instance("i-0123456789abcdef1", foreign)
	foreignTargets := *awstest.Must[*v2.CreateTargetGroupOutput](t)(f.v2.CreateTargetGroup(ctx,
		&v2.CreateTargetGroupInput{Name: aws.String("foreign"), Protocol: v2types.ProtocolEnumTcp, Port: aws.Int32(80),
			VpcId: &foreign})).TargetGroups[0].TargetGroupArn
	const (
		noSubnet = "subnet-0123456789abcdef0"
		noGroup  = "sg-0123456789abcdef0"
	)
	prefix := "arn:aws:elasticloadbalancing:" + region + ":" + account + ":"
	noARN, noTargets, noListener := prefix+"loadbalancer/net/none/0123456789abcdef",
		prefix+"targetgroup/none/0123456789abcdef", prefix+"listener/net/net/0123456789abcdef/0123456789abcdef"

	create := func(edit func(*classic.CreateLoadBalancerInput)) func() error {
		return func() error {
			in := &classic.CreateLoadBalancerInput{LoadBalancerName: aws.String("new"), Subnets: []string{f.subnets["a"]},
				Listeners: []classictypes.Listener{listener(80, 30080)}}
			edit(in)
			return failed(f.classic.CreateLoadBalancer(ctx, in))
		}
	}
	listen := func(edit func(*classictypes.Listener)) func() error {
		return func() error {
			l := listener(81, 30081)
			edit(&l)
			return failed(f.classic.CreateLoadBalancerListeners(ctx, &classic.CreateLoadBalancerListenersInput{
				LoadBalancerName: aws.String("web"), Listeners: []classictypes.Listener{l}}))
		}
	}
	check := func(edit func(*classictypes.HealthCheck)) func() error {
		return func() error {
			h := &classictypes.HealthCheck{Target: aws.String("TCP:80"), Interval: aws.Int32(10), Timeout: aws.Int32(5),
				HealthyThreshold: aws.Int32(2), UnhealthyThreshold: aws.Int32(2)}
			edit(h)
			return failed(f.classic.ConfigureHealthCheck(ctx, &classic.ConfigureHealthCheckInput{
				LoadBalancerName: aws.String("web"), HealthCheck: h}))
		}
	}
	policy := func(name, kind string, attributes ...classictypes.PolicyAttribute) func() error {
		return func() error {
			return failed(f.classic.CreateLoadBalancerPolicy(ctx, &classic.CreateLoadBalancerPolicyInput{
				LoadBalancerName: aws.String("web"), PolicyName: &name, PolicyTypeName: &kind, PolicyAttributes: attributes}))
		}
	}
	network := func(edit func(*v2.CreateLoadBalancerInput)) func() error {
		return func() error {
			in := &v2.CreateLoadBalancerInput{Name: aws.String("new"), Type: v2types.LoadBalancerTypeEnumNetwork,
				Subnets: []string{f.subnets["a"]}}
			edit(in)
			return failed(f.v2.CreateLoadBalancer(ctx, in))
		}
	}
	targets := func(edit func(*v2.CreateTargetGroupInput)) func() error {
		return func() error {
			in := &v2.CreateTargetGroupInput{Name: aws.String("new"), Protocol: v2types.ProtocolEnumTcp,
				Port: aws.Int32(80), VpcId: &f.vpc}
			edit(in)
			return failed(f.v2.CreateTargetGroup(ctx, in))
		}
	}
	serve := func(edit func(*v2.CreateListenerInput)) func() error {
		return func() error {
			in := &v2.CreateListenerInput{LoadBalancerArn: &arn, Protocol: v2types.ProtocolEnumTcp, Port: aws.Int32(81),
				DefaultActions: forward(group)}
			edit(in)
			return failed(f.v2.CreateListener(ctx, in))
		}
	}
	register := func(to string, target v2types.TargetDescription) func() error {
		return func() error {
			return failed(f.v2.RegisterTargets(ctx, &v2.RegisterTargetsInput{TargetGroupArn: &to,
				Targets: []v2types.TargetDescription{target}}))
		}
	}
	addresses := *awstest.Must[*v2.CreateTargetGroupOutput](t)(f.v2.CreateTargetGroup(ctx,
		&v2.CreateTargetGroupInput{Name: aws.String("ip"), Protocol: v2types.ProtocolEnumTcp, Port: aws.Int32(80),
			VpcId: &f.vpc, TargetType: v2types.TargetTypeEnumIp})).TargetGroups[0].TargetGroupArn
	before := f.rows()
	for i, c := range []struct {
		name, code string
		do         func() error
	}{
		{"name taken", "DuplicateLoadBalancerName", create(func(in *classic.CreateLoadBalancerInput) {
			in.LoadBalancerName = aws.String("web")
		})},
		{"name too long", "ValidationError", create(func(in *classic.CreateLoadBalancerInput) {
			in.LoadBalancerName = aws.String(strings.Repeat("a", 33))
		})},
		{"name with an underscore", "ValidationError", create(func(in *classic.CreateLoadBalancerInput) {
			in.LoadBalancerName = aws.String("a_b")
		})},
		{"name with a hyphen at the end", "ValidationError", create(func(in *classic.CreateLoadBalancerInput) {
			in.LoadBalancerName = aws.String("a-")
		})},
		{"empty name", "ValidationError", create(func(in *classic.CreateLoadBalancerInput) {
			in.LoadBalancerName = aws.String("")
		})},
		{"scheme", "InvalidScheme", create(func(in *classic.CreateLoadBalancerInput) {
			in.Scheme = aws.String("external")
		})},
		{"no listener", "ValidationError", create(func(in *classic.CreateLoadBalancerInput) {
			in.Listeners = []classictypes.Listener{}
		})},
		{"no subnet", "ValidationError", create(func(in *classic.CreateLoadBalancerInput) { in.Subnets = nil })},
		{"subnets and zones", "ValidationError", create(func(in *classic.CreateLoadBalancerInput) {
			in.AvailabilityZones = []string{region + "a"}
		})},
		{"zone that there is not", "ValidationError", create(func(in *classic.CreateLoadBalancerInput) {
			in.Subnets, in.AvailabilityZones = nil, []string{region + "z"}
		})},
		{"subnet that there is not", "SubnetNotFound", create(func(in *classic.CreateLoadBalancerInput) {
			in.Subnets = []string{noSubnet}
		})},
		{"subnet given twice", "InvalidSubnet", create(func(in *classic.CreateLoadBalancerInput) {
			in.Subnets = []string{f.subnets["a"], f.subnets["a"]}
		})},
		{"subnets of two VPCs", "InvalidConfigurationRequest", create(func(in *classic.CreateLoadBalancerInput) {
			in.Subnets = []string{f.subnets["a"], elsewhere}
		})},
		{"VPC without a gateway", "InvalidSubnet", create(func(in *classic.CreateLoadBalancerInput) {
			in.Subnets = []string{elsewhere}
		})},
		{"group that there is not", "InvalidSecurityGroup", create(func(in *classic.CreateLoadBalancerInput) {
			in.SecurityGroups = []string{noGroup}
		})},
		{"group of another VPC", "InvalidConfigurationRequest", create(func(in *classic.CreateLoadBalancerInput) {
			in.SecurityGroups = []string{foreignGroup}
		})},
		{"group given twice", "InvalidSecurityGroup", create(func(in *classic.CreateLoadBalancerInput) {
			in.SecurityGroups = []string{noGroup, noGroup}
		})},
		{"tag given twice", "DuplicateTagKeys", create(func(in *classic.CreateLoadBalancerInput) {
			in.Tags = []classictypes.Tag{{Key: aws.String("a")}, {Key: aws.String("a")}}
		})},
		{"reserved tag", "ValidationError", create(func(in *classic.CreateLoadBalancerInput) {
			in.Tags = []classictypes.Tag{{Key: aws.String("aws:a")}}
		})},
		{"too many tags", "TooManyTags", create(func(in *classic.CreateLoadBalancerInput) {
			for i := range 51 {
				in.Tags = append(in.Tags, classictypes.Tag{Key: aws.String(fmt.Sprint("k", i)), Value: aws.String("v")})
			}
		})},
		{"protocol", "ValidationError", listen(func(l *classictypes.Listener) { l.Protocol = aws.String("UDP") })},
		{"layers", "InvalidConfigurationRequest", listen(func(l *classictypes.Listener) {
			l.Protocol = aws.String("HTTP")
		})},
		{"listener port", "ValidationError", listen(func(l *classictypes.Listener) { l.LoadBalancerPort = 65536 })},
		{"instance port", "ValidationError", listen(func(l *classictypes.Listener) { l.InstancePort = aws.Int32(0) })},
		{"no certificate", "ValidationError", listen(func(l *classictypes.Listener) { l.Protocol = aws.String("SSL") })},
		{"certificate", "CertificateNotFound", listen(func(l *classictypes.Listener) {
			l.Protocol, l.SSLCertificateId = aws.String("SSL"), aws.String("arn:aws:acm:x")
		})},
		{"port taken", "DuplicateListener", listen(func(l *classictypes.Listener) { l.LoadBalancerPort = 80 })},
		{"listener of none", "LoadBalancerNotFound", func() error {
			return failed(f.classic.CreateLoadBalancerListeners(ctx, &classic.CreateLoadBalancerListenersInput{
				LoadBalancerName: aws.String("none"), Listeners: []classictypes.Listener{listener(1, 1)}}))
		}},
		{"check without a port", "ValidationError", check(func(h *classictypes.HealthCheck) {
			h.Target = aws.String("TCP")
		})},
		{"check of a protocol", "ValidationError", check(func(h *classictypes.HealthCheck) {
			h.Target = aws.String("ICMP:1")
		})},
		{"check without a path", "ValidationError", check(func(h *classictypes.HealthCheck) {
			h.Target = aws.String("HTTP:80")
		})},
		{"check at a port", "ValidationError", check(func(h *classictypes.HealthCheck) {
			h.Target = aws.String("TCP:65536")
		})},
		{"check interval", "ValidationError", check(func(h *classictypes.HealthCheck) { h.Interval = aws.Int32(4) })},
		{"check timeout", "ValidationError", check(func(h *classictypes.HealthCheck) { h.Timeout = aws.Int32(10) })},
		{"check threshold", "ValidationError", check(func(h *classictypes.HealthCheck) {
			h.HealthyThreshold = aws.Int32(1)
		})},
		{"instance that there is not", "InvalidInstance", func() error {
			return failed(f.classic.RegisterInstancesWithLoadBalancer(ctx, &classic.RegisterInstancesWithLoadBalancerInput{
				LoadBalancerName: aws.String("web"), Instances: []classictypes.Instance{{InstanceId: aws.String("i-1")}}}))
		}},
		{"instance of another VPC", "InvalidInstance", func() error {
			return failed(f.classic.RegisterInstancesWithLoadBalancer(ctx, &classic.RegisterInstancesWithLoadBalancerInput{
				LoadBalancerName: aws.String("web"), Instances: []classictypes.Instance{{InstanceId: &stranger}}}))
		}},
		{"instance that is not registered", "InvalidInstance", func() error {
			return failed(f.classic.DeregisterInstancesFromLoadBalancer(ctx,
				&classic.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: aws.String("web"),
					Instances: []classictypes.Instance{{InstanceId: &instance}}}))
		}},
		{"health of one that is not registered", "InvalidInstance", func() error {
			return failed(f.classic.DescribeInstanceHealth(ctx, &classic.DescribeInstanceHealthInput{
				LoadBalancerName: aws.String("web"), Instances: []classictypes.Instance{{InstanceId: &instance}}}))
		}},
		{"policy type", "PolicyTypeNotFound", policy("p", "LBCookieStickinessPolicyType")},
		{"security policy", "InvalidConfigurationRequest", policy("p", "SSLNegotiationPolicyType",
			classictypes.PolicyAttribute{AttributeName: aws.String("Reference-Security-Policy"),
				AttributeValue: aws.String("none")})},
		{"certificate of a TCP listener", "InvalidConfigurationRequest", func() error {
			return failed(f.classic.SetLoadBalancerListenerSSLCertificate(ctx,
				&classic.SetLoadBalancerListenerSSLCertificateInput{LoadBalancerName: aws.String("web"), LoadBalancerPort: 80,
					SSLCertificateId: aws.String("arn:aws:acm:x")}))
		}},
		{"policy without its attribute", "InvalidConfigurationRequest", policy("p", "ProxyProtocolPolicyType")},
		{"policy attribute", "InvalidConfigurationRequest", policy("p", "ProxyProtocolPolicyType",
			classictypes.PolicyAttribute{AttributeName: aws.String("ProxyProtocol"), AttributeValue: aws.String("yes")})},
		{"policy that there is not", "PolicyNotFound", func() error {
			return failed(f.classic.SetLoadBalancerPoliciesForBackendServer(ctx,
				&classic.SetLoadBalancerPoliciesForBackendServerInput{LoadBalancerName: aws.String("web"),
					InstancePort: aws.Int32(30080), PolicyNames: []string{"none"}}))
		}},
		{"policy of a listener that there is not", "ListenerNotFound", func() error {
			return failed(f.classic.SetLoadBalancerPoliciesOfListener(ctx, &classic.SetLoadBalancerPoliciesOfListenerInput{
				LoadBalancerName: aws.String("web"), LoadBalancerPort: 9, PolicyNames: []string{}}))
		}},
		{"idle timeout", "ValidationError", func() error {
			return failed(f.classic.ModifyLoadBalancerAttributes(ctx, &classic.ModifyLoadBalancerAttributesInput{
				LoadBalancerName: aws.String("web"), LoadBalancerAttributes: &classictypes.LoadBalancerAttributes{
					ConnectionSettings: &classictypes.ConnectionSettings{IdleTimeout: aws.Int32(4001)}}}))
		}},
		{"access logs", "InvalidConfigurationRequest", func() error {
			return failed(f.classic.ModifyLoadBalancerAttributes(ctx, &classic.ModifyLoadBalancerAttributesInput{
				LoadBalancerName: aws.String("web"), LoadBalancerAttributes: &classictypes.LoadBalancerAttributes{
					AccessLog: &classictypes.AccessLog{Enabled: true}}}))
		}},
		{"last subnets", "InvalidConfigurationRequest", func() error {
			return failed(f.classic.DetachLoadBalancerFromSubnets(ctx, &classic.DetachLoadBalancerFromSubnetsInput{
				LoadBalancerName: aws.String("web"), Subnets: []string{f.subnets["a"], f.subnets["b"]}}))
		}},
		{"no groups", "InvalidConfigurationRequest", func() error {
			return failed(f.classic.ApplySecurityGroupsToLoadBalancer(ctx, &classic.ApplySecurityGroupsToLoadBalancerInput{
				LoadBalancerName: aws.String("web"), SecurityGroups: []string{}}))
		}},
		{"describe none", "LoadBalancerNotFound", func() error {
			return failed(f.classic.DescribeLoadBalancers(ctx, &classic.DescribeLoadBalancersInput{
				LoadBalancerNames: []string{"none"}}))
		}},
		{"subnet with a load balancer", "DependencyViolation", func() error {
			return failed(f.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: aws.String(f.subnets["a"])}))
		}},
		{"VPC with a load balancer", "DependencyViolation", func() error {
			return failed(f.ec2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: &f.vpc}))
		}},

		{"application in one zone", "ValidationError", network(func(in *v2.CreateLoadBalancerInput) { in.Type = "" })},
		{"gateway", "OperationNotPermitted", network(func(in *v2.CreateLoadBalancerInput) { in.Type = "gateway" })},
		{"type", "ValidationError", network(func(in *v2.CreateLoadBalancerInput) { in.Type = "classic" })},
		{"network name taken", "DuplicateLoadBalancerName", network(func(in *v2.CreateLoadBalancerInput) {
			in.Name = aws.String("net")
		})},
		{"internal name", "ValidationError", network(func(in *v2.CreateLoadBalancerInput) {
			in.Name = aws.String("internal-a")
		})},
		{"network scheme", "ValidationError", network(func(in *v2.CreateLoadBalancerInput) { in.Scheme = "private" })},
		{"dual stack", "InvalidConfigurationRequest", network(func(in *v2.CreateLoadBalancerInput) {
			in.IpAddressType = v2types.IpAddressTypeDualstack
		})},
		{"network without subnets", "ValidationError", network(func(in *v2.CreateLoadBalancerInput) { in.Subnets = nil })},
		{"subnets and mappings", "ValidationError", network(func(in *v2.CreateLoadBalancerInput) {
			in.SubnetMappings = []v2types.SubnetMapping{{SubnetId: aws.String(f.subnets["b"])}}
		})},
		{"allocation that there is not", "AllocationIdNotFound", network(func(in *v2.CreateLoadBalancerInput) {
			in.Subnets, in.SubnetMappings = nil, []v2types.SubnetMapping{{SubnetId: aws.String(f.subnets["b"]),
				AllocationId: aws.String("eipalloc-0123456789abcdef0")}}
		})},
		{"allocation of an internal one", "InvalidConfigurationRequest", network(func(in *v2.CreateLoadBalancerInput) {
			in.Scheme, in.Subnets, in.SubnetMappings = "internal", nil, []v2types.SubnetMapping{{
				SubnetId: aws.String(f.subnets["b"]), AllocationId: aws.String("eipalloc-0123456789abcdef0")}}
		})},
		{"groups of one without", "InvalidConfigurationRequest", func() error {
			return failed(f.v2.SetSecurityGroups(ctx, &v2.SetSecurityGroupsInput{LoadBalancerArn: &arn,
				SecurityGroups: []string{noGroup}}))
		}},
		{"load balancer that there is not", "LoadBalancerNotFound", func() error {
			return failed(f.v2.DescribeLoadBalancers(ctx, &v2.DescribeLoadBalancersInput{LoadBalancerArns: []string{noARN}}))
		}},
		{"names and ARNs", "ValidationError", func() error {
			return failed(f.v2.DescribeLoadBalancers(ctx, &v2.DescribeLoadBalancersInput{Names: []string{"net"},
				LoadBalancerArns: []string{arn}}))
		}},
		{"balancer attribute", "ValidationError", func() error {
			return failed(f.v2.ModifyLoadBalancerAttributes(ctx, &v2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: &arn,
				Attributes: []v2types.LoadBalancerAttribute{{Key: aws.String("color"), Value: aws.String("red")}}}))
		}},
		{"balancer attribute's value", "InvalidConfigurationRequest", func() error {
			return failed(f.v2.ModifyLoadBalancerAttributes(ctx, &v2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: &arn,
				Attributes: []v2types.LoadBalancerAttribute{{Key: aws.String("deletion_protection.enabled"),
					Value: aws.String("yes")}}}))
		}},

		{"group name taken", "DuplicateTargetGroupName", targets(func(in *v2.CreateTargetGroupInput) {
			in.Name = aws.String("one")
		})},
		{"group without a VPC", "ValidationError", targets(func(in *v2.CreateTargetGroupInput) { in.VpcId = nil })},
		{"group of no VPC", "ValidationError", targets(func(in *v2.CreateTargetGroupInput) {
			in.VpcId = aws.String("vpc-0123456789abcdef0")
		})},
		{"group protocol", "UnsupportedProtocol", targets(func(in *v2.CreateTargetGroupInput) { in.Protocol = "TLS" })},
		{"group port", "ValidationError", targets(func(in *v2.CreateTargetGroupInput) { in.Port = aws.Int32(0) })},
		{"group type", "InvalidConfigurationRequest", targets(func(in *v2.CreateTargetGroupInput) {
			in.TargetType = v2types.TargetTypeEnumLambda
		})},
		{"check path of TCP", "InvalidConfigurationRequest", targets(func(in *v2.CreateTargetGroupInput) {
			in.HealthCheckPath = aws.String("/")
		})},
		{"check port of a group", "ValidationError", targets(func(in *v2.CreateTargetGroupInput) {
			in.HealthCheckPort = aws.String("http")
		})},
		{"check interval of a group", "ValidationError", targets(func(in *v2.CreateTargetGroupInput) {
			in.HealthCheckIntervalSeconds = aws.Int32(4)
		})},
		{"group in use", "ResourceInUse", func() error {
			return failed(f.v2.DeleteTargetGroup(ctx, &v2.DeleteTargetGroupInput{TargetGroupArn: &group}))
		}},
		{"group attribute", "InvalidConfigurationRequest", func() error {
			return failed(f.v2.ModifyTargetGroupAttributes(ctx, &v2.ModifyTargetGroupAttributesInput{TargetGroupArn: &group,
				Attributes: []v2types.TargetGroupAttribute{{Key: aws.String("deregistration_delay.timeout_seconds"),
					Value: aws.String("3601")}}}))
		}},
		{"groups by two ways", "ValidationError", func() error {
			return failed(f.v2.DescribeTargetGroups(ctx, &v2.DescribeTargetGroupsInput{LoadBalancerArn: &arn,
				Names: []string{"one"}}))
		}},
		{"group that there is not", "TargetGroupNotFound", func() error {
			return failed(f.v2.DescribeTargetHealth(ctx, &v2.DescribeTargetHealthInput{TargetGroupArn: &noTargets}))
		}},

		{"port with another listener", "DuplicateListener", serve(func(in *v2.CreateListenerInput) {
			in.Port, in.Tags = aws.Int32(80), []v2types.Tag{{Key: aws.String("team"), Value: aws.String("lake")}}
		})},
		{"listener protocol", "UnsupportedProtocol", serve(func(in *v2.CreateListenerInput) { in.Protocol = "HTTP" })},
		{"listener without a port", "ValidationError", serve(func(in *v2.CreateListenerInput) { in.Port = nil })},
		{"TLS without a certificate", "ValidationError", serve(func(in *v2.CreateListenerInput) { in.Protocol = "TLS" })},
		{"TLS with one", "CertificateNotFound", serve(func(in *v2.CreateListenerInput) {
			in.Protocol, in.Certificates = "TLS", []v2types.Certificate{{CertificateArn: aws.String("arn:aws:acm:x")}}
		})},
		{"action", "InvalidLoadBalancerAction", serve(func(in *v2.CreateListenerInput) {
			in.DefaultActions = []v2types.Action{{Type: v2types.ActionTypeEnumFixedResponse}}
		})},
		{"two actions", "TooManyActions", serve(func(in *v2.CreateListenerInput) {
			in.DefaultActions = append(forward(group), forward(other)...)
		})},
		{"group of a listener that there is not", "TargetGroupNotFound", serve(func(in *v2.CreateListenerInput) {
			in.DefaultActions = forward(noTargets)
		})},
		{"protocols", "IncompatibleProtocols", serve(func(in *v2.CreateListenerInput) { in.Protocol = "UDP" })},
		{"group of another VPC in a listener", "InvalidConfigurationRequest", serve(func(in *v2.CreateListenerInput) {
			in.DefaultActions = forward(foreignTargets)
		})},
		{"group of another load balancer", "TargetGroupAssociationLimit", serve(func(in *v2.CreateListenerInput) {
			in.LoadBalancerArn = &second
		})},
		{"listener that there is not", "ListenerNotFound", func() error {
			return failed(f.v2.DeleteListener(ctx, &v2.DeleteListenerInput{ListenerArn: &noListener}))
		}},
		{"ARN of a listener", "ValidationError", func() error {
			return failed(f.v2.DeleteListener(ctx, &v2.DeleteListenerInput{ListenerArn: &arn}))
		}},
		{"ARN of a load balancer", "ValidationError", func() error {
			return failed(f.v2.DeleteLoadBalancer(ctx, &v2.DeleteLoadBalancerInput{LoadBalancerArn: &bound}))
		}},
		{"listener attribute", "ValidationError", func() error {
			return failed(f.v2.ModifyListenerAttributes(ctx, &v2.ModifyListenerAttributesInput{ListenerArn: &bound,
				Attributes: []v2types.ListenerAttribute{{Key: aws.String("color"), Value: aws.String("red")}}}))
		}},

		{"target that there is not", "InvalidTarget", register(group, v2types.TargetDescription{Id: aws.String("i-1")})},
		{"target of another VPC", "InvalidTarget", register(group, v2types.TargetDescription{Id: &stranger})},
		{"target port", "ValidationError", register(group, v2types.TargetDescription{Id: &instance,
			Port: aws.Int32(65536)})},
		{"QUIC server ID", "ValidationError", register(group, v2types.TargetDescription{Id: &instance,
			QuicServerId: aws.String("0x0123456789abcdef")})},
		{"address that is none", "InvalidTarget", register(addresses, v2types.TargetDescription{Id: aws.String("x")})},
		{"address outside of the VPC", "InvalidTarget", register(addresses, v2types.TargetDescription{
			Id: aws.String("8.8.8.8")})},
		{"tags of a name", "ValidationError", func() error {
			return failed(f.v2.DescribeTags(ctx, &v2.DescribeTagsInput{ResourceArns: []string{"web"}}))
		}},
		{"tags of none", "TargetGroupNotFound", func() error {
			return failed(f.v2.AddTags(ctx, &v2.AddTagsInput{ResourceArns: []string{arn, noTargets},
				Tags: []v2types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}))
		}},
	} {
		if got := awstest.Code(c.do()); got != c.code {
			t.Errorf("%d %s: got %q, want %s", i, c.name, got, c.code)
		}
	}
	if diff := cmp.Diff(before, f.rows()); diff != "" {
		t.Errorf("bad requests have changed something: %s", diff)
	}
}
