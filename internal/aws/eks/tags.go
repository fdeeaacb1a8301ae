package eks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

const (
	maxTags         = 50
	longestTagKey   = 128 // characters
	longestTagValue = 256
)

// tagFault says what is wrong with tags as a user gives them; nothing, mostly.
// https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html
func tagFault(tags map[string]string) string {
	if len(tags) > maxTags {
		return fmt.Sprintf("The number of tags exceeds the limit of %d: %d were specified", maxTags, len(tags))
	}
	for k, v := range tags {
		if fault := tagKeyFault(k); fault != "" {
			return fault
		}
		if n := utf8.RuneCountInString(v); n > longestTagValue {
			return fmt.Sprintf("The value of tag %s can't be longer than %d characters, but has %d", k, longestTagValue, n)
		}
	}
	return ""
}

func tagKeyFault(k string) string {
	switch n := utf8.RuneCountInString(k); {
	case n == 0:
		return "A tag key can't be empty"
	case n > longestTagKey:
		return fmt.Sprintf("Tag key %s can't be longer than %d characters, but has %d", k, longestTagKey, n)
	case strings.HasPrefix(strings.ToLower(k), "aws:"):
		return fmt.Sprintf("Tag key %s is invalid: the prefix aws: is reserved for system use", k)
	}
	return ""
}

func badRequest(format string, args ...any) error {
	return &types.BadRequestException{Message: new(fmt.Sprintf(format, args...))}
}

// resource is what an ARN of this service names. The keys of what it isn't are empty.
type resource struct {
	cluster, entry, nodegroup, addon, association string
}

// resourceOf finds what an ARN names, and its tags.
func (s *Service) resourceOf(ctx context.Context, arn string) (resource, map[string]string, error) {
	at := placeOf(ctx)
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[1] != "aws" || parts[2] != "eks" {
		return resource{}, nil, badRequest("Invalid ARN: %s is not the ARN of an Amazon EKS resource", arn)
	}
	missing := &types.NotFoundException{Message: new(fmt.Sprintf("The specified resource could not be found: %s", arn))}
	if parts[3] != at.region || parts[4] != at.account {
		return resource{}, nil, missing
	}
	kind, rest, _ := strings.Cut(parts[5], "/")
	name, _, _ := strings.Cut(rest, "/")
	row, err := s.clusters.Get(ctx, at.clusterKey(name))
	if errors.Is(err, store.ErrNotFound) {
		return resource{}, nil, missing
	} else if err != nil {
		return resource{}, nil, err
	}
	switch {
	case kind == "cluster" && rest == name:
		return resource{cluster: row.Key}, row.Value.Tags, nil
	case kind == "nodegroup":
		groups, err := s.nodegroupsOf(ctx, row.Value)
		if err != nil {
			return resource{}, nil, err
		}
		for _, n := range groups {
			if n.ARN() == arn {
				return resource{nodegroup: n.Key()}, n.Tags, nil
			}
		}
	case kind == "addon":
		addons, err := s.addonsOf(ctx, row.Value)
		if err != nil {
			return resource{}, nil, err
		}
		for _, a := range addons {
			if a.ARN() == arn {
				return resource{addon: a.Key()}, a.Tags, nil
			}
		}
	case kind == "podidentityassociation":
		rows, err := s.associationsIn(ctx, row.Value)
		if err != nil {
			return resource{}, nil, err
		}
		for _, r := range rows {
			if r.Value.ARN() == arn {
				return resource{association: r.Key}, r.Value.Tags, nil
			}
		}
	case kind == "access-entry":
		entries, err := s.entriesOf(ctx, row.Value)
		if err != nil {
			return resource{}, nil, err
		}
		for _, e := range entries {
			if entryARN(at, e.Value, name) == arn {
				return resource{entry: e.Key}, e.Value.Tags, nil
			}
		}
	}
	return resource{}, nil, missing
}

