package identity_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// forwarded returns clients of IAM and STS with which CloudFormation acts on behalf of whom the credentials name, after
// their request.
func forwarded(t *testing.T, a *iamtest.AWS, c aws.Credentials) (*iam.Client, *sts.Client) {
	t.Helper()
	_, caller, err := a.Identity.Lookup(t.Context(), c.AccessKeyID, c.SessionToken)
	if err != nil {
		t.Fatal(err)
	}
	return inProcess(a, a.Identity.ForwardedCredentials(a.Identity.Forward(caller), wire.CloudFormationPrincipal))
}

func inProcess(a *iamtest.AWS, p aws.CredentialsProvider) (*iam.Client, *sts.Client) {
	c := aws.Config{Region: iamtest.Region, BaseEndpoint: aws.String("http://coracle.internal"), RetryMaxAttempts: 1,
		HTTPClient: &http.Client{Transport: a.Mux.Transport()}, Credentials: p}
	return iam.NewFromConfig(c), sts.NewFromConfig(c)
}

func errOf[T any](_ T, err error) error { return err }

// deleteUser deletes a user with their only inline policy.
func deleteUser(ctx context.Context, client *iam.Client, name string) error {
	list, err := client.ListUserPolicies(ctx, &iam.ListUserPoliciesInput{UserName: aws.String(name)})
	if err != nil {
		return err
	}
	for _, policy := range list.PolicyNames {
		if _, err := client.DeleteUserPolicy(ctx, &iam.DeleteUserPolicyInput{UserName: aws.String(name),
			PolicyName: aws.String(policy)}); err != nil {
			return err
		}
	}
	return errOf(client.DeleteUser(ctx, &iam.DeleteUserInput{UserName: aws.String(name)}))
}

