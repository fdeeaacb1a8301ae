package identity_test

import (
	"encoding/base64"
	"errors"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// FuzzSessionToken shows that a session token is good as it was given, with the access key that it was given with, and
// not if anything of it is altered.
func FuzzSessionToken(f *testing.F) {
	a := iamtest.New(f)
	a.NewRole(
		f,
		"app",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}}`,
	)
	genuine, err := a.Identity.ServiceRoleCredentials(iamtest.Account, "app", "EKS").Retrieve(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	other, err := a.Identity.ServiceRoleCredentials(iamtest.Account, "app", "other").Retrieve(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(genuine.SessionToken)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(genuine.AccessKeyID, raw, true)
	f.Add(other.AccessKeyID, raw, true)
	f.Add(genuine.AccessKeyID, []byte(genuine.SessionToken), false)
	f.Add(genuine.AccessKeyID, []byte(genuine.SessionToken+"\n"), false)
	f.Add(genuine.AccessKeyID, []byte{}, false)
	f.Add(a.Root.AccessKeyID, []byte(a.Root.AccessKeyID), false)
	f.Add(a.Root.AccessKeyID, []byte(genuine.SessionToken), false)
	f.Fuzz(func(t *testing.T, id string, token []byte, encode bool) {
		if encode {
			token = []byte(base64.StdEncoding.EncodeToString(token))
		}
		if id == a.Root.AccessKeyID && len(token) == 0 {
			return // a long-term key has none
		}
		secret, caller, err := a.Identity.Lookup(t.Context(), id, string(token))
		var expired bool
		switch {
		case errors.Is(err, wire.ErrUnknownAccessKey):
		case errors.Is(err, wire.ErrExpiredToken):
			expired = true
		case err != nil:
			t.Fatalf("%q with %q: %v", id, token, err)
		case id == other.AccessKeyID && string(token) == other.SessionToken:
		case id != genuine.AccessKeyID || string(token) != genuine.SessionToken:
			t.Fatalf("%q with %q is taken for %s", id, token, caller.ARN)
		case secret != genuine.SecretAccessKey:
			t.Fatalf("the secret of %s is %q", caller.ARN, secret)
		}
		if expired && id != genuine.AccessKeyID {
			t.Fatalf("%q with %q was good once", id, token)
		}
	})
}

// FuzzAccessKeyID shows that whatever an id looks like, the account that is read of it is one.
func FuzzAccessKeyID(f *testing.F) {
	for _, id := range []string{"ASIAQNZGKIQY56JQ7WML", "AKIAQNZGKIQY56JQ7WML", "AKIA", "XXIAQNZGKIQY56JQ7WML", ""} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if account, ok := identity.AccountOf(id); ok && len(account) != 12 {
			t.Fatalf("%q is of %s", id, account)
		}
	})
}
