package sts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

func TestAssumeRole(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	alice := a.NewUser(t, "alice", "")
	role := a.NewRole(t, "reader", trust(`{"AWS":"arn:aws:iam::111122223333:user/alice"}`, `"sts:AssumeRole"`))
	awstest.Must[*iam.AttachRolePolicyOutput](t)(c.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: p("reader"),
		PolicyArn: p("arn:aws:iam::aws:policy/IAMReadOnlyAccess")}))

	out := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(alice).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role,
		RoleSessionName: p("s1")}))
	session := credentials(out.Credentials)
	if left := time.Until(*out.Credentials.Expiration); left < 59*time.Minute || left > time.Hour {
		t.Errorf("the session lasts %s", left)
	}
	who := whoAmI(t, a, session)
	if *who.Arn != "arn:aws:sts::111122223333:assumed-role/reader/s1" ||
		*who.UserId != *out.AssumedRoleUser.AssumedRoleId || *who.Arn != *out.AssumedRoleUser.Arn {
		t.Errorf("the session is %s %s", *who.Arn, *who.UserId)
	}
	awstest.Must[*iam.ListUsersOutput](t)(a.IAM(session).ListUsers(ctx, &iam.ListUsersInput{}))
	if _, err := a.IAM(session).CreateUser(ctx, &iam.CreateUserInput{UserName: p("x")}); err == nil ||
		!strings.Contains(err.Error(),
			"User: arn:aws:sts::111122223333:assumed-role/reader/s1 is not authorized to perform: iam:CreateUser") {
		t.Errorf("more than the role may: %v", err)
	}
	if used := awstest.Must[*iam.GetRoleOutput](t)(c.GetRole(ctx,
		&iam.GetRoleInput{RoleName: p("reader")})).Role.RoleLastUsed; used == nil || used.LastUsedDate == nil {
		t.Error("the role's use was not noted")
	}

	// A session policy can only take away.
	narrow := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["iam:GetUser","iam:CreateUser"],"Resource":"*"}}`
	out = awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(alice).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role,
		RoleSessionName: p("s2"), Policy: &narrow}))
	limited := a.IAM(credentials(out.Credentials))
	awstest.Must[*iam.GetUserOutput](t)(limited.GetUser(ctx, &iam.GetUserInput{UserName: p("alice")}))
	if _, err := limited.ListUsers(ctx, &iam.ListUsersInput{}); err == nil || !strings.Contains(err.Error(),
		"because no session policy allows the iam:ListUsers action") {
		t.Errorf("beyond the session policy: %v", err)
	}
	if _, err := limited.CreateUser(ctx, &iam.CreateUserInput{UserName: p("x")}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("the session policy grants: %v", err)
	}
	if out.PackedPolicySize == nil {
		t.Error("no PackedPolicySize with a session policy")
	}

	// Secrets and tokens go together, and only whole.
	for name, bad := range map[string]aws.Credentials{
		"another's secret": {AccessKeyID: session.AccessKeyID, SecretAccessKey: alice.SecretAccessKey,
			SessionToken: session.SessionToken},
		"without token": {AccessKeyID: session.AccessKeyID, SecretAccessKey: session.SecretAccessKey},
		"altered token": {AccessKeyID: session.AccessKeyID, SecretAccessKey: session.SecretAccessKey,
			SessionToken: altered(session.SessionToken)},
		"user's key": {AccessKeyID: alice.AccessKeyID, SecretAccessKey: alice.SecretAccessKey,
			SessionToken: session.SessionToken},
	} {
		_, err := a.STS(bad).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
		want := "InvalidClientTokenId"
		if name == "another's secret" {
			want = "SignatureDoesNotMatch"
		}
		if awstest.Code(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}

	// A role of the same name is another role.
	awstest.Must[*iam.DetachRolePolicyOutput](t)(c.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: p("reader"),
		PolicyArn: p("arn:aws:iam::aws:policy/IAMReadOnlyAccess")}))
	awstest.Must[*iam.DeleteRoleOutput](t)(c.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: p("reader")}))
	a.NewRole(t, "reader", trust(`{"AWS":"arn:aws:iam::111122223333:user/alice"}`, `"sts:AssumeRole"`))
	if _, err := a.STS(session).GetCallerIdentity(ctx,
		&sts.GetCallerIdentityInput{}); awstest.Code(err) != "InvalidClientTokenId" {
		t.Errorf("a session of the role that was deleted: %v", err)
	}
	// So is a user.
	awstest.Must[*iam.DeleteAccessKeyOutput](t)(c.DeleteAccessKey(ctx, &iam.DeleteAccessKeyInput{UserName: p("alice"),
		AccessKeyId: &alice.AccessKeyID}))
	awstest.Must[*iam.DeleteUserOutput](t)(c.DeleteUser(ctx, &iam.DeleteUserInput{UserName: p("alice")}))
	impostor := a.NewUser(t, "alice", "")
	if _, err := a.STS(impostor).AssumeRole(ctx,
		&sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: p("s3")}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("a new user under a trusted name: %v", err)
	}
}

// altered changes one character in the middle, where the sealed text is.
func altered(token string) string {
	b := []byte(token)
	if i := len(b) / 2; b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	role := a.NewRole(t, "app", trust(`{"AWS":"111122223333"}`, `"sts:AssumeRole"`))
	out := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(a.Root).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role,
		RoleSessionName: p("me"), DurationSeconds: aws.Int32(900)}))
	whoAmI(t, a, credentials(out.Credentials))
	a.SetNow(time.Now().Add(14 * time.Minute)) // within the clock skew of the signature
	whoAmI(t, a, credentials(out.Credentials))
	a.SetNow(out.Credentials.Expiration.Add(time.Second))
	_, err := a.STS(credentials(out.Credentials)).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if got := awstest.Code(err); got != "ExpiredToken" {
		t.Errorf("after its end: %v", err)
	}
}

func TestCrossAccountWithExternalID(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	other := a.NewAccount(t, iamtest.Other)
	role := a.NewRole(
		t,
		"partner",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"444455556666"},"Action":"sts:AssumeRole","Condition":{"StringEquals":{"sts:ExternalId":"secret"}}}}`,
	)
	if _, err := a.STS(other).AssumeRole(ctx,
		&sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: p("me")}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("without the external id: %v", err)
	}
	out := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(other).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role,
		RoleSessionName: p("me"), ExternalId: p("secret")}))
	if who := whoAmI(t, a, credentials(out.Credentials)); *who.Account != iamtest.Account {
		t.Errorf("the session is of account %s", *who.Account)
	}
	if _, err := a.STS(a.Root).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: p("me"),
		ExternalId: p("secret")}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("the account that is not trusted: %v", err)
	}
}

// A trust policy that names a session of a role means that role, not one that gets its name later.
func TestTrustOfASessionEndsWithItsRole(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	session := func() aws.Credentials {
		arn := a.NewRole(t, "worker", trust(`{"AWS":"111122223333"}`, `"sts:AssumeRole"`))
		out := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(a.Root).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &arn,
			RoleSessionName: p("me")}))
		return credentials(out.Credentials)
	}
	first := session()
	target := a.NewRole(t, "target", trust(`{"AWS":"arn:aws:sts::111122223333:assumed-role/worker/me"}`,
		`"sts:AssumeRole"`))
	in := &sts.AssumeRoleInput{RoleArn: &target, RoleSessionName: p("me")}
	if _, err := a.STS(first).AssumeRole(ctx, in); err != nil {
		t.Errorf("the session that is meant: %v", err)
	}
	awstest.Must[*iam.DeleteRoleOutput](t)(a.IAM(a.Root).DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: p("worker")}))
	if _, err := a.STS(session()).AssumeRole(ctx, in); awstest.Code(err) != "AccessDenied" {
		t.Errorf("a session of another role of its name: %v", err)
	}
}
