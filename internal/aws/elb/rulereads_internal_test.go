package elb

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestRulesAreDescribedWithFewReads has rules with many target groups, which have many targets, be described: each
// target group is read once, and a listener reads only those of its own actions.
func TestRulesAreDescribedWithFewReads(t *testing.T) {
	t.Parallel()
	const account, region, groups = "111122223333", "eu-west-1", 20
	s := storetest.New(t)
	b := record.LoadBalancer{Account: account, Region: region, Kind: record.ApplicationLoadBalancer, Name: "web", ID: "1",
		Listeners: []record.Listener{{ID: "l", Protocol: "HTTP", Port: 80}}}
	for i := range groups {
		g := record.TargetGroup{Account: account, Region: region, Name: fmt.Sprint(i), LoadBalancer: "web"}
		if _, err := record.TargetGroups(s).Create(t.Context(), g.Key(), g); err != nil {
			t.Fatal(err)
		}
		forward := record.ListenerAction{Type: record.ActionForward, Groups: []record.WeightedGroup{{Name: g.Name}}}
		b.Listeners[0].Actions = []record.ListenerAction{forward}
		b.Listeners[0].Rules = append(b.Listeners[0].Rules, record.ListenerRule{ID: fmt.Sprint(i), Priority: int32(i + 1),
			Actions: []record.ListenerAction{forward}})
	}
	if _, err := record.LoadBalancers(s).Create(t.Context(), b.Key(), b); err != nil {
		t.Fatal(err)
	}
	v2 := V2{&service{store: s, balancers: record.LoadBalancers(s), groups: record.TargetGroups(s)}}
	caller := wire.WithRegion(wire.WithCaller(t.Context(), wire.Caller{Account: account}), region)
	listener := aws.String(b.ListenerARN("l"))
	reads := 0
	ctx := store.Metered(caller, func(int64) error { reads++; return nil })
	rules, err := v2.DescribeRules(ctx, &elasticloadbalancingv2.DescribeRulesInput{ListenerArn: listener})
	if err != nil || len(rules.Rules) != groups+1 || reads != groups+1 {
		t.Errorf("%d reads, %v", reads, err)
	}
	for i, r := range rules.Rules {
		if want := "/" + fmt.Sprint(min(i, groups-1)) + "/"; r.Actions[0].TargetGroupArn == nil ||
			*r.Actions[0].TargetGroupArn != record.LoadBalancingARN(account, region, "targetgroup"+want) {
			t.Errorf("rule %d leads to %v", i, r.Actions[0].TargetGroupArn)
		}
	}
	reads = 0
	listeners, err := v2.DescribeListeners(ctx, &elasticloadbalancingv2.DescribeListenersInput{
		ListenerArns: []string{*listener}})
	if err != nil || len(listeners.Listeners) != 1 || reads != 2 {
		t.Errorf("%d reads, %v", reads, err)
	}
}
