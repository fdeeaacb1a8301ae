package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// NewTarget returns an action on a resource, without condition keys.
func NewTarget(action, resource string) wire.Target {
	return wire.Target{Action: action, Resource: resource, Conditions: map[string][]string{}}
}

// TargetWith returns the one target of a request, with the condition keys that the request adds.
func TargetWith(t wire.Target, edits []func(Conditions)) []wire.Target {
	for _, edit := range edits {
		edit(t.Conditions)
	}
	return []wire.Target{t}
}

// WithTagging returns the targets of a request that creates what has that ARN with tags: as on AWS, who names tags
// needs the permission to tag it, too.
func WithTagging(targets []wire.Target, arn string, tags map[string]string) []wire.Target {
	for key := range tags {
		if !wire.IsReservedTag(key) {
			t := NewTarget("eks:TagResource", arn)
			Conditions(t.Conditions).RequestTags(tags)
			return append(targets, t)
		}
	}
	return targets
}

// OnCluster returns a cluster as the target, whether or not it exists: only who may ask may learn that. It may be a
// connected one.
func (r *Records) OnCluster(
	ctx context.Context, action string, name *string, edits ...func(Conditions),
) ([]wire.Target, error) {
	at := ScopeOf(ctx)
	t := NewTarget(action, at.ClusterARN(aws.ToString(name)))
	row, err := r.Clusters.Get(ctx, at.ClusterKey(aws.ToString(name)))
	switch {
	case err == nil:
		Conditions(t.Conditions).ResourceTags(row.Value.Tags)
		return TargetWith(t, edits), nil
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	connected, err := r.Connected.Get(ctx, at.ClusterKey(aws.ToString(name)))
	switch {
	case err == nil:
		Conditions(t.Conditions).ResourceTags(connected.Value.Tags)
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	return TargetWith(t, edits), nil
}

// OnNodegroup returns a node group as the target. The ARN of one that does not exist ends in a "*" for its ID.
func (r *Records) OnNodegroup(ctx context.Context, action string, cluster, name *string) ([]wire.Target, error) {
	at := ScopeOf(ctx)
	n := record.Nodegroup{
		Account: at.Account, Region: at.Region, Cluster: aws.ToString(cluster), Name: aws.ToString(name), ID: "*",
	}
	row, err := r.Nodegroups.Get(ctx, n.Key())
	switch {
	case err == nil:
		n = row.Value
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	t := NewTarget(action, n.ARN())
	Conditions(t.Conditions).ResourceTags(n.Tags)
	return []wire.Target{t}, nil
}

// OnFargateProfile returns a Fargate profile as the target. The ARN of one that does not exist ends in a "*" for its
// ID.
func (r *Records) OnFargateProfile(ctx context.Context, action string, cluster, name *string) ([]wire.Target, error) {
	at := ScopeOf(ctx)
	p := record.FargateProfile{
		Account: at.Account, Region: at.Region, Cluster: aws.ToString(cluster), Name: aws.ToString(name), ID: "*",
	}
	row, err := r.FargateProfiles.Get(ctx, p.Key())
	switch {
	case err == nil:
		p = row.Value
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	t := NewTarget(action, p.ARN())
	Conditions(t.Conditions).ResourceTags(p.Tags)
	return []wire.Target{t}, nil
}

// OnAddon returns an add-on as the target. The ARN of one that does not exist ends in a "*" for its ID.
func (r *Records) OnAddon(ctx context.Context, action string, cluster, name *string) ([]wire.Target, error) {
	at := ScopeOf(ctx)
	a := record.Addon{
		Account: at.Account, Region: at.Region, Cluster: aws.ToString(cluster), Name: aws.ToString(name), ID: "*",
	}
	row, err := r.Addons.Get(ctx, a.Key())
	switch {
	case err == nil:
		a = row.Value
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	t := NewTarget(action, a.ARN())
	Conditions(t.Conditions).ResourceTags(a.Tags)
	return []wire.Target{t}, nil
}

// OnCapability returns a capability as the target. The ARN of one that does not exist has a "*" for its type and ID.
func (r *Records) OnCapability(ctx context.Context, action string, cluster, name *string) ([]wire.Target, error) {
	at := ScopeOf(ctx)
	c := record.Capability{
		Account: at.Account, Region: at.Region, Cluster: aws.ToString(cluster), Name: aws.ToString(name), ID: "*",
	}
	row, err := r.Capabilities.Get(ctx, c.Key())
	switch {
	case err == nil:
		c = row.Value
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	t := NewTarget(action, c.ARN())
	Conditions(t.Conditions).ResourceTags(c.Tags)
	return []wire.Target{t}, nil
}

// OnSubscription returns an EKS Anywhere subscription as the target, whether or not it exists.
func (r *Records) OnSubscription(ctx context.Context, action string, id *string) ([]wire.Target, error) {
	at := ScopeOf(ctx)
	s := record.AnywhereSubscription{Account: at.Account, Region: at.Region, ID: aws.ToString(id)}
	row, err := r.Subscription(ctx, s.ID)
	var missing *types.ResourceNotFoundException
	switch {
	case err == nil:
		s = row.Value
	case !errors.As(err, &missing): // the operation says so, to those who may ask
		return nil, err
	}
	t := NewTarget(action, s.ARN())
	Conditions(t.Conditions).ResourceTags(s.Tags)
	return []wire.Target{t}, nil
}

// OnAssociation returns a pod identity association as the target.
func OnAssociation(action string, p record.PodIdentityAssociation) wire.Target {
	t := NewTarget(action, p.ARN())
	Conditions(t.Conditions).ResourceTags(p.Tags)
	return t
}

// Conditions are the condition keys of a request. A key for a member that the request leaves out is not set.
type Conditions map[string][]string

// Text sets a key to a value, unless the value is empty.
func (c Conditions) Text(key, value string) {
	if value != "" {
		c[key] = []string{value}
	}
}

// List sets a key to values, unless there are none.
func (c Conditions) List(key string, values []string) {
	if len(values) > 0 {
		c[key] = values
	}
}

// Flag sets a key to true or false, unless the value is nil.
func (c Conditions) Flag(key string, value *bool) {
	if value != nil {
		c[key] = []string{fmt.Sprint(*value)}
	}
}

// ResourceTags sets aws:ResourceTag/... to the tags of the resource that the request is about.
func (c Conditions) ResourceTags(tags map[string]string) {
	for k, v := range tags {
		c["aws:ResourceTag/"+k] = []string{v}
	}
}

// RequestTags sets aws:RequestTag/... and aws:TagKeys to the tags that the request gives.
func (c Conditions) RequestTags(tags map[string]string) {
	var keys []string
	for k, v := range tags {
		keys = append(keys, k)
		c["aws:RequestTag/"+k] = []string{v}
	}
	slices.Sort(keys)
	c.List("aws:TagKeys", keys)
}
