package wire_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
)

// keys knows two keys: AKIA for alice, and ASIA whose session is over.
type keys struct{}

var alice = wire.Caller{Account: "111122223333", ARN: "arn:aws:iam::111122223333:user/alice", UserID: "AIDAALICE",
	AccessKeyID: "AKIA", PrincipalARN: "arn:aws:iam::111122223333:user/alice"}

func (keys) Lookup(_ context.Context, id, _ string) (string, wire.Caller, error) {
	switch id {
	case "AKIA":
		return "secret", alice, nil
	case "ASIA":
		return "", wire.Caller{}, wire.ErrExpiredToken
	}
	return "", wire.Caller{}, fmt.Errorf("%s: %w", id, wire.ErrUnknownAccessKey)
}

// policy denies what is listed and remembers what it was asked.
type policy struct {
	deny  []string
	asked []wire.Target
	// what every request has, when it was asked last
	global map[string][]string
}

func (p *policy) Authorize(ctx context.Context, _ wire.Caller, targets []wire.Target) error {
	p.asked, p.global = append(p.asked, targets...), wire.GlobalConditions(ctx)
	for _, t := range targets {
		if slices.Contains(p.deny, t.Action) {
			return &wire.Denied{Action: t.Action, Resource: t.Resource,
				Reason: "because no identity-based policy allows the " + t.Action + " action"}
		}
	}
	return nil
}

type eksService struct{}

func (eksService) DescribeCluster(ctx context.Context, in *eks.DescribeClusterInput) (
	*eks.DescribeClusterOutput, error) {
	switch *in.Name {
	case "absent":
		return nil, &ekstypes.ResourceNotFoundException{Message: aws.String("No cluster found for name: absent."),
			ClusterName: in.Name}
	case "broken":
		return nil, errors.New("disk full")
	case "panic":
		panic("nil map")
	case "large":
		if err := wire.HoldAnswer(ctx, 80); err != nil {
			return nil, err
		}
	case "full":
		if store.IsLimited(ctx) {
			return nil, fmt.Errorf("write: %w", &store.FullError{Account: wire.CallerFrom(ctx).Account})
		}
	}
	return &eks.DescribeClusterOutput{Cluster: &ekstypes.Cluster{Name: in.Name,
		Arn: aws.String(wire.CallerFrom(ctx).ARN), Version: aws.String(wire.RegionFrom(ctx))}}, nil
}

func (eksService) ListClusters(ctx context.Context, in *eks.ListClustersInput) (*eks.ListClustersOutput, error) {
	page, next, err := wire.Page(ctx, []string{"a", "b", "c"}, in.MaxResults, in.NextToken,
		func(s string) string { return s })
	return &eks.ListClustersOutput{Clusters: page, NextToken: next}, err
}

func (eksService) CreateCluster(ctx context.Context, in *eks.CreateClusterInput) (*eks.CreateClusterOutput, error) {
	err := wire.Authorize(ctx, wire.Target{Action: "iam:PassRole", Resource: *in.RoleArn,
		Conditions: map[string][]string{"iam:PassedToService": {"eks.amazonaws.com"}}})
	return &eks.CreateClusterOutput{}, err
}

func (s eksService) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeCluster, func(_ context.Context, action string, in *eks.DescribeClusterInput) (
			[]wire.Target, error) {
			return []wire.Target{{Action: action, Resource: "arn:aws:eks:us-west-2:111122223333:cluster/" + *in.Name}},
				nil
		}),
		wire.Handle(s.ListClusters, wire.OnAll),
		wire.Handle(s.CreateCluster, wire.OnAll),
	}
}

type iamService struct{}

func (iamService) GetRole(_ context.Context, in *iam.GetRoleInput) (*iam.GetRoleOutput, error) {
	return nil, &iamtypes.NoSuchEntityException{Message: aws.String("The role with name " + *in.RoleName +
		" cannot be found.")}
}

func (iamService) ListRoles(context.Context, *iam.ListRolesInput) (*iam.ListRolesOutput, error) {
	return &iam.ListRolesOutput{}, nil
}

func (s iamService) handlers() []wire.Handler {
	return []wire.Handler{wire.Handle(s.GetRole, wire.OnAll), wire.Handle(s.ListRoles, wire.OnAll)}
}

type stsService struct{}

func (stsService) GetCallerIdentity(ctx context.Context, _ *sts.GetCallerIdentityInput) (
	*sts.GetCallerIdentityOutput, error) {
	return &sts.GetCallerIdentityOutput{Arn: aws.String(wire.CallerFrom(ctx).ARN)}, nil
}

func (stsService) AssumeRoleWithWebIdentity(ctx context.Context, in *sts.AssumeRoleWithWebIdentityInput) (
	*sts.AssumeRoleWithWebIdentityOutput, error) {
	return &sts.AssumeRoleWithWebIdentityOutput{Provider: aws.String(wire.RegionFrom(ctx) + wire.CallerFrom(ctx).ARN)},
		nil
}

func (s stsService) handlers() []wire.Handler {
	return []wire.Handler{wire.HandleUnrestricted(s.GetCallerIdentity),
		wire.HandleUnsigned(s.AssumeRoleWithWebIdentity)}
}

func newMux(t testing.TB, p *policy) *wire.Mux {
	t.Helper()
	m := wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: p, Region: "eu-north-1",
		Logger: slog.New(slog.DiscardHandler), MaxBody: 1 << 16})
	m.Register(wire.EKS, eksService{}.handlers()...)
	m.Register(wire.IAM, iamService{}.handlers()...)
	m.Register(wire.STS, stsService{}.handlers()...)
	return m
}

func config(m *wire.Mux) aws.Config {
	return aws.Config{
		Region: "us-west-2", BaseEndpoint: aws.String("http://coracle.test"),
		HTTPClient: &http.Client{Transport: m.Transport()},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"}, nil
		}),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
}

// send signs a request as AKIA with that secret and returns status, headers and body.
func send(t *testing.T, m *wire.Mux, service, secret string, at time.Time, r *http.Request, body string) (
	int, http.Header, string) {
	t.Helper()
	id := "AKIA"
	if secret == "expired" {
		id = "ASIA"
	} else if secret == "unknown" {
		id = "AKIAUNKNOWN"
	}
	if service != "" {
		creds := aws.Credentials{AccessKeyID: id, SecretAccessKey: secret}
		if err := v4.NewSigner().SignHTTP(t.Context(), creds, r, hash(body), service, "us-west-2", at); err != nil {
			t.Fatal(err)
		}
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	return w.Code, w.Header(), w.Body.String()
}
