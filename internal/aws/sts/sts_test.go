package sts_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	coraclessm "github.com/coracle-eks/coracle/internal/aws/ssm"
	coraclests "github.com/coracle-eks/coracle/internal/aws/sts"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const allowAll = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`

func trust(principal, action string) string {
	return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":` + principal + `,"Action":` + action +
		`}]}`
}

func credentials(c *types.Credentials) aws.Credentials {
	return aws.Credentials{AccessKeyID: *c.AccessKeyId, SecretAccessKey: *c.SecretAccessKey,
		SessionToken: *c.SessionToken}
}

func whoAmI(t *testing.T, a *iamtest.AWS, with aws.Credentials) *sts.GetCallerIdentityOutput {
	t.Helper()
	return awstest.Must[*sts.GetCallerIdentityOutput](t)(a.STS(with).GetCallerIdentity(t.Context(),
		&sts.GetCallerIdentityInput{}))
}

func TestWhoAmI(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	if who := whoAmI(t, a, a.Root); *who.Arn != "arn:aws:iam::111122223333:root" || *who.UserId != iamtest.Account ||
		*who.Account != iamtest.Account {
		t.Errorf("root is %s %s", *who.Arn, *who.UserId)
	}
	alice := a.NewUser(t, "alice", "") // no permission is needed
	if who := whoAmI(t, a, alice); *who.Arn != "arn:aws:iam::111122223333:user/alice" || !strings.HasPrefix(*who.UserId,
		"AIDA") {
		t.Errorf("alice is %s %s", *who.Arn, *who.UserId)
	}
	info := awstest.Must[*sts.GetAccessKeyInfoOutput](t)(a.STS(a.Root).GetAccessKeyInfo(t.Context(),
		&sts.GetAccessKeyInfoInput{AccessKeyId: &alice.AccessKeyID}))
	if *info.Account != iamtest.Account {
		t.Errorf("the key is of account %s", *info.Account)
	}
}

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

func TestChainsTagsAndSourceIdentity(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	open := trust(`{"AWS":"111122223333"}`, `["sts:AssumeRole","sts:TagSession","sts:SetSourceIdentity"]`)
	first, second := a.NewRole(t, "first", open), a.NewRole(t, "second", open)
	for _, role := range []string{"first", "second"} {
		awstest.Must[*iam.PutRolePolicyOutput](t)(c.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: &role,
			PolicyName: p("all"), PolicyDocument: p(`{"Version":"2012-10-17","Statement":[
			{"Effect":"Allow","Action":["sts:*"],"Resource":"*"},{"Effect":"Allow","Action":"iam:List*","Resource":"*","Condition":{"StringEquals":{"aws:PrincipalTag/team":"blue","aws:SourceIdentity":"ada"}}}]}`)}))
	}
	out := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(a.Root).AssumeRole(ctx, &sts.AssumeRoleInput{
		RoleArn: &first, RoleSessionName: p("one"), Tags: []types.Tag{{Key: p("team"), Value: p("blue")}},
		TransitiveTagKeys: []string{"team"}, SourceIdentity: p("ada"),
	}))
	chained := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(credentials(out.Credentials)).AssumeRole(ctx,
		&sts.AssumeRoleInput{RoleArn: &second, RoleSessionName: p("two")}))
	awstest.Must[*iam.ListUsersOutput](t)(a.IAM(credentials(chained.Credentials)).ListUsers(ctx, &iam.ListUsersInput{}))
	if chained.SourceIdentity == nil || *chained.SourceIdentity != "ada" {
		t.Errorf("the source identity was lost: %v", chained.SourceIdentity)
	}
	awstest.Must[*iam.UpdateRoleOutput](t)(c.UpdateRole(ctx, &iam.UpdateRoleInput{RoleName: p("second"),
		MaxSessionDuration: aws.Int32(43200)}))
	for name, test := range map[string]struct {
		in   sts.AssumeRoleInput
		code string
	}{
		"longer than an hour":     {sts.AssumeRoleInput{DurationSeconds: aws.Int32(7200)}, "ValidationError"},
		"another source identity": {sts.AssumeRoleInput{SourceIdentity: p("eve")}, "AccessDenied"},
		"over a transitive tag": {sts.AssumeRoleInput{Tags: []types.Tag{{Key: p("Team"), Value: p("red")}}},
			"InvalidParameterValue"},
		"transitive without tag": {sts.AssumeRoleInput{TransitiveTagKeys: []string{"x"}}, "InvalidParameterValue"},
	} {
		test.in.RoleArn, test.in.RoleSessionName = &second, p("two")
		if _, err := a.STS(credentials(out.Credentials)).AssumeRole(ctx, &test.in); awstest.Code(err) != test.code {
			t.Errorf("%s: %v, want %s", name, err, test.code)
		}
	}
}

