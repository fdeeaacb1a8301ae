package resource

import (
	"errors"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// ListTags returns the tags of a resource, by key; nil when it has none.
func (s *Records) ListTags(sc Scope, id string) []types.Tag {
	return TagList(MustRead(s.Tags.Get(sc, sc.Key(id))).Value.Tags)
}

// ListTagSet returns the same as ListTags, for the resources of which AWS shows an empty set, too.
func (s *Records) ListTagSet(sc Scope, id string) []types.Tag {
	if tags := s.ListTags(sc, id); tags != nil {
		return tags
	}
	return []types.Tag{}
}

// TagList returns tags in the order of their keys; nil without any.
func TagList(tags map[string]string) []types.Tag {
	var list []types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return list
}

// refusedAsParameter are the types of resources whose creation refuses tags of other types with InvalidParameter.
var refusedAsParameter = map[types.ResourceType]bool{
	types.ResourceTypeNetworkInterface: true, types.ResourceTypeSecurityGroupRule: true,
	types.ResourceTypeSubnet: true, types.ResourceTypeVpc: true,
}

// AddTags gives a new resource the tags that the request specifies for its type.
func (c *Change) AddTags(resource types.ResourceType, id string, specifications []types.TagSpecification) error {
	var tags []types.Tag
	for _, spec := range specifications {
		if spec.ResourceType != resource {
			code := "InvalidParameterValue"
			if refusedAsParameter[resource] {
				code = "InvalidParameter"
			}
			return wire.Errorf(code, "'%s' is not a valid taggable resource type for this operation.", spec.ResourceType)
		}
		tags = append(tags, spec.Tags...)
	}
	if len(tags) == 0 {
		return nil
	}
	return c.SetTags(resource, id, tags)
}

// SetTags adds tags to a resource, whose presence is the caller's to require.
func (c *Change) SetTags(resource types.ResourceType, id string, tags []types.Tag) error {
	if err := c.CheckTags(tags); err != nil {
		return err
	}
	return c.EditTags(resource, id, func(now map[string]string) error {
		for _, t := range tags {
			now[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		own := 0
		for key := range now {
			if !ReservedTag(&key) {
				own++
			}
		}
		if own > MaxTags {
			return wire.Errorf("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
		}
		return nil
	})
}

// EditTags changes the tags of a resource.
func (c *Change) EditTags(resource types.ResourceType, id string, edit func(map[string]string) error) error {
	key := c.Key(id)
	row, err := c.Tags.Copy(c, key)
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
	c.Add("tags/"+id, func() store.Op {
		switch {
		case fresh && len(row.Value.Tags) == 0:
			return c.Tags.AbsentOp(key)
		case fresh:
			return c.Tags.CreateOp(key, row.Value)
		case len(row.Value.Tags) == 0:
			return c.Tags.DeleteOp(row)
		}
		return c.Tags.UpdateOp(row)
	})
	return nil
}

// RemoveTags removes all tags of a resource that goes.
func (c *Change) RemoveTags(id string) {
	c.Add("tags/"+id, func() store.Op { return c.Tags.RemoveOp(c.Key(id)) })
}

// CheckTags refuses tags that AWS does.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions
func (sc Scope) CheckTags(tags []types.Tag) error {
	seen := map[string]bool{}
	for _, t := range tags {
		key, value := aws.ToString(t.Key), aws.ToString(t.Value)
		switch {
		case key == "":
			return Invalid("Tag key cannot be empty or null")
		case utf8.RuneCountInString(key) > 128:
			return Invalid("Tag key exceeds the maximum length of 128 characters")
		case utf8.RuneCountInString(value) > 256:
			return Invalid("Tag value exceeds the maximum length of 256 characters")
		case !sc.MaySetTag(t.Key):
			return Invalid("Tag keys starting with 'aws:' are reserved for internal use")
		case seen[key]:
			return Invalid("Duplicate tag key '%s' specified.", key)
		}
		seen[key] = true
	}
	return nil
}

// ReservedTag reports whether a tag is for AWS services only.
func ReservedTag(key *string) bool { return wire.IsReservedTag(aws.ToString(key)) }

// MaySetTag reports whether the caller may add or remove a tag with that key.
func (sc Scope) MaySetTag(key *string) bool {
	return sc.IsService() || wire.MaySetTag(sc, aws.ToString(key))
}

// MaxTags is the maximum number of tags of a resource, without those that AWS services add.
const MaxTags = 50
