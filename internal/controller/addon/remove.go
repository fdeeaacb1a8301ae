package addon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// removeObjects takes an add-on away, or gives up what EKS owns of it; then its rows go.
//
// The objects go in the order in which nothing misses another: what runs first, then what it ran with, definitions and
// namespaces last. With a definition (a CRD) go all objects of its kind, as on EKS. Adopted objects go like those that
// EKS made. A namespace that another manager manages too stays, since it has more in it than the add-on; and so does an
// object that another add-on, or every cluster, has as well.
func (a *addon) removeObjects(ctx context.Context) error {
	if err := a.finishUpdate(ctx, ekstypes.UpdateStatusCancelled); err != nil {
		return err
	}
	if err := a.server.watchObjects(a.row.Key(), a.state.Objects); err != nil {
		return err
	}
	if a.row.Preserve {
		for _, o := range a.state.Objects {
			if err := a.releaseObject(ctx, o); err != nil {
				return err
			}
			crashGivenUp.Here()
		}
		return a.deleteRecords(ctx)
	}
	for _, late := range []bool{false, true} {
		var all problems
		left := false
		for _, o := range slices.Backward(a.state.Objects) {
			if late != lasting(o) {
				continue
			}
			gone, since, err := a.deleteObject(ctx, o)
			if err == nil && !since.IsZero() && a.e.now().Sub(since) >= a.e.o.Patience {
				err = a.stuckDeletion(ctx, o, since)
			}
			var p *problem
			switch {
			case errors.As(err, &p):
				all = append(all, p)
			case err != nil:
				return err
			}
			left = left || !gone
			crashDeleted.Here()
		}
		if len(all) > 0 {
			return all
		}
		if left {
			a.requeueAfter(2 * time.Second) // the watch tells sooner
			return nil
		}
	}
	return a.deleteRecords(ctx)
}

// lasting reports whether pods need an object while they terminate.
func lasting(o record.AddonObject) bool {
	switch group, _, _ := strings.Cut(o.APIVersion, "/"); group {
	case "apps", "batch", "admissionregistration.k8s.io", "apiregistration.k8s.io", "policy":
		return false
	}
	return true
}

// deleteObject deletes an object that EKS manages, and says whether it is gone, or since when it is going; one of
// others counts as gone.
func (a *addon) deleteObject(ctx context.Context, o record.AddonObject) (gone bool, since time.Time, err error) {
	live, err := a.server.getObject(ctx, o)
	if apierrors.IsNotFound(err) || errors.Is(err, errNoKind) {
		return true, since, nil
	}
	if err != nil {
		return false, since, problemOf(o, err)
	}
	others, err := a.isSharedObject(ctx, o)
	if err != nil {
		return false, since, err
	}
	if others || a.isStandardObject(o) || !manages(live) || isSharedNamespace(live) {
		return true, since, a.releaseObject(ctx, o)
	}
	if at := live.GetDeletionTimestamp(); at != nil {
		return false, at.Time, nil
	}
	err = a.server.deleteObject(ctx, o, live)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is another one by now: the next look tells whose
		return false, since, nil
	}
	if err != nil {
		return false, since, problemOf(o, err)
	}
	_, err = a.server.getObject(ctx, o)
	if apierrors.IsNotFound(err) {
		return true, since, nil
	}
	if err != nil {
		return false, since, problemOf(o, err)
	}
	return false, since, nil
}

// isSharedObject reports whether another add-on of the cluster has the object too, such as a namespace.
func (a *addon) isSharedObject(ctx context.Context, o record.AddonObject) (bool, error) {
	rows, err := a.e.states.List(ctx, store.Prefix(a.row.Account, a.row.Region, a.row.Cluster))
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(rows, func(row store.Row[record.AddonState]) bool {
		return row.Key != a.row.Key() && slices.ContainsFunc(row.Value.Objects,
			func(h record.AddonObject) bool { return sameName(h, o) })
	}), nil
}

// isStandardObject reports whether the cluster has the object without its add-ons.
func (a *addon) isStandardObject(o record.AddonObject) bool {
	return a.e.o.Standard != nil && a.e.o.Standard(o)
}