func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// A service acts on behalf of a caller with the caller's policies, and of no others.
func TestForwardedSessionsHaveTheCallersPermissions(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx := t.Context()
	const viaOnly = `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":"iam:GetUser","Resource":"*","Condition":{"StringEquals":{
			"aws:CalledViaFirst":"cloudformation.amazonaws.com","aws:CalledViaLast":"cloudformation.amazonaws.com"},
			"ForAnyValue:StringEquals":{"aws:CalledVia":"cloudformation.amazonaws.com"},
			"Bool":{"aws:ViaAWSService":"true"}}},
		{"Effect":"Allow","Action":"sts:GetSessionToken","Resource":"*"}]}`
	user := a.NewUser(t, "dev", viaOnly)
	direct := a.IAM(user)
	if _, err := direct.GetUser(ctx, &iam.GetUserInput{}); codeOf(err) != "AccessDenied" {
		t.Errorf("the user themselves: %v", err)
	}
	client, who := forwarded(t, a, user)
	if _, err := client.GetUser(ctx, &iam.GetUserInput{}); err != nil {
		t.Errorf("CloudFormation for the user: %v", err)
	}
	if _, err := client.ListUsers(ctx, &iam.ListUsersInput{}); codeOf(err) != "AccessDenied" {
		t.Errorf("what the user may not: %v", err)
	}
	id, err := who.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil || aws.ToString(id.Arn) != "arn:aws:iam::111122223333:user/dev" {
		t.Errorf("CloudFormation is %+v, %v", id, err)
	}
	root, _ := forwarded(t, a, a.Root)
	if _, err := root.ListUsers(ctx, &iam.ListUsersInput{}); err != nil {
		t.Errorf("CloudFormation for the root user: %v", err)
	}

	// A session without an MFA device may not call IAM, and neither may a service on its behalf.
	session, err := a.STS(user).GetSessionToken(ctx, &sts.GetSessionTokenInput{})
	if err != nil {
		t.Fatal(err)
	}
	client, _ = forwarded(t, a, aws.Credentials{AccessKeyID: *session.Credentials.AccessKeyId,
		SecretAccessKey: *session.Credentials.SecretAccessKey, SessionToken: *session.Credentials.SessionToken})
	if _, err := client.GetUser(ctx, &iam.GetUserInput{}); codeOf(err) != "InvalidClientTokenId" {
		t.Errorf("IAM for a session token: %v", err)
	}

	// The end of the access key is the end of what was asked for with it, and so is the end of the user.
	client, _ = forwarded(t, a, user)
	admin := a.IAM(a.Root)
	for _, c := range []struct {
		status types.StatusType
		want   string
	}{{types.StatusTypeInactive, "InvalidClientTokenId"}, {types.StatusTypeActive, ""}} {
		if _, err := admin.UpdateAccessKey(ctx, &iam.UpdateAccessKeyInput{UserName: aws.String("dev"),
			AccessKeyId: aws.String(user.AccessKeyID), Status: c.status}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.GetUser(ctx, &iam.GetUserInput{}); codeOf(err) != c.want {
			t.Errorf("for a caller whose access key is %s: %v", c.status, err)
		}
	}
	for _, err := range []error{
		errOf(admin.DeleteAccessKey(ctx, &iam.DeleteAccessKeyInput{UserName: aws.String("dev"),
			AccessKeyId: aws.String(user.AccessKeyID)})),
		deleteUser(ctx, admin, "dev"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.GetUser(ctx, &iam.GetUserInput{}); codeOf(err) != "InvalidClientTokenId" {
		t.Errorf("for a user who is gone: %v", err)
	}
}

func TestForwardedSessionsKeepSessionPoliciesAndTags(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx := t.Context()
	a.NewRole(t, "ops", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"111122223333"},
		"Action":["sts:AssumeRole","sts:TagSession","sts:SetSourceIdentity"]}}`)
	root := a.IAM(a.Root)
	if _, err := root.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: aws.String("ops"),
		PolicyName: aws.String("p"), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":{"Effect":"Allow",
			"Action":["iam:ListUsers","iam:ListGroups"],"Resource":"*","Condition":{"StringEquals":{
			"aws:PrincipalTag/team":"a","aws:SourceIdentity":"jane"}}}}`)}); err != nil {
		t.Fatal(err)
	}
	starter := a.NewUser(t, "starter", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:*","Resource":"*"}}`)
	in := &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::111122223333:role/ops"),
		RoleSessionName: aws.String("jane"), SourceIdentity: aws.String("jane"), Policy: aws.String(
			`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:ListUsers","Resource":"*"}}`)}
	in.Tags = append(in.Tags, ststypes.Tag{Key: aws.String("team"), Value: aws.String("a")})
	out, err := a.STS(starter).AssumeRole(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	client, who := forwarded(t, a, aws.Credentials{AccessKeyID: *out.Credentials.AccessKeyId,
		SecretAccessKey: *out.Credentials.SecretAccessKey, SessionToken: *out.Credentials.SessionToken})
	if _, err := client.ListUsers(ctx, &iam.ListUsersInput{}); err != nil {
		t.Errorf("what role, session policy and tags allow: %v", err)
	}
	if _, err := client.ListGroups(ctx, &iam.ListGroupsInput{}); codeOf(err) != "AccessDenied" {
		t.Errorf("what the session policy does not allow: %v", err)
	}
	id, err := who.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil || aws.ToString(id.Arn) != "arn:aws:sts::111122223333:assumed-role/ops/jane" {
		t.Errorf("the session is %+v, %v", id, err)
	}

	// The caller's session ends, and the stack still operates.
	_, caller, err := a.Identity.Lookup(ctx, *out.Credentials.AccessKeyId, *out.Credentials.SessionToken)
	if err != nil {
		t.Fatal(err)
	}
	provider := a.Identity.ForwardedCredentials(a.Identity.Forward(caller), wire.CloudFormationPrincipal)
	later := time.Now().Add(5 * time.Hour)
	a.SetNow(later)
	renewed, err := provider.Retrieve(ctx)
	if err != nil || !renewed.Expires.After(later) {
		t.Errorf("the credentials end at %v, %v", renewed.Expires, err)
	}
}

