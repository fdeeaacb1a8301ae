package elb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	v2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// denying returns a policy that allows all but what a statement denies.
func denying(statement string) string {
	return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny",` +
		statement + `}]}`
}

// TestAnARNHasOneSpelling has a user who may not touch what has "prod" for its name use other texts with the same name
// and ID in them, about which policies say nothing.
func TestAnARNHasOneSpelling(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	balancer, group := *f.newNetwork("prod").LoadBalancerArn, f.newGroup("prod")
	listener := f.newListener(balancer, group, 80)
	rows := func() string {
		balancers, err1 := record.LoadBalancers(f.Store).List(ctx, "")
		groups, err2 := record.TargetGroups(f.Store).List(ctx, "")
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		return fmt.Sprint(balancers, groups)
	}
	before := rows()
	_, user := f.clients(f.NewUser(t, "bob", denying(`"Action":"*","Resource":["arn:aws:*:*:*:*/net/prod/*",`+
		`"arn:aws:*:*:*:targetgroup/prod/*"]`)))
	for _, spell := range []func(string) string{
		func(arn string) string { return arn },
		func(arn string) string { return strings.Replace(arn, "/net/", "/app/", 1) },
		func(arn string) string { return strings.Replace(arn, "/net/", "/x/", 1) },
		func(arn string) string { return strings.Replace(arn, "arn:aws:", "arn:aws-cn:", 1) },
		func(arn string) string { return strings.Replace(arn, "arn:aws:", "arn::", 1) },
	} {
		b, g, l := spell(balancer), spell(group), spell(listener)
		tag := func(arn string) error {
			return failed(user.AddTags(ctx, &v2.AddTagsInput{ResourceArns: []string{arn},
				Tags: []v2types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}))
		}
		for what, err := range map[string]error{
			"ModifyListener": failed(user.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &l, Port: aws.Int32(81)})),
			"DeleteListener": failed(user.DeleteListener(ctx, &v2.DeleteListenerInput{ListenerArn: &l})),
			"ModifyTargetGroup": failed(user.ModifyTargetGroup(ctx, &v2.ModifyTargetGroupInput{TargetGroupArn: &g,
				HealthCheckIntervalSeconds: aws.Int32(20)})),
			"tags of a load balancer": tag(b), "tags of a listener": tag(l), "tags of a target group": tag(g),
		} {
			if err == nil {
				t.Errorf("%s, %s, %s: %s succeeded", b, g, l, what)
			}
		}
		// This succeeds when there is none.
		err := failed(user.DeleteLoadBalancer(ctx, &v2.DeleteLoadBalancerInput{LoadBalancerArn: &b}))
		if b == balancer && err == nil {
			t.Error("the policy does not hold")
		}
		if rows() != before {
			t.Fatalf("%s, %s, %s: something has changed", b, g, l)
		}
	}
}

