package ecr

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// upstreams are the public registries that can be cached.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache.html
var upstreams = map[string]types.UpstreamRegistry{
	"public.ecr.aws":       types.UpstreamRegistryEcrPublic,
	"registry-1.docker.io": types.UpstreamRegistryDockerHub,
	"quay.io":              types.UpstreamRegistryQuay,
	"registry.k8s.io":      types.UpstreamRegistryK8s,
	"ghcr.io":              types.UpstreamRegistryGitHubContainerRegistry,
	"registry.gitlab.com":  types.UpstreamRegistryGitLabContainerRegistry,
	"cgr.dev":              types.UpstreamRegistryChainguard,
}

// anyPrefix is the prefix of a rule for all repositories, and of an upstream without one.
const anyPrefix = "ROOT"

// maxRules limits the rules of a registry.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/service-quotas.html
const maxRules = 50

var cachePrefix = regexp.MustCompile(`^([a-z0-9]+(?:[._-][a-z0-9]+)*/?)+$`)

// cacheHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) cacheHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreatePullThroughCacheRule, func(
			ctx context.Context, action string, in *ecr.CreatePullThroughCacheRuleInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, nil)
		}),
		wire.Handle(s.DescribePullThroughCacheRules, func(
			ctx context.Context, action string, in *ecr.DescribePullThroughCacheRulesInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, nil)
		}),
		wire.Handle(s.DeletePullThroughCacheRule, func(
			ctx context.Context, action string, in *ecr.DeletePullThroughCacheRuleInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, nil)
		}),
	}
}

