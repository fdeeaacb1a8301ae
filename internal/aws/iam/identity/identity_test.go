package identity_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func TestAccessKeysTellTheirAccount(t *testing.T) {
	t.Parallel()
	for _, account := range []string{"111122223333", "000000000000", "999999999999", "012345678901"} {
		for _, prefix := range []string{identity.LongTermKey, identity.TemporaryKey} {
			id, secret := identity.NewAccessKey(prefix, account)
			if len(id) != 20 || len(secret) != 40 || !strings.HasPrefix(id, prefix) {
				t.Errorf("made %s with a secret of %d characters", id, len(secret))
			}
			if got, ok := identity.AccountOf(id); !ok || got != account {
				t.Errorf("%s is of %s, want %s", id, got, account)
			}
		}
	}
	// A key that was published with its account.
	if got, _ := identity.AccountOf("ASIAQNZGKIQY56JQ7WML"); got != "029608264753" {
		t.Errorf("a key of AWS is of %s", got)
	}
	for _, bad := range []string{"", "AKIA", "XXIAQNZGKIQY56JQ7WML", "AKIAQNZGKIQY56JQ7W1L",
		"AKIA" + strings.Repeat("\n", 16)} {
		if got, ok := identity.AccountOf(bad); ok {
			t.Errorf("%q is of %s", bad, got)
		}
	}
}

func TestSessionsSurviveARestart(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx := t.Context()
	a.NewRole(t, "app",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}}`)
	creds, err := a.Identity.ServiceRoleCredentials(iamtest.Account, "app", "EKS").Retrieve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.New(ctx, a.Store, identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	secret, caller, err := again.Lookup(ctx, creds.AccessKeyID, creds.SessionToken)
	if err != nil || secret != creds.SecretAccessKey ||
		caller.ARN != "arn:aws:sts::111122223333:assumed-role/app/EKS" ||
		caller.SessionName != "EKS" || caller.PrincipalARN != "arn:aws:iam::111122223333:role/app" {
		t.Errorf("%+v %v", caller, err)
	}
	if rows, err := record.SessionKeys(a.Store).List(ctx, ""); err != nil || len(rows) != 1 {
		t.Errorf("%d sealing keys, %v", len(rows), err)
	}
	_, err = a.Identity.ServiceRoleCredentials(iamtest.Account, "none", "EKS").Retrieve(ctx)
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("credentials of no role: %v", err)
	}
}

func TestTrusts(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	arn := a.NewRole(t, "app",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}}`)
	for service, want := range map[string]bool{"eks.amazonaws.com": true, "ec2.amazonaws.com": false} {
		if got, err := a.Identity.Trusts(t.Context(), arn, service); err != nil || got != want {
			t.Errorf("%s: %v %v", service, got, err)
		}
	}
	for _, missing := range []string{arn + "x", "arn:aws:iam::111122223333:role/path/app", "app"} {
		if _, err := a.Identity.Trusts(t.Context(), missing, "eks.amazonaws.com"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", missing, err)
		}
	}
}

// TestCallersWithoutCredentials shows that work on someone's behalf is decided by the same policies.
func TestCallersWithoutCredentials(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	a.NewUser(t, "alice",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"eks:ListClusters","Resource":"*"}}`)
	caller := wire.Caller{Account: iamtest.Account, ARN: "arn:aws:iam::111122223333:user/alice"}
	list, remove := wire.Target{Action: "eks:ListClusters", Resource: "*"}, wire.Target{Action: "eks:DeleteCluster",
		Resource: "*"}
	if err := a.Identity.Authorize(t.Context(), caller, []wire.Target{list}); err != nil {
		t.Error(err)
	}
	var denied *wire.Denied
	if err := a.Identity.Authorize(t.Context(), caller, []wire.Target{list, remove}); !errors.As(err, &denied) ||
		denied.Action != "eks:DeleteCluster" {
		t.Errorf("got %v", err)
	}
	caller.ARN = "arn:aws:iam::111122223333:user/carol"
	if err := a.Identity.Authorize(t.Context(), caller, []wire.Target{list}); err == nil {
		t.Error("a user who does not exist may list")
	}
}

func TestWhatARequestSaysOfItselfDoesNotCount(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	key := a.NewUser(t, "alice",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringEquals":{"aws:username":"admin"}}}}`)
	_, caller, err := a.Identity.Lookup(t.Context(), key.AccessKeyID, "")
	if err != nil {
		t.Fatal(err)
	}
	forged := wire.Target{Action: "eks:DeleteCluster", Resource: "*",
		Conditions: map[string][]string{"aws:username": {"admin"}}}
	if err := a.Identity.Authorize(t.Context(), caller, []wire.Target{forged}); err == nil {
		t.Error("a condition key of the request hides that of the caller")
	}
}

