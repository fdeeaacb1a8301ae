// Package ecr serves the Amazon Elastic Container Registry API.
//
// Repositories are rows ([record.Repository]); their images and layers are in the daemon's registry (package image),
// which is the only record of them. Clients that push and pull talk to that registry, under the name of an account's
// registry; it asks this package whether they may ([Access]), so that one set of policies holds for both ways.
//
// An authorization token is sealed: it says who the caller is for twelve hours, and what they may do is decided when
// they do it. The URL of a layer has a sealed token of another purpose, with which that layer is read and nothing else.
// Repository policies count as AWS's resource-based policies do.
//
// https://docs.aws.amazon.com/AmazonECR/latest/APIReference/Welcome.html
package ecr

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Identity makes and reads authorization tokens, and decides. *identity.Identity does.
type Identity interface {
	SealBearer(ctx context.Context, caller wire.Caller, purpose identity.Purpose, resource string,
		life time.Duration) (token string, expires time.Time, err error)
	OpenBearer(ctx context.Context, purpose identity.Purpose, resource, token string) (wire.Caller, error)
	wire.Authorizer
}

// Options configures a Service.
type Options struct {
	Store    *store.Store
	Images   *image.Registry
	Identity Identity
	// Endpoint is the daemon's own URL, for clients on its host: "http://127.0.0.1:4566".
	Endpoint string
	Now      func() time.Time // time.Now unless set
}

// Service serves the Amazon ECR API. It is safe for concurrent use.
type Service struct {
	store        *store.Store
	repositories store.Table[record.Repository]
	rules        store.Table[record.PullThroughCacheRule]
	images       *image.Registry
	identity     Identity
	named        *identity.Named
	endpoint     string
	now          func() time.Time
}

// New returns the service.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{
		store:        o.Store,
		repositories: record.Repositories(o.Store),
		rules:        record.PullThroughCacheRules(o.Store),
		images:       o.Images,
		identity:     o.Identity,
		named:        identity.NewNamed(o.Store),
		endpoint:     o.Endpoint,
		now:          o.Now,
	}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerregistry.html
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.cacheHandlers(),
		s.imageHandlers(),
		s.layerHandlers(),
		s.lifecyclePolicyHandlers(),
		s.repositoryPolicyHandlers(),
		s.repositoryHandlers(),
		s.tagHandlers(),
		s.tokenHandlers(),
	} {
		mux.Register(wire.ECR, handlers...)
	}
}

// registry is an account's registry in a region.
type registry struct{ account, region string }

// registryOf returns the registry of a request: the caller's, unless it names another account's.
func registryOf(ctx context.Context, id *string) registry {
	at := registry{account: wire.CallerFrom(ctx).Account, region: wire.RegionFrom(ctx)}
	if id := aws.ToString(id); id != "" {
		at.account = id
	}
	return at
}

// fullName returns the name of a repository in package image.
func (r registry) fullName(repository string) string {
	host := image.ECRHost(r.account, r.region)
	if image.OfEKS(r.account) {
		host = image.Host(r.region)
	}
	return host + "/" + repository
}

// layerName names a layer as the token in its URL does. EKS's own images are the same in all regions.
func (r registry) layerName(repository, digest string) string {
	if image.OfEKS(r.account) {
		r = registry{account: image.EKSAccount}
	}
	return r.account + "/" + r.region + "/" + repository + "@" + digest
}

func (r registry) arn(repository string) string {
	return record.RepositoryARN(r.account, r.region, repository)
}

func (r registry) key(repository string) string {
	return record.RepositoryKey(r.account, r.region, repository)
}

// findRepository returns a repository that exists, or a RepositoryNotFoundException. Those of EKS have no records; they
// exist when they have images.
func (s *Service) findRepository(ctx context.Context, at registry, name string) (record.Repository, error) {
	if image.OfEKS(at.account) {
		images, err := s.images.Images(ctx, at.fullName(name))
		if err == nil && len(images) == 0 {
			err = repositoryNotFound(at, name)
		}
		return record.Repository{Account: at.account, Region: at.region, Name: name}, err
	}
	row, err := s.repositories.Get(ctx, at.key(name))
	if errors.Is(err, store.ErrNotFound) {
		return record.Repository{}, repositoryNotFound(at, name)
	}
	return row.Value, err
}

// updateRepository changes a repository's row.
func (s *Service) updateRepository(ctx context.Context, at registry, name string,
	change func(*record.Repository) error) (record.Repository, error) {
	row, err := s.repositories.Modify(ctx, at.key(name), change)
	if errors.Is(err, store.ErrNotFound) {
		return record.Repository{}, repositoryNotFound(at, name)
	}
	return row.Value, err
}
