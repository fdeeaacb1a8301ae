package iam

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

const maxTags = 50

// mergeTags returns tags with those of a request over them. Keys differ by more than their case; a key that is set
// again takes the new spelling.
func mergeTags(ctx context.Context, old map[string]string, add []types.Tag) (map[string]string, error) {
	tags := maps.Clone(old)
	if tags == nil {
		tags = map[string]string{}
	}
	var seen []string
	for _, t := range add {
		key := aws.ToString(t.Key)
		if containsKey(seen, key) {
			return nil, invalidInput("Duplicate tag keys found. Please note that Tag keys are case insensitive.")
		}
		seen = append(seen, key)
		if !wire.MaySetTag(ctx, key) {
			return nil, reservedTag(key)
		}
		maps.DeleteFunc(tags, func(k, _ string) bool { return policy.SameKey(k, key) })
		tags[key] = aws.ToString(t.Value)
	}
	if wire.CountTags(tags) > maxTags {
		return nil, limitExceeded("The number of tags has reached the maximum limit of %d.", maxTags)
	}
	return tags, nil
}

func reservedTag(key string) error {
	return invalidInput("Tag keys beginning with aws: are reserved for system use. Got %q.", key)
}

// removeTags returns tags without those of the keys.
func removeTags(ctx context.Context, old map[string]string, keys []string) (map[string]string, error) {
	for _, key := range keys {
		if !wire.MaySetTag(ctx, key) {
			return nil, reservedTag(key)
		}
	}
	tags := maps.Clone(old)
	maps.DeleteFunc(tags, func(k, _ string) bool { return containsKey(keys, k) })
	return tags, nil
}

func containsKey(keys []string, key string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return policy.SameKey(k, key) })
}

func tagList(tags map[string]string) []types.Tag {
	list := make([]types.Tag, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return list
}

func tagKey(t types.Tag) string { return *t.Key }