// CreatePullThroughCacheRule makes the repositories below a prefix a cache of a public registry's. Images are fetched
// without a password.
func (s *Service) CreatePullThroughCacheRule(ctx context.Context, in *ecr.CreatePullThroughCacheRuleInput) (
	*ecr.CreatePullThroughCacheRuleOutput, error) {
	at, err := ownRegistry(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(aws.ToString(in.EcrRepositoryPrefix), "/")
	if prefix != anyPrefix && (len(prefix) < 2 || len(prefix) > 30 || !cachePrefix.MatchString(prefix)) {
		return nil,
			invalidParameter(
				"Invalid parameter at 'ecrRepositoryPrefix' failed to satisfy constraint: '2 to 30 lower-case "+
					"letters, digits and ._-/, or ROOT': %s", prefix)
	}
	upstream := strings.TrimSuffix(strings.TrimPrefix(aws.ToString(in.UpstreamRegistryUrl), "https://"), "/")
	kind, known := upstreams[upstream]
	if !known || in.UpstreamRegistry != "" && in.UpstreamRegistry != kind {
		return nil, &types.UnsupportedUpstreamRegistryException{
			Message: message("The upstream registry %s is not supported: use one of %s",
				aws.ToString(in.UpstreamRegistryUrl), strings.Join(upstreamNames(), ", "))}
	}
	if in.CredentialArn != nil || in.CustomRoleArn != nil {
		return nil, &types.ValidationException{
			Message: message(
				"coracle fetches images of public registries without a password: leave out credentialArn and " +
					"customRoleArn")}
	}
	row := record.PullThroughCacheRule{Account: at.account, Region: at.region, Prefix: prefix, Upstream: upstream,
		CreatedAt: s.timestamp()}
	row.UpdatedAt = row.CreatedAt
	if p := aws.ToString(in.UpstreamRepositoryPrefix); p != "" && p != anyPrefix {
		row.UpstreamPrefix = strings.TrimSuffix(p, "/")
	}
	if s.rules.Count(store.Prefix(at.account, at.region)) >= maxRules {
		return nil, &types.LimitExceededException{
			Message: message("The registry with id '%s' already has the maximum limit of %d pull through cache rules: "+
				"delete some that are not used", at.account, maxRules)}
	}
	_, err = s.rules.Create(ctx, record.PullThroughCacheRuleKey(at.account, at.region, prefix), row)
	if errors.Is(err, store.ErrExists) {
		return nil, &types.PullThroughCacheRuleAlreadyExistsException{
			Message: message(
				"A pull through cache rule with repository prefix '%s' already exists in the registry with id '%s'",
				prefix, at.account)}
	}
	if err != nil {
		return nil, err
	}
	described := describedRule(row)
	return &ecr.CreatePullThroughCacheRuleOutput{
		RegistryId: described.RegistryId, EcrRepositoryPrefix: described.EcrRepositoryPrefix,
		UpstreamRegistry:         described.UpstreamRegistry,
		UpstreamRegistryUrl:      described.UpstreamRegistryUrl,
		UpstreamRepositoryPrefix: described.UpstreamRepositoryPrefix, CreatedAt: described.CreatedAt,
	}, nil
}

func upstreamNames() (names []string) {
	for name := range upstreams {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func describedRule(r record.PullThroughCacheRule) types.PullThroughCacheRule {
	upstreamPrefix := r.UpstreamPrefix
	if upstreamPrefix == "" {
		upstreamPrefix = anyPrefix
	}
	return types.PullThroughCacheRule{
		RegistryId: aws.String(r.Account), EcrRepositoryPrefix: aws.String(r.Prefix),
		UpstreamRegistry: upstreams[r.Upstream], UpstreamRegistryUrl: aws.String(r.Upstream),
		UpstreamRepositoryPrefix: aws.String(upstreamPrefix), CreatedAt: aws.Time(r.CreatedAt),
		UpdatedAt: aws.Time(r.UpdatedAt),
	}
}

func ruleNotFound(at registry, prefix string) error {
	return &types.PullThroughCacheRuleNotFoundException{
		Message: message("Pull through cache rule with repository prefix '%s' not found in the registry with id '%s'",
			prefix, at.account)}
}

// DescribePullThroughCacheRules describes the rules, by prefix.
func (s *Service) DescribePullThroughCacheRules(ctx context.Context, in *ecr.DescribePullThroughCacheRulesInput) (
	*ecr.DescribePullThroughCacheRulesOutput, error) {
	at, err := ownRegistry(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	rows, err := s.rules.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return nil, err
	}
	rules := []types.PullThroughCacheRule{}
	missing := slices.Clone(in.EcrRepositoryPrefixes)
	for _, row := range rows {
		if len(in.EcrRepositoryPrefixes) > 0 && !slices.Contains(in.EcrRepositoryPrefixes, row.Value.Prefix) {
			continue
		}
		missing = slices.DeleteFunc(missing, func(p string) bool { return p == row.Value.Prefix })
		rules = append(rules, describedRule(row.Value))
	}
	if len(missing) > 0 {
		return nil, ruleNotFound(at, missing[0])
	}
	page, next, err := wire.Page(ctx, rules, in.MaxResults, in.NextToken,
		func(r types.PullThroughCacheRule) string { return aws.ToString(r.EcrRepositoryPrefix) })
	if err != nil {
		return nil, err
	}
	return &ecr.DescribePullThroughCacheRulesOutput{PullThroughCacheRules: page, NextToken: next}, nil
}

// DeletePullThroughCacheRule deletes a rule; the repositories that it has made stay.
func (s *Service) DeletePullThroughCacheRule(ctx context.Context, in *ecr.DeletePullThroughCacheRuleInput) (
	*ecr.DeletePullThroughCacheRuleOutput, error) {
	at, err := ownRegistry(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	prefix := aws.ToString(in.EcrRepositoryPrefix)
	row, err := s.rules.Get(ctx, record.PullThroughCacheRuleKey(at.account, at.region, prefix))
	if err == nil {
		err = s.rules.Delete(ctx, row)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, ruleNotFound(at, prefix)
	}
	if err != nil {
		return nil, err
	}
	described := describedRule(row.Value)
	return &ecr.DeletePullThroughCacheRuleOutput{
		RegistryId: described.RegistryId, EcrRepositoryPrefix: described.EcrRepositoryPrefix,
		UpstreamRegistryUrl:      described.UpstreamRegistryUrl,
		UpstreamRepositoryPrefix: described.UpstreamRepositoryPrefix, CreatedAt: described.CreatedAt,
	}, nil
}

// upstream returns the repository of which another is a cache: the rule with the longest prefix decides.
func (s *Service) upstream(ctx context.Context, at registry, repository string) (string, error) {
	best, rest, err := s.ruleFor(ctx, at, repository)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if best.UpstreamPrefix != "" {
		rest = best.UpstreamPrefix + "/" + rest
	}
	host := best.Upstream
	if host == "registry-1.docker.io" {
		host = "docker.io"
	}
	return host + "/" + rest, nil
}

// ruleFor returns the rule with the longest prefix of a repository, and the rest of the repository's name. It is asked
// for each manifest, so it looks for each prefix by itself.
func (s *Service) ruleFor(ctx context.Context, at registry, repository string) (
	rule record.PullThroughCacheRule, rest string, err error) {
	for i := len(repository) - 1; i > 0; i-- {
		if repository[i] != '/' {
			continue
		}
		row, err := s.rules.Get(ctx, record.PullThroughCacheRuleKey(at.account, at.region, repository[:i]))
		if !errors.Is(err, store.ErrNotFound) {
			return row.Value, repository[i+1:], err
		}
	}
	row, err := s.rules.Get(ctx, record.PullThroughCacheRuleKey(at.account, at.region, anyPrefix))
	return row.Value, repository, err
}
