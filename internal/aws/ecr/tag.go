package ecr

import (
	"context"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// The limits of tags of resources.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-using-tags.html
const (
	maxTags         = 50
	longestTagKey   = 128 // characters
	longestTagValue = 256
)

// addTags adds tags to a repository's row.
func addTags(ctx context.Context, r *record.Repository, tags []types.Tag) error {
	after := maps.Clone(r.Tags)
	if after == nil {
		after = map[string]string{}
	}
	for _, tag := range tags {
		key, value := aws.ToString(tag.Key), aws.ToString(tag.Value)
		switch {
		case key == "" || utf8.RuneCountInString(key) > longestTagKey:
			return &types.InvalidTagParameterException{Message: message("A tag key must have 1 to %d characters: %q",
				longestTagKey, key)}
		case utf8.RuneCountInString(value) > longestTagValue:
			return &types.InvalidTagParameterException{
				Message: message("The value of tag %q must have at most %d characters", key, longestTagValue)}
		case !wire.MaySetTag(ctx, key):
			return reservedTag(key)
		}
		after[key] = value
	}
	if n := wire.CountTags(after); n > maxTags {
		return &types.TooManyTagsException{Message: message("A repository can have %d tags, not %d", maxTags,
			n)}
	}
	if len(after) > 0 {
		r.Tags = after
	}
	return nil
}

func reservedTag(key string) error {
	return &types.InvalidTagParameterException{
		Message: message("Tag key %q is invalid: the prefix aws: is reserved for AWS use", key)}
}

// repositoryFromARN returns the repository that an ARN of a tagging request names.
func (s *Service) repositoryFromARN(ctx context.Context, arn *string) (registry, string, error) {
	at, name, ok := parseARN(ctx, aws.ToString(arn))
	if !ok {
		return at, "", invalidParameter(
			"Invalid parameter at 'resourceArn' failed to satisfy constraint: 'Invalid ARN': %s; it must be that of "+
				"a repository in %s", aws.ToString(arn), wire.RegionFrom(ctx))
	}
	return at, name, nil
}

// tagHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) tagHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.TagResource, func(
			ctx context.Context, action string, in *ecr.TagResourceInput,
		) ([]wire.Target, error) {
			return s.targetsForARN(ctx, action, in.ResourceArn, tagConditions(in.Tags))
		}),
		wire.Handle(s.UntagResource, func(
			ctx context.Context, action string, in *ecr.UntagResourceInput,
		) ([]wire.Target, error) {
			return s.targetsForARN(ctx, action, in.ResourceArn, map[string][]string{"aws:TagKeys": in.TagKeys})
		}),
		wire.Handle(s.ListTagsForResource, func(
			ctx context.Context, action string, in *ecr.ListTagsForResourceInput,
		) ([]wire.Target, error) {
			return s.targetsForARN(ctx, action, in.ResourceArn, nil)
		}),
	}
}

// TagResource adds tags to a repository, or changes their values.
func (s *Service) TagResource(ctx context.Context, in *ecr.TagResourceInput) (*ecr.TagResourceOutput, error) {
	at, name, err := s.repositoryFromARN(ctx, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if _, err := s.updateRepository(ctx, at, name,
		func(r *record.Repository) error { return addTags(ctx, r, in.Tags) }); err != nil {
		return nil, err
	}
	return &ecr.TagResourceOutput{}, nil
}

// UntagResource removes tags from a repository.
func (s *Service) UntagResource(ctx context.Context, in *ecr.UntagResourceInput) (*ecr.UntagResourceOutput, error) {
	at, name, err := s.repositoryFromARN(ctx, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	_, err = s.updateRepository(ctx, at, name, func(r *record.Repository) error {
		after := maps.Clone(r.Tags)
		for _, key := range in.TagKeys {
			if !wire.MaySetTag(ctx, key) {
				return reservedTag(key)
			}
			delete(after, key)
		}
		r.Tags = after
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &ecr.UntagResourceOutput{}, nil
}

// ListTagsForResource lists the tags of a repository, by key.
func (s *Service) ListTagsForResource(ctx context.Context, in *ecr.ListTagsForResourceInput) (
	*ecr.ListTagsForResourceOutput, error) {
	at, name, err := s.repositoryFromARN(ctx, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	row, err := s.findRepository(ctx, at, name)
	if err != nil {
		return nil, err
	}
	tags := []types.Tag{}
	for _, key := range slices.Sorted(maps.Keys(row.Tags)) {
		tags = append(tags, types.Tag{Key: aws.String(key), Value: aws.String(row.Tags[key])})
	}
	return &ecr.ListTagsForResourceOutput{Tags: tags}, nil
}
