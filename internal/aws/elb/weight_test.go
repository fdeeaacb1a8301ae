package elb_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// certified returns listeners with the same certificates each, which it makes.
func (f *fixture) certified(name string, listeners, each int) (all []record.Listener) {
	f.t.Helper()
	var arns []string
	for i := range each {
		arns = append(arns, f.certificate(fmt.Sprint(name, i), acmtypes.CertificateStatusIssued))
	}
	for i := range listeners {
		all = append(all, record.Listener{ID: fmt.Sprintf("%016x", i), Protocol: "HTTPS", Port: int32(10000 + i),
			SSLPolicy: "ELBSecurityPolicy-2016-08", Certificates: arns,
			Actions: []record.ListenerAction{{Type: record.ActionFixedResponse,
				Fixed: &record.FixedResponseAction{Status: 404}}}})
	}
	return all
}

// setListeners gives listeners to an Application Load Balancer as they are.
func (f *fixture) setListeners(name string, listeners []record.Listener) {
	f.t.Helper()
	if _, err := record.LoadBalancers(f.Store).Modify(f.t.Context(),
		record.LoadBalancerKey(account, region, record.ApplicationLoadBalancer, name),
		func(b *record.LoadBalancer) error { b.Listeners = listeners; return nil }); err != nil {
		f.t.Fatal(err)
	}
}

// newSecureListener creates a listener with one certificate.
func (f *fixture) newSecureListener(balancer, certificate string, port int32) (arn string, err error) {
	f.t.Helper()
	out, err := f.v2.CreateListener(f.t.Context(), &v2.CreateListenerInput{LoadBalancerArn: &balancer, Port: &port,
		Protocol: types.ProtocolEnumHttps, Certificates: certificates(certificate), DefaultActions: fixed("404")})
	if err != nil {
		return "", err
	}
	return *out.Listeners[0].ListenerArn, nil
}

const tooHeavy = "InvalidConfigurationRequest"

// TestCertificatesOfListenersAreBounded fills load balancers with certificates, of which each listener has a copy in
// each zone.
func TestCertificatesOfListenersAreBounded(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	arn := *f.newApplication("web").LoadBalancerArn
	full := f.certified("shared-", 6, 26)
	f.setListeners("web", full)
	one := f.certificate("one", acmtypes.CertificateStatusIssued)
	listener := ""
	for port := int32(1); ; port++ {
		made, err := f.newSecureListener(arn, one, port)
		if err != nil {
			awstest.WantCode(t, err, tooHeavy)
			break
		}
		if listener = made; port > 20 {
			t.Fatal("nothing is refused")
		}
	}
	for what, err := range map[string]error{
		"a certificate": failed(f.v2.AddListenerCertificates(ctx, &v2.AddListenerCertificatesInput{
			ListenerArn: &listener, Certificates: certificates(full[0].Certificates[1])})),
		"a zone": failed(f.v2.SetSubnets(ctx, &v2.SetSubnetsInput{LoadBalancerArn: &arn,
			Subnets: []string{f.subnets["a"], f.subnets["b"], f.subnets["c"]}})),
	} {
		if awstest.Code(err) != tooHeavy {
			t.Errorf("%s more: %v", what, err)
		}
	}
	if _, err := f.v2.DeleteListener(ctx, &v2.DeleteListenerInput{ListenerArn: &listener}); err != nil {
		t.Error(err)
	}
	if _, err := f.newSecureListener(arn, one, 1); err != nil {
		t.Errorf("in the place of another: %v", err)
	}
	f.newClassic("classic")
	var many []classictypes.Listener
	for i := range 90 {
		many = append(many, classictypes.Listener{Protocol: aws.String("ssl"), LoadBalancerPort: int32(1000 + i),
			InstancePort: aws.Int32(1), SSLCertificateId: &one})
	}
	if _, err := f.classic.CreateLoadBalancerListeners(ctx, &classic.CreateLoadBalancerListenersInput{
		LoadBalancerName: aws.String("classic"), Listeners: many}); err != nil {
		t.Errorf("90 listeners of a Classic Load Balancer: %v", err)
	}
	// All load balancers of the account together. Light ones are not held up by heavy ones.
	for i := range 17 {
		b := record.LoadBalancer{Account: account, Region: "eu-west-3", Kind: record.ApplicationLoadBalancer,
			Name: fmt.Sprintf("b-%d", i), Zones: make([]record.LoadBalancerZone, 2), Listeners: full}
		if _, err := record.LoadBalancers(f.Store).Create(ctx, b.Key(), b); err != nil {
			t.Fatal(err)
		}
	}
	f.setListeners("web", full)
	_, err := f.newSecureListener(arn, one, 1)
	awstest.WantCode(t, err, tooHeavy)
	if _, err := f.newSecureListener(*f.newApplication("light").LoadBalancerArn, one, 1); err != nil {
		t.Errorf("a light one: %v", err)
	}
}

