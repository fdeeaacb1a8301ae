package elb_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// newApplication creates an Application Load Balancer in two zones.
func (f *fixture) newApplication(name string) types.LoadBalancer {
	f.t.Helper()
	return awstest.Must[*v2.CreateLoadBalancerOutput](f.t)(f.v2.CreateLoadBalancer(f.t.Context(),
		&v2.CreateLoadBalancerInput{Name: &name, Subnets: []string{f.subnets["a"], f.subnets["b"]}})).LoadBalancers[0]
}

func (f *fixture) newHTTPGroup(name string, edit ...func(*v2.CreateTargetGroupInput)) string {
	f.t.Helper()
	in := &v2.CreateTargetGroupInput{Name: &name, Protocol: types.ProtocolEnumHttp, Port: aws.Int32(8080), VpcId: &f.vpc,
		TargetType: types.TargetTypeEnumIp}
	for _, e := range edit {
		e(in)
	}
	return *awstest.Must[*v2.CreateTargetGroupOutput](f.t)(f.v2.CreateTargetGroup(f.t.Context(), in)).
		TargetGroups[0].TargetGroupArn
}

// certificate records a certificate of ACM.
func (f *fixture) certificate(id string, status acmtypes.CertificateStatus) string {
	f.t.Helper()
	c := record.Certificate{Account: account, Region: region, ID: id, Type: acmtypes.CertificateTypeImported,
		Status: status, DomainName: "example.com", CreatedAt: time.Now()}
	if _, err := record.Certificates(f.Store).Create(f.t.Context(), c.Key(), c); err != nil {
		f.t.Fatal(err)
	}
	return c.ARN()
}

func certificates(arn string) []types.Certificate { return []types.Certificate{{CertificateArn: &arn}} }

func path(values ...string) []types.RuleCondition {
	return []types.RuleCondition{{Field: aws.String("path-pattern"),
		PathPatternConfig: &types.PathPatternConditionConfig{Values: values}}}
}

func fixed(status string) []types.Action {
	return []types.Action{{Type: types.ActionTypeEnumFixedResponse, FixedResponseConfig: &types.FixedResponseActionConfig{
		StatusCode: &status}}}
}

func (f *fixture) newRule(listener string, priority int32, conditions []types.RuleCondition, actions []types.Action,
) string {
	f.t.Helper()
	return *awstest.Must[*v2.CreateRuleOutput](f.t)(f.v2.CreateRule(f.t.Context(), &v2.CreateRuleInput{
		ListenerArn: &listener, Priority: &priority, Conditions: conditions, Actions: actions})).Rules[0].RuleArn
}

func (f *fixture) newHTTPListener(balancer string, port int32, actions []types.Action) string {
	f.t.Helper()
	return *awstest.Must[*v2.CreateListenerOutput](f.t)(f.v2.CreateListener(f.t.Context(), &v2.CreateListenerInput{
		LoadBalancerArn: &balancer, Protocol: types.ProtocolEnumHttp, Port: &port,
		DefaultActions: actions})).Listeners[0].ListenerArn
}

// rulesOf returns the priorities of a listener's rules with the first value of their conditions.
func (f *fixture) rulesOf(listener string) (all []string) {
	f.t.Helper()
	out := awstest.Must[*v2.DescribeRulesOutput](f.t)(f.v2.DescribeRules(f.t.Context(),
		&v2.DescribeRulesInput{ListenerArn: &listener}))
	for _, r := range out.Rules {
		text := *r.Priority
		for _, c := range r.Conditions {
			text += " " + strings.Join(c.Values, ",")
		}
		if *r.IsDefault != (*r.Priority == "default") {
			f.t.Errorf("rule %+v", r)
		}
		all = append(all, text)
	}
	return all
}

