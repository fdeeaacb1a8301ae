package ssm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const maxTags = 50

// checkTags refuses tags that break a rule for tags, or would be too many beside those that are there.
func checkTags(ctx context.Context, tags, beside map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		switch n := utf8.RuneCountInString(key); {
		case !wire.MaySetTag(ctx, key):
			return reservedTag(key)
		case n == 0 || n > 128:
			return validation("A tag key has 1 to 128 characters, but %q has %d", key, n)
		case utf8.RuneCountInString(tags[key]) > 256:
			return validation("The value of tag %s has more than 256 characters", key)
		}
	}
	after := maps.Clone(tags)
	maps.Copy(after, beside)
	if n := wire.CountTags(after); n > maxTags {
		return wire.Errorf("TooManyTagsError", "A parameter can have %d tags at most, and would have %d.", maxTags,
			n)
	}
	return nil
}

func reservedTag(key string) error {
	return validation("Tag keys may not start with the reserved prefix aws: %s", key)
}

// taggedKey returns the key of the parameter that a tagging request names.
func (s *Service) taggedKey(ctx context.Context, kind types.ResourceTypeForTagging, id *string) (string, error) {
	if kind != types.ResourceTypeForTaggingParameter {
		return "", invalidResourceType(kind)
	}
	row, err := s.ownByName(ctx, id)
	var absent *types.ParameterNotFound
	if errors.As(err, &absent) {
		return "", invalidResourceID(aws.ToString(id))
	}
	return row.Key, err
}

func (s *Service) updateTags(ctx context.Context, kind types.ResourceTypeForTagging, id *string,
	change func(tags map[string]string) error) error {
	key, err := s.taggedKey(ctx, kind, id)
	if err != nil {
		return err
	}
	_, err = s.parameters.Modify(ctx, key, func(p *record.Parameter) error {
		tags := maps.Clone(p.Tags)
		if tags == nil {
			tags = make(map[string]string)
		}
		p.Tags = tags
		return change(tags)
	})
	if errors.Is(err, store.ErrNotFound) {
		return invalidResourceID(aws.ToString(id))
	}
	return err
}

// tagHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) tagHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AddTagsToResource, func(
			ctx context.Context, action string, in *ssm.AddTagsToResourceInput,
		) ([]wire.Target, error) {
			return addRequestTags(s.onParameters(ctx, action, *in.ResourceId), in.Tags), nil
		}),
		wire.Handle(s.RemoveTagsFromResource, func(
			ctx context.Context, action string, in *ssm.RemoveTagsFromResourceInput,
		) ([]wire.Target, error) {
			targets := s.onParameters(ctx, action, *in.ResourceId)
			targets[0].Conditions["aws:TagKeys"] = in.TagKeys
			return targets, nil
		}),
		wire.Handle(s.ListTagsForResource, func(
			ctx context.Context, action string, in *ssm.ListTagsForResourceInput,
		) ([]wire.Target, error) {
			return s.onParameters(ctx, action, *in.ResourceId), nil
		}),
	}
}

// AddTagsToResource gives a parameter tags, or other values to those it has.
func (s *Service) AddTagsToResource(ctx context.Context, in *ssm.AddTagsToResourceInput) (
	*ssm.AddTagsToResourceOutput, error) {
	added := make(map[string]string)
	for _, t := range in.Tags {
		added[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	err := s.updateTags(ctx, in.ResourceType, in.ResourceId, func(tags map[string]string) error {
		if err := checkTags(ctx, added, tags); err != nil {
			return err
		}
		maps.Copy(tags, added)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &ssm.AddTagsToResourceOutput{}, nil
}

// RemoveTagsFromResource takes tags off a parameter.
func (s *Service) RemoveTagsFromResource(ctx context.Context, in *ssm.RemoveTagsFromResourceInput) (
	*ssm.RemoveTagsFromResourceOutput, error) {
	err := s.updateTags(ctx, in.ResourceType, in.ResourceId, func(tags map[string]string) error {
		for _, key := range in.TagKeys {
			if !wire.MaySetTag(ctx, key) {
				return reservedTag(key)
			}
			delete(tags, key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &ssm.RemoveTagsFromResourceOutput{}, nil
}

// ListTagsForResource lists the tags of a parameter.
func (s *Service) ListTagsForResource(ctx context.Context, in *ssm.ListTagsForResourceInput) (
	*ssm.ListTagsForResourceOutput, error) {
	key, err := s.taggedKey(ctx, in.ResourceType, in.ResourceId)
	if err != nil {
		return nil, err
	}
	row, err := s.parameters.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read the tags of %s: %w", *in.ResourceId, err)
	}
	out := &ssm.ListTagsForResourceOutput{TagList: []types.Tag{}}
	for _, k := range slices.Sorted(maps.Keys(row.Value.Tags)) {
		out.TagList = append(out.TagList, types.Tag{Key: new(k), Value: new(row.Value.Tags[k])})
	}
	return out, nil
}