// TestRulesAreBoundedTogether fills a listener with regular expressions, and with texts that AWS does not bound.
func TestRulesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	long := aws.String(strings.Repeat("a", 20<<10))
	login := &types.AuthenticateOidcActionConfig{Issuer: aws.String("https://idp.example"),
		AuthorizationEndpoint: aws.String("https://idp.example/a"), TokenEndpoint: aws.String("https://idp.example/t"),
		UserInfoEndpoint: aws.String("https://idp.example/u"), ClientId: long, ClientSecret: long, Scope: long,
		AuthenticationRequestExtraParams: map[string]string{}}
	for i := range 10 {
		login.AuthenticationRequestExtraParams[fmt.Sprint(i)] = *long
	}
	withLogin := append(fixed("200"), types.Action{Type: types.ActionTypeEnumAuthenticateOidc, Order: aws.Int32(1),
		AuthenticateOidcConfig: login})
	withLogin[0].Order = aws.Int32(2)
	expressions := slices.Repeat([]string{strings.Repeat("(?:[a-z]{100}){2}", 2)}, 5)
	for name, c := range map[string]struct {
		listeners, certificates int // that are there before
		conditions              []types.RuleCondition
		actions                 []types.Action
	}{
		"expressions": {6, 25, []types.RuleCondition{{Field: aws.String("path-pattern"),
			PathPatternConfig: &types.PathPatternConditionConfig{RegexValues: expressions}}}, fixed("200")},
		"logins": {6, 25, path("/"), withLogin},
	} {
		arn := *f.newApplication(name).LoadBalancerArn
		f.setListeners(name, f.certified(name, c.listeners, c.certificates))
		listener := awstest.Must[*v2.DescribeListenersOutput](t)(f.v2.DescribeListeners(ctx, &v2.DescribeListenersInput{
			LoadBalancerArn: &arn})).Listeners[0].ListenerArn
		for priority := int32(1); ; priority++ {
			if _, err := f.v2.CreateRule(ctx, &v2.CreateRuleInput{ListenerArn: listener, Priority: &priority,
				Conditions: c.conditions, Actions: c.actions}); err != nil {
				awstest.WantCode(t, err, tooHeavy)
				if priority == 1 {
					t.Errorf("%s: the first rule is refused: %v", name, err)
				}
				break
			}
			if priority > 5 {
				t.Fatalf("%s: no rule is refused", name)
			}
		}
		rule := f.newRule(*listener, 90, path("/small"), fixed("200"))
		_, err := f.v2.ModifyRule(ctx, &v2.ModifyRuleInput{RuleArn: &rule, Conditions: c.conditions, Actions: c.actions})
		awstest.WantCode(t, err, tooHeavy)
	}
}

// TestExpressionsAreCountedFirst has a condition with more expressions than a rule may have: none of them is read.
func TestExpressionsAreCountedFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	listener := f.newHTTPListener(*f.newApplication("web").LoadBalancerArn, 80, fixed("404"))
	_, err := f.v2.CreateRule(t.Context(), &v2.CreateRuleInput{ListenerArn: &listener, Priority: aws.Int32(1),
		Actions: fixed("200"), Conditions: []types.RuleCondition{{Field: aws.String("path-pattern"),
			PathPatternConfig: &types.PathPatternConditionConfig{RegexValues: []string{"(", "(", "(", "(", "(", "("}}}}})
	if _, message, _ := awstest.Failure(err); !strings.Contains(message, "can only have '5' condition values") {
		t.Errorf("got %v", err)
	}
}