// TestApplicationLoadBalancer takes a load balancer through its life with listeners, rules and target groups.
func TestApplicationLoadBalancer(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	b := f.newApplication("web")
	arn := *b.LoadBalancerArn
	if b.Type != types.LoadBalancerTypeEnumApplication || len(b.SecurityGroups) != 1 || len(b.AvailabilityZones) != 2 ||
		!strings.Contains(arn, ":loadbalancer/app/web/") || !strings.HasPrefix(*b.DNSName, "web-") ||
		!strings.HasSuffix(*b.DNSName, "."+region+".elb.amazonaws.com") || len(strings.Split(*b.DNSName, ".")[0]) > 16 {
		t.Errorf("created as %+v", b)
	}
	inside := awstest.Must[*v2.CreateLoadBalancerOutput](t)(f.v2.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{
		Name: aws.String("inside"), Subnets: []string{f.subnets["a"], f.subnets["b"]},
		Scheme: types.LoadBalancerSchemeEnumInternal})).LoadBalancers[0]
	if !strings.HasPrefix(*inside.DNSName, "internal-inside-") {
		t.Errorf("the internal one is %s", *inside.DNSName)
	}
	blue, green := f.newHTTPGroup("blue"), f.newHTTPGroup("green")
	listener := f.newHTTPListener(arn, 80, fixed("404"))
	first := f.newRule(listener, 10, path("/blue/*"), forward(blue))
	second := f.newRule(listener, 5, append(path("/both/*"), types.RuleCondition{Field: aws.String("host-header"),
		Values: []string{"*.example.com"}}), []types.Action{{Type: types.ActionTypeEnumForward,
		ForwardConfig: &types.ForwardActionConfig{TargetGroups: []types.TargetGroupTuple{
			{TargetGroupArn: &blue, Weight: aws.Int32(3)}, {TargetGroupArn: &green, Weight: aws.Int32(1)}},
			TargetGroupStickinessConfig: &types.TargetGroupStickinessConfig{Enabled: aws.Bool(true),
				DurationSeconds: aws.Int32(60)}}}})
	want := []string{"5 /both/* *.example.com", "10 /blue/*", "default"}
	if got := f.rulesOf(listener); !slices.Equal(got, want) {
		t.Errorf("rules are %q, want %q", got, want)
	}
	uses := func(group string, n int) {
		t.Helper()
		got := awstest.Must[*v2.DescribeTargetGroupsOutput](t)(f.v2.DescribeTargetGroups(ctx,
			&v2.DescribeTargetGroupsInput{TargetGroupArns: []string{group}})).TargetGroups[0]
		if len(got.LoadBalancerArns) != n {
			t.Errorf("%s is used by %v", group, got.LoadBalancerArns)
		}
	}
	uses(blue, 1)
	uses(green, 1)
	// A rule of another listener uses the group as well.
	other := f.newHTTPListener(arn, 8080, forward(green))
	awstest.Must[*v2.SetRulePrioritiesOutput](t)(f.v2.SetRulePriorities(ctx, &v2.SetRulePrioritiesInput{
		RulePriorities: []types.RulePriorityPair{{RuleArn: &first, Priority: aws.Int32(5)},
			{RuleArn: &second, Priority: aws.Int32(10)}}}))
	if got := f.rulesOf(listener); got[0] != "5 /blue/*" {
		t.Errorf("rules are %q", got)
	}
	changed := awstest.Must[*v2.ModifyRuleOutput](t)(f.v2.ModifyRule(ctx, &v2.ModifyRuleInput{RuleArn: &second,
		Actions: fixed("200"), Transforms: []types.RuleTransform{{Type: types.TransformTypeEnumUrlRewrite,
			UrlRewriteConfig: &types.UrlRewriteConfig{Rewrites: []types.RewriteConfig{{Regex: aws.String("^/both(.*)$"),
				Replace: aws.String("$1")}}}}}})).Rules[0]
	if len(changed.Conditions) != 2 || changed.Actions[0].FixedResponseConfig == nil || len(changed.Transforms) != 1 {
		t.Errorf("changed to %+v", changed)
	}
	uses(green, 1)
	awstest.Must[*v2.DeleteListenerOutput](t)(f.v2.DeleteListener(ctx, &v2.DeleteListenerInput{ListenerArn: &other}))
	uses(green, 0)
	awstest.Must[*v2.AddTagsOutput](t)(f.v2.AddTags(ctx, &v2.AddTagsInput{ResourceArns: []string{first, second},
		Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}))
	for _, d := range awstest.Must[*v2.DescribeTagsOutput](t)(f.v2.DescribeTags(ctx, &v2.DescribeTagsInput{
		ResourceArns: []string{first, second}})).TagDescriptions {
		if len(d.Tags) != 1 {
			t.Errorf("tags of %s are %+v", *d.ResourceArn, d.Tags)
		}
	}
	rules := awstest.Must[*v2.DescribeRulesOutput](t)(f.v2.DescribeRules(ctx, &v2.DescribeRulesInput{
		ListenerArn: &listener, PageSize: aws.Int32(2)}))
	if len(rules.Rules) != 2 || rules.NextMarker == nil {
		t.Errorf("the first page is %+v", rules)
	}
	rest := awstest.Must[*v2.DescribeRulesOutput](t)(f.v2.DescribeRules(ctx, &v2.DescribeRulesInput{
		ListenerArn: &listener, PageSize: aws.Int32(2), Marker: rules.NextMarker}))
	if len(rest.Rules) != 1 || !*rest.Rules[0].IsDefault {
		t.Errorf("the last page is %+v", rest)
	}
	described := awstest.Must[*v2.DescribeRulesOutput](t)(f.v2.DescribeRules(ctx, &v2.DescribeRulesInput{
		RuleArns: []string{*rest.Rules[0].RuleArn}}))
	if diff := cmp.Diff(rest.Rules[0].Actions[0].FixedResponseConfig.StatusCode,
		described.Rules[0].Actions[0].FixedResponseConfig.StatusCode); diff != "" {
		t.Errorf("the default rule: %s", diff)
	}
	awstest.Must[*v2.DeleteRuleOutput](t)(f.v2.DeleteRule(ctx, &v2.DeleteRuleInput{RuleArn: &first}))
	uses(blue, 0)
	awstest.Must[*v2.SetSubnetsOutput](t)(f.v2.SetSubnets(ctx, &v2.SetSubnetsInput{LoadBalancerArn: &arn,
		Subnets: []string{f.subnets["b"], f.subnets["c"]}}))
	for _, arn := range []*string{&arn, inside.LoadBalancerArn} {
		awstest.Must[*v2.DeleteLoadBalancerOutput](t)(f.v2.DeleteLoadBalancer(ctx,
			&v2.DeleteLoadBalancerInput{LoadBalancerArn: arn}))
	}
	if n := f.interfaces(); n != 0 {
		t.Errorf("%d network interfaces of load balancers that were deleted", n)
	}
}

