package elb_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	v2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// mostLed is the maximum number of targets that the listeners of a load balancer lead to.
const mostLed = 3000

// TestListenersDoNotMultiplyInstances has listeners of a Classic Load Balancer lead to as many instances as they may,
// added in either order.
func TestListenersDoNotMultiplyInstances(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	f.newClassic("web")
	const each = 100
	register := func(n int) error {
		var all []classictypes.Instance
		for i := range n {
			id := fmt.Sprintf("i-%017x", i)
			if _, err := record.Instances(f.Store).Get(ctx, record.EC2Key(account, region, id)); err != nil {
				f.instance(id, f.vpc)
			}
			all = append(all, classictypes.Instance{InstanceId: &id})
		}
		return failed(f.classic.RegisterInstancesWithLoadBalancer(ctx, &classic.RegisterInstancesWithLoadBalancerInput{
			LoadBalancerName: aws.String("web"), Instances: all}))
	}
	if err := register(each); err != nil {
		t.Fatal(err)
	}
	serve := func(from, to int) error {
		var all []classictypes.Listener
		for i := from; i < to; i++ {
			all = append(all, listener(int32(1000+i), 30080))
		}
		return failed(f.classic.CreateLoadBalancerListeners(ctx, &classic.CreateLoadBalancerListenersInput{
			LoadBalancerName: aws.String("web"), Listeners: all}))
	}
	if err := serve(1, mostLed/each); err != nil { // it has one
		t.Fatal(err)
	}
	awstest.WantCode(t, serve(mostLed/each, mostLed/each+1), "TooManyTargets")
	awstest.WantCode(t, register(each+1), "TooManyTargets")
}

// TestLoadBalancersOfAllRegionsAreBounded fills an account with load balancers of other regions.
func TestLoadBalancersOfAllRegionsAreBounded(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	for i := range 199 {
		b := record.LoadBalancer{Account: account, Region: "eu-west-3", Kind: record.NetworkLoadBalancer,
			Name: fmt.Sprintf("b-%d", i)}
		if _, err := record.LoadBalancers(f.Store).Create(ctx, b.Key(), b); err != nil {
			t.Fatal(err)
		}
	}
	f.newNetwork("last")
	_, err := f.v2.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{Name: aws.String("net"),
		Type: v2types.LoadBalancerTypeEnumNetwork, Subnets: []string{f.subnets["a"]}})
	awstest.WantCode(t, err, "TooManyLoadBalancers")
	_, err = f.classic.CreateLoadBalancer(ctx, &classic.CreateLoadBalancerInput{LoadBalancerName: aws.String("web"),
		Subnets: []string{f.subnets["a"]}, Listeners: []classictypes.Listener{listener(80, 80)}})
	awstest.WantCode(t, err, "TooManyLoadBalancers")
}