// isSharedNamespace reports whether an object is a namespace that others than EKS use.
func isSharedNamespace(o *unstructured.Unstructured) bool {
	if o.GetKind() != "Namespace" || o.GetAPIVersion() != "v1" {
		return false
	}
	return slices.Contains([]string{"default", "kube-system", "kube-public", "kube-node-lease"}, o.GetName()) ||
		slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
			return !isManagedByEKS(e) && e.Subresource != "status" && e.Manager != "kube-controller-manager"
		})
}

// stuckDeletion returns the problem of an object whose deletion takes too long.
func (a *addon) stuckDeletion(ctx context.Context, o record.AddonObject, since time.Time) error {
	live, err := a.server.getObject(ctx, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return problemOf(o, err)
	}
	text := fmt.Sprintf("%s has been being deleted since %s and waits for ", resourceID(o),
		since.UTC().Format(time.RFC3339))
	finalizers := slices.DeleteFunc(live.GetFinalizers(),
		func(f string) bool { return f == metav1.FinalizerDeleteDependents })
	if len(finalizers) > 0 {
		text += "its finalizers " + strings.Join(finalizers, ", ") + ": whatever put them there has to take them away."
	} else {
		text += "what depends on it."
	}
	return refused(ekstypes.AddonIssueCodeInternalFailure, false, o, text)
}

// releaseObject makes EKS nobody to an object, which stays what it is, unless another add-on has it.
func (a *addon) releaseObject(ctx context.Context, o record.AddonObject) error {
	if others, err := a.isSharedObject(ctx, o); others || err != nil {
		return err
	}
	live, err := a.server.getObject(ctx, o)
	if apierrors.IsNotFound(err) || errors.Is(err, errNoKind) {
		return nil
	}
	if err != nil {
		return problemOf(o, err)
	}
	if !manages(live) {
		return nil
	}
	err = a.server.replaceManagers(ctx, o, live, slices.DeleteFunc(live.GetManagedFields(), isManagedByEKS))
	if err != nil && !apierrors.IsNotFound(err) {
		return problemOf(o, err)
	}
	return nil
}

// deleteRecords removes the add-on from the store: its updates, and then itself with what was observed of it and the
// associations that it owns, which outlive it with Preserve.
func (a *addon) deleteRecords(ctx context.Context) error {
	e, key := a.e, a.row.Key()
	below := store.Prefix(a.row.Account, a.row.Region, a.row.Cluster)
	updates, err := e.updates.List(ctx, below)
	if err != nil {
		return err
	}
	for _, u := range updates {
		if u.Value.AddonName == a.row.Name && u.Value.ClusterID == a.row.ClusterID {
			if err := e.o.Store.Txn(ctx, e.updates.RemoveOp(u.Key)); err != nil {
				return err
			}
		}
	}
	associations, err := e.identity.List(ctx, below)
	if err != nil {
		return err
	}
	for _, p := range associations {
		switch {
		case p.Value.AddonID != a.row.ID:
		case a.row.Preserve && a.cluster.ID == a.row.ClusterID:
			_, err = e.identity.Modify(ctx, p.Key, func(p *record.PodIdentityAssociation) error {
				p.AddonID,
					p.OwnerARN = "", ""
				return nil
			})
		default:
			err = e.o.Store.Txn(ctx, e.identity.RemoveOp(p.Key))
		}
		if store.IgnoreNotFound(err) != nil {
			return err
		}
	}
	crashRecordsLeft.Here()
	row, err := e.addons.Get(ctx, key)
	if err != nil {
		return store.IgnoreNotFound(err)
	}
	if row.Value.ID != a.row.ID {
		return errGone
	}
	if err := e.o.Store.Txn(ctx, e.addons.DeleteOp(row), e.states.RemoveOp(key)); store.IgnoreNotFound(err) != nil {
		return err
	}
	if a.server != nil {
		if err := a.server.watchObjects(key, nil); err != nil {
			return err
		}
	}
	e.log.Info("add-on is deleted", "cluster", a.row.Cluster, "addon", a.row.Name)
	return errGone
}
