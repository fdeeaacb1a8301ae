// Package ssm serves the part of AWS Systems Manager that EKS users rely on: Parameter Store.
//
// An account's own parameters are rows ([record.Parameter], with a [record.ParameterVersion] for each value they had).
// The public parameters of AWS, through which eksctl, node groups, Terraform and Karpenter find the images of nodes,
// are not stored: they follow from the catalog of images (package ami) and from the table of regions.
//
// Values are stored as they are, in an etcd that only the daemon may read; those of SecureString parameters are
// encrypted with a key of AWS KMS, which their readers need permission for (secure.go).
//
// https://docs.aws.amazon.com/systems-manager/latest/userguide/systems-manager-parameter-store.html
package ssm

import (
	"context"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures a Service.
type Options struct {
	Store *store.Store
	KMS   KMS
	Now   func() time.Time // time.Now unless set
}

// Service serves the Systems Manager API. It is safe for concurrent use.
type Service struct {
	store      *store.Store
	kms        KMS
	parameters store.Table[record.Parameter]
	versions   store.Table[record.ParameterVersion]
	now        func() time.Time
}

// New returns the service over the tables of o.Store.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{store: o.Store, kms: o.KMS, parameters: record.Parameters(o.Store),
		versions: record.ParameterVersions(o.Store), now: o.Now}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awssystemsmanager.html
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.describeHandlers(),
		s.getHandlers(),
		s.labelHandlers(),
		s.putHandlers(),
		s.tagHandlers(),
	} {
		mux.Register(wire.SSM, handlers...)
	}
}

// scope is the account and region of a request.
type scope struct{ account, region string }

func scopeOf(ctx context.Context) scope {
	return scope{account: wire.CallerFrom(ctx).Account, region: wire.RegionFrom(ctx)}
}

func (sc scope) parameterKey(name string) string {
	return record.ParameterKey(sc.account, sc.region, name)
}

// parameterARN returns the ARN of a parameter, public or the account's.
func (sc scope) parameterARN(name string) string {
	if isPublic(name) {
		return record.ParameterARN("", sc.region, name)
	}
	return record.ParameterARN(sc.account, sc.region, name)
}
