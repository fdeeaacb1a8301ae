package ecr

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// repositoryPolicyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) repositoryPolicyHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.SetRepositoryPolicy, func(
			ctx context.Context, action string, in *ecr.SetRepositoryPolicyInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.GetRepositoryPolicy, func(
			ctx context.Context, action string, in *ecr.GetRepositoryPolicyInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.DeleteRepositoryPolicy, func(
			ctx context.Context, action string, in *ecr.DeleteRepositoryPolicyInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
	}
}

// SetRepositoryPolicy sets the policy of a repository. One that would keep the caller from setting another is refused,
// unless force is given.
func (s *Service) SetRepositoryPolicy(ctx context.Context, in *ecr.SetRepositoryPolicyInput) (
	*ecr.SetRepositoryPolicyOutput, error) {
	at, name, text := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName), aws.ToString(in.PolicyText)
	ids, err := s.checkPolicy(ctx, text)
	if err != nil {
		return nil, err
	}
	row, err := s.findRepository(ctx, at, name)
	if err != nil {
		return nil, err
	}
	if row.Policy, row.PolicyIDs = text, ids; !in.Force {
		err := s.identity.Authorize(ctx, wire.CallerFrom(ctx),
			[]wire.Target{s.repositoryTarget(at, wire.CallerFrom(ctx), "ecr:SetRepositoryPolicy", name, row)})
		if err != nil {
			return nil, invalidParameter(
				"Invalid parameter at 'PolicyText' failed to satisfy constraint: 'The repository policy would keep "+
					"you from setting another one; use force': %v", err)
		}
	}
	if _, err := s.updateRepository(ctx, at, name,
		func(r *record.Repository) error { r.Policy, r.PolicyIDs = text, ids; return nil }); err != nil {
		return nil, err
	}
	return &ecr.SetRepositoryPolicyOutput{RegistryId: aws.String(at.account), RepositoryName: in.RepositoryName,
		PolicyText: in.PolicyText}, nil
}

// checkPolicy refuses a policy that is not one of a repository, or names who does not exist. It returns the unique IDs
// of the users and roles that the policy names.
func (s *Service) checkPolicy(ctx context.Context, text string) (map[string]string, error) {
	var shape struct {
		Statement json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &shape); err != nil {
		return nil, invalidParameter(
			"Invalid parameter at 'PolicyText' failed to satisfy constraint: 'Invalid repository policy provided': %v",
			err)
	}
	var statements []map[string]any
	if err := json.Unmarshal(shape.Statement, &statements); err != nil {
		statements = make([]map[string]any, 1)
		if err := json.Unmarshal(shape.Statement, &statements[0]); err != nil {
			return nil, invalidParameter(
				"Invalid parameter at 'PolicyText' failed to satisfy constraint: 'Invalid repository policy " +
					"provided': it has no statements")
		}
	}
	for _, statement := range statements {
		if statement["Resource"] != nil || statement["NotResource"] != nil {
			return nil, invalidParameter(
				"Invalid parameter at 'PolicyText' failed to satisfy constraint: 'Invalid repository policy " +
					"provided': a statement has no Resource, it is about the repository")
		}
	}
	d, err := policy.Parse(policy.Resource, withResources(text))
	if err != nil {
		return nil, invalidParameter(
			"Invalid parameter at 'PolicyText' failed to satisfy constraint: 'Invalid repository policy provided': %v",
			err)
	}
	ids, nobody, err := s.named.IDs(ctx, d)
	if err == nil && nobody != "" {
		err = invalidParameter(
			"Invalid parameter at 'PolicyText' failed to satisfy constraint: 'Principal not found': %s", nobody)
	}
	return ids, err
}

func (s *Service) policyNotFound(at registry, name string) error {
	return &types.RepositoryPolicyNotFoundException{
		Message: message(
			"Repository policy does not exist for the repository with name '%s' in the registry with id '%s'", name,
			at.account)}
}

// GetRepositoryPolicy returns the policy of a repository.
func (s *Service) GetRepositoryPolicy(ctx context.Context, in *ecr.GetRepositoryPolicyInput) (
	*ecr.GetRepositoryPolicyOutput, error) {
	at, name := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName)
	row, err := s.findRepository(ctx, at, name)
	if err != nil {
		return nil, err
	}
	if row.Policy == "" {
		return nil, s.policyNotFound(at, name)
	}
	return &ecr.GetRepositoryPolicyOutput{RegistryId: aws.String(at.account), RepositoryName: in.RepositoryName,
		PolicyText: aws.String(row.Policy)}, nil
}

// DeleteRepositoryPolicy removes the policy of a repository.
func (s *Service) DeleteRepositoryPolicy(ctx context.Context, in *ecr.DeleteRepositoryPolicyInput) (
	*ecr.DeleteRepositoryPolicyOutput, error) {
	at, name := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName)
	var was string
	_, err := s.updateRepository(ctx, at, name, func(r *record.Repository) error {
		if r.Policy == "" {
			return s.policyNotFound(at, name)
		}
		was, r.Policy, r.PolicyIDs = r.Policy, "", nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &ecr.DeleteRepositoryPolicyOutput{RegistryId: aws.String(at.account), RepositoryName: in.RepositoryName,
		PolicyText: aws.String(was)}, nil
}