func TestPassedRolesMustTrustTheService(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx := t.Context()
	trust := func(account string) string {
		return `{"Version":"2012-10-17","Statement":{"Effect":"Allow",
			"Principal":{"Service":"cloudformation.amazonaws.com"},"Action":"sts:AssumeRole",
			"Condition":{"StringEquals":{"aws:SourceAccount":"` + account + `"},
				"ArnLike":{"aws:SourceArn":"arn:aws:cloudformation:*:*:stack/*"}}}}`
	}
	a.NewRole(t, "cfn", trust(iamtest.Account))
	a.NewRole(t, "wrong", trust(iamtest.Other))
	const arn = "arn:aws:iam::111122223333:role/"
	stack := "arn:aws:cloudformation:us-east-1:111122223333:stack/s/1"
	credentials := func(name string) aws.CredentialsProvider {
		return a.Identity.PassedRoleCredentials(arn+name, wire.CloudFormationPrincipal, "AWSCloudFormation", stack)
	}
	for _, name := range []string{"wrong", "none"} {
		if _, err := credentials(name).Retrieve(ctx); !errors.Is(err, identity.ErrNotTrusted) {
			t.Errorf("the role %s: %v", name, err)
		}
	}
	_, who := inProcess(a, credentials("cfn"))
	id, err := who.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil || !strings.HasSuffix(aws.ToString(id.Arn), "assumed-role/cfn/AWSCloudFormation") {
		t.Errorf("the session is %+v, %v", id, err)
	}
}

// Nobody outside of the daemon signs with credentials of a service that acts for others.
func TestForwardedCredentialsAreGoodInTheProcessOnly(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	_, caller, err := a.Identity.Lookup(t.Context(), a.Root.AccessKeyID, "")
	if err != nil {
		t.Fatal(err)
	}
	p := a.Identity.ForwardedCredentials(a.Identity.Forward(caller), wire.CloudFormationPrincipal)
	c, err := p.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.STS(c).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if codeOf(err) != "InvalidClientTokenId" {
		t.Errorf("over the network: %v", err)
	}
}

// Tags of CloudFormation are set and removed by CloudFormation alone.
func TestTagsOfCloudFormationAreItsOwn(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx := t.Context()
	service, _ := forwarded(t, a, a.Root)
	user := a.IAM(a.Root)
	create := func(c *iam.Client, name, key string) error {
		_, err := c.CreateUser(ctx, &iam.CreateUserInput{UserName: aws.String(name),
			Tags: []types.Tag{{Key: aws.String(key), Value: aws.String("v")}}})
		return err
	}
	for name, err := range map[string]error{
		"by a user":           create(user, "a", "aws:cloudformation:stack-name"),
		"of another service":  create(service, "b", "aws:autoscaling:groupName"),
		"in upper case":       create(service, "c", "AWS:cloudformation:stack-name"),
		"of CloudFormation's": create(service, "d", "aws:cloudformation:stack-name"),
	} {
		if refused := codeOf(err) == "InvalidInput"; refused != (name != "of CloudFormation's") {
			t.Errorf("%s: %v", name, err)
		}
	}
	untag := func(c *iam.Client) error {
		_, err := c.UntagUser(ctx, &iam.UntagUserInput{UserName: aws.String("d"),
			TagKeys: []string{"aws:cloudformation:stack-name"}})
		return err
	}
	if err := untag(user); codeOf(err) != "InvalidInput" {
		t.Errorf("a user removes the tag: %v", err)
	}
	if err := untag(service); err != nil {
		t.Errorf("CloudFormation removes the tag: %v", err)
	}
	var many []types.Tag
	for i := range 49 {
		many = append(many, types.Tag{Key: aws.String("k" + strconv.Itoa(i)), Value: aws.String("")})
	}
	many = append(many, types.Tag{Key: aws.String("aws:cloudformation:stack-id"), Value: aws.String("x")})
	if _, err := service.CreateUser(context.WithoutCancel(ctx), &iam.CreateUserInput{UserName: aws.String("e"),
		Tags: many}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "LimitExceeded"} {
		_, err := service.TagUser(ctx, &iam.TagUserInput{UserName: aws.String("e"),
			Tags: []types.Tag{{Key: aws.String("more" + string(rune('A'+i))), Value: aws.String("")}}})
		if codeOf(err) != want {
			t.Errorf("tag %d: %v, want %q: tags of CloudFormation do not count", 50+i, err, want)
		}
	}
}
