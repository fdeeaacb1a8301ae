package addon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The instructions at which a test kills the daemon, in their order.
var (
	crashApplying    = crash.At("addon/applying-recorded")
	crashObject      = crash.At("addon/object-applied")
	crashObjects     = crash.At("addon/objects-applied")
	crashPruned      = crash.At("addon/object-pruned")
	crashDone        = crash.At("addon/configuration-recorded")
	crashEnded       = crash.At("addon/update-ended")
	crashTakenBack   = crash.At("addon/object-taken-back")
	crashDeleted     = crash.At("addon/object-deleted")
	crashGivenUp     = crash.At("addon/object-given-up")
	crashRecordsLeft = crash.At("addon/rows-left")
)

const (
	// What failed is tried again after a while that grows from the one to the other, unless a change of something wakes
	// the add-on before.
	tryAgainFirst = 500 * time.Millisecond
	tryAgainMost  = 15 * time.Second
)

// Reconcile reconciles the add-on with the given key.
func (e *engine) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	a, err := e.loadAddon(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		e.forgetAddon(key)
		return reconcile.Result{Gone: true}, e.dropState(ctx, key)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	err = a.reconcile(ctx)
	if errors.Is(err, errGone) {
		e.forgetAddon(key)
		return reconcile.Result{Gone: true}, nil
	}
	if err == nil {
		err = a.saveState(ctx)
	}
	if err != nil {
		err = fmt.Errorf("add-on %s of cluster %s: %w", a.row.Name, a.row.Cluster, err)
	}
	return reconcile.Result{After: a.requeue}, err
}

// reconcile installs, updates or removes an add-on, and records its issues.
func (a *addon) reconcile(ctx context.Context) error {
	if a.cluster.ID != a.row.ClusterID {
		return a.deleteRecords(ctx) // it went with its cluster
	}
	if a.cluster.Deleting || !a.plane.Ready || a.plane.ClusterID != a.cluster.ID {
		return nil // its row changes
	}
	if a.isCreateRefused() {
		return nil
	}
	var err error
	switch {
	case a.server == nil:
		err = a.disconnected()
	case a.row.Deleting:
		err = a.removeObjects(ctx)
	default:
		err = a.reconcileInstalled(ctx)
	}
	var all problems
	var one *problem
	switch {
	case errors.As(err, &all):
	case errors.As(err, &one):
		all = problems{one}
	case err != nil:
		return err
	}
	for _, p := range all {
		if p.issue.Code == ekstypes.AddonIssueCodeClusterUnreachable {
			p.issue.ResourceIds = []string{a.row.Cluster}
		}
	}
	return a.recordIssues(ctx, all)
}

// disconnected returns the problem of an API server without a connection.
func (a *addon) disconnected() error {
	_, why := a.e.servers.Failing(a.cluster.Key())
	if why == nil {
		a.requeueAfter(time.Second) // the first one is on its way
		return nil
	}
	return unreachableProblem(why)
}

// isCreateRefused reports whether the creation of the add-on was refused for good: only its owner can resolve
// conflicts, by another request.
func (a *addon) isCreateRefused() bool {
	s := a.state
	return !a.row.Deleting && !s.Created && s.Failed && s.Change == a.row.Change && !a.updating() &&
		len(s.Issues) > 0 &&
		!slices.ContainsFunc(s.Issues, func(i ekstypes.AddonIssue) bool {
			return i.Code != ekstypes.AddonIssueCodeConfigurationConflict
		})
}

// reconcileInstalled applies the desired configuration of an add-on, or corrects drift when it has been applied.
func (a *addon) reconcileInstalled(ctx context.Context) error {
	if err := a.server.watchObjects(a.row.Key(), a.state.Objects); err != nil {
		return err
	}
	a.issues = a.checkPermissions(ctx, a.row.Now(a.last))
	var err error
	if a.pending() {
		var done bool
		if done, err = a.applyConfiguration(ctx); err == nil && !done {
			return nil // images are on their way
		}
	} else {
		err = a.correctDrift(ctx)
	}
	if err != nil {
		return err
	}
	return a.waitForPods(ctx)
}

