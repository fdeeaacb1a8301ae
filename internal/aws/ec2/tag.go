package ec2

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxTags is how many tags a resource may have, beside those that AWS services put there.
const maxTags = 50

// listTags are the tags of a resource, by key; nil when it has none.
func (s *Service) listTags(in scope, id string) []types.Tag {
	return tagList(mustRead(s.tags.Get(in, in.key(id))).Value.Tags)
}

// listTagSet is tagsOf for the resources of which AWS shows an empty set too.
func (s *Service) listTagSet(in scope, id string) []types.Tag {
	if tags := s.listTags(in, id); tags != nil {
		return tags
	}
	return []types.Tag{}
}

func tagList(tags map[string]string) []types.Tag {
	var list []types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return list
}

// addTags gives a new resource the tags that the request specifies for its type.
func (c *change) addTags(resource types.ResourceType, id string, specifications []types.TagSpecification) error {
	var tags []types.Tag
	for _, spec := range specifications {
		if spec.ResourceType != resource {
			return invalid("'%s' is not a valid taggable resource type for this operation.", spec.ResourceType)
		}
		tags = append(tags, spec.Tags...)
	}
	if len(tags) == 0 {
		return nil
	}
	return c.setTags(resource, id, tags)
}

// setTags adds tags to a resource, whose presence is the caller's to require.
func (c *change) setTags(resource types.ResourceType, id string, tags []types.Tag) error {
	if err := c.checkTags(tags); err != nil {
		return err
	}
	return c.editTags(resource, id, func(now map[string]string) error {
		for _, t := range tags {
			now[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		own := 0
		for key := range now {
			if !reservedTag(&key) {
				own++
			}
		}
		if own > maxTags {
			return wire.Errorf("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
		}
		return nil
	})
}

func (c *change) editTags(resource types.ResourceType, id string, edit func(map[string]string) error) error {
	key := c.key(id)
	row, err := c.s.tags.Copy(c, key)
	fresh := errors.Is(err, store.ErrNotFound)
	if err != nil && !fresh {
		return err
	}
	if row.Value.Tags == nil {
		row.Value = record.EC2Tags{ResourceID: id, ResourceType: resource, Tags: map[string]string{}}
	}
	if err := edit(row.Value.Tags); err != nil {
		return err
	}
	c.add("tags/"+id, &pending{op: func() store.Op {
		switch {
		case fresh && len(row.Value.Tags) == 0:
			return c.s.tags.AbsentOp(key)
		case fresh:
			return c.s.tags.CreateOp(key, row.Value)
		case len(row.Value.Tags) == 0:
			return c.s.tags.DeleteOp(row)
		}
		return c.s.tags.UpdateOp(row)
	}})
	return nil
}

// removeTags removes all tags of a resource that goes.
func (c *change) removeTags(id string) {
	c.add("tags/"+id, &pending{op: func() store.Op { return c.s.tags.RemoveOp(c.key(id)) }})
}

// checkTags refuses tags that AWS does.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions
func (c *change) checkTags(tags []types.Tag) error {
	seen := map[string]bool{}
	for _, t := range tags {
		key, value := aws.ToString(t.Key), aws.ToString(t.Value)
		switch {
		case key == "":
			return invalid("Tag key cannot be empty or null")
		case utf8.RuneCountInString(key) > 128:
			return invalid("Tag key exceeds the maximum length of 128 characters")
		case utf8.RuneCountInString(value) > 256:
			return invalid("Tag value exceeds the maximum length of 256 characters")
		case reservedTag(t.Key) && !c.service():
			return invalid("Tag keys starting with 'aws:' are reserved for internal use")
		case seen[key]:
			return invalid("Duplicate tag key '%s' specified.", key)
		}
		seen[key] = true
	}
	return nil
}

// tagHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) tagHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateTags, func(
			ctx context.Context, action string, in *ec2.CreateTagsInput,
		) ([]wire.Target, error) {
			return s.onTagged(ctx, action, in.Resources, in.Tags)
		}),
		wire.Handle(s.DeleteTags, func(
			ctx context.Context, action string, in *ec2.DeleteTagsInput,
		) ([]wire.Target, error) {
			return s.onUntagged(ctx, action, in)
		}),
		wire.Handle(s.DescribeTags, onRegion),
	}
}

