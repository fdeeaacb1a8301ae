// Package tagging serves the operations of the EKS API on tags, of any resource that has an ARN.
//
// https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html
package tagging

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Service serves the operations on tags.
type Service struct{ *resource.Records }

// New returns the service over the records.
func New(records *resource.Records) *Service { return &Service{records} }

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) { mux.Register(wire.EKS, s.handlers()...) }

func badRequest(format string, args ...any) error {
	return &types.BadRequestException{Message: new(fmt.Sprintf(format, args...))}
}

// tagged is what an ARN of this service names. The keys of what it isn't are empty.
type tagged struct {
	cluster, entry, nodegroup, addon, association string
}

// resourceOf finds what an ARN names, and its tags.
func (s *Service) resourceOf(ctx context.Context, arn string) (tagged, map[string]string, error) {
	at := resource.PlaceOf(ctx)
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[1] != "aws" || parts[2] != "eks" {
		return tagged{}, nil, badRequest("Invalid ARN: %s is not the ARN of an Amazon EKS resource", arn)
	}
	missing := &types.NotFoundException{Message: new(fmt.Sprintf("The specified resource could not be found: %s", arn))}
	if parts[3] != at.Region || parts[4] != at.Account {
		return tagged{}, nil, missing
	}
	kind, rest, _ := strings.Cut(parts[5], "/")
	name, _, _ := strings.Cut(rest, "/")
	row, err := s.Clusters.Get(ctx, at.ClusterKey(name))
	if errors.Is(err, store.ErrNotFound) {
		return tagged{}, nil, missing
	} else if err != nil {
		return tagged{}, nil, err
	}
	switch {
	case kind == "cluster" && rest == name:
		return tagged{cluster: row.Key}, row.Value.Tags, nil
	case kind == "nodegroup":
		groups, err := s.NodegroupsOf(ctx, row.Value)
		if err != nil {
			return tagged{}, nil, err
		}
		for _, n := range groups {
			if n.ARN() == arn {
				return tagged{nodegroup: n.Key()}, n.Tags, nil
			}
		}
	case kind == "addon":
		addons, err := s.AddonsOf(ctx, row.Value)
		if err != nil {
			return tagged{}, nil, err
		}
		for _, a := range addons {
			if a.ARN() == arn {
				return tagged{addon: a.Key()}, a.Tags, nil
			}
		}
	case kind == "podidentityassociation":
		rows, err := s.AssociationsIn(ctx, row.Value)
		if err != nil {
			return tagged{}, nil, err
		}
		for _, r := range rows {
			if r.Value.ARN() == arn {
				return tagged{association: r.Key}, r.Value.Tags, nil
			}
		}
	case kind == "access-entry":
		entries, err := s.EntriesOf(ctx, row.Value)
		if err != nil {
			return tagged{}, nil, err
		}
		for _, e := range entries {
			if resource.EntryARN(at, e.Value, name) == arn {
				return tagged{entry: e.Key}, e.Value.Tags, nil
			}
		}
	}
	return tagged{}, nil, missing
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
		_, err = s.AccessEntries.Modify(ctx, r.entry, func(e *record.AccessEntry) error { return change(&e.Tags) })
	case r.nodegroup != "":
		_, err = s.Nodegroups.Modify(ctx, r.nodegroup, func(n *record.Nodegroup) error { return change(&n.Tags) })
	case r.addon != "":
		_, err = s.Addons.Modify(ctx, r.addon, func(a *record.Addon) error { return change(&a.Tags) })
	case r.association != "":
		_, err = s.Associations.Modify(
			ctx, r.association, func(p *record.PodIdentityAssociation) error { return change(&p.Tags) },
		)
	default:
		_, err = s.Clusters.Modify(ctx, r.cluster, func(c *record.Cluster) error { return change(&c.Tags) })
	}
	if errors.Is(err, store.ErrNotFound) {
		return &types.NotFoundException{Message: new(fmt.Sprintf("The specified resource could not be found: %s", arn))}
	}
	return err
}

// handlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.TagResource, func(
			ctx context.Context, action string, in *eks.TagResourceInput,
		) ([]wire.Target, error) {
			return s.onTagged(ctx, action, in.ResourceArn, func(c resource.Conditions) { c.RequestTags(in.Tags) })
		}),
		wire.Handle(s.UntagResource, func(
			ctx context.Context, action string, in *eks.UntagResourceInput,
		) ([]wire.Target, error) {
			return s.onTagged(
				ctx, action, in.ResourceArn, func(c resource.Conditions) { c.List("aws:TagKeys", in.TagKeys) },
			)
		}),
		wire.Handle(s.ListTagsForResource, func(
			ctx context.Context, action string, in *eks.ListTagsForResourceInput,
		) ([]wire.Target, error) {
			return s.onTagged(ctx, action, in.ResourceArn)
		}),
	}
}

// TagResource adds tags to a cluster, or to an access entry, node group, add-on or pod identity association of one, or
// changes their values.
func (s *Service) TagResource(ctx context.Context, in *eks.TagResourceInput) (*eks.TagResourceOutput, error) {
	if len(in.Tags) == 0 {
		return nil, badRequest("tags must have at least one member")
	}
	if fault := resource.TagFault(in.Tags); fault != "" {
		return nil, badRequest("%s", fault)
	}
	err := s.retag(ctx, aws.ToString(in.ResourceArn), func(tags map[string]string) error {
		maps.Copy(tags, in.Tags)
		if len(tags) > resource.MaxTags {
			return badRequest(
				"The number of tags exceeds the limit of %d: the resource would have %d", resource.MaxTags, len(tags),
			)
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
	if len(in.TagKeys) == 0 || len(in.TagKeys) > resource.MaxTags {
		return nil, badRequest("tagKeys must have between 1 and %d members", resource.MaxTags)
	}
	for _, k := range in.TagKeys {
		if fault := resource.TagKeyFault(k); fault != "" {
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
func (s *Service) ListTagsForResource(
	ctx context.Context, in *eks.ListTagsForResourceInput,
) (*eks.ListTagsForResourceOutput, error) {
	_, tags, err := s.resourceOf(ctx, aws.ToString(in.ResourceArn))
	if err != nil {
		return nil, err
	}
	if tags == nil {
		tags = map[string]string{}
	}
	return &eks.ListTagsForResourceOutput{Tags: tags}, nil
}

// onTagged returns what an ARN names as the target.
func (s *Service) onTagged(
	ctx context.Context, action string, arn *string, edits ...func(resource.Conditions),
) ([]wire.Target, error) {
	t := resource.NewTarget(action, aws.ToString(arn))
	_, tags, err := s.resourceOf(ctx, t.Resource)
	var malformed *types.BadRequestException
	var missing *types.NotFoundException
	switch {
	case err == nil:
		resource.Conditions(t.Conditions).ResourceTags(tags)
	case !errors.As(err, &malformed) && !errors.As(err, &missing): // the operation says so, to those who may ask
		return nil, err
	}
	return resource.TargetWith(t, edits), nil
}
