package identity_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// callerOf returns the caller that credentials belong to.
func callerOf(t *testing.T, a *iamtest.AWS, c aws.Credentials) wire.Caller {
	t.Helper()
	_, caller, err := a.Identity.Lookup(t.Context(), c.AccessKeyID, c.SessionToken)
	if err != nil {
		t.Fatal(err)
	}
	return caller
}

// session returns temporary credentials of a role that the root user assumes.
func session(t *testing.T, a *iamtest.AWS, role string) aws.Credentials {
	t.Helper()
	out, err := a.STS(a.Root).AssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: &role,
		RoleSessionName: aws.String("session"), DurationSeconds: aws.Int32(900)})
	if err != nil {
		t.Fatal(err)
	}
	return aws.Credentials{AccessKeyID: *out.Credentials.AccessKeyId, SecretAccessKey: *out.Credentials.SecretAccessKey,
		SessionToken: *out.Credentials.SessionToken}
}

const trustRoot = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"111122223333"},"Action":"sts:AssumeRole"}}`

// use is the purpose that a token was sealed for.
type use struct {
	purpose  identity.Purpose
	resource string
}

var uses = []use{
	{identity.RegistryPassword, ""},
	{identity.RegistryPassword, "app"},
	{identity.LayerURL, "app"},
	{identity.LayerURL, "app@sha256:1"},
	{identity.LayerURL, ""},
}

// A sealed token opens for the purpose and resource that it was sealed for, and for nothing else: neither the first
// time nor when the daemon remembers it.
func TestATokenHasOnePurpose(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx := t.Context()
	a.NewUser(t, "alice", "")
	for name, credentials := range map[string]aws.Credentials{
		"root": a.Root,
		"user": a.NewUser(t, "bob", ""),
		"role": session(t, a, a.NewRole(t, "app", trustRoot)),
	} {
		caller := callerOf(t, a, credentials)
		tokens := map[use]string{}
		for _, u := range uses {
			token, _, err := a.Identity.SealBearer(ctx, caller, u.purpose, u.resource, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			tokens[u] = token
		}
		for range 2 { // what is remembered in the first round must not count in the second
			for made, token := range tokens {
				for _, asked := range uses {
					got, err := a.Identity.OpenBearer(ctx, asked.purpose, asked.resource, token)
					if asked == made && (err != nil || got.ARN != caller.ARN ||
						got.PrincipalARN != caller.PrincipalARN || got.UserID != caller.UserID) {
						t.Errorf("%s: %v opens as %+v, %v", name, made, got, err)
					}
					if asked != made && !errors.Is(err, wire.ErrUnknownAccessKey) {
						t.Errorf("%s: a token for %v opens for %v: %+v, %v", name, made, asked, got, err)
					}
				}
				for _, id := range []string{credentials.AccessKeyID, "ASIA" + credentials.AccessKeyID[4:], token, ""} {
					if _, got, err := a.Identity.Lookup(ctx, id, token); !errors.Is(err, wire.ErrUnknownAccessKey) {
						t.Errorf("%s: a token for %v is the session token of %q: %+v, %v", name, made, id, got, err)
					}
				}
				if _, got, err := a.Identity.Lookup(ctx, token, ""); !errors.Is(err, wire.ErrUnknownAccessKey) {
					t.Errorf("%s: a token for %v is an access key: %+v, %v", name, made, got, err)
				}
			}
			for _, shown := range []string{credentials.AccessKeyID, credentials.SecretAccessKey,
				credentials.SessionToken, credentials.AccessKeyID + ":" + credentials.SessionToken, ""} {
				for _, asked := range uses {
					got, err := a.Identity.OpenBearer(ctx, asked.purpose, asked.resource, shown)
					if !errors.Is(err, wire.ErrUnknownAccessKey) {
						t.Errorf("%s: a part of the credentials opens for %v: %+v, %v", name, asked, got, err)
					}
				}
			}
		}
	}
}

func TestWhenBearerTokensEnd(t *testing.T) {
	t.Parallel()
	start := time.Now().Truncate(time.Second)
	user := aws.String("alice")
	type change func(t *testing.T, a *iamtest.AWS, accessKeyID string)
	inactive := func(t *testing.T, a *iamtest.AWS, key string) {
		if _, err := a.IAM(a.Root).UpdateAccessKey(t.Context(), &iam.UpdateAccessKeyInput{UserName: user,
			AccessKeyId: &key, Status: iamtypes.StatusTypeInactive}); err != nil {
			t.Fatal(err)
		}
	}
	deleteKey := func(t *testing.T, a *iamtest.AWS, key string) {
		if _, err := a.IAM(a.Root).DeleteAccessKey(t.Context(), &iam.DeleteAccessKeyInput{UserName: user,
			AccessKeyId: &key}); err != nil {
			t.Fatal(err)
		}
	}
	deleteUser := func(t *testing.T, a *iamtest.AWS, key string) {
		deleteKey(t, a, key)
		if _, err := a.IAM(a.Root).DeleteUser(t.Context(), &iam.DeleteUserInput{UserName: user}); err != nil {
			t.Fatal(err)
		}
	}
	deleteRole := func(t *testing.T, a *iamtest.AWS, _ string) {
		if _, err := a.IAM(a.Root).DeleteRole(t.Context(),
			&iam.DeleteRoleInput{RoleName: aws.String("app")}); err != nil {
			t.Fatal(err)
		}
	}
	after := func(d time.Duration) change {
		return func(_ *testing.T, a *iamtest.AWS, _ string) { a.SetNow(start.Add(d)) }
	}
	for name, test := range map[string]struct {
		role           bool
		change         change
		password, link error
	}{
		"nothing happens":                {false, after(0), nil, nil},
		"nothing happens to the session": {true, after(0), nil, nil},
		"the life of the URL ends":       {false, after(time.Hour), nil, wire.ErrExpiredToken},
		"the session ends":               {true, after(15 * time.Minute), nil, wire.ErrExpiredToken},
		"the life of the password ends":  {false, after(12 * time.Hour), wire.ErrExpiredToken, wire.ErrExpiredToken},
		"the access key is deactivated":  {false, inactive, nil, wire.ErrUnknownAccessKey},
		"the access key is deleted":      {false, deleteKey, nil, wire.ErrUnknownAccessKey},
		"the user is deleted":            {false, deleteUser, wire.ErrUnknownAccessKey, wire.ErrUnknownAccessKey},
		"the role is deleted":            {true, deleteRole, wire.ErrUnknownAccessKey, wire.ErrUnknownAccessKey},
		"the user is deleted and made anew": {false, func(t *testing.T, a *iamtest.AWS, key string) {
			deleteUser(t, a,
				key)
			a.NewUser(t, *user, "")
		}, wire.ErrUnknownAccessKey, wire.ErrUnknownAccessKey},
		"the role is deleted and made anew": {true, func(t *testing.T, a *iamtest.AWS, key string) {
			deleteRole(t, a,
				key)
			a.NewRole(t, "app", trustRoot)
		}, wire.ErrUnknownAccessKey, wire.ErrUnknownAccessKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := iamtest.New(t)
			a.SetNow(start)
			var credentials aws.Credentials
			if test.role {
				credentials = session(t, a, a.NewRole(t, "app", trustRoot))
			} else {
				credentials = a.NewUser(t, *user, "")
			}
			caller := callerOf(t, a, credentials)
			password, ends, err := a.Identity.SealBearer(t.Context(), caller, identity.RegistryPassword, "",
				12*time.Hour)
			if err != nil || !ends.Equal(start.Add(12*time.Hour)) {
				t.Errorf("the password ends at %v, %v", ends, err)
			}
			link, _, err := a.Identity.SealBearer(t.Context(), caller, identity.LayerURL, "app", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			open := func() (error, error) {
				_, p := a.Identity.OpenBearer(t.Context(), identity.RegistryPassword, "", password)
				_, l := a.Identity.OpenBearer(t.Context(), identity.LayerURL, "app", link)
				return p, l
			}
			if p, l := open(); p != nil || l != nil {
				t.Errorf("before: %v, %v", p, l)
			}
			test.change(t, a, credentials.AccessKeyID)
			if p, l := open(); !errors.Is(p, test.password) || !errors.Is(l, test.link) {
				t.Errorf("the password gives %v, want %v; the URL %v, want %v", p, test.password, l, test.link)
			}
		})
	}
}

// The holder of a bearer token has the permissions of the caller, with all that limits the caller's session.
func TestBearersAreLimitedAsTheirSessionIs(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx := t.Context()
	role := a.NewRole(t, "app", trustRoot)
	all := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"ecr:*","Resource":"*"}}`
	if _, err := a.IAM(a.Root).PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: aws.String("app"),
		PolicyName: aws.String("all"), PolicyDocument: &all}); err != nil {
		t.Fatal(err)
	}
	out, err := a.STS(a.Root).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role,
		RoleSessionName: aws.String("session"), Policy: aws.String(strings.Replace(all, "ecr:*", "ecr:BatchGetImage",
			1))})
	if err != nil {
		t.Fatal(err)
	}
	caller := callerOf(t, a, aws.Credentials{AccessKeyID: *out.Credentials.AccessKeyId,
		SessionToken: *out.Credentials.SessionToken})
	began := time.Now()
	a.SetNow(began.Add(10 * time.Minute))
	token, _, err := a.Identity.SealBearer(ctx, caller, identity.RegistryPassword, "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	bearer, err := a.Identity.OpenBearer(ctx, identity.RegistryPassword, "", token)
	if err != nil {
		t.Fatal(err)
	}
	for action, allowed := range map[string]bool{"ecr:BatchGetImage": true, "ecr:PutImage": false} {
		for who, c := range map[string]wire.Caller{"the session": caller, "the bearer": bearer} {
			if err := a.Identity.Authorize(ctx, c, []wire.Target{{Action: action, Resource: "*"}}); (err == nil) != allowed {
				t.Errorf("%s, %s: %v", who, action, err)
			}
		}
	}
	// A policy that revokes older sessions goes by when the session began, not by when the token was got.
	revoke := `{"Version":"2012-10-17","Statement":{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"DateLessThan":{"aws:TokenIssueTime":"` + began.Add(5*time.Minute).UTC().Format(time.RFC3339) + `"}}}}`
	if _, err := a.IAM(a.Root).PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: aws.String("app"),
		PolicyName: aws.String("AWSRevokeOlderSessions"), PolicyDocument: &revoke}); err != nil {
		t.Fatal(err)
	}
	var denied *wire.Denied
	if err := a.Identity.Authorize(ctx, bearer,
		[]wire.Target{{Action: "ecr:BatchGetImage", Resource: "*"}}); !errors.As(err, &denied) {
		t.Errorf("after older sessions were revoked: %v", err)
	}
}