// TestListenerCertificates takes a listener with TLS through its life.
func TestListenerCertificates(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	one, two, three := f.certificate("1", acmtypes.CertificateStatusIssued),
		f.certificate("2", acmtypes.CertificateStatusIssued), f.certificate("3", acmtypes.CertificateStatusIssued)
	arn := *f.newApplication("web").LoadBalancerArn
	create := &v2.CreateListenerInput{LoadBalancerArn: &arn, Protocol: types.ProtocolEnumHttps, Port: aws.Int32(443),
		Certificates: certificates(one), DefaultActions: []types.Action{{Type: types.ActionTypeEnumAuthenticateOidc,
			Order: aws.Int32(1), AuthenticateOidcConfig: &types.AuthenticateOidcActionConfig{
				Issuer: aws.String("https://idp.example"), AuthorizationEndpoint: aws.String("https://idp.example/authorize"),
				TokenEndpoint: aws.String("https://idp.example/token"), UserInfoEndpoint: aws.String("https://idp.example/me"),
				ClientId: aws.String("id"), ClientSecret: aws.String("secret")}},
			{Type: types.ActionTypeEnumFixedResponse, Order: aws.Int32(2),
				FixedResponseConfig: &types.FixedResponseActionConfig{StatusCode: aws.String("200")}}}}
	l := awstest.Must[*v2.CreateListenerOutput](t)(f.v2.CreateListener(ctx, create)).Listeners[0]
	if *l.SslPolicy != "ELBSecurityPolicy-2016-08" || *l.Certificates[0].CertificateArn != one ||
		*l.MutualAuthentication.Mode != "off" || l.DefaultActions[0].AuthenticateOidcConfig.ClientSecret != nil ||
		*l.DefaultActions[0].AuthenticateOidcConfig.SessionTimeout != 604800 {
		t.Errorf("created as %+v", l)
	}
	again := awstest.Must[*v2.CreateListenerOutput](t)(f.v2.CreateListener(ctx, create)).Listeners[0]
	if *again.ListenerArn != *l.ListenerArn {
		t.Errorf("a repetition makes %s", *again.ListenerArn)
	}
	has := func(want ...string) {
		t.Helper()
		var got []string
		for _, c := range awstest.Must[*v2.DescribeListenerCertificatesOutput](t)(f.v2.DescribeListenerCertificates(ctx,
			&v2.DescribeListenerCertificatesInput{ListenerArn: l.ListenerArn})).Certificates {
			if *c.IsDefault != (len(got) == 0) {
				t.Errorf("certificate %+v", c)
			}
			got = append(got, *c.CertificateArn)
		}
		if !slices.Equal(got, want) {
			t.Errorf("certificates are %q, want %q", got, want)
		}
	}
	for range 2 {
		awstest.Must[*v2.AddListenerCertificatesOutput](t)(f.v2.AddListenerCertificates(ctx,
			&v2.AddListenerCertificatesInput{ListenerArn: l.ListenerArn, Certificates: certificates(two)}))
	}
	has(one, two)
	changed := awstest.Must[*v2.ModifyListenerOutput](t)(f.v2.ModifyListener(ctx, &v2.ModifyListenerInput{
		ListenerArn: l.ListenerArn, Certificates: certificates(three),
		SslPolicy: aws.String("ELBSecurityPolicy-TLS13-1-2-2021-06")})).Listeners[0]
	if len(changed.DefaultActions) != 2 || *changed.SslPolicy != "ELBSecurityPolicy-TLS13-1-2-2021-06" {
		t.Errorf("changed to %+v", changed)
	}
	has(three, two)
	awstest.Must[*v2.RemoveListenerCertificatesOutput](t)(f.v2.RemoveListenerCertificates(ctx,
		&v2.RemoveListenerCertificatesInput{ListenerArn: l.ListenerArn, Certificates: certificates(two)}))
	has(three)
	policies := awstest.Must[*v2.DescribeSSLPoliciesOutput](t)(f.v2.DescribeSSLPolicies(ctx, &v2.DescribeSSLPoliciesInput{
		Names: []string{"ELBSecurityPolicy-TLS13-1-2-Res-2021-06"}})).SslPolicies
	if p := policies[0]; !slices.Equal(p.SslProtocols, []string{"TLSv1.3", "TLSv1.2"}) || len(p.Ciphers) != 7 {
		t.Errorf("the policy is %+v", p)
	}
	network := *f.newNetwork("net").LoadBalancerArn
	tls := awstest.Must[*v2.CreateListenerOutput](t)(f.v2.CreateListener(ctx, &v2.CreateListenerInput{
		LoadBalancerArn: &network, Protocol: types.ProtocolEnumTls, Port: aws.Int32(443), Certificates: certificates(one),
		AlpnPolicy: []string{"HTTP2Preferred"}, DefaultActions: forward(f.newGroup("one"))})).Listeners[0]
	if !slices.Equal(tls.AlpnPolicy, []string{"HTTP2Preferred"}) {
		t.Errorf("created as %+v", tls)
	}
}

