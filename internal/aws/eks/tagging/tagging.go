// Package tagging serves the operations of the EKS API on tags, of any resource that has an ARN.
//
// https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html
package tagging

import (
	"cmp"
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

// tagged is a resource that has tags.
type tagged struct {
	tags map[string]string
	// modify changes the tags, if the resource is still there.
	modify func(change func(*map[string]string) error) error
}

// resourceOf finds what an ARN names.
func (s *Service) resourceOf(ctx context.Context, arn string) (tagged, error) {
	at := resource.ScopeOf(ctx)
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[1] != "aws" || parts[2] != "eks" {
		return tagged{}, badRequest("Invalid ARN: %s is not the ARN of an Amazon EKS resource", arn)
	}
	if parts[3] != at.Region || parts[4] != at.Account {
		return tagged{}, notFound(arn)
	}
	kind, rest, _ := strings.Cut(parts[5], "/")
	if kind == "eks-anywhere-subscription" {
		key, err := s.SubscriptionKey(ctx, rest)
		if err != nil || key == "" {
			return tagged{}, cmp.Or(err, notFound(arn))
		}
		return find(ctx, s.Subscriptions, key, arn,
			func(v *record.AnywhereSubscription) (string, *map[string]string) { return v.ARN(), &v.Tags })
	}
	cluster, rest, nested := strings.Cut(rest, "/")
	row, err := s.Clusters.Get(ctx, at.ClusterKey(cluster))
	if errors.Is(err, store.ErrNotFound) && kind == "cluster" && !nested {
		return find(ctx, s.Connected, at.ClusterKey(cluster), arn,
			func(c *record.ConnectedCluster) (string, *map[string]string) { return c.ARN(), &c.Tags })
	} else if errors.Is(err, store.ErrNotFound) {
		return tagged{}, notFound(arn)
	} else if err != nil {
		return tagged{}, err
	}
	c := row.Value
	name, _, _ := strings.Cut(rest, "/")
	switch {
	case kind == "cluster" && !nested:
		return find(ctx, s.Clusters, row.Key, arn,
			func(c *record.Cluster) (string, *map[string]string) { return c.ARN(), &c.Tags })
	case kind == "nodegroup":
		return find(ctx, s.Nodegroups, record.NodegroupKey(c.Account, c.Region, c.Name, name), arn,
			func(n *record.Nodegroup) (string, *map[string]string) {
				return ofCluster(c, n.ClusterID, n.ARN()), &n.Tags
			})
	case kind == "fargateprofile":
		return find(ctx, s.FargateProfiles, record.FargateProfileKey(c.Account, c.Region, c.Name, name), arn,
			func(p *record.FargateProfile) (string, *map[string]string) {
				return ofCluster(c, p.ClusterID, p.ARN()), &p.Tags
			})
	case kind == "addon":
		return find(ctx, s.Addons, record.AddonKey(c.Account, c.Region, c.Name, name), arn,
			func(a *record.Addon) (string, *map[string]string) {
				return ofCluster(c, a.ClusterID, a.ARN()), &a.Tags
			})
	case kind == "capability":
		_, rest, _ := strings.Cut(rest, "/") // the type is before the name
		name, _, _ := strings.Cut(rest, "/")
		return find(ctx, s.Capabilities, record.CapabilityKey(c.Account, c.Region, c.Name, name), arn,
			func(v *record.Capability) (string, *map[string]string) {
				return ofCluster(c, v.ClusterID, v.ARN()), &v.Tags
			})
	case kind == "podidentityassociation":
		return find(ctx, s.Associations, record.PodIdentityAssociationKey(c.Account, c.Region, c.Name, name), arn,
			func(p *record.PodIdentityAssociation) (string, *map[string]string) {
				return ofCluster(c, p.ClusterID, p.ARN()), &p.Tags
			})
	case kind == "identityproviderconfig":
		return find(ctx, s.Clusters, row.Key, arn, func(c *record.Cluster) (string, *map[string]string) {
			p := c.TrustedProvider()
			if p == nil {
				return "", new(map[string]string)
			}
			return p.ARN(*c), &p.Tags
		})
	case kind == "access-entry":
		entries, err := s.EntriesOf(ctx, c)
		if err != nil {
			return tagged{}, err
		}
		for _, e := range entries { // the ARN does not have the path of the principal, which the key has
			if resource.EntryARN(at, e.Value, c.Name) == arn {
				return find(ctx, s.AccessEntries, e.Key, arn,
					func(e *record.AccessEntry) (string, *map[string]string) {
						return ofCluster(c, e.ClusterID, resource.EntryARN(at, *e, c.Name)), &e.Tags
					})
			}
		}
	}
	return tagged{}, notFound(arn)
}

func notFound(arn string) error {
	return &types.NotFoundException{Message: new(fmt.Sprintf("The specified resource could not be found: %s", arn))}
}

// ofCluster returns the ARN of a resource of a cluster, "" of one that an earlier cluster of that name has left.
func ofCluster(c record.Cluster, id, arn string) string {
	if c.ID != id {
		return ""
	}
	return arn
}

// find gets the resource with a key, if it has the ARN. An authorization holds what it gets so, and no lists.
func find[T any](
	ctx context.Context, table store.Table[T], key, arn string, tagsOf func(*T) (string, *map[string]string),
) (tagged, error) {
	row, err := table.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return tagged{}, notFound(arn)
	} else if err != nil {
		return tagged{}, err
	}
	found, tags := tagsOf(&row.Value)
	if found != arn {
		return tagged{}, notFound(arn)
	}
	return tagged{*tags, func(change func(*map[string]string) error) error {
		_, err := table.Modify(ctx, key, func(v *T) error {
			found, tags := tagsOf(v)
			if found != arn {
				return notFound(arn)
			}
			return change(tags)
		})
		if errors.Is(err, store.ErrNotFound) {
			return notFound(arn)
		}
		return err
	}}, nil
}

