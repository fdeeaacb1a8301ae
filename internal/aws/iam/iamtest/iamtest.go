// Package iamtest gives tests an AWS endpoint with IAM and STS over an empty store, and SDK clients of it.
package iamtest

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/sts"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// Account is the account that New makes, Other a second one.
const (
	Account = "111122223333"
	Other   = "444455556666"
)

// Region is the region of all clients.
const Region = "us-east-1"

// AWS is a running endpoint.
type AWS struct {
	Store    *store.Store
	Prefix   string // of the store's rows in etcd
	Identity *identity.Identity
	Issuers  *sts.Issuers
	Mux      *wire.Mux
	URL      string
	Root     aws.Credentials // of Account
	// Answered is told of requests that have been answered. Tests that set it do so before the first.
	Answered func(*wire.Answered)

	mu         sync.Mutex
	now        time.Time // zero: the time that it is
	authorized func()    // called once, after the next decision
}

// New starts an endpoint that goes with the test, over a store whose options the test may edit.
func New(tb testing.TB, edits ...func(*store.Options)) *AWS {
	tb.Helper()
	a := &AWS{Prefix: storetest.Prefix(tb)}
	a.Store = storetest.NewAt(tb, a.Prefix, edits...)
	quiet := slog.New(slog.DiscardHandler)
	var err error
	if a.Identity, err = identity.New(tb.Context(), a.Store, identity.Options{Now: a.Now, Log: quiet}); err != nil {
		tb.Fatal(err)
	}
	// where tests have identity providers
	loopback := outbound.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	a.Issuers = sts.NewIssuers(a.Store, loopback, quiet)
	a.Mux = wire.NewMux(wire.Options{Credentials: a.Identity, Authorizer: authorizer{a}, Now: a.Now, Logger: quiet,
		Region: Region, Answered: func(r *wire.Answered) {
			if a.Answered != nil {
				a.Answered(r)
			}
		}})
	iam.New(a.Store, a.Identity, a.Now).Register(a.Mux)
	sts.New(a.Store, a.Identity, a.Issuers, a.Now).Register(a.Mux)
	server := httptest.NewServer(a.Mux)
	tb.Cleanup(server.Close)
	a.URL = server.URL
	a.Root = a.NewAccount(tb, Account)
	return a
}

// Now returns the time of the endpoint's clock.
func (a *AWS) Now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now.IsZero() {
		return time.Now()
	}
	return a.now
}

// SetNow stops the endpoint's clock.
func (a *AWS) SetNow(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = t
}

// AfterAuthorization calls f once the next request is authorized or refused, before it is carried out.
func (a *AWS) AfterAuthorization(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.authorized = f
}

// authorizer decides as IAM does.
type authorizer struct{ aws *AWS }

func (z authorizer) Authorize(ctx context.Context, caller wire.Caller, targets []wire.Target) error {
	err := z.aws.Identity.Authorize(ctx, caller, targets)
	z.aws.mu.Lock()
	authorized := z.aws.authorized
	z.aws.authorized = nil
	z.aws.mu.Unlock()
	if authorized != nil {
		authorized()
	}
	return err
}

// NewAccount makes an account and returns its root access key.
func (a *AWS) NewAccount(tb testing.TB, id string) aws.Credentials {
	tb.Helper()
	key, err := iam.Bootstrap(context.Background(), a.Store, id)
	if err != nil {
		tb.Fatal(err)
	}
	return aws.Credentials{AccessKeyID: key.ID, SecretAccessKey: key.Secret}
}

// IAM returns a client of IAM with those credentials.
func (a *AWS) IAM(with aws.Credentials) *awsiam.Client {
	return awsiam.New(awsiam.Options{Region: Region, BaseEndpoint: aws.String(a.URL), HTTPClient: awsclient.HTTP(),
		Credentials: provider(with), RetryMaxAttempts: 1})
}

// STS returns a client of STS with those credentials.
func (a *AWS) STS(with aws.Credentials) *awssts.Client {
	return awssts.New(awssts.Options{Region: Region, BaseEndpoint: aws.String(a.URL), HTTPClient: awsclient.HTTP(),
		Credentials: provider(with), RetryMaxAttempts: 1})
}

func provider(c aws.Credentials) aws.CredentialsProvider {
	return credentials.StaticCredentialsProvider{Value: c}
}

// NewUser makes a user with an access key and an inline policy; none when policy is empty.
func (a *AWS) NewUser(tb testing.TB, name, policy string) aws.Credentials {
	tb.Helper()
	ctx, client := context.Background(), a.IAM(a.Root)
	if _, err := client.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name}); err != nil {
		tb.Fatal(err)
	}
	if policy != "" {
		if _, err := client.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: &name,
			PolicyName: aws.String("inline"), PolicyDocument: &policy}); err != nil {
			tb.Fatal(err)
		}
	}
	out, err := client.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: &name})
	if err != nil {
		tb.Fatal(err)
	}
	return aws.Credentials{AccessKeyID: *out.AccessKey.AccessKeyId, SecretAccessKey: *out.AccessKey.SecretAccessKey}
}

// NewRole makes a role.
func (a *AWS) NewRole(tb testing.TB, name, trust string) string {
	tb.Helper()
	out, err := a.IAM(a.Root).CreateRole(context.Background(), &awsiam.CreateRoleInput{RoleName: &name,
		AssumeRolePolicyDocument: &trust})
	if err != nil {
		tb.Fatal(err)
	}
	return *out.Role.Arn
}
