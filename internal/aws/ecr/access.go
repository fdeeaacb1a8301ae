package ecr

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
	"github.com/coracle-eks/coracle/internal/store"
)

// Access authorizes the registry's clients: it checks the API's permissions for pushes and pulls.
type Access struct{ service *Service }

var _ image.Access = Access{}

// NewAccess returns the access of a service.
func NewAccess(s *Service) Access { return Access{s} }

// Allow implements [image.Access].
func (a Access) Allow(ctx context.Context, r image.Request) error {
	s, at := a.service, registry{account: r.Account, region: r.Region}
	if r.RequestedRegion != "" && !region.Valid(r.RequestedRegion) {
		return image.UnknownRepository(r.Account, r.Repository)
	}
	caller, err := s.resolveBearer(ctx, at, r)
	if err != nil || r.Repository == "" {
		return err
	}
	ctx = wire.NewContext(r.HTTP, caller, r.RequestedRegion, s.identity, s.now())
	row, err := s.repositories.Get(ctx, at.key(r.Repository))
	there := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	var targets []wire.Target
	for _, action := range r.Actions {
		targets = append(targets, s.repositoryTarget(at, caller, action, r.Repository, row.Value))
	}
	if err := authorize(ctx, targets); err != nil {
		return err
	}
	if image.OfEKS(r.Account) {
		if slices.ContainsFunc(r.Actions, func(action string) bool { return !slices.Contains(reading, action) }) {
			return image.Denied("The images of Amazon EKS are read-only")
		}
		return nil
	}
	if !there {
		return s.allowNew(ctx, at, r)
	}
	return s.mayRetag(ctx, at, row.Value, r.Tag, r.Digest)
}

// authorize turns a refusal into the registry's.
func authorize(ctx context.Context, targets []wire.Target) error {
	err := wire.Authorize(ctx, targets...)
	if denied := (*wire.Denied)(nil); errors.As(err, &denied) {
		return image.Denied("User: " + wire.CallerFrom(ctx).ARN + " is " + denied.Error())
	}
	return err
}

// allowNew decides about a repository that is not there: it is made when it is a cache of a public registry's, for
// whoever may do that.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-iam.html
func (s *Service) allowNew(ctx context.Context, at registry, r image.Request) error {
	upstream, err := s.upstream(ctx, at, r.Repository)
	if err != nil {
		return err
	}
	if upstream == "" || !slices.Equal(r.Actions, []string{"ecr:BatchGetImage"}) {
		return image.UnknownRepository(at.account, r.Repository)
	}
	var targets []wire.Target
	for _, action := range []string{"ecr:CreateRepository", "ecr:BatchImportUpstreamImage"} {
		targets = append(targets, s.repositoryTarget(at, wire.CallerFrom(ctx), action, r.Repository,
			record.Repository{}))
	}
	if err := authorize(ctx, targets); err != nil {
		return err
	}
	err = s.createRepository(ctx, at, record.Repository{
		Account: at.account, Region: at.region, Name: r.Repository, CreatedAt: s.timestamp(),
		TagMutability: types.ImageTagMutabilityMutable,
	})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// Exists implements [image.Access].
func (a Access) Exists(ctx context.Context, account, region, repository string) (bool, error) {
	return a.service.repositoryExists(ctx, registry{account: account, region: region}, repository)
}

// Upstream implements [image.Access].
func (a Access) Upstream(ctx context.Context, account, region, repository string) (string, error) {
	return a.service.upstream(ctx, registry{account: account, region: region}, repository)
}

func (s *Service) repositoryExists(ctx context.Context, at registry, repository string) (bool, error) {
	_, err := s.repositories.Get(ctx, at.key(repository))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