// retag changes the tags of what an ARN names.
func (s *Service) retag(ctx context.Context, arn string, edit func(map[string]string) error) error {
	r, err := s.resourceOf(ctx, arn)
	if err != nil {
		return err
	}
	return r.modify(func(tags *map[string]string) error {
		after := maps.Clone(*tags)
		if after == nil {
			after = map[string]string{}
		}
		if err := edit(after); err != nil {
			return err
		}
		*tags = after
		return nil
	})
}

// handlers returns the handlers of this file's operations and how each is authorized.
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

// TagResource adds tags to a cluster, or to an access entry, node group, Fargate profile, add-on, capability, pod
// identity association or identity provider configuration of one, or to an EKS Anywhere subscription, or changes their
// values.
func (s *Service) TagResource(ctx context.Context, in *eks.TagResourceInput) (*eks.TagResourceOutput, error) {
	if len(in.Tags) == 0 {
		return nil, badRequest("tags must have at least one member")
	}
	if fault := resource.TagFault(ctx, in.Tags); fault != "" {
		return nil, badRequest("%s", fault)
	}
	err := s.retag(ctx, aws.ToString(in.ResourceArn), func(tags map[string]string) error {
		maps.Copy(tags, in.Tags)
		if n := wire.CountTags(tags); n > resource.MaxTags {
			return badRequest(
				"The number of tags exceeds the limit of %d: the resource would have %d", resource.MaxTags, n,
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
		if fault := resource.TagKeyFault(ctx, k); fault != "" {
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
	r, err := s.resourceOf(ctx, aws.ToString(in.ResourceArn))
	if err != nil {
		return nil, err
	}
	if r.tags == nil {
		r.tags = map[string]string{}
	}
	return &eks.ListTagsForResourceOutput{Tags: r.tags}, nil
}

// onTagged returns what an ARN names as the target.
func (s *Service) onTagged(
	ctx context.Context, action string, arn *string, edits ...func(resource.Conditions),
) ([]wire.Target, error) {
	t := resource.NewTarget(action, aws.ToString(arn))
	r, err := s.resourceOf(ctx, t.Resource)
	var malformed *types.BadRequestException
	var missing *types.NotFoundException
	switch {
	case err == nil:
		resource.Conditions(t.Conditions).ResourceTags(r.tags)
	case !errors.As(err, &malformed) && !errors.As(err, &missing): // the operation says so, to those who may ask
		return nil, err
	}
	return resource.TargetWith(t, edits), nil
}