// TestApplicationAttributes changes attributes of a load balancer, its listener and a target group.
func TestApplicationAttributes(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	arn := *f.newApplication("web").LoadBalancerArn
	balancer := map[string]string{}
	for _, a := range awstest.Must[*v2.ModifyLoadBalancerAttributesOutput](t)(f.v2.ModifyLoadBalancerAttributes(ctx,
		&v2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: &arn, Attributes: []types.LoadBalancerAttribute{
			{Key: aws.String("idle_timeout.timeout_seconds"), Value: aws.String("600")},
			{Key: aws.String("routing.http.xff_header_processing.mode"), Value: aws.String("preserve")}}})).Attributes {
		balancer[*a.Key] = *a.Value
	}
	if balancer["idle_timeout.timeout_seconds"] != "600" || balancer["routing.http2.enabled"] != "true" ||
		balancer["load_balancing.cross_zone.enabled"] != "true" {
		t.Errorf("attributes are %v", balancer)
	}
	group := f.newHTTPGroup("grpc", func(in *v2.CreateTargetGroupInput) {
		in.ProtocolVersion, in.Matcher = aws.String("GRPC"), &types.Matcher{GrpcCode: aws.String("0-5")}
	})
	g := awstest.Must[*v2.DescribeTargetGroupsOutput](t)(f.v2.DescribeTargetGroups(ctx,
		&v2.DescribeTargetGroupsInput{TargetGroupArns: []string{group}})).TargetGroups[0]
	if *g.ProtocolVersion != "GRPC" || *g.Matcher.GrpcCode != "0-5" || g.Matcher.HttpCode != nil ||
		*g.HealthCheckPath != "/AWS.ALB/healthcheck" || *g.HealthCheckTimeoutSeconds != 5 {
		t.Errorf("the group is %+v", g)
	}
	attributes := map[string]string{}
	for _, a := range awstest.Must[*v2.ModifyTargetGroupAttributesOutput](t)(f.v2.ModifyTargetGroupAttributes(ctx,
		&v2.ModifyTargetGroupAttributesInput{TargetGroupArn: &group, Attributes: []types.TargetGroupAttribute{
			{Key: aws.String("stickiness.enabled"), Value: aws.String("true")},
			{Key: aws.String("slow_start.duration_seconds"), Value: aws.String("30")}}})).Attributes {
		attributes[*a.Key] = *a.Value
	}
	if attributes["stickiness.type"] != "lb_cookie" || attributes["slow_start.duration_seconds"] != "30" ||
		attributes["load_balancing.algorithm.type"] != "round_robin" {
		t.Errorf("attributes are %v", slices.Sorted(maps.Keys(attributes)))
	}
	listener := f.newHTTPListener(arn, 80, fixed("404"))
	awstest.Must[*v2.ModifyListenerAttributesOutput](t)(f.v2.ModifyListenerAttributes(ctx,
		&v2.ModifyListenerAttributesInput{ListenerArn: &listener, Attributes: []types.ListenerAttribute{
			{Key: aws.String("routing.http.response.server.enabled"), Value: aws.String("false")}}}))
	for _, a := range awstest.Must[*v2.DescribeListenerAttributesOutput](t)(f.v2.DescribeListenerAttributes(ctx,
		&v2.DescribeListenerAttributesInput{ListenerArn: &listener})).Attributes {
		if *a.Key == "routing.http.response.server.enabled" && *a.Value != "false" {
			t.Errorf("attribute %+v", a)
		}
	}
}

