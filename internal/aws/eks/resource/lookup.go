package resource

import (
	"context"
	"errors"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Nodegroup returns a copy of a node group of the caller's cluster, and the cluster; or a ResourceNotFoundException.
func (r *Records) Nodegroup(
	ctx context.Context, cluster, name string,
) (store.Row[record.Nodegroup], store.Row[record.Cluster], error) {
	at := ScopeOf(ctx)
	c, err := r.Cluster(ctx, cluster)
	if err != nil {
		return store.Row[record.Nodegroup]{}, c, err
	}
	row, err := r.Nodegroups.Copy(ctx, record.NodegroupKey(at.Account, at.Region, cluster, name))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ClusterID != c.Value.ID {
		about := exception.About{Cluster: cluster, Nodegroup: name}
		return row, c, about.NotFound("No node group found for name: %s.", name)
	}
	return row, c, err
}

// NodegroupsOf returns a cluster's managed node groups.
func (r *Records) NodegroupsOf(ctx context.Context, c record.Cluster) ([]record.Nodegroup, error) {
	return ValuesOf(ctx, r.Nodegroups, c, func(n record.Nodegroup) string { return n.ClusterID })
}

// FargateProfile returns a copy of a Fargate profile of the caller's cluster, and the cluster; or a
// ResourceNotFoundException.
func (r *Records) FargateProfile(
	ctx context.Context, cluster, name string,
) (store.Row[record.FargateProfile], store.Row[record.Cluster], error) {
	at := ScopeOf(ctx)
	c, err := r.Cluster(ctx, cluster)
	if err != nil {
		return store.Row[record.FargateProfile]{}, c, err
	}
	row, err := r.FargateProfiles.Copy(ctx, record.FargateProfileKey(at.Account, at.Region, cluster, name))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ClusterID != c.Value.ID {
		about := exception.About{Cluster: cluster, FargateProfile: name}
		return row, c, about.NotFound("No Fargate Profile found with name: %s.", name)
	}
	return row, c, err
}

// FargateProfilesOf returns a cluster's Fargate profiles, by name.
func (r *Records) FargateProfilesOf(ctx context.Context, c record.Cluster) ([]record.FargateProfile, error) {
	return ValuesOf(ctx, r.FargateProfiles, c, func(p record.FargateProfile) string { return p.ClusterID })
}

// Addon returns a copy of an add-on of the caller's cluster, and the cluster; or a ResourceNotFoundException.
func (r *Records) Addon(
	ctx context.Context, about exception.About,
) (store.Row[record.Addon], store.Row[record.Cluster], error) {
	c, err := r.Cluster(ctx, about.Cluster)
	if err != nil {
		return store.Row[record.Addon]{}, c, err
	}
	row, err := r.Addons.Copy(ctx, record.AddonKey(c.Value.Account, c.Value.Region, about.Cluster, about.Addon))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ClusterID != c.Value.ID {
		return row, c, about.NotFound("No addon: %s found in cluster: %s", about.Addon, about.Cluster)
	}
	return row, c, err
}

// AddonsOf returns a cluster's add-ons.
func (r *Records) AddonsOf(ctx context.Context, c record.Cluster) ([]record.Addon, error) {
	return ValuesOf(ctx, r.Addons, c, func(a record.Addon) string { return a.ClusterID })
}

// Capability returns a copy of a capability of the caller's cluster, and the cluster; or a ResourceNotFoundException.
func (r *Records) Capability(
	ctx context.Context, cluster, name string,
) (store.Row[record.Capability], store.Row[record.Cluster], error) {
	c, err := r.Cluster(ctx, cluster)
	if err != nil {
		return store.Row[record.Capability]{}, c, err
	}
	row, err := r.Capabilities.Copy(ctx, record.CapabilityKey(c.Value.Account, c.Value.Region, cluster, name))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ClusterID != c.Value.ID {
		return row, c, exception.NotFound(cluster, "No capability found with name: %s in cluster: %s.", name, cluster)
	}
	return row, c, err
}

// CapabilitiesOf returns a cluster's capabilities, by name.
func (r *Records) CapabilitiesOf(ctx context.Context, c record.Cluster) ([]record.Capability, error) {
	return ValuesOf(ctx, r.Capabilities, c, func(p record.Capability) string { return p.ClusterID })
}

// Subscription returns a copy of an EKS Anywhere subscription of the caller's account and region, or a
// ResourceNotFoundException.
func (r *Records) Subscription(ctx context.Context, id string) (store.Row[record.AnywhereSubscription], error) {
	key, err := r.SubscriptionKey(ctx, id)
	if err != nil {
		return store.Row[record.AnywhereSubscription]{}, err
	}
	row, err := r.Subscriptions.Copy(ctx, key)
	if key == "" || errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ID != id {
		return row, exception.About{Subscription: id}.NotFound("No subscription found for id: %s.", id)
	}
	return row, err
}

// SubscriptionKey returns the key of the EKS Anywhere subscription with an ID, "" when there is none.
func (r *Records) SubscriptionKey(ctx context.Context, id string) (string, error) {
	at := ScopeOf(ctx)
	rows, _, err := record.AnywhereSubscriptionsByID(r.Store).Page(ctx, store.Key(at.Account, at.Region, id), "", 1)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0].Key, nil
}

// AssociationsIn returns the pod identity associations of a cluster.
func (r *Records) AssociationsIn(
	ctx context.Context, c record.Cluster,
) ([]store.Row[record.PodIdentityAssociation], error) {
	return rowsOf(ctx, r.Associations, c, func(p record.PodIdentityAssociation) string { return p.ClusterID })
}

// AssociationOf returns the pod identity association of a service account of a cluster; found is false when there is
// none. It reads no other: each new pod asks for it, and no account is charged for that.
func AssociationOf(
	ctx context.Context, table store.Table[record.PodIdentityAssociation], c record.Cluster, namespace, account string,
) (p record.PodIdentityAssociation, found bool, err error) {
	bySubject := store.NewIndex(table, "subject", func(p record.PodIdentityAssociation) string {
		return store.Key(p.ClusterID, p.Namespace, p.ServiceAccount)
	})
	rows, _, err := bySubject.Page(ctx, store.Key(c.ID, namespace, account), "", 1)
	if err != nil || len(rows) == 0 {
		return p, false, err
	}
	return rows[0].Value, true, nil
}

// CountAssociations returns how many pod identity associations a cluster has.
func (r *Records) CountAssociations(c record.Cluster) int {
	return store.NewIndex(r.Associations, "cluster",
		func(p record.PodIdentityAssociation) string { return p.ClusterID }).Count(c.ID)
}

// EntriesOf returns the access entries of a cluster, by principal.
func (r *Records) EntriesOf(ctx context.Context, c record.Cluster) ([]store.Row[record.AccessEntry], error) {
	return rowsOf(ctx, r.AccessEntries, c, func(e record.AccessEntry) string { return e.ClusterID })
}

// EntryARN returns the ARN of an access entry: access-entry/<cluster>/<role|user>/<account>/<name>/<uuid>.
func EntryARN(at Scope, e record.AccessEntry, cluster string) string {
	p, _ := principal.Parse(e.PrincipalARN)
	parts := []string{"arn:aws:eks:" + at.Region + ":" + at.Account + ":access-entry", cluster, p.Kind, p.Account}
	if p.Name != "" {
		parts = append(parts, p.Name)
	}
	return strings.Join(append(parts, e.ID), "/")
}