// No service puts other keys in the place of those that every request has, as one might that copies what users write.
func TestNoServiceReplacesGlobalConditionKeys(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	caller := wire.Caller{Account: iamtest.Account, ARN: "arn:aws:iam::111122223333:user/alice"}
	a.NewUser(t, "alice", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*",
		"Condition":{"IpAddress":{"AWS:sourceip":"192.0.2.1"},"Bool":{"aws:SecureTransport":"false"},
		"StringEquals":{"aws:RequestTag/a":"b"}}}}`)
	for address, allowed := range map[string]bool{"192.0.2.1": true, "192.0.2.2": false} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = address + ":1"
		ctx := wire.NewContext(r, caller, iamtest.Region, a.Identity, a.Now())
		target := wire.Target{Action: "eks:ListClusters", Resource: "*", Conditions: map[string][]string{
			"aws:SourceIp": {"192.0.2.1"}, "AWS:sourceip": {"192.0.2.1"}, "aws:SecureTransport": {"true"},
			"aws:RequestTag/a": {"b"}}}
		if err := wire.Authorize(ctx, target); (err == nil) != allowed {
			t.Errorf("from %s: %v", address, err)
		}
	}
}

// TestLongValuesAndGoneClients shows that a caller gains nothing from a value that policies do not compare, and that
// nothing is evaluated for a client that has left.
func TestLongValuesAndGoneClients(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	key := a.NewUser(t, "alice", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},
		{"Effect":"Deny","Action":"ec2:*","Resource":"*","Condition":{"StringLike":{"aws:UserAgent":"*bot*"}}}]}`)
	_, caller, err := a.Identity.Lookup(t.Context(), key.AccessKeyID, "")
	if err != nil {
		t.Fatal(err)
	}
	targets := func(agent string) []wire.Target {
		return []wire.Target{{Action: "ec2:CreateTags", Resource: "*",
			Conditions: map[string][]string{"aws:UserAgent": {agent}}}}
	}
	if err := a.Identity.Authorize(t.Context(), caller, targets("aws-cli/2")); err != nil {
		t.Error(err)
	}
	var denied *wire.Denied
	err = a.Identity.Authorize(t.Context(), caller, targets(strings.Repeat("a", 60_000)+"bot"))
	if !errors.As(err, &denied) || !strings.Contains(denied.Reason, "aws:UserAgent has 60003 bytes") {
		t.Errorf("a long user agent: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Identity.Authorize(ctx, caller, targets("aws-cli/2")); !errors.Is(err, context.Canceled) {
		t.Errorf("after the client has left: %v", err)
	}
}

type requestKey struct{}

// TestPrincipalsDoNotKeepTheirRequest shows that what is remembered of a caller does not hold the request that it was
// made for.
func TestPrincipalsDoNotKeepTheirRequest(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	key := a.NewUser(t, "alice", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`)
	_, caller, err := a.Identity.Lookup(t.Context(), key.AccessKeyID, "")
	if err != nil {
		t.Fatal(err)
	}
	request := new([1 << 20]byte)
	kept := weak.Make(request)
	targets := []wire.Target{{Action: "iam:GetUser", Resource: "*"}}
	if err := a.Identity.Authorize(context.WithValue(t.Context(), requestKey{}, request), caller, targets); err != nil {
		t.Fatal(err)
	}
	request = nil
	eventually.True(t, "nothing holds the request", func() bool { // goroutines of database/sql may still be ending
		runtime.GC()
		return kept.Value() == nil
	})
	if err := a.Identity.Authorize(t.Context(), caller, targets); err != nil { // by the same principal
		t.Fatal(err)
	}
}

func BenchmarkLookupAndAuthorize(b *testing.B) {
	a := iamtest.New(b)
	ctx := context.Background()
	key := a.NewUser(b, "alice",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"eks:*","Resource":"arn:aws:eks:*:*:cluster/${aws:username}-*","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}}}`)
	for _, policy := range []string{"ReadOnlyAccess", "AmazonEKSClusterPolicy"} {
		if _, err := a.IAM(a.Root).AttachUserPolicy(ctx, &iam.AttachUserPolicyInput{UserName: aws.String("alice"),
			PolicyArn: aws.String("arn:aws:iam::aws:policy/" + policy)}); err != nil {
			b.Fatal(err)
		}
	}
	target := []wire.Target{{Action: "eks:DescribeCluster", Resource: "arn:aws:eks:us-east-1:111122223333:cluster/hulk",
		Conditions: map[string][]string{
			"aws:SourceIp": {"10.1.2.3"}, "aws:CurrentTime": {time.Now().Format(time.RFC3339)},
			"aws:SecureTransport": {"false"},
		}}}
	b.ReportAllocs()
	for b.Loop() {
		_, caller, err := a.Identity.Lookup(ctx, key.AccessKeyID, "")
		if err != nil {
			b.Fatal(err)
		}
		if err := a.Identity.Authorize(ctx, caller, target); err != nil {
			b.Fatal(err)
		}
	}
}
