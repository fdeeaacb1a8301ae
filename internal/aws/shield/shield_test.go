package shield_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/shield"
	"github.com/aws/aws-sdk-go-v2/service/shield/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	coracle "github.com/coracle-eks/coracle/internal/aws/shield"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// TestNobodyHasASubscription shows the answers that the AWS Load Balancer Controller gets.
func TestNobodyHasASubscription(t *testing.T) {
	t.Parallel()
	w := iamtest.New(t)
	coracle.Register(w.Mux)
	ctx := t.Context()
	client := func(who aws.Credentials) *shield.Client {
		return shield.New(shield.Options{Region: "us-east-1", BaseEndpoint: &w.URL, RetryMaxAttempts: 1,
			HTTPClient: awsclient.HTTP(), Credentials: credentials.StaticCredentialsProvider{Value: who}})
	}
	c := client(w.Root)
	if out := awstest.Must[*shield.GetSubscriptionStateOutput](t)(c.GetSubscriptionState(ctx,
		&shield.GetSubscriptionStateInput{})); out.SubscriptionState != types.SubscriptionStateInactive {
		t.Errorf("the subscription is %s", out.SubscriptionState)
	}
	if out := awstest.Must[*shield.ListProtectionsOutput](t)(c.ListProtections(ctx,
		&shield.ListProtectionsInput{})); len(out.Protections) != 0 {
		t.Errorf("protections: %+v", out.Protections)
	}
	balancer := "arn:aws:elasticloadbalancing:eu-west-1:" + iamtest.Account + ":loadbalancer/app/web/0123456789abcdef"
	_, err := c.DescribeSubscription(ctx, &shield.DescribeSubscriptionInput{})
	awstest.WantCode(t, err, "ResourceNotFoundException")
	id := "01234567-89ab-cdef-0123-456789abcdef"
	for _, in := range []*shield.DescribeProtectionInput{{ResourceArn: &balancer}, {ProtectionId: &id}} {
		_, err = c.DescribeProtection(ctx, in)
		awstest.WantCode(t, err, "ResourceNotFoundException")
	}
	_, err = c.DescribeProtection(ctx, &shield.DescribeProtectionInput{})
	awstest.WantCode(t, err, "InvalidParameterException")
	_, err = c.CreateProtection(ctx, &shield.CreateProtectionInput{Name: aws.String("a"), ResourceArn: &balancer})
	awstest.WantCode(t, err, "NotImplemented")
	_, err = client(w.NewUser(t, "nobody", "")).GetSubscriptionState(ctx, &shield.GetSubscriptionStateInput{})
	awstest.WantCode(t, err, "AccessDeniedException")
}
