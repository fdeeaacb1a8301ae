package ecr

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// lifecyclePolicyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) lifecyclePolicyHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutLifecyclePolicy, func(
			ctx context.Context, action string, in *ecr.PutLifecyclePolicyInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.GetLifecyclePolicy, func(
			ctx context.Context, action string, in *ecr.GetLifecyclePolicyInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.DeleteLifecyclePolicy, func(
			ctx context.Context, action string, in *ecr.DeleteLifecyclePolicyInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
	}
}

// PutLifecyclePolicy returns an error: a policy that is accepted and never expires an image would be worse than none.
func (s *Service) PutLifecyclePolicy(ctx context.Context, in *ecr.PutLifecyclePolicyInput) (
	*ecr.PutLifecyclePolicyOutput, error) {
	if _, err := s.findRepository(ctx, registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName)); err != nil {
		return nil, err
	}
	return nil, &types.ValidationException{
		Message: message(
			"coracle does not expire images: leave out the lifecycle policy of %s, and delete images with "+
				"BatchDeleteImage", aws.ToString(in.RepositoryName))}
}

// GetLifecyclePolicy finds no policy.
func (s *Service) GetLifecyclePolicy(ctx context.Context, in *ecr.GetLifecyclePolicyInput) (
	*ecr.GetLifecyclePolicyOutput, error) {
	return nil, s.noLifecyclePolicy(ctx, in.RegistryId, in.RepositoryName)
}

// DeleteLifecyclePolicy finds no policy.
func (s *Service) DeleteLifecyclePolicy(ctx context.Context, in *ecr.DeleteLifecyclePolicyInput) (
	*ecr.DeleteLifecyclePolicyOutput, error) {
	return nil, s.noLifecyclePolicy(ctx, in.RegistryId, in.RepositoryName)
}

func (s *Service) noLifecyclePolicy(ctx context.Context, id, name *string) error {
	at := registryOf(ctx, id)
	if _, err := s.findRepository(ctx, at, aws.ToString(name)); err != nil {
		return err
	}
	return &types.LifecyclePolicyNotFoundException{
		Message: message(
			"Lifecycle policy does not exist for the repository with name '%s' in the registry with id '%s'",
			aws.ToString(name), at.account)}
}
