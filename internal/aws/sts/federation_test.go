package sts_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	coraclessm "github.com/coracle-eks/coracle/internal/aws/ssm"
	"github.com/coracle-eks/coracle/test/awsclient"
)

func TestSessionAndFederationTokens(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	coraclessm.New(coraclessm.Options{Store: a.Store}).Register(a.Mux)
	ctx, p := t.Context(), aws.String
	parameters := func(with aws.Credentials) *ssm.Client {
		return ssm.New(ssm.Options{Region: iamtest.Region, BaseEndpoint: &a.URL, HTTPClient: awsclient.HTTP(),
			RetryMaxAttempts: 1,
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return with,
					nil
			})})
	}
	alice := a.NewUser(t, "alice", allowAll)
	out := awstest.Must[*sts.GetSessionTokenOutput](t)(a.STS(alice).GetSessionToken(ctx, &sts.GetSessionTokenInput{}))
	session := credentials(out.Credentials)
	if who := whoAmI(t, a, session); *who.Arn != "arn:aws:iam::111122223333:user/alice" {
		t.Errorf("the session is %s", *who.Arn)
	}
	awstest.Must[*ssm.DescribeParametersOutput](t)(
		parameters(session).DescribeParameters(ctx, &ssm.DescribeParametersInput{}),
	)
	if _, err := a.IAM(session).ListUsers(ctx, &iam.ListUsersInput{}); awstest.Code(err) != "InvalidClientTokenId" {
		t.Errorf("a session without MFA may use IAM: %v", err)
	}
	if _, err := a.STS(session).GetSessionToken(ctx, &sts.GetSessionTokenInput{}); err == nil ||
		!strings.Contains(err.Error(), "Cannot call GetSessionToken with session credentials") {
		t.Errorf("a session of a session: %v", err)
	}
	if _, err := a.STS(session).GetFederationToken(ctx,
		&sts.GetFederationTokenInput{Name: p("guest")}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("a federated user of a session: %v", err)
	}
	if root := awstest.Must[*sts.GetSessionTokenOutput](t)(a.STS(a.Root).GetSessionToken(ctx,
		&sts.GetSessionTokenInput{})); time.Until(*root.Credentials.Expiration) > time.Hour {
		t.Errorf("root's session ends at %s", root.Credentials.Expiration)
	}

	federated := awstest.Must[*sts.GetFederationTokenOutput](t)(a.STS(alice).GetFederationToken(ctx,
		&sts.GetFederationTokenInput{
			Name: p("guest"),
			Policy: p(
				`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["ssm:DescribeParameters","iam:*"],"Resource":"*"}}`,
			),
		}))
	guest := credentials(federated.Credentials)
	if who := whoAmI(t, a, guest); *who.Arn != "arn:aws:sts::111122223333:federated-user/guest" ||
		*who.UserId != "111122223333:guest" {
		t.Errorf("the guest is %s %s", *who.Arn, *who.UserId)
	}
	awstest.Must[*ssm.DescribeParametersOutput](t)(
		parameters(guest).DescribeParameters(ctx, &ssm.DescribeParametersInput{}),
	)
	if _, err := parameters(guest).GetParameter(ctx,
		&ssm.GetParameterInput{Name: p("secret")}); awstest.Code(err) != "AccessDeniedException" {
		t.Errorf("the guest may more than the policy: %v", err)
	}
	if _, err := a.IAM(guest).ListUsers(ctx, &iam.ListUsersInput{}); awstest.Code(err) != "InvalidClientTokenId" {
		t.Errorf("the guest may use IAM: %v", err)
	}
	none := awstest.Must[*sts.GetFederationTokenOutput](t)(a.STS(alice).GetFederationToken(ctx,
		&sts.GetFederationTokenInput{Name: p("nobody")}))
	if _, err := parameters(credentials(none.Credentials)).DescribeParameters(ctx,
		&ssm.DescribeParametersInput{}); awstest.Code(err) != "AccessDeniedException" {
		t.Errorf("without a session policy: %v", err)
	}
}

// Tags of a session are principal tags, which policies go by: giving them to a federated user needs a permission of its
// own.
func TestFederationTagsNeedTagSession(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	p := aws.String
	in := &sts.GetFederationTokenInput{Name: p("guest"), Tags: []types.Tag{{Key: p("team"), Value: p("admins")}}}
	alice := a.NewUser(t, "alice",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:GetFederationToken","Resource":"*"}}`)
	if _, err := a.STS(alice).GetFederationToken(t.Context(), in); awstest.Code(err) != "AccessDenied" {
		t.Errorf("without sts:TagSession: %v", err)
	}
	bob := a.NewUser(
		t,
		"bob",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["sts:GetFederationToken","sts:TagSession"],"Resource":"*","Condition":{"StringEquals":{"aws:RequestTag/team":"admins"}}}}`,
	)
	awstest.Must[*sts.GetFederationTokenOutput](t)(a.STS(bob).GetFederationToken(t.Context(), in))
}