// The id of somebody's access key is no session token, also when the key is in use.
// TestSessionTagsReplaceRoleTags shows that a policy never sees the role's tag beside the session's of the same key.
func TestSessionTagsReplaceRoleTags(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	arn := a.NewRole(t, "app", trust(`{"AWS":"111122223333"}`, `["sts:AssumeRole","sts:TagSession"]`))
	awstest.Must[*iam.TagRoleOutput](t)(c.TagRole(ctx, &iam.TagRoleInput{RoleName: p("app"),
		Tags: []iamtypes.Tag{{Key: p("Dept"), Value: p("finance")}}}))
	for _, spelling := range []string{"Dept", "dept", "DEPT"} {
		awstest.Must[*iam.PutRolePolicyOutput](t)(c.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: p("app"),
			PolicyName: p("list"), PolicyDocument: p(
				`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:ListUsers","Resource":"*","Condition":{"StringEquals":{"aws:PrincipalTag/` + spelling + `":"finance"}}}}`,
			)}))
		for value, want := range map[string]string{"finance": "<nil>", "guests": "AccessDenied"} {
			out := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(a.Root).AssumeRole(ctx, &sts.AssumeRoleInput{
				RoleArn: &arn, RoleSessionName: p("one"), Tags: []types.Tag{{Key: p("dept"), Value: &value}},
			}))
			if _, err := a.IAM(credentials(out.Credentials)).ListUsers(ctx, &iam.ListUsersInput{}); awstest.Code(err) != want {
				t.Errorf("aws:PrincipalTag/%s with the session tag dept=%s: %v, want %q", spelling, value, err, want)
			}
		}
	}
}

func TestAccessKeyIDAsSessionToken(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	alice := a.NewUser(t, "alice", "")
	whoAmI(t, a, alice)
	for _, with := range []aws.Credentials{
		{AccessKeyID: alice.AccessKeyID, SecretAccessKey: alice.SecretAccessKey, SessionToken: alice.AccessKeyID},
		{AccessKeyID: "ASIA" + alice.AccessKeyID[4:], SecretAccessKey: alice.SecretAccessKey,
			SessionToken: alice.AccessKeyID},
	} {
		if _, err := a.STS(with).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}); awstest.Code(err) !=
			"InvalidClientTokenId" {
			t.Errorf("%s: %v", with.AccessKeyID, err)
		}
	}
}