// TestTaggingPermissions has a policy like that of the AWS Load Balancer Controller: what is created in a load balancer
// is tagged as such.
func TestTaggingPermissions(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	arn := *f.newApplication("web").LoadBalancerArn
	who := f.NewUser(t, "controller", `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":["elasticloadbalancing:CreateListener","elasticloadbalancing:CreateRule"],"Resource":"*"},
		{"Effect":"Allow","Action":"elasticloadbalancing:AddTags","Resource":[
			"arn:aws:elasticloadbalancing:*:*:listener/app/*/*/*"]}]}`)
	_, client := f.clients(who)
	tags := []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}
	listener := awstest.Must[*v2.CreateListenerOutput](t)(client.CreateListener(ctx, &v2.CreateListenerInput{
		LoadBalancerArn: &arn, Protocol: types.ProtocolEnumHttp, Port: aws.Int32(80), DefaultActions: fixed("404"),
		Tags: tags})).Listeners[0].ListenerArn
	rule := &v2.CreateRuleInput{ListenerArn: listener, Priority: aws.Int32(1), Conditions: path("/"),
		Actions: fixed("200"), Tags: tags}
	if err := failed(client.CreateRule(ctx, rule)); awstest.Code(err) != "AccessDenied" {
		t.Errorf("tag a rule: %v", err)
	}
	rule.Tags = nil
	awstest.Must[*v2.CreateRuleOutput](t)(client.CreateRule(ctx, rule))
}

// TestClassicCertificates takes a listener with TLS of a Classic Load Balancer through what the cloud controller
// manager does with it.
func TestClassicCertificates(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	f.newClassic("web")
	one, two := f.certificate("1", acmtypes.CertificateStatusIssued), f.certificate("2", acmtypes.CertificateStatusIssued)
	web, policy := aws.String("web"), aws.String("k8s-SSLNegotiationPolicy-ELBSecurityPolicy-TLS-1-2-2017-01")
	awstest.Must[*classic.CreateLoadBalancerListenersOutput](t)(f.classic.CreateLoadBalancerListeners(ctx,
		&classic.CreateLoadBalancerListenersInput{LoadBalancerName: web, Listeners: []classictypes.Listener{{
			Protocol: aws.String("ssl"), InstanceProtocol: aws.String("tcp"), LoadBalancerPort: 443,
			InstancePort: aws.Int32(30443), SSLCertificateId: &one}}}))
	awstest.Must[*classic.CreateLoadBalancerPolicyOutput](t)(f.classic.CreateLoadBalancerPolicy(ctx,
		&classic.CreateLoadBalancerPolicyInput{LoadBalancerName: web, PolicyName: policy,
			PolicyTypeName: aws.String("SSLNegotiationPolicyType"), PolicyAttributes: []classictypes.PolicyAttribute{{
				AttributeName:  aws.String("Reference-Security-Policy"),
				AttributeValue: aws.String("ELBSecurityPolicy-TLS-1-2-2017-01")}}}))
	awstest.Must[*classic.SetLoadBalancerPoliciesOfListenerOutput](t)(f.classic.SetLoadBalancerPoliciesOfListener(ctx,
		&classic.SetLoadBalancerPoliciesOfListenerInput{LoadBalancerName: web, LoadBalancerPort: 443,
			PolicyNames: []string{*policy}}))
	awstest.Must[*classic.SetLoadBalancerListenerSSLCertificateOutput](t)(
		f.classic.SetLoadBalancerListenerSSLCertificate(ctx, &classic.SetLoadBalancerListenerSSLCertificateInput{
			LoadBalancerName: web, LoadBalancerPort: 443, SSLCertificateId: &two}))
	listeners := awstest.Must[*classic.DescribeLoadBalancersOutput](t)(f.classic.DescribeLoadBalancers(ctx,
		&classic.DescribeLoadBalancersInput{LoadBalancerNames: []string{*web}})).
		LoadBalancerDescriptions[0].ListenerDescriptions
	if l := listeners[1]; aws.ToString(l.Listener.SSLCertificateId) != two || !slices.Equal(l.PolicyNames,
		[]string{*policy}) || *l.Listener.Protocol != "SSL" {
		t.Errorf("the listener is %+v, %v", l.Listener, l.PolicyNames)
	}
	if err := failed(f.classic.DeleteLoadBalancerPolicy(ctx, &classic.DeleteLoadBalancerPolicyInput{LoadBalancerName: web,
		PolicyName: policy})); awstest.Code(err) != "InvalidConfigurationRequest" {
		t.Errorf("delete a policy that is in use: %v", err)
	}
}