// changing reports whether the add-on is being created or updated.
func (a *addon) changing() bool {
	return !a.state.Created || a.state.Change < a.row.Change || a.updating()
}

// returning reports whether the last update has failed, so that the configuration before it is the desired one.
func (a *addon) returning() bool {
	return a.last.Status == ekstypes.UpdateStatusFailed || a.last.Status == ekstypes.UpdateStatusCancelled
}

// pending reports whether the objects differ, or may differ, from the desired configuration.
func (a *addon) pending() bool {
	return a.state.Applying != nil || !equalConfigs(a.state.Applied, a.row.Now(a.last)) ||
		!a.returning() && a.state.AppliedChange != a.row.Change
}

// equalConfigs reports whether two configurations render the same objects.
func equalConfigs(a, b record.AddonConfig) bool {
	a.Conflicts, b.Conflicts, a.PodIdentityAssociations, b.PodIdentityAssociations = "", "", nil, nil
	return reflect.DeepEqual(a, b)
}

// problems are the problems that stopped a reconcile pass.
type problems []*problem

func (t problems) Error() string {
	var all []string
	for _, p := range t {
		all = append(all, p.Error())
	}
	return strings.Join(all, "; ")
}

// recordIssues records the issues of an add-on, and ends an update that cannot succeed. A transient problem counts once
// it has lasted for Options.Patience.
func (a *addon) recordIssues(ctx context.Context, all problems) error {
	if len(all) == 0 {
		if a.server != nil {
			a.tries, a.since = 0, map[string]time.Time{}
			a.state.Issues, a.state.DeleteFailed = a.issues, false
		}
		return nil
	}
	conflict, counts := true, false
	for _, p := range all {
		if p.passing && !a.hasPersisted(p) {
			continue
		}
		counts = true
		conflict = conflict && p.issue.Code == ekstypes.AddonIssueCodeConfigurationConflict
		a.issues = appendIssue(a.issues, p.issue)
	}
	a.tries++
	a.requeueAfter(min(tryAgainFirst<<min(a.tries, 10), tryAgainMost))
	if !counts {
		return nil
	}
	a.state.Issues = a.issues
	switch {
	case a.row.Deleting:
		a.state.DeleteFailed = true
	case !a.state.Created && !a.updating():
		a.state.Failed, a.state.Change = true, a.row.Change
	case a.updating() && (conflict || a.overdue(a.last.CreatedAt)):
		a.state.Failed, a.state.Change = !a.state.Created, a.row.Change
		return a.finishUpdate(ctx, ekstypes.UpdateStatusFailed, details(a.issues)...)
	}
	return nil
}

// hasPersisted reports whether a problem has lasted long enough to count.
func (a *addon) hasPersisted(p *problem) bool {
	key := string(p.issue.Code) + strings.Join(p.issue.ResourceIds, " ")
	if _, known := a.since[key]; !known {
		a.since[key] = a.e.now()
	}
	left := a.since[key].Add(a.e.o.Patience).Sub(a.e.now())
	if left > 0 {
		a.requeueAfter(left)
	}
	return left <= 0
}

// overdue reports whether what began at since has timed out.
func (a *addon) overdue(since time.Time) bool { return a.e.now().Sub(since) >= a.e.o.Timeout }

// appendIssue adds an issue, or adds its resources to an issue with the same code and message.
func appendIssue(all []ekstypes.AddonIssue, issue ekstypes.AddonIssue) []ekstypes.AddonIssue {
	for n, have := range all {
		if have.Code == issue.Code && *have.Message == *issue.Message {
			for _, id := range issue.ResourceIds {
				if !slices.Contains(have.ResourceIds, id) {
					all[n].ResourceIds = append(slices.Clone(all[n].ResourceIds), id)
				}
			}
			return all
		}
	}
	return append(all, issue)
}
