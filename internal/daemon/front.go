package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	eksservice "github.com/coracle-eks/coracle/internal/aws/eks"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/store"
)

// front is what clients talk to: the AWS services behind one mux.
type front struct {
	dir datadir.Dir
	mux *wire.Mux

	mu   sync.Mutex
	keys map[string]datadir.Credentials // by account
}

// openFront registers the services, and sees to it that the account of the daemon exists.
func (d *daemon) openFront(ctx context.Context) (*front, error) {
	f := &front{dir: d.dir}
	f.mux = wire.NewMux(wire.Options{Credentials: rootCredentials{f}, Authorizer: rootOnly{}, Logger: d.log, Region: d.settings.Region})
	register(f.mux, d.store)
	var err error
	if f.keys, err = d.dir.ReadCredentials(); err != nil {
		return nil, err
	}
	_, err = f.ensureAccount(ctx, d.settings.Account)
	return f, err
}

// register serves every AWS service there is.
func register(mux *wire.Mux, s *store.Store) {
	mux.Register(wire.EKS, eksservice.New(eksservice.Options{Store: s}))
}

type rootCredentials struct{ f *front }

func (r rootCredentials) Lookup(_ context.Context, id, _ string) (string, wire.Caller, error) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	for account, c := range r.f.keys {
		if c.AccessKeyID == id {
			arn := "arn:aws:iam::" + account + ":root"
			return c.SecretAccessKey, wire.Caller{Account: account, ARN: arn, UserID: account, AccessKeyID: id, PrincipalARN: arn}, nil
		}
	}
	return "", wire.Caller{}, wire.ErrUnknownAccessKey
}

type rootOnly struct{}

func (rootOnly) Authorize(_ context.Context, caller wire.Caller, _ []wire.Target) error {
	if caller.UserID != caller.Account {
		return errors.New("only root is known")
	}
	return nil
}

// accounts are the numbers of the accounts, sorted.
func (f *front) accounts(context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.keys)), nil
}

// ensureAccount makes an account unless it is there, and keeps its root access key in the data directory.
func (f *front) ensureAccount(_ context.Context, account string) (datadir.Credentials, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.keys[account]; ok {
		return c, nil
	}
	c := datadir.Credentials{AccessKeyID: "AKIA" + rand.Text()[:16], SecretAccessKey: rand.Text() + rand.Text()[:14]}
	f.keys[account] = c
	return c, f.dir.WriteCredentials(f.keys)
}

// config is the SDK's configuration for root of an account, over the in-process transport.
func (f *front) config(account, region string) aws.Config {
	return aws.Config{
		Region:       region,
		BaseEndpoint: aws.String("http://coracle"),
		HTTPClient:   &http.Client{Transport: f.mux.Transport()},
		Credentials: aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			f.mu.Lock()
			c := f.keys[account]
			f.mu.Unlock()
			return credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.SecretAccessKey, "").Retrieve(ctx)
		})),
		AppID:            "coracle",
		RetryMaxAttempts: 1,
	}
}

func (f *front) eks(account, region string) *eks.Client {
	return eks.NewFromConfig(f.config(account, region))
}