// TestASecretIsForItsProvider has somebody who may change a listener, and does not know the client secret that it
// has, use the secret with another provider than it was given for.
func TestASecretIsForItsProvider(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	arn := *f.newApplication("web").LoadBalancerArn
	login := func(edit func(*types.AuthenticateOidcActionConfig)) []types.Action {
		c := &types.AuthenticateOidcActionConfig{Issuer: aws.String("https://idp.example"),
			AuthorizationEndpoint: aws.String("https://idp.example/authorize"),
			TokenEndpoint:         aws.String("https://idp.example/token"),
			UserInfoEndpoint:      aws.String("https://idp.example/me"),
			ClientId:              aws.String("id"), UseExistingClientSecret: aws.Bool(true)}
		edit(c)
		actions := append(fixed("200"), types.Action{Type: types.ActionTypeEnumAuthenticateOidc, Order: aws.Int32(1),
			AuthenticateOidcConfig: c})
		actions[0].Order = aws.Int32(2)
		return actions
	}
	known := login(func(c *types.AuthenticateOidcActionConfig) {
		c.ClientSecret, c.UseExistingClientSecret = aws.String("secret"), nil
	})
	l := awstest.Must[*v2.CreateListenerOutput](t)(f.v2.CreateListener(ctx, &v2.CreateListenerInput{LoadBalancerArn: &arn,
		Protocol: types.ProtocolEnumHttps, Port: aws.Int32(443), DefaultActions: known,
		Certificates: certificates(f.certificate("1", acmtypes.CertificateStatusIssued))})).Listeners[0].ListenerArn
	rule := f.newRule(*l, 1, path("/"), known)
	for name, c := range map[string]struct {
		edit func(*types.AuthenticateOidcActionConfig)
		code string
	}{
		"the same":      {func(*types.AuthenticateOidcActionConfig) {}, ""},
		"another scope": {func(c *types.AuthenticateOidcActionConfig) { c.Scope = aws.String("email") }, ""},
		"a token endpoint of theirs": {func(c *types.AuthenticateOidcActionConfig) {
			c.TokenEndpoint = aws.String("https://x.example/token")
		}, "ValidationError"},
		"a user info endpoint of theirs": {func(c *types.AuthenticateOidcActionConfig) {
			c.UserInfoEndpoint = aws.String("https://x.example/me")
		}, "ValidationError"},
		"another path at that host": {func(c *types.AuthenticateOidcActionConfig) {
			c.TokenEndpoint = aws.String("https://idp.example/other")
		}, "ValidationError"},
	} {
		for what, err := range map[string]error{
			"a listener": failed(f.v2.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: l,
				DefaultActions: login(c.edit)})),
			"a rule": failed(f.v2.ModifyRule(ctx, &v2.ModifyRuleInput{RuleArn: &rule, Actions: login(c.edit)})),
		} {
			code := ""
			if err != nil {
				code = awstest.Code(err)
			}
			if code != c.code {
				t.Errorf("%s, %s: got %v, want %q", name, what, err, c.code)
			}
		}
	}
}
