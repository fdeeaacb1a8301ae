package elb_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	v2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestFargateMachinesAreNoTargets registers the machine of a Fargate pod, which the account does not have.
func TestFargateMachinesAreNoTargets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	id := f.instance("i-0123456789abcdef0", f.vpc)
	if _, err := record.Instances(f.Store).Modify(ctx, record.EC2Key(account, region, id),
		func(i *record.Instance) error { i.Fargate = &record.FargateMachine{Capacity: "1"}; return nil }); err != nil {
		t.Fatal(err)
	}
	f.newClassic("web")
	group := f.newGroup("web")
	for code, err := range map[string]error{
		"InvalidInstance": failed(f.classic.RegisterInstancesWithLoadBalancer(ctx,
			&classic.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: aws.String("web"),
				Instances: []classictypes.Instance{{InstanceId: &id}}})),
		"InvalidTarget": failed(f.v2.RegisterTargets(ctx, &v2.RegisterTargetsInput{TargetGroupArn: &group,
			Targets: []v2types.TargetDescription{{Id: &id}}})),
	} {
		if awstest.Code(err) != code {
			t.Errorf("got %v, want %s", err, code)
		}
	}
}
