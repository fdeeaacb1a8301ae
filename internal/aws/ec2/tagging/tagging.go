package tagging

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// tagHandlers returns the handlers of this file's operations and how each is authorized.
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
		wire.Handle(s.DescribeTags, resource.OnRegion),
	}
}

// CreateTags adds tags to resources of any kind, or replaces their values.
func (s *Service) CreateTags(ctx context.Context, in *ec2.CreateTagsInput) (*ec2.CreateTagsOutput, error) {
	if len(in.Tags) == 0 {
		return nil, resource.MissingParameter("Tag")
	}
	return &ec2.CreateTagsOutput{}, s.eachResource(ctx, in.DryRun, in.Resources,
		func(c *resource.Change, k resource.AnyKind, id string) error {
			return c.SetTags(k.IDFormat().Resource, id, in.Tags)
		})
}

// DeleteTags removes tags: those with the given key, and the given value if there is one. Without any it removes all
// but those of AWS.
func (s *Service) DeleteTags(ctx context.Context, in *ec2.DeleteTagsInput) (*ec2.DeleteTagsOutput, error) {
	return &ec2.DeleteTagsOutput{}, s.eachResource(ctx, in.DryRun, in.Resources,
		func(c *resource.Change, k resource.AnyKind, id string) error {
			for _, t := range in.Tags {
				if !c.MaySetTag(t.Key) {
					return resource.Invalid("Tag keys starting with 'aws:' are reserved for internal use")
				}
			}
			return c.EditTags(k.IDFormat().Resource, id, func(tags map[string]string) error {
				maps.DeleteFunc(tags, func(key, value string) bool {
					if len(in.Tags) == 0 {
						return !resource.ReservedTag(&key)
					}
					return slices.ContainsFunc(in.Tags, func(t types.Tag) bool {
						return aws.ToString(t.Key) == key && (t.Value == nil || *t.Value == value)
					})
				})
				return nil
			})
		})
}

// resourcesPerChange is the number of resources that are tagged in one transaction. etcd limits the size of a
// transaction.
const resourcesPerChange = 50

// eachResource changes something about each of the resources, all of which must exist.
func (s *Service) eachResource(ctx context.Context, dryRun *bool, ids []string,
	do func(c *resource.Change, k resource.AnyKind, id string) error) error {
	if len(ids) == 0 {
		return resource.MissingParameter("resourceIdSet")
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for len(ids) > 0 {
		now := ids[:min(len(ids), resourcesPerChange)]
		if err := s.ApplyChange(ctx, dryRun, func(c *resource.Change) error {
			for _, id := range ids {
				k, ok := s.KindForID(id)
				if !ok {
					return wire.Errorf("InvalidID", "The ID '%s' is not valid", id)
				}
				if err := k.CheckExists(c.Scope, id); err != nil {
					return err
				}
			}
			for _, id := range now {
				k, _ := s.KindForID(id)
				if err := k.RequirePresent(c, id); err != nil {
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

// DescribeTags lists the tags of the account's resources.
func (s *Service) DescribeTags(ctx context.Context, in *ec2.DescribeTagsInput) (*ec2.DescribeTagsOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.Tags.List(ctx, sc.KeyPrefix())
	if err != nil {
		return nil, err
	}
	var all []resource.Item[types.TagDescription]
	for _, row := range rows {
		for _, t := range resource.TagList(row.Value.Tags) {
			all = append(
				all,
				resource.Item[types.TagDescription]{ID: row.Value.ResourceID + " " + *t.Key, View: types.TagDescription{
					Key: t.Key, Value: t.Value, ResourceId: aws.String(row.Value.ResourceID),
					ResourceType: row.Value.ResourceType,
				}},
			)
		}
	}
	slices.SortFunc(all, func(a, b resource.Item[types.TagDescription]) int { return strings.Compare(a.ID, b.ID) })
	tags, next, err := resource.DescribeItems(
		ctx,
		resource.Query{Operation: "DescribeTags", DryRun: in.DryRun, Filters: in.Filters, Max: in.MaxResults,
			Token: in.NextToken},
		all,
		resource.Filters[types.TagDescription]{
			"key":           resource.StringFilter(func(t types.TagDescription) *string { return t.Key }),
			"value":         resource.StringFilter(func(t types.TagDescription) *string { return t.Value }),
			"resource-id":   resource.StringFilter(func(t types.TagDescription) *string { return t.ResourceId }),
			"resource-type": resource.EnumFilter(func(t types.TagDescription) types.ResourceType { return t.ResourceType }),
		},
		func(t types.TagDescription) []types.Tag { return []types.Tag{{Key: t.Key, Value: t.Value}} },
	)
	if err != nil {
		return nil, err
	}
	return &ec2.DescribeTagsOutput{Tags: tags, NextToken: next}, nil
}

// maxKeys limits the tags that a request may delete: each is a condition key of each of its resources, of which package
// wire allows 1,000, as AWS does.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateTags.html
const maxKeys = 2 * resource.MaxTags

// onTagged returns the resources whose tags a request changes as the targets.
func (s *Service) onTagged(ctx context.Context, action string, ids []string, tags []types.Tag) ([]wire.Target, error) {
	if len(tags) > maxKeys {
		return nil, wire.Errorf("TagLimitExceeded", "The request has %d tags; the maximum is %d.", len(tags), maxKeys)
	}
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	var targets []wire.Target
	for _, id := range ids {
		resourceType := types.ResourceType("*")
		if k, ok := s.KindForID(id); ok {
			resourceType = k.IDFormat().Resource
		}
		target := s.ResourceTarget(sc, action, resourceType, id)
		resource.AddRequestTags(target.Conditions, tags)
		targets = append(targets, target)
	}
	return targets, nil
}

// onUntagged returns the resources whose tags a request deletes as the targets. Without tags it deletes those that a
// resource has.
func (s *Service) onUntagged(ctx context.Context, action string, in *ec2.DeleteTagsInput) ([]wire.Target, error) {
	targets, err := s.onTagged(ctx, action, in.Resources, in.Tags)
	if err != nil || len(in.Tags) > 0 {
		return targets, err
	}
	at, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	for i, id := range in.Resources {
		var keys []string
		for _, t := range s.ListTags(at, id) {
			if !resource.ReservedTag(t.Key) {
				keys = append(keys, *t.Key)
			}
		}
		if len(keys) > 0 {
			targets[i].Conditions["aws:TagKeys"] = keys
		}
	}
	return targets, nil
}
