package autoscaling

import (
	"cmp"
	"context"
	"slices"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func compareTagKeys(a, b record.AutoScalingTag) int { return cmp.Compare(a.Key, b.Key) }

// mergeTags returns the tags of a group after a request has added to those before, or changed them.
func mergeTags(
	ctx context.Context, asked []types.Tag, group string, before []record.AutoScalingTag,
) ([]record.AutoScalingTag, error) {
	tags := slices.Clone(before)
	seen := make(map[string]bool)
	for _, t := range asked {
		key, value := aws.ToString(t.Key), aws.ToString(t.Value)
		switch {
		case key == "" || utf8.RuneCountInString(key) > 128:
			return nil, validation("Tag key '%s' is invalid: it has 1 to 128 characters", key)
		case utf8.RuneCountInString(value) > 256:
			return nil, validation("The value of tag '%s' is invalid: it has at most 256 characters", key)
		case !wire.MaySetTag(ctx, key):
			return nil, reservedTag(key)
		case t.ResourceId != nil && *t.ResourceId != group:
			return nil, validation("Tag '%s' is for %s, but the group is %s", key, *t.ResourceId, group)
		case t.ResourceType != nil && *t.ResourceType != "auto-scaling-group":
			return nil, validation("Invalid resource type %s in tag '%s'. Valid values: [auto-scaling-group]",
				*t.ResourceType, key)
		case seen[key]:
			return nil, validation("Duplicate tag key '%s' specified", key)
		}
		seen[key] = true
		tag := record.AutoScalingTag{Key: key, Value: value, PropagateAtLaunch: t.PropagateAtLaunch == nil ||
			*t.PropagateAtLaunch}
		if i, found := slices.BinarySearchFunc(tags, tag, compareTagKeys); found {
			tags[i] = tag
		} else {
			tags = slices.Insert(tags, i, tag)
		}
	}
	own := 0
	for _, t := range tags {
		if !wire.IsReservedTag(t.Key) {
			own++
		}
	}
	if own > maxTags {
		return nil, limitExceeded("A group can have %d tags at most, and %s would have %d", maxTags, group, own)
	}
	return tags, nil
}

func reservedTag(key string) error {
	return validation("Tag key '%s' is invalid: keys that begin with aws: are reserved", key)
}

// tagsByGroup returns the tags of a request by the group that they are of.
func tagsByGroup(tags []types.Tag) (map[string][]types.Tag, error) {
	groups := make(map[string][]types.Tag)
	for _, t := range tags {
		if aws.ToString(t.ResourceId) == "" {
			return nil, validation("Tag '%s' has no ResourceId: it must name an Auto Scaling group",
				aws.ToString(t.Key))
		}
		groups[*t.ResourceId] = append(groups[*t.ResourceId], t)
	}
	return groups, nil
}

func (s *Service) eachTagged(ctx context.Context, tags []types.Tag, edit func(*record.AutoScalingGroup,
	[]types.Tag) error) error {
	groups, err := tagsByGroup(tags)
	if err != nil {
		return err
	}
	for name := range groups {
		if _, err := s.getGroup(ctx, &name); err != nil {
			return err
		}
	}
	for name, tags := range groups {
		if err := s.updateGroup(ctx, &name, func(g *record.AutoScalingGroup) ([]store.Op, error) {
			return nil,
				edit(g, tags)
		}); err != nil {
			return err
		}
	}
	return nil
}

// tagHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) tagHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateOrUpdateTags, func(
			ctx context.Context, action string, in *autoscaling.CreateOrUpdateTagsInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{tags: in.Tags})
		}),
		wire.Handle(s.DeleteTags, func(
			ctx context.Context, action string, in *autoscaling.DeleteTagsInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{tags: in.Tags, deletesTags: true})
		}),
		wire.Handle(s.DescribeTags, wire.OnAll),
	}
}

// CreateOrUpdateTags gives groups tags. Instances that there are keep theirs.
func (s *Service) CreateOrUpdateTags(ctx context.Context, in *autoscaling.CreateOrUpdateTagsInput) (
	*autoscaling.CreateOrUpdateTagsOutput, error) {
	err := s.eachTagged(ctx, in.Tags, func(g *record.AutoScalingGroup, tags []types.Tag) (err error) {
		g.Tags, err = mergeTags(ctx, tags, g.Name, g.Tags)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.CreateOrUpdateTagsOutput{}, nil
}

// DeleteTags takes tags off groups.
func (s *Service) DeleteTags(ctx context.Context, in *autoscaling.DeleteTagsInput) (
	*autoscaling.DeleteTagsOutput, error) {
	for _, t := range in.Tags {
		if key := aws.ToString(t.Key); !wire.MaySetTag(ctx, key) {
			return nil, reservedTag(key)
		}
	}
	err := s.eachTagged(ctx, in.Tags, func(g *record.AutoScalingGroup, tags []types.Tag) error {
		g.Tags = slices.DeleteFunc(slices.Clone(g.Tags), func(t record.AutoScalingTag) bool {
			return slices.ContainsFunc(tags, func(asked types.Tag) bool {
				return aws.ToString(asked.Key) == t.Key && (aws.ToString(asked.Value) == "" || *asked.Value == t.Value)
			})
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.DeleteTagsOutput{}, nil
}

// DescribeTags lists the tags of groups.
func (s *Service) DescribeTags(ctx context.Context, in *autoscaling.DescribeTagsInput) (
	*autoscaling.DescribeTagsOutput, error) {
	rows, err := s.groups.List(ctx, scopeOf(ctx).keyPrefix())
	if err != nil {
		return nil, err
	}
	for _, f := range in.Filters {
		if name := aws.ToString(f.Name); !slices.Contains([]string{"auto-scaling-group", "key", "value",
			"propagate-at-launch"}, name) {
			return nil,
				validation(
					"Filter type %s is not correct. Allowed Filter types are: auto-scaling-group key value "+
						"propagate-at-launch", name)
		}
	}
	var all []types.TagDescription
	for _, row := range rows {
		for _, t := range row.Value.Tags {
			propagate := "false"
			if t.PropagateAtLaunch {
				propagate = "true"
			}
			has := map[string]string{"auto-scaling-group": row.Value.Name, "key": t.Key, "value": t.Value,
				"propagate-at-launch": propagate}
			if !slices.ContainsFunc(in.Filters, func(f types.Filter) bool {
				return !slices.Contains(f.Values,
					has[*f.Name])
			}) {
				all = append(all, showTag(row.Value.Name, t))
			}
		}
	}
	all, next, err := paginate(ctx, all, pagesOf50Or100, in.MaxRecords, in.NextToken,
		func(t types.TagDescription) string { return store.Key(*t.ResourceId, *t.Key) })
	if err != nil {
		return nil, err
	}
	return &autoscaling.DescribeTagsOutput{Tags: cmpOrEmpty(all), NextToken: next}, nil
}