func TestSessionAndFederationTokens(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	coraclessm.New(coraclessm.Options{Store: a.Store}).Register(a.Mux)
	ctx, p := t.Context(), aws.String
	parameters := func(with aws.Credentials) *ssm.Client {
		return ssm.New(ssm.Options{Region: iamtest.Region, BaseEndpoint: &a.URL, RetryMaxAttempts: 1,
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
	awstest.Must[*ssm.DescribeParametersOutput](
		t,
	)(
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
	awstest.Must[*ssm.DescribeParametersOutput](
		t,
	)(
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

// signer signs tokens of an issuer.
type signer struct {
	key    *ecdsa.PrivateKey
	issuer string
	id     string
}

func newSigner(t *testing.T, issuer string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{key, issuer, "key-1"}
}

func (s *signer) keys(t *testing.T) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key.Public(), KeyID: s.id,
		Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (s *signer) token(t *testing.T, change func(map[string]any)) *string {
	t.Helper()
	now := time.Now()
	claims := map[string]any{
		"iss": s.issuer, "sub": "system:serviceaccount:ns:sa", "aud": []string{"sts.amazonaws.com"}, "iat": now.Unix(),
		"nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	if change != nil {
		change(claims)
	}
	options := (&jose.SignerOptions{}).WithHeader("kid", s.id)
	with, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key}, options)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(with).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return &token
}

func TestServiceAccountsAssumeRoles(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	const id = "EXAMPLED539D4633E53DE1B716D3041E"
	issuer := record.IssuerURL(iamtest.Region, id)
	cluster := newSigner(t, issuer)
	if _, err := record.Issuers(a.Store).Create(ctx, store.Key(id), record.Issuer{Account: iamtest.Account,
		Region: iamtest.Region, Cluster: "ironman-2022", JWKS: cluster.keys(t)}); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(issuer, "https://")
	provider := "arn:aws:iam::111122223333:oidc-provider/" + host
	role := a.NewRole(t, "irsa", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Federated":"`+
		provider+`"},"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"`+host+
		`:sub":"system:serviceaccount:ns:sa","`+host+`:aud":"sts.amazonaws.com"}}}}`)
	unsigned := a.STS(aws.Credentials{})
	call := func(token *string) (*sts.AssumeRoleWithWebIdentityOutput, error) {
		return unsigned.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{RoleArn: &role,
			RoleSessionName: p("pod"), WebIdentityToken: token})
	}
	if _, err := call(cluster.token(t, nil)); awstest.Code(err) != "InvalidIdentityToken" || !strings.Contains(err.Error(),
		"No OpenIDConnect provider found in your account for "+issuer) {
		t.Errorf("without a provider: %v", err)
	}
	awstest.Must[*iam.CreateOpenIDConnectProviderOutput](t)(a.IAM(a.Root).CreateOpenIDConnectProvider(ctx,
		&iam.CreateOpenIDConnectProviderInput{Url: &issuer, ClientIDList: []string{"sts.amazonaws.com"}}))

	out := awstest.Must[*sts.AssumeRoleWithWebIdentityOutput](t)(call(cluster.token(t, nil)))
	if *out.SubjectFromWebIdentityToken != "system:serviceaccount:ns:sa" || *out.Audience != "sts.amazonaws.com" ||
		*out.Provider != provider {
		t.Errorf("answered %s %s %s", *out.SubjectFromWebIdentityToken, *out.Audience, *out.Provider)
	}
	if who := whoAmI(t, a,
		credentials(out.Credentials)); *who.Arn != "arn:aws:sts::111122223333:assumed-role/irsa/pod" {
		t.Errorf("the pod is %s", *who.Arn)
	}

	set := func(claim string, value any) func(map[string]any) { return func(c map[string]any) { c[claim] = value } }
	without := func(claim string) func(map[string]any) { return func(c map[string]any) { delete(c, claim) } }
	forger := newSigner(t, issuer)
	for _, test := range []struct {
		name  string
		token *string
		code  string
		says  string
	}{
		{"another service account", cluster.token(t, set("sub", "system:serviceaccount:ns:other")), "AccessDenied",
			"Not authorized to perform sts:AssumeRoleWithWebIdentity"},
		{"another audience", cluster.token(t, set("aud", "kubernetes")), "InvalidIdentityToken",
			"Incorrect token audience"},
		{"expired", cluster.token(t, set("exp", time.Now().Add(-time.Minute).Unix())), "ExpiredTokenException",
			"Token expired: current date/time"},
		{"not valid yet", cluster.token(t, set("nbf", time.Now().Add(time.Hour).Unix())), "InvalidIdentityToken",
			"not valid yet"},
		{"never expires", cluster.token(t, without("exp")), "InvalidIdentityToken", "Missing a required claim: exp"},
		{"nobody's", cluster.token(t, without("sub")), "InvalidIdentityToken", "Missing a required claim: sub"},
		{"no issuer", cluster.token(t, without("iss")), "InvalidIdentityToken", "Missing a required claim: iss"},
		{"forged", forger.token(t, nil), "InvalidIdentityToken", "does not verify"},
		{"unsigned", unsignedToken(issuer), "InvalidIdentityToken", "not a valid JWT"},
	} {
		if _, err := call(test.token); awstest.Code(err) != test.code || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %s %q", test.name, err, test.code, test.says)
		}
	}
	forger.id = "key-2"
	if _, err := call(forger.token(t, nil)); awstest.Code(err) != "InvalidIdentityToken" || !strings.Contains(err.Error(),
		"Couldn't retrieve verification key") {
		t.Errorf("unknown key: %v", err)
	}
}

// unsignedToken claims everything and proves nothing.
func unsignedToken(issuer string) *string {
	// {"alg":"none"} . {"iss":...} .
	return aws.String("eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"`+issuer+
		`","sub":"system:serviceaccount:ns:sa","aud":"sts.amazonaws.com","iat":1,"exp":99999999999}`)) + ".")
}

func TestForeignIssuers(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	var issuer *signer
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	issuer = newSigner(t, server.URL)
	fetched := 0
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"%s/keys"}`, server.URL, server.URL)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		fetched++
		w.Write(issuer.keys(t)) //nolint:errcheck // the client's test fails then
	})
	host := strings.TrimPrefix(server.URL, "https://")
	role := a.NewRole(
		t,
		"ci",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::111122223333:oidc-provider/`+host+`"},"Action":"sts:AssumeRoleWithWebIdentity"}}`,
	)
	provider := registerProvider(t, a, host)
	call := func() error {
		_, err := a.STS(aws.Credentials{}).AssumeRoleWithWebIdentity(ctx,
			&sts.AssumeRoleWithWebIdentityInput{RoleArn: &role, RoleSessionName: p("job"),
				WebIdentityToken: issuer.token(t, nil)})
		return err
	}
	if err := call(); awstest.Code(err) != "InvalidIdentityToken" || !strings.HasSuffix(err.Error(), noKey) {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
	sum := sha1.Sum(server.Certificate().Raw)
	awstest.Must[*iam.UpdateOpenIDConnectProviderThumbprintOutput](
		t,
	)(
		a.IAM(a.Root).UpdateOpenIDConnectProviderThumbprint(ctx,
			&iam.UpdateOpenIDConnectProviderThumbprintInput{
				OpenIDConnectProviderArn: &provider, ThumbprintList: []string{hex.EncodeToString(sum[:])},
			}),
	)
	for range 3 {
		if err := call(); err != nil {
			t.Fatalf("with the thumbprint: %v", err)
		}
	}
	if fetched != 1 {
		t.Errorf("the keys were fetched %d times", fetched)
	}

	// What has been fetched is not for those who do not vouch for the server.
	awstest.Must[*iam.UpdateOpenIDConnectProviderThumbprintOutput](
		t,
	)(
		a.IAM(a.Root).UpdateOpenIDConnectProviderThumbprint(ctx,
			&iam.UpdateOpenIDConnectProviderThumbprintInput{
				OpenIDConnectProviderArn: &provider, ThumbprintList: []string{strings.Repeat("0", 40)},
			}),
	)
	if err := call(); awstest.Code(err) != "InvalidIdentityToken" || !strings.HasSuffix(err.Error(), noKey) {
		t.Errorf("with another thumbprint: %v", err)
	}
}

// noKey is what AWS says of every provider whose keys it cannot have, and why not.
const noKey = "Couldn't retrieve verification key from your identity provider,  please reference " +
	"AssumeRoleWithWebIdentity documentation for requirements"

// registerProvider registers a provider at an address of this host, which the API refuses, and returns its ARN.
func registerProvider(t *testing.T, a *iamtest.AWS, host string) string {
	t.Helper()
	p := record.OIDCProvider{Account: iamtest.Account, URL: host, ClientIDs: []string{"sts.amazonaws.com"}}
	if _, err := record.OIDCProviders(a.Store).Create(t.Context(), record.OIDCProviderKey(p.Account, p.URL),
		p); err != nil {
		t.Fatal(err)
	}
	return p.ARN()
}

// Nobody learns from AssumeRoleWithWebIdentity, which nobody signs, what listens on this host: whatever is there, the
// answer is the same, and nothing of this host is asked. The reason is in the daemon's log.
func TestProvidersAreNoWayIntoTheHost(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	var log bytes.Buffer
	keys := coraclests.NewIssuers(a.Store, outbound.Policy{}, slog.New(slog.NewTextHandler(&log, nil)))
	mux := wire.NewMux(wire.Options{Credentials: a.Identity, Authorizer: a.Identity,
		Logger: slog.New(slog.DiscardHandler), Region: iamtest.Region})
	coraclests.New(a.Store, a.Identity, keys, nil).Register(mux)
	endpoint := httptest.NewServer(mux)
	defer endpoint.Close()
	client := sts.New(sts.Options{Region: iamtest.Region, BaseEndpoint: &endpoint.URL, RetryMaxAttempts: 1})
	sum := sha1.Sum(server.Certificate().Raw)
	for _, host := range []string{strings.TrimPrefix(server.URL, "https://"), "127.0.0.1:1", "localhost",
		"169.254.169.254", "10.255.255.1", "[::1]:22"} {
		registerProvider(t, a, host)
		if _, err := record.OIDCProviders(a.Store).Modify(t.Context(), record.OIDCProviderKey(iamtest.Account, host),
			func(p *record.OIDCProvider) error {
				p.Thumbprints = []string{hex.EncodeToString(sum[:])}
				return nil
			}); err != nil {
			t.Fatal(err)
		}
		role := "arn:aws:iam::" + iamtest.Account + ":role/any"
		token := newSigner(t, "https://"+host).token(t, nil)
		_, err := client.AssumeRoleWithWebIdentity(t.Context(), &sts.AssumeRoleWithWebIdentityInput{RoleArn: &role,
			RoleSessionName: aws.String("job"), WebIdentityToken: token})
		var refused *types.InvalidIdentityTokenException
		if !errors.As(err, &refused) || refused.ErrorMessage() != noKey {
			t.Errorf("%s: %v", host, err)
		}
		if line := fmt.Sprintf("https://%s", host); !strings.Contains(log.String(), line) ||
			!strings.Contains(log.String(), "not an address of the public internet") {
			t.Errorf("the log does not say why %s is refused:\n%s", host, log.String())
		}
		log.Reset()
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("this host was asked %d times", n)
	}
}

// Tags that a session inherits are tags of the next one, whose role must allow that. Without them it need not.
func TestInheritedTagsNeedTagSession(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	first := a.NewRole(t, "first", trust(`{"AWS":"111122223333"}`, `["sts:AssumeRole","sts:TagSession"]`))
	second := a.NewRole(t, "second", trust(`{"AWS":"111122223333"}`, `"sts:AssumeRole"`))
	awstest.Must[*iam.PutRolePolicyOutput](t)(a.IAM(a.Root).PutRolePolicy(ctx, &iam.PutRolePolicyInput{
		RoleName: p("first"), PolicyName: p("all"),
		PolicyDocument: p(
			`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:AssumeRole","Resource":"*"}}`),
	}))
	for name, test := range map[string]struct {
		transitive []string
		denied     bool
	}{"transitive": {[]string{"team"}, true}, "not transitive": {nil, false}} {
		one := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(a.Root).AssumeRole(ctx, &sts.AssumeRoleInput{
			RoleArn: &first, RoleSessionName: p("one"), Tags: []types.Tag{{Key: p("team"), Value: p("blue")}},
			TransitiveTagKeys: test.transitive,
		}))
		_, err := a.STS(credentials(one.Credentials)).AssumeRole(ctx, &sts.AssumeRoleInput{
			RoleArn: &second, RoleSessionName: p("two"),
		})
		if denied := awstest.Code(err) == "AccessDenied"; denied != test.denied || !denied && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
