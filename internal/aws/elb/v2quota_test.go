package elb_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	v2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
)

// TestTargetsOfALoadBalancerAreBounded has listeners that lead to as many targets as a load balancer may have, each for
// itself.
func TestTargetsOfALoadBalancerAreBounded(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	instance := f.instance("i-0123456789abcdef0", f.vpc)
	balancer, full, other := *f.newNetwork("net").LoadBalancerArn, f.newGroup("full"), f.newGroup("other")
	register := func(group string, number int) error {
		targets := make([]v2types.TargetDescription, number)
		for i := range targets {
			targets[i] = v2types.TargetDescription{Id: &instance, Port: aws.Int32(int32(i + 1))}
		}
		_, err := f.v2.RegisterTargets(ctx, &v2.RegisterTargetsInput{TargetGroupArn: &group, Targets: targets})
		return err
	}
	if err := register(full, 1000); err != nil {
		t.Fatal(err)
	}
	for port := range int32(3) {
		f.newListener(balancer, full, 80+port)
	}
	_, err := f.v2.CreateListener(ctx, &v2.CreateListenerInput{LoadBalancerArn: &balancer,
		Protocol: v2types.ProtocolEnumTcp, Port: aws.Int32(90), DefaultActions: forward(full)})
	awstest.WantCode(t, err, "TooManyTargets")
	listener := f.newListener(balancer, other, 90)
	awstest.WantCode(t, register(other, 1), "TooManyTargets")
	_, err = f.v2.ModifyListener(ctx, &v2.ModifyListenerInput{ListenerArn: &listener, DefaultActions: forward(full)})
	awstest.WantCode(t, err, "TooManyTargets")

	awstest.Must[*v2.DeleteListenerOutput](t)(f.v2.DeleteListener(ctx, &v2.DeleteListenerInput{ListenerArn: &listener}))
	if err := register(other, 1000); err != nil {
		t.Errorf("a target group without a load balancer: %v", err)
	}
	// What others have does not count.
	f.newListener(*f.newNetwork("second").LoadBalancerArn, other, 80)
}

// TestTargetsThatAreRegisteredTogetherAreBounded fills all target groups of a load balancer at once.
func TestTargetsThatAreRegisteredTogetherAreBounded(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	instance, balancer := f.instance("i-0123456789abcdef0", f.vpc), *f.newNetwork("net").LoadBalancerArn
	targets := make([]v2types.TargetDescription, 1000)
	for i := range targets {
		targets[i] = v2types.TargetDescription{Id: &instance, Port: aws.Int32(int32(i + 1))}
	}
	var full atomic.Int32
	var requests sync.WaitGroup
	for i := range int32(8) {
		group := f.newGroup(fmt.Sprint("group-", i))
		f.newListener(balancer, group, 80+i)
		requests.Go(func() {
			_, err := f.v2.RegisterTargets(ctx, &v2.RegisterTargetsInput{TargetGroupArn: &group, Targets: targets})
			if err == nil {
				full.Add(1)
			} else {
				awstest.WantCode(t, err, "TooManyTargets")
			}
		})
	}
	requests.Wait()
	if n := full.Load(); n != 3 {
		t.Errorf("%d target groups of a load balancer have a thousand targets", n)
	}
}

// TestExpressionsOfALoadBalancerAreBounded has rules with large regular expressions.
func TestExpressionsOfALoadBalancerAreBounded(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	listener := f.newHTTPListener(*f.newApplication("app").LoadBalancerArn, 80, fixed("200"))
	create := func(priority int32, regex string) (*v2.CreateRuleOutput, error) {
		return f.v2.CreateRule(ctx, &v2.CreateRuleInput{ListenerArn: &listener, Priority: &priority, Actions: fixed("200"),
			Conditions: []v2types.RuleCondition{{Field: aws.String("path-pattern"),
				PathPatternConfig: &v2types.PathPatternConditionConfig{RegexValues: []string{regex}}}}})
	}
	const large = "(?:a?){1000}"
	var rule string
	var err error
	for priority := int32(1); err == nil; priority++ {
		var out *v2.CreateRuleOutput
		if out, err = create(priority, large); err == nil {
			rule = *out.Rules[0].RuleArn
		}
	}
	awstest.WantCode(t, err, "TooManyRules")
	if !strings.Contains(err.Error(), "instructions together") {
		t.Errorf("the last rule: %v", err)
	}
	awstest.Must[*v2.CreateRuleOutput](t)(create(1000, "^/a$"))
	modify := func(regex ...string) error {
		_, err := f.v2.ModifyRule(ctx, &v2.ModifyRuleInput{RuleArn: &rule, Conditions: []v2types.RuleCondition{{
			Field: aws.String("path-pattern"), RegexValues: regex}}})
		return err
	}
	awstest.WantCode(t, modify(large, large), "TooManyRules")
	if err := modify("^/b$"); err != nil {
		t.Error(err)
	}
	awstest.Must[*v2.CreateRuleOutput](t)(create(1001, large))
}
