// Package resource holds what the parts of the EKS API share: the objects of a cluster in the store, the resources and
// condition keys that requests are authorized for, tags, update objects, and the answer to waiters.
//
// It imports no part, and each part embeds [Records].
package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Records reads and writes the objects that more than one part of the EKS API needs.
type Records struct {
	Store           *store.Store
	Clusters        store.Table[record.Cluster]
	Connected       store.Table[record.ConnectedCluster]
	ControlPlanes   store.Table[record.ControlPlane]
	Updates         store.Table[record.Update]
	AccessEntries   store.Table[record.AccessEntry]
	Nodegroups      store.Table[record.Nodegroup]
	FargateProfiles store.Table[record.FargateProfile]
	Addons          store.Table[record.Addon]
	Associations    store.Table[record.PodIdentityAssociation]
	Capabilities    store.Table[record.Capability]
	Subscriptions   store.Table[record.AnywhereSubscription]

	Now func() time.Time
}

// NewRecords returns the records over the tables of a store.
func NewRecords(s *store.Store, now func() time.Time) *Records {
	return &Records{
		Store:           s,
		Clusters:        record.Clusters(s),
		Connected:       record.ConnectedClusters(s),
		ControlPlanes:   record.ControlPlanes(s),
		Updates:         record.Updates(s),
		AccessEntries:   record.AccessEntries(s),
		Nodegroups:      record.Nodegroups(s),
		FargateProfiles: record.FargateProfiles(s),
		Addons:          record.Addons(s),
		Associations:    record.PodIdentityAssociations(s),
		Capabilities:    record.Capabilities(s),
		Subscriptions:   record.AnywhereSubscriptions(s),
		Now:             now,
	}
}

// Scope is the account and region of a request.
type Scope struct{ Account, Region string }

// ScopeOf returns the account and region of a request.
func ScopeOf(ctx context.Context) Scope {
	return Scope{Account: wire.CallerFrom(ctx).Account, Region: wire.RegionFrom(ctx)}
}

// ClusterKey returns the key of a cluster in the store.
func (sc Scope) ClusterKey(name string) string { return record.ClusterKey(sc.Account, sc.Region, name) }

// ClusterARN returns the ARN of a cluster.
func (sc Scope) ClusterARN(name string) string {
	return record.Cluster{Account: sc.Account, Region: sc.Region, Name: name}.ARN()
}

// Cluster returns the caller's cluster of that name, or a ResourceNotFoundException.
func (r *Records) Cluster(ctx context.Context, name string) (store.Row[record.Cluster], error) {
	row, err := r.Clusters.Get(ctx, ScopeOf(ctx).ClusterKey(name))
	if errors.Is(err, store.ErrNotFound) {
		return row, exception.ClusterNotFound(name)
	}
	return row, err
}

// rowsOf returns the rows of a table that belong to a cluster, and not to an earlier one of its name. id returns the ID
// of the cluster of an object.
func rowsOf[T any](
	ctx context.Context, table store.Table[T], c record.Cluster, id func(T) string,
) ([]store.Row[T], error) {
	rows, err := table.List(ctx, store.Prefix(c.Account, c.Region, c.Name))
	return slices.DeleteFunc(rows, func(r store.Row[T]) bool { return id(r.Value) != c.ID }), err
}

// ValuesOf returns the objects of a table that belong to a cluster, and not to an earlier one of its name. id returns
// the ID of the cluster of an object.
func ValuesOf[T any](ctx context.Context, table store.Table[T], c record.Cluster, id func(T) string) ([]T, error) {
	rows, err := rowsOf(ctx, table, c, id)
	var values []T
	for _, r := range rows {
		values = append(values, r.Value)
	}
	return values, err
}

// ObservedState returns what was observed of an object: the zero value when there is nothing yet, or only something of
// an earlier object with that key, for which mine is false.
func ObservedState[T any](
	ctx context.Context, table store.Table[T], key string, mine func(T) bool,
) (state T, err error) {
	row, err := table.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && !mine(row.Value) {
		return state, nil
	}
	return row.Value, err
}

// Timestamp returns the time as the API shows it: in UTC, to the millisecond.
func (r *Records) Timestamp() time.Time { return r.Now().UTC().Truncate(time.Millisecond) }

// OrNil returns a member of an answer that is left out when it is empty.
func OrNil(v string) *string {
	if v == "" {
		return nil
	}
	return &v
}

// OrEmpty returns a list of an answer that is there even when it is empty.
func OrEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// LostRace reports whether a transaction failed because of a concurrent change of the same records: the request has to
// be checked again.
func LostRace(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound)
}

// maxPage is the maximum number of items on a page.
const maxPage = 100

// CheckMaxResults refuses a number of items that EKS does not take, for operations whose model has no range.
func CheckMaxResults(n *int32) error {
	bound := ""
	switch {
	case n != nil && *n < 1:
		bound = "greater than or equal to 1"
	case n != nil && *n > maxPage:
		bound = fmt.Sprintf("less than or equal to %d", maxPage)
	default:
		return nil
	}
	return exception.InvalidParameter("", "1 validation error detected: Value '%d' at 'maxResults' failed to satisfy "+
		"constraint: Member must have value %s", *n, bound)
}

// PageNames returns a page of a list of names.
func PageNames(ctx context.Context, names []string, maxResults *int32, token *string) ([]string, *string, error) {
	return wire.Page(ctx, names, maxResults, token, func(name string) string { return name })
}
