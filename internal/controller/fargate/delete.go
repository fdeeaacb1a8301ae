package fargate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// longestGrace is the longest time that a pod of a deleted profile has to end.
	longestGrace = 2 * time.Minute
	// deletedAtOnce bounds the pods that one pass deletes, and deletions the requests that are under way at once.
	deletedAtOnce, deletions = 1000, 8
)

// errUnreachable reports that something waits for the cluster's API server.
var errUnreachable = client.ErrUnreached

// deleteProfile deletes a profile: its pods with their machines, the access of the role, and, last, its records. Steps
// that are done are skipped. A cluster that is gone, or cannot be reached for long, is not waited for.
// https://docs.aws.amazon.com/eks/latest/userguide/delete-fargate-profile.html
func (p *profilePass) deleteProfile(ctx context.Context) (time.Duration, error) {
	rows, err := p.podUIDs(ctx)
	if err != nil {
		return 0, err
	}
	left, err := p.deletePods(ctx, rows)
	if err != nil {
		return issueRetryInterval, p.recordDeleteIssue(err)
	}
	if left || len(rows) > 0 {
		refusal, err := p.cleanUpRefusal(ctx)
		if err != nil {
			return 0, err
		}
		return retryInterval, p.recordDeleteIssue(refusal)
	}
	if err := p.revokeAccess(ctx); err != nil {
		if errors.Is(err, errUnreachable) {
			return retryInterval, nil
		}
		if errors.Is(err, errRefused) {
			return retryInterval, p.recordDeleteIssue(nil)
		}
		return issueRetryInterval, p.recordDeleteIssue(err)
	}
	crashRevoked.Here()
	return 0, p.deleteRecords(ctx)
}

// recordDeleteIssue writes down what keeps a profile from being deleted.
func (p *profilePass) recordDeleteIssue(err error) error {
	found, ok := asProblem(err, p.row.Name)
	p.state.DeleteFailed, p.state.Issues = ok, nil
	if ok {
		p.state.Issues = []ekstypes.FargateProfileIssue{found.issue}
		return nil
	}
	return err
}

// cleanUpRefusal returns the problem of a pod of the profile that cannot be cleaned up; nil when there is none.
func (p *profilePass) cleanUpRefusal(ctx context.Context) (refusal, err error) {
	for _, key := range p.c.podsOf(p.row.Key()) {
		row, err := p.c.pods.Get(ctx, key)
		if store.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if pod := row.Value; err == nil && pod.Refusal != "" && pod.ProfileID == p.row.ID {
			return newProblem(ekstypes.FargateProfileIssueCodeAccessDenied, false, pod.Refusal,
				pod.Namespace+"/"+pod.Name), nil
		}
	}
	return nil, nil
}

// podUIDs returns the UIDs of the pods of the profile that have a record.
func (p *profilePass) podUIDs(ctx context.Context) (map[string]bool, error) {
	uids := map[string]bool{}
	for _, key := range p.c.podsOf(p.row.Key()) {
		row, err := p.c.pods.Get(ctx, key)
		if store.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil && row.Value.Profile == p.row.Name && row.Value.ClusterID == p.row.ClusterID {
			uids[row.Value.UID] = true
		}
	}
	return uids, nil
}

// selects reports whether the profile was to run a pod. Whoever makes pods may write its name on any.
func (p *profilePass) selects(pod *corev1.Pod) bool {
	return pod.Labels[fargate.ProfileLabel] == p.row.Name && fargate.WithinBounds(pod.Labels) &&
		fargate.SelectedBy(p.row, pod.Namespace, pod.Labels)
}

// deletePods deletes pods with a record, and pods that the profile selects. It reports whether more are left than one
// pass deletes. Pods created later are not waited for: nothing runs them. What the API server, or a webhook of the
// cluster, refuses is a problem of the profile's owner.
func (p *profilePass) deletePods(ctx context.Context, rows map[string]bool) (left bool, err error) {
	if p.server == nil {
		return false, nil // machines end without it: see podPass.reconcile
	}
	type target struct {
		namespace, name string
		options         metav1.DeleteOptions
	}
	var targets []target
	pods := p.server.manager.CoreV1().Pods
	grace := int64(longestGrace.Seconds())
	_, err = client.EachPage(client.WithPartial(ctx), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.schedulerName", fargate.SchedulerName).String(),
	}, pods(metav1.NamespaceAll).List, func(page *corev1.PodList) {
		for i := range page.Items {
			o := &page.Items[i]
			if ctx.Err() != nil {
				return // to compare labels takes a while
			}
			if !rows[string(o.UID)] && !p.selects(o) {
				continue
			}
			limit := o.DeletionGracePeriodSeconds
			if o.DeletionTimestamp != nil && limit != nil && *limit <= grace || len(targets) == deletedAtOnce {
				continue
			}
			options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(
				strings.Clone(string(o.UID)))} // not to hold the whole page
			if own := o.Spec.TerminationGracePeriodSeconds; own == nil || *own > grace {
				options.GracePeriodSeconds = &grace
			}
			targets = append(targets, target{strings.Clone(o.Namespace), strings.Clone(o.Name), options})
		}
	})
	if err != nil {
		return false, fmt.Errorf("list the pods of Fargate profile %s: %w", p.row.Name, err)
	}
	var refused atomic.Pointer[error]
	group := recovery.Group(ctx).WithMaxGoroutines(deletions)
	for _, t := range targets {
		group.Go(func(ctx context.Context) error {
			err := pods(t.namespace).Delete(ctx, t.name, t.options)
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil
			}
			if err != nil {
				err = fmt.Errorf("delete pod %s/%s: %w", t.namespace, t.name, err)
			}
			if client.IsRefusal(err) {
				refused.CompareAndSwap(nil, &err) // the others go
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	if err := refused.Load(); err != nil {
		return false, *err
	}
	return len(targets) == deletedAtOnce, nil
}

// deleteRecords removes the profile from the store.
func (p *profilePass) deleteRecords(ctx context.Context) error {
	key := p.row.Key()
	row, err := p.c.profiles.Get(ctx, key)
	if err != nil {
		return store.IgnoreNotFound(err)
	}
	if row.Value.ID != p.row.ID {
		return errGone
	}
	err = p.c.o.Store.Txn(ctx, p.c.profiles.DeleteOp(row), p.c.states.RemoveOp(key))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	p.c.log.Info("deleted Fargate profile", "cluster", p.row.Cluster, "profile", p.row.Name)
	return errGone
}

// isProfileDeleted reports whether the profile of a pod is deleted, or is being deleted.
func (c *Controller) isProfileDeleted(ctx context.Context, row record.FargatePod) (bool, error) {
	p, err := c.profiles.Get(ctx, record.FargateProfileKey(row.Account, row.Region, row.Cluster, row.Profile))
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return p.Value.Deleting || p.Value.ID != row.ProfileID || p.Value.ClusterID != row.ClusterID, err
}
