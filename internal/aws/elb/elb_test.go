package elb_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/elb"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:"

// fixture has clients of both APIs, which have one name in signatures.
type fixture struct {
	*awstest.Judge
	classic *classic.Client
	v2      *v2.Client
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	f := fixture{Judge: awstest.NewJudge()}
	mux := wire.NewMux(wire.Options{Credentials: f, Authorizer: f, Region: awstest.Region})
	elb.Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	who := credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", "")
	f.classic = classic.New(classic.Options{Region: awstest.Region, BaseEndpoint: aws.String(server.URL),
		RetryMaxAttempts: 1, HTTPClient: awsclient.HTTP(), Credentials: who})
	f.v2 = v2.New(v2.Options{Region: awstest.Region, BaseEndpoint: aws.String(server.URL),
		RetryMaxAttempts: 1, HTTPClient: awsclient.HTTP(), Credentials: who})
	return f
}

func TestThereAreNoLoadBalancers(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	if out, err := f.classic.DescribeLoadBalancers(ctx, nil); err != nil || len(out.LoadBalancerDescriptions) > 0 ||
		out.NextMarker != nil {
		t.Errorf("classic: %+v, %v", out, err)
	}
	if out, err := f.v2.DescribeLoadBalancers(ctx, nil); err != nil || len(out.LoadBalancers) > 0 ||
		out.NextMarker != nil {
		t.Errorf("v2: %+v, %v", out, err)
	}
	if out, err := f.v2.DescribeTargetGroups(ctx, nil); err != nil || len(out.TargetGroups) > 0 {
		t.Errorf("target groups: %+v, %v", out, err)
	}
	if n := len(f.Targets("elasticloadbalancing:DescribeLoadBalancers")); n != 2 {
		t.Errorf("%d decisions about DescribeLoadBalancers, want 2", n)
	}
}

type failure struct {
	Code    string
	Status  int
	Message string
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		name string
		do   func(ctx context.Context) error
		want failure
	}{
		{"classic name", func(ctx context.Context) error {
			_, err := f.classic.DescribeLoadBalancers(ctx, &classic.DescribeLoadBalancersInput{
				LoadBalancerNames: []string{"web", "api"}})
			return err
		}, failure{Code: "LoadBalancerNotFound", Status: 400,
			Message: "There is no ACTIVE Load Balancer named 'web'"}},
		{"tags of a classic name", func(ctx context.Context) error {
			_, err := f.classic.DescribeTags(ctx, &classic.DescribeTagsInput{LoadBalancerNames: []string{"web"}})
			return err
		}, failure{Code: "LoadBalancerNotFound", Status: 400,
			Message: "There is no ACTIVE Load Balancer named 'web'"}},
		{"name", func(ctx context.Context) error {
			_, err := f.v2.DescribeLoadBalancers(ctx, &v2.DescribeLoadBalancersInput{Names: []string{"web", "api"}})
			return err
		}, failure{Code: "LoadBalancerNotFound", Status: 400, Message: "Load balancers '[web, api]' not found"}},
		{"names and ARNs", func(ctx context.Context) error {
			_, err := f.v2.DescribeLoadBalancers(ctx, &v2.DescribeLoadBalancersInput{Names: []string{"web"},
				LoadBalancerArns: []string{arn + "loadbalancer/app/web/1"}})
			return err
		}, failure{Code: "ValidationError", Status: 400,
			Message: "Load balancer names and load balancer ARNs cannot be specified at the same time"}},
		{"target group of a load balancer", func(ctx context.Context) error {
			_, err := f.v2.DescribeTargetGroups(ctx, &v2.DescribeTargetGroupsInput{
				LoadBalancerArn: aws.String(arn + "loadbalancer/app/web/1")})
			return err
		}, failure{Code: "LoadBalancerNotFound", Status: 400,
			Message: "Load balancers '[" + arn + "loadbalancer/app/web/1]' not found"}},
		{"target group", func(ctx context.Context) error {
			_, err := f.v2.DescribeTargetGroups(ctx, &v2.DescribeTargetGroupsInput{Names: []string{"web"}})
			return err
		}, failure{Code: "TargetGroupNotFound", Status: 400, Message: "One or more target groups not found"}},
		{"tags of a load balancer", func(ctx context.Context) error {
			_, err := f.v2.DescribeTags(ctx, &v2.DescribeTagsInput{
				ResourceArns: []string{arn + "loadbalancer/app/web/1"}})
			return err
		}, failure{Code: "LoadBalancerNotFound", Status: 400,
			Message: "Load balancers '[" + arn + "loadbalancer/app/web/1]' not found"}},
		{"tags of a target group", func(ctx context.Context) error {
			_, err := f.v2.DescribeTags(ctx, &v2.DescribeTagsInput{ResourceArns: []string{arn + "targetgroup/web/1"}})
			return err
		}, failure{Code: "TargetGroupNotFound", Status: 400,
			Message: "Target groups '" + arn + "targetgroup/web/1' not found"}},
		{"tags of a name", func(ctx context.Context) error {
			_, err := f.v2.DescribeTags(ctx, &v2.DescribeTagsInput{ResourceArns: []string{"web"}})
			return err
		}, failure{Code: "ValidationError", Status: 400, Message: "'web' is not a valid ARN"}},
	} {
		code, message, status := awstest.Failure(c.do(t.Context()))
		if got := (failure{code, status, message}); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
	_, err := f.classic.DescribeAccountLimits(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "NotImplemented") {
		t.Errorf("DescribeAccountLimits: %v", err)
	}
}
