package elb_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestBadApplicationRequests shows that each gets AWS's error, and changes nothing.
func TestBadApplicationRequests(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	arn, second, network := *f.newApplication("web").LoadBalancerArn, *f.newApplication("second").LoadBalancerArn,
		*f.newNetwork("net").LoadBalancerArn
	one, two, tcp, taken := f.newHTTPGroup("one"), f.newHTTPGroup("two"), f.newGroup("tcp"), f.newHTTPGroup("taken")
	grpc := f.newHTTPGroup("grpc", func(in *v2.CreateTargetGroupInput) { in.ProtocolVersion = aws.String("GRPC") })
	f.newHTTPListener(second, 80, forward(taken))
	issued, pending := f.certificate("1", acmtypes.CertificateStatusIssued),
		f.certificate("2", acmtypes.CertificateStatusPendingValidation)
	listener := f.newHTTPListener(arn, 80, forward(one))
	secure := *awstest.Must[*v2.CreateListenerOutput](t)(f.v2.CreateListener(ctx, &v2.CreateListenerInput{
		LoadBalancerArn: &arn, Protocol: types.ProtocolEnumHttps, Port: aws.Int32(443), Certificates: certificates(issued),
		DefaultActions: fixed("404")})).Listeners[0].ListenerArn
	plain := f.newListener(network, tcp, 80)
	rule := f.newRule(listener, 1, path("/one"), forward(one))
	for i := range int32(99) {
		f.newRule(secure, i+2, path("/"+strconv.Itoa(int(i))), fixed("200"))
	}
	later := awstest.Must[*v2.DescribeRulesOutput](t)(f.v2.DescribeRules(ctx, &v2.DescribeRulesInput{
		ListenerArn: &secure})).Rules
	defaultRule := *later[len(later)-1].RuleArn
	none := strings.Replace(rule, rule[strings.LastIndex(rule, "/"):], "/0123456789abcdef", 1)

	balancer := func(edit func(*v2.CreateLoadBalancerInput)) func() error {
		return func() error {
			in := &v2.CreateLoadBalancerInput{Name: aws.String("new"), Subnets: []string{f.subnets["a"], f.subnets["b"]}}
			edit(in)
			return failed(f.v2.CreateLoadBalancer(ctx, in))
		}
	}
	group := func(edit func(*v2.CreateTargetGroupInput)) func() error {
		return func() error {
			in := &v2.CreateTargetGroupInput{Name: aws.String("new"), Protocol: types.ProtocolEnumHttp, Port: aws.Int32(80),
				VpcId: &f.vpc}
			edit(in)
			return failed(f.v2.CreateTargetGroup(ctx, in))
		}
	}
	listen := func(edit func(*v2.CreateListenerInput)) func() error {
		return func() error {
			in := &v2.CreateListenerInput{LoadBalancerArn: &arn, Protocol: types.ProtocolEnumHttps, Port: aws.Int32(444),
				Certificates: certificates(issued), DefaultActions: fixed("200")}
			edit(in)
			return failed(f.v2.CreateListener(ctx, in))
		}
	}
	act := func(edit func(*types.Action)) func() error {
		return listen(func(in *v2.CreateListenerInput) {
			in.DefaultActions[0].FixedResponseConfig = nil
			edit(&in.DefaultActions[0])
		})
	}
	oidc := func(edit func(*types.AuthenticateOidcActionConfig)) func() error {
		return listen(func(in *v2.CreateListenerInput) {
			c := &types.AuthenticateOidcActionConfig{Issuer: aws.String("https://idp.example"),
				AuthorizationEndpoint: aws.String("https://idp.example/a"), TokenEndpoint: aws.String("https://idp.example/t"),
				UserInfoEndpoint: aws.String("https://idp.example/u"), ClientId: aws.String("id"),
				ClientSecret: aws.String("secret")}
			edit(c)
			in.DefaultActions[0].Order = aws.Int32(2)
			in.DefaultActions = append(in.DefaultActions, types.Action{Type: types.ActionTypeEnumAuthenticateOidc,
				Order: aws.Int32(1), AuthenticateOidcConfig: c})
		})
	}
	redirect := func(c types.RedirectActionConfig) func() error {
		if c.StatusCode == "" {
			c.StatusCode = types.RedirectActionStatusCodeEnumHttp301
		}
		return act(func(a *types.Action) { a.Type, a.RedirectConfig = types.ActionTypeEnumRedirect, &c })
	}
	weigh := func(sticky *types.TargetGroupStickinessConfig, weight int32, arns ...string) func() error {
		return act(func(a *types.Action) {
			a.Type, a.ForwardConfig = types.ActionTypeEnumForward, &types.ForwardActionConfig{
				TargetGroupStickinessConfig: sticky}
			for _, arn := range arns {
				a.ForwardConfig.TargetGroups = append(a.ForwardConfig.TargetGroups, types.TargetGroupTuple{
					TargetGroupArn: &arn, Weight: &weight})
			}
		})
	}
	create := func(edit func(*v2.CreateRuleInput)) func() error {
		return func() error {
			in := &v2.CreateRuleInput{ListenerArn: &listener, Priority: aws.Int32(2), Conditions: path("/new"),
				Actions: fixed("200")}
			edit(in)
			return failed(f.v2.CreateRule(ctx, in))
		}
	}
	when := func(conditions ...types.RuleCondition) func() error {
		return create(func(in *v2.CreateRuleInput) { in.Conditions = append([]types.RuleCondition{}, conditions...) })
	}
	hosts := func(values ...string) types.RuleCondition {
		return types.RuleCondition{Field: aws.String("host-header"), HostHeaderConfig: &types.HostHeaderConditionConfig{
			Values: values}}
	}
	header := func(name string, values ...string) types.RuleCondition {
		return types.RuleCondition{Field: aws.String("http-header"), HttpHeaderConfig: &types.HttpHeaderConditionConfig{
			HttpHeaderName: &name, Values: values}}
	}
	transform := func(list ...types.RuleTransform) func() error {
		return create(func(in *v2.CreateRuleInput) { in.Transforms = list })
	}
	rewrite := func(expression string) types.RuleTransform {
		return types.RuleTransform{Type: types.TransformTypeEnumUrlRewrite, UrlRewriteConfig: &types.UrlRewriteConfig{
			Rewrites: []types.RewriteConfig{{Regex: &expression, Replace: aws.String("/")}}}}
	}
	certify := func(listener, arn string) func() error {
		return func() error {
			return failed(f.v2.AddListenerCertificates(ctx, &v2.AddListenerCertificatesInput{ListenerArn: &listener,
				Certificates: certificates(arn)}))
		}
	}
	prioritize := func(pairs ...types.RulePriorityPair) func() error {
		return func() error {
			return failed(f.v2.SetRulePriorities(ctx, &v2.SetRulePrioritiesInput{RulePriorities: pairs}))
		}
	}
	balancerAttribute := func(key, value string) func() error {
		return func() error {
			return failed(f.v2.ModifyLoadBalancerAttributes(ctx, &v2.ModifyLoadBalancerAttributesInput{
				LoadBalancerArn: &arn, Attributes: []types.LoadBalancerAttribute{{Key: &key, Value: &value}}}))
		}
	}
	groupAttribute := func(pairs ...string) func() error {
		return func() error {
			in := &v2.ModifyTargetGroupAttributesInput{TargetGroupArn: &one}
			for i := 0; i < len(pairs); i += 2 {
				in.Attributes = append(in.Attributes, types.TargetGroupAttribute{Key: &pairs[i], Value: &pairs[i+1]})
			}
			return failed(f.v2.ModifyTargetGroupAttributes(ctx, in))
		}
	}
	before := f.rows()
	for i, c := range []struct {
		name, code string
		do         func() error
	}{
		{"one subnet", "ValidationError", balancer(func(in *v2.CreateLoadBalancerInput) { in.Subnets = in.Subnets[:1] })},
		{"name of a Network Load Balancer", "DuplicateLoadBalancerName", balancer(func(in *v2.CreateLoadBalancerInput) {
			in.Name = aws.String("net")
		})},
		{"taken with another scheme", "DuplicateLoadBalancerName", balancer(func(in *v2.CreateLoadBalancerInput) {
			in.Name, in.Scheme = aws.String("web"), types.LoadBalancerSchemeEnumInternal
		})},
		{"dual stack", "InvalidConfigurationRequest", balancer(func(in *v2.CreateLoadBalancerInput) {
			in.IpAddressType = types.IpAddressTypeDualstackWithoutPublicIpv4
		})},
		{"elastic address", "InvalidConfigurationRequest", balancer(func(in *v2.CreateLoadBalancerInput) {
			in.Subnets, in.SubnetMappings = nil, []types.SubnetMapping{{SubnetId: aws.String(f.subnets["a"])},
				{SubnetId: aws.String(f.subnets["b"]), AllocationId: aws.String("eipalloc-0123456789abcdef0")}}
		})},
		{"security group that there is not", "InvalidSecurityGroup", balancer(func(in *v2.CreateLoadBalancerInput) {
			in.SecurityGroups = []string{"sg-0123456789abcdef0"}
		})},
		{"leave one zone", "ValidationError", func() error {
			return failed(f.v2.SetSubnets(ctx, &v2.SetSubnetsInput{LoadBalancerArn: &arn, Subnets: []string{f.subnets["a"]}}))
		}},
		{"no security group", "InvalidConfigurationRequest", func() error {
			return failed(f.v2.SetSecurityGroups(ctx, &v2.SetSecurityGroupsInput{LoadBalancerArn: &arn,
				SecurityGroups: []string{}}))
		}},
		{"other kind of ARN", "ListenerNotFound", func() error {
			return failed(f.v2.DeleteListener(ctx, &v2.DeleteListenerInput{ListenerArn: aws.String(
				strings.Replace(listener, "listener/app/", "listener/net/", 1))}))
		}},

		{"protocol version", "ValidationError", group(func(in *v2.CreateTargetGroupInput) {
			in.ProtocolVersion = aws.String("HTTP3")
		})},
		{"target control port", "InvalidConfigurationRequest", group(func(in *v2.CreateTargetGroupInput) {
			in.TargetControlPort = aws.Int32(3000)
		})},
		{"protocol version of TCP", "InvalidConfigurationRequest", group(func(in *v2.CreateTargetGroupInput) {
			in.Protocol, in.ProtocolVersion = types.ProtocolEnumTcp, aws.String("HTTP1")
		})},
		{"check by TCP", "InvalidConfigurationRequest", group(func(in *v2.CreateTargetGroupInput) {
			in.HealthCheckProtocol = types.ProtocolEnumTcp
		})},
		{"HTTP code", "ValidationError", group(func(in *v2.CreateTargetGroupInput) {
			in.Matcher = &types.Matcher{HttpCode: aws.String("200-500")}
		})},
		{"HTTP code of gRPC", "InvalidConfigurationRequest", group(func(in *v2.CreateTargetGroupInput) {
			in.ProtocolVersion, in.Matcher = aws.String("GRPC"), &types.Matcher{HttpCode: aws.String("200")}
		})},
		{"gRPC code of HTTP", "InvalidConfigurationRequest", group(func(in *v2.CreateTargetGroupInput) {
			in.Matcher = &types.Matcher{GrpcCode: aws.String("0")}
		})},
		{"gRPC code", "ValidationError", group(func(in *v2.CreateTargetGroupInput) {
			in.ProtocolVersion, in.Matcher = aws.String("GRPC"), &types.Matcher{GrpcCode: aws.String("5-1")}
		})},
		{"lambda", "InvalidConfigurationRequest", group(func(in *v2.CreateTargetGroupInput) {
			in.TargetType = types.TargetTypeEnumLambda
		})},

		{"port taken", "DuplicateListener", listen(func(in *v2.CreateListenerInput) { in.Port = aws.Int32(80) })},
		{"listener protocol", "UnsupportedProtocol", listen(func(in *v2.CreateListenerInput) { in.Protocol = "TCP" })},
		{"no certificate", "ValidationError", listen(func(in *v2.CreateListenerInput) { in.Certificates = nil })},
		{"two certificates", "TooManyCertificates", listen(func(in *v2.CreateListenerInput) {
			in.Certificates = append(in.Certificates, in.Certificates...)
		})},
		{"certificate of HTTP", "ValidationError", listen(func(in *v2.CreateListenerInput) { in.Protocol = "HTTP" })},
		{"certificate that there is not", "CertificateNotFound", listen(func(in *v2.CreateListenerInput) {
			in.Certificates = certificates(record.CertificateARN(account, region, "9"))
		})},
		{"certificate of another region", "CertificateNotFound", listen(func(in *v2.CreateListenerInput) {
			in.Certificates = certificates(record.CertificateARN(account, "ap-south-1", "1"))
		})},
		{"certificate of IAM", "CertificateNotFound", listen(func(in *v2.CreateListenerInput) {
			in.Certificates = certificates("arn:aws:iam::" + account + ":server-certificate/web")
		})},
		{"certificate that is pending", "UnsupportedCertificate", listen(func(in *v2.CreateListenerInput) {
			in.Certificates = certificates(pending)
		})},
		{"security policy", "SSLPolicyNotFound", listen(func(in *v2.CreateListenerInput) {
			in.SslPolicy = aws.String("ELBSecurityPolicy-2000-01")
		})},
		{"ALPN policy of HTTPS", "ValidationError", listen(func(in *v2.CreateListenerInput) {
			in.AlpnPolicy = []string{"HTTP2Only"}
		})},
		{"mutual TLS", "InvalidConfigurationRequest", listen(func(in *v2.CreateListenerInput) {
			in.MutualAuthentication = &types.MutualAuthenticationAttributes{Mode: aws.String("verify")}
		})},
		{"target group for TCP", "IncompatibleProtocols", weigh(nil, 1, tcp)},
		{"target group of another load balancer", "TargetGroupAssociationLimit", weigh(nil, 1, taken)},
		{"gRPC without TLS", "InvalidConfigurationRequest", listen(func(in *v2.CreateListenerInput) {
			in.Protocol, in.Certificates, in.DefaultActions = "HTTP", nil, forward(grpc)
		})},
		{"target group given twice", "ValidationError", weigh(nil, 1, one, one)},
		{"weight", "ValidationError", weigh(nil, 1000, one, two)},
		{"six target groups", "TooManyTargetGroups", weigh(nil, 1, one, two, one, two, one, two)},
		{"sticky for how long", "ValidationError", weigh(&types.TargetGroupStickinessConfig{Enabled: aws.Bool(true)}, 1,
			one)},
		{"Cognito", "InvalidLoadBalancerAction", act(func(a *types.Action) {
			a.Type = types.ActionTypeEnumAuthenticateCognito
			a.AuthenticateCognitoConfig = &types.AuthenticateCognitoActionConfig{UserPoolArn: aws.String("arn"),
				UserPoolClientId: aws.String("id"), UserPoolDomain: aws.String("domain")}
		})},
		{"configuration of another action", "InvalidLoadBalancerAction", act(func(a *types.Action) {
			a.TargetGroupArn = &one
		})},
		{"type of an action", "ValidationError", act(func(a *types.Action) { a.Type = "deny" })},
		{"fixed response", "ValidationError", act(func(a *types.Action) {
			a.FixedResponseConfig = &types.FixedResponseActionConfig{StatusCode: aws.String("302")}
		})},
		{"long body", "ValidationError", act(func(a *types.Action) {
			a.FixedResponseConfig = &types.FixedResponseActionConfig{StatusCode: aws.String("200"),
				MessageBody: aws.String(strings.Repeat("a", 1025))}
		})},
		{"content type", "ValidationError", act(func(a *types.Action) {
			a.FixedResponseConfig = &types.FixedResponseActionConfig{StatusCode: aws.String("200"),
				ContentType: aws.String("image/png")}
		})},
		{"redirect in a loop", "InvalidLoadBalancerAction", redirect(types.RedirectActionConfig{
			Query: aws.String("a=b")})},
		{"redirect to HTTP", "InvalidLoadBalancerAction", redirect(types.RedirectActionConfig{
			Protocol: aws.String("HTTP")})},
		{"redirect port", "ValidationError", redirect(types.RedirectActionConfig{Port: aws.String("x")})},
		{"redirect path", "ValidationError", redirect(types.RedirectActionConfig{Path: aws.String("new")})},
		{"redirect keyword", "ValidationError", redirect(types.RedirectActionConfig{Path: aws.String("/#{query}")})},
		{"redirect status", "ValidationError", redirect(types.RedirectActionConfig{StatusCode: "HTTP_307",
			Host: aws.String("example.com")})},
		{"OIDC without a secret", "ValidationError", oidc(func(c *types.AuthenticateOidcActionConfig) {
			c.ClientSecret = nil
		})},
		{"OIDC without TLS", "ValidationError", oidc(func(c *types.AuthenticateOidcActionConfig) {
			c.TokenEndpoint = aws.String("http://idp.example/t")
		})},
		{"OIDC timeout", "ValidationError", oidc(func(c *types.AuthenticateOidcActionConfig) {
			c.SessionTimeout = aws.Int64(604801)
		})},
		{"OIDC last", "InvalidLoadBalancerAction", listen(func(in *v2.CreateListenerInput) {
			in.DefaultActions = []types.Action{{Type: types.ActionTypeEnumAuthenticateOidc,
				AuthenticateOidcConfig: &types.AuthenticateOidcActionConfig{Issuer: aws.String("https://idp.example"),
					AuthorizationEndpoint: aws.String("https://idp.example/a"), TokenEndpoint: aws.String("https://idp.example/t"),
					UserInfoEndpoint: aws.String("https://idp.example/u"), ClientId: aws.String("id"),
					ClientSecret: aws.String("secret")}}}
		})},
		{"three actions", "TooManyActions", listen(func(in *v2.CreateListenerInput) {
			in.DefaultActions = slices.Concat(fixed("200"), fixed("200"), fixed("200"))
		})},
		{"actions without an order", "ValidationError", listen(func(in *v2.CreateListenerInput) {
			in.DefaultActions = append(fixed("200"), fixed("200")...)
		})},

		{"priority in use", "PriorityInUse", create(func(in *v2.CreateRuleInput) { in.Priority = aws.Int32(1) })},
		{"priority", "ValidationError", create(func(in *v2.CreateRuleInput) { in.Priority = aws.Int32(50001) })},
		{"rule of a Network Load Balancer", "OperationNotPermitted", create(func(in *v2.CreateRuleInput) {
			in.ListenerArn = &plain
		})},
		{"too many rules", "TooManyRules", create(func(in *v2.CreateRuleInput) {})},
		{"no condition", "ValidationError", when([]types.RuleCondition{}...)},
		{"field", "ValidationError", when(types.RuleCondition{Field: aws.String("cookie"), Values: []string{"a"}})},
		{"field twice", "ValidationError", when(append(path("/a"), path("/b")...)...)},
		{"six values", "ValidationError", when(path("/1", "/2", "/3", "/4", "/5", "/6")...)},
		{"seven wildcards", "ValidationError", when(path("/*/*/*/*/*/*/*")...)},
		{"host without a period", "ValidationError", when(hosts("localhost"))},
		{"host with a number at the end", "ValidationError", when(hosts("10.0.0.1"))},
		{"path with a space", "ValidationError", when(path("/a b")...)},
		{"host header", "ValidationError", when(header("Host", "example.com"))},
		{"header name", "ValidationError", when(header("a b", "x"))},
		{"header without a value", "ValidationError", when(header("X-A"))},
		{"method", "ValidationError", when(types.RuleCondition{Field: aws.String("http-request-method"),
			HttpRequestMethodConfig: &types.HttpRequestMethodConditionConfig{Values: []string{"get"}}})},
		{"source", "ValidationError", when(types.RuleCondition{Field: aws.String("source-ip"),
			SourceIpConfig: &types.SourceIpConditionConfig{Values: []string{"10.0.0.0"}}})},
		{"configuration of another field", "ValidationError", when(types.RuleCondition{Field: aws.String("source-ip"),
			HostHeaderConfig: &types.HostHeaderConditionConfig{Values: []string{"example.com"}}})},
		{"regular expression", "ValidationError", when(types.RuleCondition{Field: aws.String("path-pattern"),
			PathPatternConfig: &types.PathPatternConditionConfig{RegexValues: []string{"("}}})},
		{"regular expression that quotes without an end", "ValidationError", when(types.RuleCondition{
			Field: aws.String("path-pattern"), PathPatternConfig: &types.PathPatternConditionConfig{
				RegexValues: []string{`\Qabc`}}})},
		{"regular expression that ends another's group", "ValidationError", when(types.RuleCondition{
			Field: aws.String("path-pattern"), PathPatternConfig: &types.PathPatternConditionConfig{
				RegexValues: []string{"a)(?:b"}}})},
		{"two rewrites", "ValidationError", transform(rewrite("^/a$"), rewrite("^/b$"))},
		{"rewrite", "ValidationError", transform(rewrite("("))},
		{"rule that there is not", "RuleNotFound", func() error {
			return failed(f.v2.DeleteRule(ctx, &v2.DeleteRuleInput{RuleArn: &none}))
		}},
		{"ARN of a rule", "ValidationError", func() error {
			return failed(f.v2.DeleteRule(ctx, &v2.DeleteRuleInput{RuleArn: &listener}))
		}},
		{"delete the default rule", "OperationNotPermitted", func() error {
			return failed(f.v2.DeleteRule(ctx, &v2.DeleteRuleInput{RuleArn: &defaultRule}))
		}},
		{"modify the default rule", "OperationNotPermitted", func() error {
			return failed(f.v2.ModifyRule(ctx, &v2.ModifyRuleInput{RuleArn: &defaultRule, Actions: fixed("200")}))
		}},
		{"tags of the default rule", "OperationNotPermitted", func() error {
			return failed(f.v2.AddTags(ctx, &v2.AddTagsInput{ResourceArns: []string{defaultRule}, Tags: []types.Tag{{
				Key: aws.String("a"), Value: aws.String("b")}}}))
		}},
		{"priority of the default rule", "OperationNotPermitted", prioritize(types.RulePriorityPair{
			RuleArn: &defaultRule, Priority: aws.Int32(1)})},
		{"priorities of two listeners", "ValidationError", prioritize(types.RulePriorityPair{RuleArn: &rule,
			Priority: aws.Int32(9)}, types.RulePriorityPair{RuleArn: later[0].RuleArn, Priority: aws.Int32(10)})},
		{"priority of another rule", "PriorityInUse", prioritize(types.RulePriorityPair{RuleArn: later[0].RuleArn,
			Priority: aws.Int32(3)})},
		{"rules and a listener", "ValidationError", func() error {
			return failed(f.v2.DescribeRules(ctx, &v2.DescribeRulesInput{ListenerArn: &listener, RuleArns: []string{rule}}))
		}},
		{"group that a rule uses", "ResourceInUse", func() error {
			return failed(f.v2.DeleteTargetGroup(ctx, &v2.DeleteTargetGroupInput{TargetGroupArn: &one}))
		}},

		{"certificate for HTTP", "OperationNotPermitted", certify(listener, issued)},
		{"certificate to add that there is not", "CertificateNotFound", certify(secure, "arn:aws:acm:x")},
		{"default certificate", "OperationNotPermitted", func() error {
			return failed(f.v2.RemoveListenerCertificates(ctx, &v2.RemoveListenerCertificatesInput{ListenerArn: &secure,
				Certificates: certificates(issued)}))
		}},
		{"policy that there is not", "SSLPolicyNotFound", func() error {
			return failed(f.v2.DescribeSSLPolicies(ctx, &v2.DescribeSSLPoliciesInput{Names: []string{"none"}}))
		}},
		{"HTTPS to HTTP with a certificate", "ValidationError", func() error {
			return failed(f.v2.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &secure, Protocol: "HTTP",
				Certificates: certificates(issued)}))
		}},
		{"idle timeout", "InvalidConfigurationRequest", balancerAttribute("idle_timeout.timeout_seconds", "4001")},
		{"cross-zone", "InvalidConfigurationRequest", balancerAttribute("load_balancing.cross_zone.enabled", "false")},
		{"access logs", "InvalidConfigurationRequest", balancerAttribute("access_logs.s3.enabled", "true")},
		{"attribute of a Network Load Balancer", "ValidationError",
			balancerAttribute("dns_record.client_routing_policy", "any_availability_zone")},
		{"slow start", "InvalidConfigurationRequest", groupAttribute("slow_start.duration_seconds", "29")},
		{"slow start of another algorithm", "InvalidConfigurationRequest", groupAttribute("slow_start.duration_seconds", "30",
			"load_balancing.algorithm.type", "least_outstanding_requests")},
		{"cookie without a name", "InvalidConfigurationRequest", groupAttribute("stickiness.enabled", "true",
			"stickiness.type", "app_cookie")},
		{"cookie of the load balancer", "InvalidConfigurationRequest",
			groupAttribute("stickiness.app_cookie.cookie_name", "AWSALBAPP")},
		{"a long name of a cookie", "InvalidConfigurationRequest",
			groupAttribute("stickiness.app_cookie.cookie_name", strings.Repeat("a", 257))},
		{"stickiness by address", "InvalidConfigurationRequest", groupAttribute("stickiness.type", "source_ip")},
	} {
		if got := awstest.Code(c.do()); got != c.code {
			t.Errorf("%d %s: got %q, want %s", i, c.name, got, c.code)
		}
	}
	if err := balancerAttribute("access_logs.s3.enabled", "true")(); err == nil ||
		!strings.Contains(err.Error(), "PutDeliverySource") {
		t.Errorf("who wants access logs is told %v", err)
	}
	if diff := cmp.Diff(before, f.rows()); diff != "" {
		t.Errorf("bad requests have changed something: %s", diff)
	}
}
