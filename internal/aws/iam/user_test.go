package iam_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func TestLifeOfAUser(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	user := awstest.Must[*iam.CreateUserOutput](t)(c.CreateUser(ctx, &iam.CreateUserInput{UserName: p("alice"),
		Path: p("/team/"), Tags: []types.Tag{{Key: p("team"), Value: p("blue")}}})).User
	if *user.Arn != "arn:aws:iam::111122223333:user/team/alice" || !strings.HasPrefix(*user.UserId, "AIDA") ||
		len(*user.UserId) != 21 {
		t.Errorf("created %s %s", *user.Arn, *user.UserId)
	}
	awstest.Must[*iam.PutUserPolicyOutput](t)(c.PutUserPolicy(ctx, &iam.PutUserPolicyInput{UserName: p("alice"),
		PolicyName: p("self"), PolicyDocument: p(
			`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:GetUser","Resource":"arn:aws:iam::*:user/*/${aws:username}","Condition":{"StringEquals":{"aws:PrincipalTag/team":"blue","aws:ResourceTag/team":"blue"}}}}`,
		)}))
	key := awstest.Must[*iam.CreateAccessKeyOutput](t)(c.CreateAccessKey(ctx,
		&iam.CreateAccessKeyInput{UserName: p("alice")})).AccessKey
	alice := a.IAM(aws.Credentials{AccessKeyID: *key.AccessKeyId, SecretAccessKey: *key.SecretAccessKey})

	got := awstest.Must[*iam.GetUserOutput](t)(alice.GetUser(ctx, &iam.GetUserInput{})).User
	if *got.UserId != *user.UserId || len(got.Tags) != 1 {
		t.Errorf("alice sees herself as %+v", got)
	}
	document := awstest.Must[*iam.GetUserPolicyOutput](t)(
		c.GetUserPolicy(ctx, &iam.GetUserPolicyInput{UserName: p("alice"),
			PolicyName: p("self")}),
	).PolicyDocument
	if text, err := url.PathUnescape(*document); err != nil || !strings.Contains(text, "iam:GetUser") ||
		strings.Contains(*document, " ") {
		t.Errorf("the document came as %s", *document)
	}
	if used := awstest.Must[*iam.GetAccessKeyLastUsedOutput](t)(c.GetAccessKeyLastUsed(ctx,
		&iam.GetAccessKeyLastUsedInput{AccessKeyId: key.AccessKeyId})); *used.UserName != "alice" ||
		*used.AccessKeyLastUsed.ServiceName != "iam" {
		t.Errorf("last used: %+v", used.AccessKeyLastUsed)
	}

	// The name changes; key and policies stay.
	awstest.Must[*iam.UpdateUserOutput](t)(c.UpdateUser(ctx, &iam.UpdateUserInput{UserName: p("alice"),
		NewUserName: p("alicia")}))
	if got := awstest.Must[*iam.GetUserOutput](t)(alice.GetUser(ctx,
		&iam.GetUserInput{})).User; *got.UserName != "alicia" ||
		*got.UserId != *user.UserId {
		t.Errorf("after the change of name: %s %s", *got.UserName, *got.UserId)
	}

	// An inactive key is nobody's.
	awstest.Must[*iam.UpdateAccessKeyOutput](t)(c.UpdateAccessKey(ctx, &iam.UpdateAccessKeyInput{UserName: p("alicia"),
		AccessKeyId: key.AccessKeyId, Status: types.StatusTypeInactive}))
	if _, err := alice.GetUser(ctx, &iam.GetUserInput{}); awstest.Code(err) != "InvalidClientTokenId" {
		t.Errorf("an inactive key: %v", err)
	}
	awstest.Must[*iam.UpdateAccessKeyOutput](t)(c.UpdateAccessKey(ctx, &iam.UpdateAccessKeyInput{UserName: p("alicia"),
		AccessKeyId: key.AccessKeyId, Status: types.StatusTypeActive}))

	// What the policy no longer allows is refused at the next request.
	awstest.Must[*iam.UntagUserOutput](t)(c.UntagUser(ctx, &iam.UntagUserInput{UserName: p("alicia"),
		TagKeys: []string{"team"}}))
	if _, err := alice.GetUser(ctx, &iam.GetUserInput{}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("without the tag: %v", err)
	}

	awstest.Must[*iam.DeleteAccessKeyOutput](t)(c.DeleteAccessKey(ctx, &iam.DeleteAccessKeyInput{UserName: p("alicia"),
		AccessKeyId: key.AccessKeyId}))
	awstest.Must[*iam.DeleteUserPolicyOutput](t)(c.DeleteUserPolicy(ctx, &iam.DeleteUserPolicyInput{UserName: p("alicia"),
		PolicyName: p("self")}))
	awstest.Must[*iam.DeleteUserOutput](t)(c.DeleteUser(ctx, &iam.DeleteUserInput{UserName: p("alicia")}))
	if _, err := alice.GetUser(ctx, &iam.GetUserInput{}); awstest.Code(err) != "InvalidClientTokenId" {
		t.Errorf("after the deletion: %v", err)
	}
}

