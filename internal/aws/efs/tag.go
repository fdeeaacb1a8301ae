package efs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxTags is the quota of tags of a resource.
const maxTags = 50

// tagHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) tagHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.TagResource, func(
			ctx context.Context, action string, in *efs.TagResourceInput,
		) ([]wire.Target, error) {
			targets, err := s.onResource(ctx, action, in.ResourceId)
			if err == nil {
				addRequestTags(targets[0].Conditions, in.Tags)
			}
			return targets, err
		}),
		wire.Handle(s.UntagResource, func(
			ctx context.Context, action string, in *efs.UntagResourceInput,
		) ([]wire.Target, error) {
			targets, err := s.onResource(ctx, action, in.ResourceId)
			if err == nil {
				targets[0].Conditions["aws:TagKeys"] = in.TagKeys
			}
			return targets, err
		}),
		wire.Handle(s.ListTagsForResource, func(
			ctx context.Context, action string, in *efs.ListTagsForResourceInput,
		) ([]wire.Target, error) {
			return s.onResource(ctx, action, in.ResourceId)
		}),
		wire.Handle(s.CreateTags, func(
			ctx context.Context, action string, in *efs.CreateTagsInput,
		) ([]wire.Target, error) {
			targets, err := s.onFileSystem(ctx, action, in.FileSystemId)
			if err == nil {
				addRequestTags(targets[0].Conditions, in.Tags)
			}
			return targets, err
		}),
		wire.Handle(s.DeleteTags, func(
			ctx context.Context, action string, in *efs.DeleteTagsInput,
		) ([]wire.Target, error) {
			targets, err := s.onFileSystem(ctx, action, in.FileSystemId)
			if err == nil {
				targets[0].Conditions["aws:TagKeys"] = in.TagKeys
			}
			return targets, err
		}),
		wire.Handle(s.DescribeTags, func(
			ctx context.Context, action string, in *efs.DescribeTagsInput,
		) ([]wire.Target, error) {
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
	}
}

