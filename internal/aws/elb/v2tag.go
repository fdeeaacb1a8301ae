package elb

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
)

var tagged = []string{"loadbalancer", "targetgroup", "listener", "listener-rule"}

// tagHandlers returns the handlers of this file's operations and how each is authorized.
func (s V2) tagHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AddTags, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.AddTagsInput,
		) ([]wire.Target, error) {
			var all []wire.Target
			for _, arn := range in.ResourceArns {
				t, err := s.targetOf(ctx, action, &arn, tagged, v2Tags(in.Tags)...)
				if err != nil {
					return nil, err
				}
				all = append(all, t)
			}
			return all, nil
		}),
		wire.Handle(s.RemoveTags, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.RemoveTagsInput,
		) ([]wire.Target, error) {
			var all []wire.Target
			for _, arn := range in.ResourceArns {
				t, err := s.targetOf(ctx, action, &arn, tagged)
				if err != nil {
					return nil, err
				}
				t.Conditions["aws:TagKeys"] = in.TagKeys
				all = append(all, t)
			}
			return all, nil
		}),
		wire.Handle(s.DescribeTags, wire.OnAll),
	}
}

// changeTags changes the tags of all resources, or of none.
func (s V2) changeTags(ctx context.Context, arns []string, edit func(map[string]string) (map[string]string, error),
) error {
	if len(arns) == 0 || len(arns) > 20 || hasDuplicate(arns) {
		return invalid("1 to 20 resource ARNs must be specified, each once")
	}
	return s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		balancers := map[string]*found{} // two listeners may be of one
		for _, arn := range arns {
			n, ok := parseARN(arn, tagged...)
			if !ok {
				return invalid("'%s' is not a valid ARN", arn)
			}
			if n.kind == "targetgroup" {
				row, err := s.getGroup(c, arn)
				if err != nil {
					return err
				}
				if row.Value.Tags, err = edit(row.Value.Tags); err != nil {
					return err
				}
				c.Add("targetgroup/"+row.Key, func() store.Op { return s.groups.UpdateOp(row) })
				continue
			}
			f, err := s.find(c, arn)
			if err != nil {
				return err
			}
			if before := balancers[f.row.Key]; before != nil {
				f.row = before.row
			}
			balancers[f.row.Key] = &f
			of := f.tags()
			if of == nil {
				return wire.Errorf("OperationNotPermitted", "Default rules have no tags in coracle: '%s'", arn)
			}
			if *of, err = edit(*of); err != nil {
				return err
			}
		}
		for _, f := range balancers {
			s.planUpdate(c, f.row)
		}
		return nil
	})
}

// AddTags adds tags to load balancers, listeners, rules and target groups.
func (s V2) AddTags(ctx context.Context, in *elasticloadbalancingv2.AddTagsInput) (
	*elasticloadbalancingv2.AddTagsOutput, error) {
	return &elasticloadbalancingv2.AddTagsOutput{}, s.changeTags(ctx, in.ResourceArns,
		func(tags map[string]string) (map[string]string, error) { return applyTags(ctx, tags, v2Tags(in.Tags)) })
}

// RemoveTags removes tags from load balancers, listeners, rules and target groups.
func (s V2) RemoveTags(ctx context.Context, in *elasticloadbalancingv2.RemoveTagsInput) (
	*elasticloadbalancingv2.RemoveTagsOutput, error) {
	return &elasticloadbalancingv2.RemoveTagsOutput{}, s.changeTags(ctx, in.ResourceArns,
		func(tags map[string]string) (map[string]string, error) {
			return removeTags(ctx, tags, in.TagKeys)
		})
}

// DescribeTags describes the tags of resources, which must be named by their ARNs.
func (s V2) DescribeTags(ctx context.Context, in *elasticloadbalancingv2.DescribeTagsInput) (
	*elasticloadbalancingv2.DescribeTagsOutput, error) {
	if len(in.ResourceArns) > 20 {
		return nil, invalid("At most 20 resource ARNs can be specified")
	}
	out := &elasticloadbalancingv2.DescribeTagsOutput{TagDescriptions: []types.TagDescription{}}
	for _, arn := range in.ResourceArns {
		tags, err := s.tagsOf(ctx, arn)
		if err != nil {
			return nil, err
		}
		d := types.TagDescription{ResourceArn: aws.String(arn), Tags: []types.Tag{}}
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			d.Tags = append(d.Tags, types.Tag{Key: new(key), Value: new(tags[key])})
		}
		out.TagDescriptions = append(out.TagDescriptions, d)
	}
	return out, nil
}

func (s V2) tagsOf(ctx context.Context, arn string) (map[string]string, error) {
	n, ok := parseARN(arn, tagged...)
	if !ok {
		return nil, invalid("'%s' is not a valid ARN", arn)
	}
	if n.kind == "targetgroup" {
		g, err := s.getGroup(ctx, arn)
		return g.Value.Tags, err
	}
	f, err := s.find(ctx, arn)
	if err != nil {
		return nil, err
	}
	if of := f.tags(); of != nil {
		return *of, nil
	}
	return nil, nil
}
