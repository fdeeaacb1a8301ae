package kms

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

const maxTags = 50

// tagMap returns the tags of a request by their keys.
func tagMap(tags []types.Tag) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[aws.ToString(t.TagKey)] = aws.ToString(t.TagValue)
	}
	return m
}

// checkTags refuses tags that break a rule for tags, or would be too many beside those that are there.
func checkTags(ctx context.Context, added []types.Tag, beside map[string]string) error {
	after := maps.Clone(beside)
	if after == nil {
		after = map[string]string{}
	}
	seen := map[string]bool{}
	for _, t := range added {
		key := aws.ToString(t.TagKey)
		switch {
		case !wire.MaySetTag(ctx, key):
			return reservedTag(key)
		case seen[key]:
			return &types.TagException{Message: new("Duplicate tag keys: " + key)}
		}
		seen[key] = true
		after[key] = aws.ToString(t.TagValue)
	}
	if wire.CountTags(after) > maxTags {
		return &types.TagException{Message: new("Too many tags")}
	}
	return nil
}

func reservedTag(key string) error {
	return &types.TagException{Message: new("Tags beginning with aws: are reserved: " + key)}
}

// tagHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) tagHandlers() []wire.Handler {
	return []wire.Handler{
		handle(s.TagResource, func(
			ctx context.Context, action string, in *kms.TagResourceInput,
		) ([]wire.Target, error) {
			targets, err := s.onOwnKey(ctx, action, *in.KeyId)
			for _, t := range targets {
				addRequestTags(t, tagMap(in.Tags))
			}
			return targets, err
		}),
		handle(s.UntagResource, func(
			ctx context.Context, action string, in *kms.UntagResourceInput,
		) ([]wire.Target, error) {
			targets, err := s.onOwnKey(ctx, action, *in.KeyId)
			for _, t := range targets {
				t.Conditions["aws:TagKeys"] = in.TagKeys
			}
			return targets, err
		}),
		handle(s.ListResourceTags, func(
			ctx context.Context, action string, in *kms.ListResourceTagsInput,
		) ([]wire.Target, error) {
			return s.onOwnKey(ctx, action, *in.KeyId)
		}),
	}
}

// TagResource gives a key tags, or other values to those it has.
func (s *Service) TagResource(ctx context.Context, in *kms.TagResourceInput) (*kms.TagResourceOutput, error) {
	_, err := s.modify(ctx, *in.KeyId, func(k *record.KMSKey) error {
		if err := requireKept(*k); err != nil {
			return err
		}
		if err := checkTags(ctx, in.Tags, k.Tags); err != nil {
			return err
		}
		if k.Tags == nil {
			k.Tags = map[string]string{}
		}
		maps.Copy(k.Tags, tagMap(in.Tags))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &kms.TagResourceOutput{}, nil
}

// UntagResource takes tags off a key.
func (s *Service) UntagResource(ctx context.Context, in *kms.UntagResourceInput) (*kms.UntagResourceOutput, error) {
	_, err := s.modify(ctx, *in.KeyId, func(k *record.KMSKey) error {
		for _, key := range in.TagKeys {
			if !wire.MaySetTag(ctx, key) {
				return reservedTag(key)
			}
			delete(k.Tags, key)
		}
		return requireKept(*k)
	})
	if err != nil {
		return nil, err
	}
	return &kms.UntagResourceOutput{}, nil
}

// ListResourceTags lists the tags of a key.
func (s *Service) ListResourceTags(ctx context.Context, in *kms.ListResourceTagsInput) (
	*kms.ListResourceTagsOutput, error) {
	r, err := s.resolveForUpdate(ctx, *in.KeyId)
	if err != nil {
		return nil, err
	}
	limit, err := pageSize(in.Limit, 50, 50)
	if err != nil {
		return nil, err
	}
	tags := r.row.Value.Tags
	page, next, err := wire.Page(ctx, slices.Sorted(maps.Keys(tags)), limit, in.Marker,
		func(k string) string { return k })
	if err != nil {
		return nil, err
	}
	out := &kms.ListResourceTagsOutput{Tags: []types.Tag{}, NextMarker: next, Truncated: next != nil}
	for _, k := range page {
		out.Tags = append(out.Tags, types.Tag{TagKey: new(k), TagValue: new(tags[k])})
	}
	return out, nil
}