// tagKey is what the model says of the key of a tag, but that aws: is reserved.
var tagKey = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]+$`)

// tagKeySource is the pattern as AWS writes it.
const tagKeySource = `^(?![aA]{1}[wW]{1}[sS]{1}:)([\p{L}\p{Z}\p{N}_.:/=+\-@]+)$`

// tagMap returns the tags of a request, which a resource can have.
func tagMap(ctx context.Context, list []types.Tag) (map[string]string, error) {
	tags := map[string]string{}
	for i, t := range list {
		key := aws.ToString(t.Key)
		if !tagKey.MatchString(key) || !wire.MaySetTag(ctx, key) {
			return nil, violation(key, fmt.Sprintf("tags.%d.member.key", i+1),
				"satisfy regular expression pattern: "+tagKeySource)
		}
		if _, twice := tags[key]; twice {
			return nil, badRequest("The tag key %q is given twice.", key)
		}
		tags[key] = aws.ToString(t.Value)
	}
	return tags, checkTagCount(tags)
}

func checkTagCount(tags map[string]string) error {
	if n := wire.CountTags(tags); n > maxTags {
		return badRequest("A resource has %d tags at most, and would have %d.", maxTags, n)
	}
	return nil
}

// tagList returns tags as the API shows them, by key.
func tagList(tags map[string]string) []types.Tag {
	list := make([]types.Tag, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, types.Tag{Key: new(key), Value: new(tags[key])})
	}
	return list
}

// nameTag returns the value of the tag Name; nil without one.
func nameTag(tags map[string]string) *string {
	if name, ok := tags["Name"]; ok {
		return &name
	}
	return nil
}

// TagResource adds tags to a file system or an access point.
func (s *Service) TagResource(ctx context.Context, in *efs.TagResourceInput) (*efs.TagResourceOutput, error) {
	return &efs.TagResourceOutput{}, s.addTags(ctx, in.ResourceId, in.Tags)
}

// CreateTags adds tags to a file system: the old TagResource.
func (s *Service) CreateTags(ctx context.Context, in *efs.CreateTagsInput) (*efs.CreateTagsOutput, error) {
	return &efs.CreateTagsOutput{}, s.addTags(ctx, in.FileSystemId, in.Tags)
}

// UntagResource removes tags from a file system or an access point.
func (s *Service) UntagResource(ctx context.Context, in *efs.UntagResourceInput) (*efs.UntagResourceOutput, error) {
	return &efs.UntagResourceOutput{}, s.removeTags(ctx, in.ResourceId, in.TagKeys)
}

// DeleteTags removes tags from a file system: the old UntagResource.
func (s *Service) DeleteTags(ctx context.Context, in *efs.DeleteTagsInput) (*efs.DeleteTagsOutput, error) {
	return &efs.DeleteTagsOutput{}, s.removeTags(ctx, in.FileSystemId, in.TagKeys)
}

// ListTagsForResource lists the tags of a file system or an access point.
func (s *Service) ListTagsForResource(ctx context.Context, in *efs.ListTagsForResourceInput) (
	*efs.ListTagsForResourceOutput, error) {
	page, next, err := s.pageTags(ctx, in.ResourceId, in.MaxResults, in.NextToken)
	return &efs.ListTagsForResourceOutput{Tags: page, NextToken: next}, err
}

// DescribeTags lists the tags of a file system: the old ListTagsForResource.
func (s *Service) DescribeTags(ctx context.Context, in *efs.DescribeTagsInput) (*efs.DescribeTagsOutput, error) {
	page, next, err := s.pageTags(ctx, in.FileSystemId, in.MaxItems, in.Marker)
	return &efs.DescribeTagsOutput{Tags: page, Marker: in.Marker, NextMarker: next}, err
}

func (s *Service) addTags(ctx context.Context, id *string, list []types.Tag) error {
	more, err := tagMap(ctx, list)
	if err != nil {
		return err
	}
	return s.changeTags(ctx, id, func(tags map[string]string) error {
		maps.Copy(tags, more)
		return checkTagCount(tags)
	})
}

func (s *Service) removeTags(ctx context.Context, id *string, keys []string) error {
	for i, key := range keys {
		if !wire.MaySetTag(ctx, key) {
			return violation(key, fmt.Sprintf("tagKeys.%d.member", i+1),
				"satisfy regular expression pattern: "+tagKeySource)
		}
	}
	return s.changeTags(ctx, id, func(tags map[string]string) error {
		for _, key := range keys {
			delete(tags, key)
		}
		return nil
	})
}

// changeTags changes the tags of a file system or an access point.
func (s *Service) changeTags(ctx context.Context, id *string, change func(map[string]string) error) error {
	apply := func(tags *map[string]string) error {
		if *tags == nil {
			*tags = map[string]string{}
		}
		return change(*tags)
	}
	if !isAccessPoint(aws.ToString(id)) {
		_, err := s.modify(ctx, id, func(f *record.FileSystem) error { return apply(&f.Tags) })
		return err
	}
	_, err := s.accessPoints.Modify(ctx, accessPointName(ctx, id).key(),
		func(a *record.AccessPoint) error { return apply(&a.Tags) })
	if errors.Is(err, store.ErrNotFound) {
		err = accessPointNotFound(aws.ToString(id))
	}
	return err
}

// pageTags returns a page of the tags of a file system or an access point. Keys of tags are too long for page tokens,
// which have 128 characters: these have positions.
func (s *Service) pageTags(ctx context.Context, id *string, most *int32, token *string) ([]types.Tag, *string, error) {
	var tags map[string]string
	if isAccessPoint(aws.ToString(id)) {
		row, err := s.accessPoint(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		tags = row.Value.Tags
	} else {
		row, err := s.fileSystem(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		tags = row.Value.Tags
	}
	list := tagList(tags)
	return wire.Page(ctx, list, most, token, func(t types.Tag) string {
		n, _ := slices.BinarySearchFunc(list, aws.ToString(t.Key), func(t types.Tag, key string) int {
			return strings.Compare(aws.ToString(t.Key), key)
		})
		return fmt.Sprintf("%03d", n)
	})
}