// CreateTags adds tags to resources of any kind, or replaces their values.
func (s *Service) CreateTags(ctx context.Context, in *ec2.CreateTagsInput) (*ec2.CreateTagsOutput, error) {
	if len(in.Tags) == 0 {
		return nil, missing("Tag")
	}
	return &ec2.CreateTagsOutput{}, s.eachResource(ctx, in.DryRun, in.Resources,
		func(c *change, k anyKind, id string) error {
			return c.setTags(k.idFormat().resource, id, in.Tags)
		})
}

// DeleteTags removes tags: those with the given key, and the given value if there is one. Without any it removes all
// but those of AWS.
func (s *Service) DeleteTags(ctx context.Context, in *ec2.DeleteTagsInput) (*ec2.DeleteTagsOutput, error) {
	return &ec2.DeleteTagsOutput{}, s.eachResource(ctx, in.DryRun, in.Resources,
		func(c *change, k anyKind, id string) error {
			for _, t := range in.Tags {
				if reservedTag(t.Key) && !c.service() {
					return invalid("Tag keys starting with 'aws:' are reserved for internal use")
				}
			}
			return c.editTags(k.idFormat().resource, id, func(tags map[string]string) error {
				maps.DeleteFunc(tags, func(key, value string) bool {
					if len(in.Tags) == 0 {
						return !reservedTag(&key)
					}
					return slices.ContainsFunc(in.Tags, func(t types.Tag) bool {
						return aws.ToString(t.Key) == key && (t.Value == nil || *t.Value == value)
					})
				})
				return nil
			})
		})
}

// resourcesPerChange is how many resources are tagged in one transaction, of which etcd limits the size.
const resourcesPerChange = 50

// eachResource changes something about each of the resources, all of which must exist.
func (s *Service) eachResource(ctx context.Context, dryRun *bool, ids []string,
	do func(c *change, k anyKind, id string) error) error {
	if len(ids) == 0 {
		return missing("resourceIdSet")
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for len(ids) > 0 {
		now := ids[:min(len(ids), resourcesPerChange)]
		if err := s.applyChange(ctx, dryRun, func(c *change) error {
			for _, id := range ids {
				k, ok := s.kindForID(id)
				if !ok {
					return wire.Errorf("InvalidID", "The ID '%s' is not valid", id)
				}
				if err := k.checkExists(c.scope, id); err != nil {
					return err
				}
			}
			for _, id := range now {
				k, _ := s.kindForID(id)
				if err := k.present(c, id); err != nil {
					return err
				}
				if err := do(c, k, id); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		ids = ids[len(now):]
	}
	return nil
}

// reservedTag reports whether a tag is for AWS services only.
func reservedTag(key *string) bool {
	return strings.HasPrefix(strings.ToLower(aws.ToString(key)), "aws:")
}

// DescribeTags lists the tags of the account's resources.
func (s *Service) DescribeTags(ctx context.Context, in *ec2.DescribeTagsInput) (*ec2.DescribeTagsOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.tags.List(ctx, sc.keyPrefix())
	if err != nil {
		return nil, err
	}
	var all []item[types.TagDescription]
	for _, row := range rows {
		for _, t := range tagList(row.Value.Tags) {
			all = append(all, item[types.TagDescription]{row.Value.ResourceID + " " + *t.Key, types.TagDescription{
				Key: t.Key, Value: t.Value, ResourceId: aws.String(row.Value.ResourceID),
				ResourceType: row.Value.ResourceType,
			}})
		}
	}
	slices.SortFunc(all, func(a, b item[types.TagDescription]) int { return strings.Compare(a.id, b.id) })
	tags, next, err := describeItems(ctx, query{DryRun: in.DryRun, Filters: in.Filters, Max: in.MaxResults,
		Token: in.NextToken}, "", all,
		filters[types.TagDescription]{
			"key":           stringFilter(func(t types.TagDescription) *string { return t.Key }),
			"value":         stringFilter(func(t types.TagDescription) *string { return t.Value }),
			"resource-id":   stringFilter(func(t types.TagDescription) *string { return t.ResourceId }),
			"resource-type": enumFilter(func(t types.TagDescription) types.ResourceType { return t.ResourceType }),
		},
		func(t types.TagDescription) []types.Tag { return []types.Tag{{Key: t.Key, Value: t.Value}} })
	if err != nil {
		return nil, err
	}
	return &ec2.DescribeTagsOutput{Tags: tags, NextToken: next}, nil
}