// TestConditionsAreOfWhatIsMade has policies deny by what a request does not say, or says in another way than they do.
func TestConditionsAreOfWhatIsMade(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	balancer, tcp := *f.newNetwork("there").LoadBalancerArn, f.newGroup("tcp")
	listenerARN := f.newListener(balancer, tcp, 80)
	f.newClassic("classic")
	when := func(key, value string) string {
		return denying(fmt.Sprintf(`"Action":"*","Resource":"*","Condition":{"ForAnyValue:StringEquals":`+
			`{"elasticloadbalancing:%s":%q}}`, key, value))
	}
	const defaultPolicy, oldPolicy = "ELBSecurityPolicy-2016-08", "ELBSecurityPolicy-2015-05"
	certificate := f.certificate("1", acmtypes.CertificateStatusIssued)
	application := f.newApplication("application")
	applicationARN, group := *application.LoadBalancerArn, application.SecurityGroups[0]
	secure := func(policy *string) *v2.CreateListenerInput {
		return &v2.CreateListenerInput{LoadBalancerArn: &applicationARN, Protocol: v2types.ProtocolEnumHttps,
			Port: aws.Int32(443), SslPolicy: policy, Certificates: certificates(certificate), DefaultActions: fixed("404")}
	}
	plain := f.newHTTPListener(applicationARN, 80, fixed("404"))
	secureARN := *awstest.Must[*v2.CreateListenerOutput](t)(f.v2.CreateListener(ctx, secure(nil))).
		Listeners[0].ListenerArn
	policy := func(name string) *classic.CreateLoadBalancerPolicyInput {
		return &classic.CreateLoadBalancerPolicyInput{LoadBalancerName: aws.String("classic"), PolicyName: &name,
			PolicyTypeName: aws.String("SSLNegotiationPolicyType"), PolicyAttributes: []classictypes.PolicyAttribute{{
				AttributeName: aws.String("Reference-Security-Policy"), AttributeValue: aws.String(oldPolicy)}}}
	}
	awstest.Must[*classic.CreateLoadBalancerPolicyOutput](t)(f.classic.CreateLoadBalancerPolicy(ctx, policy("old")))
	awstest.Must[*classic.CreateLoadBalancerListenersOutput](t)(f.classic.CreateLoadBalancerListeners(ctx,
		&classic.CreateLoadBalancerListenersInput{LoadBalancerName: aws.String("classic"),
			Listeners: []classictypes.Listener{{Protocol: aws.String("ssl"), LoadBalancerPort: 443,
				InstancePort: aws.Int32(80), SSLCertificateId: &certificate}}}))
	web := []classictypes.Listener{{Protocol: aws.String("http"), LoadBalancerPort: 8080, InstancePort: aws.Int32(80)}}
	for i, c := range []struct {
		name, key, value string
		do               func(*classic.Client, *v2.Client) error
	}{
		{"a scheme that is not given", "Scheme", "internet-facing", func(_ *classic.Client, c *v2.Client) error {
			return failed(c.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{Name: aws.String("new"),
				Type: v2types.LoadBalancerTypeEnumNetwork, Subnets: []string{f.subnets["a"]}}))
		}},
		{"a scheme that is not given, of a Classic one", "Scheme", "internet-facing",
			func(c *classic.Client, _ *v2.Client) error {
				return failed(c.CreateLoadBalancer(ctx, &classic.CreateLoadBalancerInput{LoadBalancerName: aws.String("new"),
					Subnets: []string{f.subnets["a"]}, Listeners: web}))
			}},
		{"a protocol in small letters", "ListenerProtocol", "HTTP", func(c *classic.Client, _ *v2.Client) error {
			return failed(c.CreateLoadBalancerListeners(ctx, &classic.CreateLoadBalancerListenersInput{
				LoadBalancerName: aws.String("classic"), Listeners: web}))
		}},
		{"a protocol in small letters, at creation", "ListenerProtocol", "HTTP",
			func(c *classic.Client, _ *v2.Client) error {
				return failed(c.CreateLoadBalancer(ctx, &classic.CreateLoadBalancerInput{LoadBalancerName: aws.String("new"),
					Subnets: []string{f.subnets["a"]}, Listeners: web}))
			}},
		{"the default subnet of a zone", "Subnet", f.subnets["a"], func(c *classic.Client, _ *v2.Client) error {
			return failed(c.CreateLoadBalancer(ctx, &classic.CreateLoadBalancerInput{LoadBalancerName: aws.String("new"),
				AvailabilityZones: []string{region + "a"}, Listeners: web}))
		}},
		{"the protocol of a listener that changes", "ListenerProtocol", "UDP", func(_ *classic.Client, c *v2.Client) error {
			return failed(c.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &listenerARN,
				Protocol: v2types.ProtocolEnumUdp}))
		}},
		{"the security policy of a listener that names none", "SecurityPolicy", defaultPolicy,
			func(_ *classic.Client, c *v2.Client) error { return failed(c.CreateListener(ctx, secure(nil))) }},
		{"the security policy of a listener whose name is empty", "SecurityPolicy", defaultPolicy,
			func(_ *classic.Client, c *v2.Client) error {
				return failed(c.CreateListener(ctx, secure(aws.String(""))))
			}},
		{"the security policy of a listener that gets TLS", "SecurityPolicy", defaultPolicy,
			func(_ *classic.Client, c *v2.Client) error {
				return failed(c.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &plain,
					Protocol: v2types.ProtocolEnumHttps, Certificates: certificates(certificate)}))
			}},
		{"the security policy of a listener that stays", "SecurityPolicy", defaultPolicy,
			func(_ *classic.Client, c *v2.Client) error {
				return failed(c.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &secureARN, Port: aws.Int32(444)}))
			}},
		{"the security policy in a policy of a Classic one", "SecurityPolicy", oldPolicy,
			func(c *classic.Client, _ *v2.Client) error {
				return failed(c.CreateLoadBalancerPolicy(ctx, policy("new")))
			}},
		{"the security policy that a listener of a Classic one gets", "SecurityPolicy", oldPolicy,
			func(c *classic.Client, _ *v2.Client) error {
				return failed(c.SetLoadBalancerPoliciesOfListener(ctx, &classic.SetLoadBalancerPoliciesOfListenerInput{
					LoadBalancerName: aws.String("classic"), LoadBalancerPort: 443, PolicyNames: []string{"old"}}))
			}},
		{"the security policy that a listener of a Classic one loses", "SecurityPolicy", defaultPolicy,
			func(c *classic.Client, _ *v2.Client) error {
				return failed(c.SetLoadBalancerPoliciesOfListener(ctx, &classic.SetLoadBalancerPoliciesOfListenerInput{
					LoadBalancerName: aws.String("classic"), LoadBalancerPort: 443, PolicyNames: []string{}}))
			}},
		{"the default security group", "SecurityGroup", group, func(_ *classic.Client, c *v2.Client) error {
			return failed(c.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{Name: aws.String("new"),
				Subnets: []string{f.subnets["a"], f.subnets["b"]}}))
		}},
		{"the default security group, by mappings of subnets", "SecurityGroup", group,
			func(_ *classic.Client, c *v2.Client) error {
				return failed(c.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{Name: aws.String("new"),
					SubnetMappings: []v2types.SubnetMapping{{SubnetId: aws.String(f.subnets["a"])},
						{SubnetId: aws.String(f.subnets["b"])}}}))
			}},
		{"the default security group of a Classic one", "SecurityGroup", group,
			func(c *classic.Client, _ *v2.Client) error {
				return failed(c.CreateLoadBalancer(ctx, &classic.CreateLoadBalancerInput{LoadBalancerName: aws.String("new"),
					AvailabilityZones: []string{region + "a"}, Listeners: web}))
			}},
		{"the protocol of a listener that stays", "ListenerProtocol", "TCP", func(_ *classic.Client, c *v2.Client) error {
			return failed(c.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &listenerARN, Port: aws.Int32(81)}))
		}},
	} {
		user := f.NewUser(t, fmt.Sprintf("user-%d", i), when(c.key, c.value))
		classicClient, v2Client := f.clients(user)
		if code, _, _ := awstest.Failure(c.do(classicClient, v2Client)); code != "AccessDenied" {
			t.Errorf("%s: got %q, want AccessDenied", c.name, code)
		}
	}
}

// TestTagsOfServicesStay has tags that AWS services have given be removed by whoever may remove tags.
func TestTagsOfServicesStay(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	arn := *f.newNetwork("net").LoadBalancerArn
	f.newClassic("web")
	key := aws.String("aws:cloudformation:stack-name")
	table := record.LoadBalancers(f.Store)
	for kind, name := range map[string]string{record.NetworkLoadBalancer: "net", record.ClassicLoadBalancer: "web"} {
		if _, err := table.Modify(ctx, record.LoadBalancerKey(account, region, kind, name),
			func(b *record.LoadBalancer) error { b.Tags = map[string]string{*key: "s"}; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.v2.RemoveTags(ctx, &v2.RemoveTagsInput{ResourceArns: []string{arn}, TagKeys: []string{*key}})
	awstest.WantCode(t, err, "ValidationError")
	_, err = f.classic.RemoveTags(ctx, &classic.RemoveTagsInput{LoadBalancerNames: []string{"web"},
		Tags: []classictypes.TagKeyOnly{{Key: key}}})
	awstest.WantCode(t, err, "ValidationError")
}