func TestOnlyTwoKeysAtOnce(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	awstest.Must[*iam.CreateUserOutput](t)(c.CreateUser(ctx, &iam.CreateUserInput{UserName: p("alice")}))
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if _, err := c.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: p("alice")}); err != nil &&
				awstest.Code(err) != "LimitExceeded" {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if keys := awstest.Must[*iam.ListAccessKeysOutput](t)(c.ListAccessKeys(ctx,
		&iam.ListAccessKeysInput{UserName: p("alice")})).AccessKeyMetadata; len(keys) != 2 {
		t.Errorf("alice has %d keys", len(keys))
	}
}

func TestAttachAndDeleteAtOnce(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	a.NewRole(t, "app", trustEKS)
	for i := range 10 {
		arn := *awstest.Must[*iam.CreatePolicyOutput](t)(c.CreatePolicy(ctx,
			&iam.CreatePolicyInput{PolicyName: p(fmt.Sprint("p", i)), PolicyDocument: p(allowAll)})).Policy.Arn
		var wait sync.WaitGroup
		var attached, removed error
		wait.Go(func() {
			_, attached = c.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: p("app"), PolicyArn: &arn})
		})
		wait.Go(func() { _, removed = c.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: &arn}) })
		wait.Wait()
		if (attached == nil) == (removed == nil) {
			t.Errorf("attach: %v, delete: %v; exactly one must succeed", attached, removed)
		}
		if attached == nil {
			awstest.Must[*iam.DetachRolePolicyOutput](t)(c.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: p("app"),
				PolicyArn: &arn}))
		}
	}
}

// TestUserWithoutPolicies shows how a user who may do nothing is refused.
func TestUserWithoutPolicies(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	nobody := a.IAM(a.NewUser(t, "nobody", ""))
	for name, call := range map[string]error{
		"GetAccountSummary": second(nobody.GetAccountSummary(ctx, &iam.GetAccountSummaryInput{})),
		"CreateUser":        second(nobody.CreateUser(ctx, &iam.CreateUserInput{UserName: p("x")})),
		"CreateRole": second(nobody.CreateRole(ctx, &iam.CreateRoleInput{RoleName: p("x"),
			AssumeRolePolicyDocument: p(trustEKS)})),
		"CreatePolicy": second(nobody.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: p("x"),
			PolicyDocument: p(allowAll)})),
		"ListPolicies": second(nobody.ListPolicies(ctx, &iam.ListPoliciesInput{})),
		"SimulateCustomPolicy": second(nobody.SimulateCustomPolicy(ctx,
			&iam.SimulateCustomPolicyInput{PolicyInputList: []string{allowAll},
				ActionNames: []string{"s3:GetObject"}})),
	} {
		if awstest.Code(call) != "AccessDenied" || !strings.Contains(call.Error(),
			"User: arn:aws:iam::111122223333:user/nobody is not authorized to perform: iam:"+name+" on resource: ") {
			t.Errorf("%s: %v", name, call)
		}
	}
}

// A principal's creation cannot be repeated as those of services: the answer would tell the secret again.
func TestClientTokensAreForServices(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c := t.Context(), a.IAM(a.Root)
	in := &iam.CreateAccessKeyInput{UserName: aws.String("alice")}
	awstest.Must[*iam.CreateUserOutput](t)(c.CreateUser(ctx, &iam.CreateUserInput{UserName: in.UserName}))
	token := iam.WithAPIOptions(smithyhttp.SetHeaderValue(wire.ClientTokenHeader, "token"))
	first := awstest.Must[*iam.CreateAccessKeyOutput](t)(c.CreateAccessKey(ctx, in, token)).AccessKey
	second := awstest.Must[*iam.CreateAccessKeyOutput](t)(c.CreateAccessKey(ctx, in, token)).AccessKey
	if *first.AccessKeyId == *second.AccessKeyId {
		t.Errorf("both are %s", *first.AccessKeyId)
	}
}