// retag changes the tags of what an ARN names.
func (s *Service) retag(ctx context.Context, arn string, edit func(map[string]string) error) error {
	r, _, err := s.resourceOf(ctx, arn)
	if err != nil {
		return err
	}
	change := func(tags *map[string]string) error {
		after := maps.Clone(*tags)
		if after == nil {
			after = map[string]string{}
		}
		if err := edit(after); err != nil {
			return err
		}
		*tags = after
		return nil
	}
	switch {
	case r.entry != "":
		_, err = s.accessEntries.Modify(ctx, r.entry, func(e *record.AccessEntry) error { return change(&e.Tags) })
	case r.nodegroup != "":
		_, err = s.nodegroups.Modify(ctx, r.nodegroup, func(n *record.Nodegroup) error { return change(&n.Tags) })
	case r.addon != "":
		_, err = s.addons.Modify(ctx, r.addon, func(a *record.Addon) error { return change(&a.Tags) })
	case r.association != "":
		_, err = s.associations.Modify(ctx, r.association, func(p *record.PodIdentityAssociation) error { return change(&p.Tags) })
	default:
		_, err = s.clusters.Modify(ctx, r.cluster, func(c *record.Cluster) error { return change(&c.Tags) })
	}
	if errors.Is(err, store.ErrNotFound) {
		return &types.NotFoundException{Message: new(fmt.Sprintf("The specified resource could not be found: %s", arn))}
	}
	return err
}

// tagHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) tagHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.TagResource, func(
			ctx context.Context, action string, in *eks.TagResourceInput,
		) ([]wire.Target, error) {
			return s.onTagged(ctx, action, in.ResourceArn, func(c conditions) { c.requestTags(in.Tags) })
		}),
		wire.Handle(s.UntagResource, func(
			ctx context.Context, action string, in *eks.UntagResourceInput,
		) ([]wire.Target, error) {
			return s.onTagged(ctx, action, in.ResourceArn, func(c conditions) { c.list("aws:TagKeys", in.TagKeys) })
		}),
		wire.Handle(s.ListTagsForResource, func(
			ctx context.Context, action string, in *eks.ListTagsForResourceInput,
		) ([]wire.Target, error) {
			return s.onTagged(ctx, action, in.ResourceArn)
		}),
	}
}

// TagResource adds tags to a cluster, or to an access entry, node group, add-on or pod identity association of one, or changes their values.
func (s *Service) TagResource(ctx context.Context, in *eks.TagResourceInput) (*eks.TagResourceOutput, error) {
	if len(in.Tags) == 0 {
		return nil, badRequest("tags must have at least one member")
	}
	if fault := tagFault(in.Tags); fault != "" {
		return nil, badRequest("%s", fault)
	}
	err := s.retag(ctx, aws.ToString(in.ResourceArn), func(tags map[string]string) error {
		maps.Copy(tags, in.Tags)
		if len(tags) > maxTags {
			return badRequest("The number of tags exceeds the limit of %d: the resource would have %d", maxTags, len(tags))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &eks.TagResourceOutput{}, nil
}

// UntagResource removes tags from what has them.
func (s *Service) UntagResource(ctx context.Context, in *eks.UntagResourceInput) (*eks.UntagResourceOutput, error) {
	if len(in.TagKeys) == 0 || len(in.TagKeys) > maxTags {
		return nil, badRequest("tagKeys must have between 1 and %d members", maxTags)
	}
	for _, k := range in.TagKeys {
		if fault := tagKeyFault(k); fault != "" {
			return nil, badRequest("%s", fault)
		}
	}
	err := s.retag(ctx, aws.ToString(in.ResourceArn), func(tags map[string]string) error {
		for _, k := range in.TagKeys {
			delete(tags, k)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &eks.UntagResourceOutput{}, nil
}

// ListTagsForResource lists the tags of what has them.
func (s *Service) ListTagsForResource(ctx context.Context, in *eks.ListTagsForResourceInput) (*eks.ListTagsForResourceOutput, error) {
	_, tags, err := s.resourceOf(ctx, aws.ToString(in.ResourceArn))
	if err != nil {
		return nil, err
	}
	if tags == nil {
		tags = map[string]string{}
	}
	return &eks.ListTagsForResourceOutput{Tags: tags}, nil
}
