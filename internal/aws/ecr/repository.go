package ecr

import (
	"context"
	"errors"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

var repositoryName = regexp.MustCompile(`^(?:[a-z0-9]+(?:[._-][a-z0-9]+)*/)*[a-z0-9]+(?:[._-][a-z0-9]+)*$`)

// maxExclusions is the maximum number of tag mutability exclusion filters of a repository.
const maxExclusions = 5

func checkName(name string) error {
	if len(name) < 2 || len(name) > 256 || !repositoryName.MatchString(name) {
		return invalidParameter(
			"Invalid parameter at 'repositoryName' failed to satisfy constraint: 'must satisfy regular expression "+
				"'(?:[a-z0-9]+(?:[._-][a-z0-9]+)*/)*[a-z0-9]+(?:[._-][a-z0-9]+)*'': %s", name)
	}
	return nil
}

func ownRegistry(ctx context.Context, id *string) (registry, error) {
	at := registryOf(ctx, id)
	if caller := wire.CallerFrom(ctx).Account; at.account != caller {
		return at,
			invalidParameter(
				"Invalid parameter at 'registryId' failed to satisfy constraint: 'must be the account of the caller, "+
					"%s': %s", caller, at.account)
	}
	return at, nil
}

// repositoryHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) repositoryHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateRepository, s.createTargets),
		wire.Handle(s.DescribeRepositories, s.describeTargets),
		wire.Handle(s.DeleteRepository, func(
			ctx context.Context, action string, in *ecr.DeleteRepositoryInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.PutImageTagMutability, func(
			ctx context.Context, action string, in *ecr.PutImageTagMutabilityInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.PutImageScanningConfiguration, func(
			ctx context.Context, action string, in *ecr.PutImageScanningConfigurationInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.DescribeRegistry, wire.OnAll),
	}
}

// createTargets returns the repository that a request would create, and its tagging. They come from the request alone:
// what has the name now says nothing of what will have it.
func (s *Service) createTargets(
	ctx context.Context, action string, in *ecr.CreateRepositoryInput,
) ([]wire.Target, error) {
	at, name := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName)
	created := s.repositoryTarget(at, wire.CallerFrom(ctx), action, name, record.Repository{})
	maps.Copy(created.Conditions, tagConditions(in.Tags))
	if len(in.Tags) == 0 {
		return []wire.Target{created}, nil
	}
	tagged := created
	tagged.Action = "ecr:TagResource"
	return []wire.Target{created, tagged}, nil
}

// describeTargets returns the repositories that a request names, or all of a registry, as authorization targets.
func (s *Service) describeTargets(
	ctx context.Context, action string, in *ecr.DescribeRepositoriesInput,
) ([]wire.Target, error) {
	at := registryOf(ctx, in.RegistryId)
	if len(in.RepositoryNames) == 0 {
		return onRegistry(ctx, action, at, at.arn("*")), nil
	}
	return s.onRepositories(ctx, action, at, in.RepositoryNames...)
}

// CreateRepository creates a repository.
func (s *Service) CreateRepository(ctx context.Context, in *ecr.CreateRepositoryInput) (
	*ecr.CreateRepositoryOutput, error) {
	at, err := ownRegistry(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	if image.OfEKS(at.account) {
		return nil, readOnly()
	}
	name := aws.ToString(in.RepositoryName)
	if err := checkName(name); err != nil {
		return nil, err
	}
	if in.ImageScanningConfiguration != nil && in.ImageScanningConfiguration.ScanOnPush {
		return nil, notScanned()
	}
	if c := in.EncryptionConfiguration; c != nil && c.EncryptionType != types.EncryptionTypeAes256 {
		return nil, &types.KmsException{
			Message: message("coracle has no KMS keys for images: encryptionType must be AES256, not %s",
				c.EncryptionType)}
	}
	row := record.Repository{Account: at.account, Region: at.region, Name: name, CreatedAt: s.timestamp(),
		TagMutability: types.ImageTagMutabilityMutable}
	if err := setMutability(&row, in.ImageTagMutability, in.ImageTagMutabilityExclusionFilters); err != nil {
		return nil, err
	}
	if err := addTags(ctx, &row, in.Tags); err != nil {
		return nil, err
	}
	err = s.createRepository(ctx, at, row)
	if errors.Is(err, store.ErrExists) {
		return nil, &types.RepositoryAlreadyExistsException{
			Message: message("The repository with name '%s' already exists in the registry with id '%s'", name,
				at.account)}
	}
	if err != nil {
		return nil, err
	}
	return &ecr.CreateRepositoryOutput{Repository: described(row)}, nil
}

// createRepository creates a repository without images.
func (s *Service) createRepository(ctx context.Context, at registry, row record.Repository) error {
	defer s.images.LockRepository(at.fullName(row.Name))()
	_, err := s.repositories.Get(ctx, at.key(row.Name))
	if err == nil {
		return store.ErrExists
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	// Uploads and fetches that outlived an earlier repository of that name have left something.
	if err := s.images.DeleteRepository(ctx, at.fullName(row.Name)); err != nil {
		return err
	}
	_, err = s.repositories.Create(ctx, at.key(row.Name), row)
	return err
}

// setMutability checks and sets whether tags may move.
func setMutability(r *record.Repository, mutability types.ImageTagMutability,
	exclusions []types.ImageTagMutabilityExclusionFilter) error {
	if mutability == "" {
		mutability = types.ImageTagMutabilityMutable
	}
	if !slices.Contains(mutability.Values(), mutability) {
		return invalidParameter(
			"Invalid parameter at 'imageTagMutability' failed to satisfy constraint: 'must be one of MUTABLE, "+
				"IMMUTABLE, IMMUTABLE_WITH_EXCLUSION, MUTABLE_WITH_EXCLUSION': %s", mutability)
	}
	with := strings.HasSuffix(string(mutability), "_WITH_EXCLUSION")
	switch {
	case with && len(exclusions) == 0:
		return invalidParameter(
			"Invalid parameter at 'imageTagMutabilityExclusionFilters' failed to satisfy constraint: 'must have a "+
				"filter when imageTagMutability is %s'", mutability)
	case !with && len(exclusions) > 0:
		return invalidParameter(
			"Invalid parameter at 'imageTagMutabilityExclusionFilters' failed to satisfy constraint: 'must be empty "+
				"when imageTagMutability is %s'", mutability)
	case len(exclusions) > maxExclusions:
		return invalidParameter(
			"Invalid parameter at 'imageTagMutabilityExclusionFilters' failed to satisfy constraint: 'must have at "+
				"most %d filters': %d", maxExclusions, len(exclusions))
	}
	for _, f := range exclusions {
		if strings.Count(aws.ToString(f.Filter), "*") > 2 || !exclusionFilter.MatchString(aws.ToString(f.Filter)) {
			return invalidParameter(
				"Invalid parameter at 'imageTagMutabilityExclusionFilters.filter' failed to satisfy constraint: "+
					"'letters, digits and ._-, and at most two *': %s", aws.ToString(f.Filter))
		}
	}
	r.TagMutability, r.Exclusions = mutability, exclusions
	return nil
}

var exclusionFilter = regexp.MustCompile(`^[0-9a-zA-Z._*-]{1,128}$`)

// immutable reports whether a tag of the repository stays where it was put.
func immutable(r record.Repository, tag string) bool {
	excluded := slices.ContainsFunc(r.Exclusions, func(f types.ImageTagMutabilityExclusionFilter) bool {
		match, err := path.Match(aws.ToString(f.Filter), tag)
		return err == nil && match
	})
	switch r.TagMutability {
	case types.ImageTagMutabilityImmutable:
		return true
	case types.ImageTagMutabilityImmutableWithExclusion:
		return !excluded
	case types.ImageTagMutabilityMutableWithExclusion:
		return excluded
	}
	return false
}

func described(r record.Repository) *types.Repository {
	return &types.Repository{
		RepositoryName: aws.String(r.Name), RepositoryArn: aws.String(r.ARN()), RegistryId: aws.String(r.Account),
		RepositoryUri: aws.String(image.ECRHost(r.Account, r.Region) + "/" + r.Name), CreatedAt: aws.Time(r.CreatedAt),
		ImageTagMutability: r.TagMutability, ImageTagMutabilityExclusionFilters: r.Exclusions,
		ImageScanningConfiguration: &types.ImageScanningConfiguration{ScanOnPush: false},
		EncryptionConfiguration:    &types.EncryptionConfiguration{EncryptionType: types.EncryptionTypeAes256},
	}
}

// DescribeRepositories describes repositories, by name.
func (s *Service) DescribeRepositories(ctx context.Context, in *ecr.DescribeRepositoriesInput) (
	*ecr.DescribeRepositoriesOutput, error) {
	at := registryOf(ctx, in.RegistryId)
	var found []types.Repository
	if len(in.RepositoryNames) > 0 {
		if in.MaxResults != nil || in.NextToken != nil {
			return nil, invalidParameter(
				"Invalid parameter at 'maxResults' failed to satisfy constraint: 'cannot be used with repositoryNames'")
		}
		for _, name := range in.RepositoryNames {
			row, err := s.findRepository(ctx, at, name)
			if err != nil {
				return nil, err
			}
			found = append(found, *described(row))
		}
		return &ecr.DescribeRepositoriesOutput{Repositories: found}, nil
	}
	rows, err := s.repositories.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		found = append(found, *described(row.Value))
	}
	name := func(r types.Repository) string { return aws.ToString(r.RepositoryName) }
	slices.SortFunc(found, func(a, b types.Repository) int { return strings.Compare(name(a), name(b)) })
	page, next, err := wire.Page(ctx, found, in.MaxResults, in.NextToken, name)
	if err != nil {
		return nil, err
	}
	return &ecr.DescribeRepositoriesOutput{Repositories: page, NextToken: next}, nil
}

// DeleteRepository deletes a repository, with its images if it is forced to.
func (s *Service) DeleteRepository(ctx context.Context, in *ecr.DeleteRepositoryInput) (
	*ecr.DeleteRepositoryOutput, error) {
	at, name := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName)
	if image.OfEKS(at.account) {
		return nil, readOnly()
	}
	if err := s.holdImages(ctx, at, name); err != nil { // before anybody waits for the repository
		return nil, err
	}
	defer s.images.LockRepository(at.fullName(name))() // an image that comes now would be lost, or outlive it
	row, err := s.repositories.Get(ctx, at.key(name))
	if errors.Is(err, store.ErrNotFound) {
		return nil, repositoryNotFound(at, name)
	}
	if err != nil {
		return nil, err
	}
	images, err := s.images.Images(ctx, at.fullName(name))
	if err != nil {
		return nil, err
	}
	if len(images) > 0 && !in.Force {
		return nil, &types.RepositoryNotEmptyException{
			Message: message(
				"The repository with name '%s' in registry with id '%s' cannot be deleted because it still contains images", name, at.account)}
	}
	if err := s.store.Txn(ctx, s.repositories.CheckOp(row)); err != nil { // it is still the one that may be deleted
		return nil, err
	}
	// Images first: what is left of them after a failure would come back with a repository of the same name.
	if err := s.images.DeleteRepository(ctx, at.fullName(name)); err != nil {
		return nil, err
	}
	if err := s.repositories.Delete(ctx, row); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return &ecr.DeleteRepositoryOutput{Repository: described(row.Value)}, nil
}

// PutImageTagMutability changes whether tags may move.
func (s *Service) PutImageTagMutability(ctx context.Context, in *ecr.PutImageTagMutabilityInput) (
	*ecr.PutImageTagMutabilityOutput, error) {
	at := registryOf(ctx, in.RegistryId)
	row, err := s.updateRepository(ctx, at, aws.ToString(in.RepositoryName), func(r *record.Repository) error {
		return setMutability(r, in.ImageTagMutability, in.ImageTagMutabilityExclusionFilters)
	})
	if err != nil {
		return nil, err
	}
	return &ecr.PutImageTagMutabilityOutput{
		RegistryId: aws.String(at.account), RepositoryName: in.RepositoryName,
		ImageTagMutability: row.TagMutability, ImageTagMutabilityExclusionFilters: row.Exclusions,
	}, nil
}

// PutImageScanningConfiguration refuses to switch scanning on.
func (s *Service) PutImageScanningConfiguration(ctx context.Context, in *ecr.PutImageScanningConfigurationInput) (
	*ecr.PutImageScanningConfigurationOutput, error) {
	at := registryOf(ctx, in.RegistryId)
	if in.ImageScanningConfiguration != nil && in.ImageScanningConfiguration.ScanOnPush {
		return nil, notScanned()
	}
	if _, err := s.findRepository(ctx, at, aws.ToString(in.RepositoryName)); err != nil {
		return nil, err
	}
	return &ecr.PutImageScanningConfigurationOutput{
		RegistryId: aws.String(at.account), RepositoryName: in.RepositoryName,
		ImageScanningConfiguration: &types.ImageScanningConfiguration{},
	}, nil
}

// DescribeRegistry describes the caller's registry, of which nothing is replicated.
func (s *Service) DescribeRegistry(ctx context.Context, _ *ecr.DescribeRegistryInput) (
	*ecr.DescribeRegistryOutput, error) {
	return &ecr.DescribeRegistryOutput{
		RegistryId: aws.String(wire.CallerFrom(ctx).Account), ReplicationConfiguration: &types.ReplicationConfiguration{
			Rules: []types.ReplicationRule{}},
	}, nil
}
