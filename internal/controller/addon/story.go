package addon

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/record"
)

// The instructions at which a test kills the daemon, in their order.
var (
	crashApplying  = crash.At("addon/applying-recorded")
	crashObject    = crash.At("addon/object-applied")
	crashObjects   = crash.At("addon/objects-applied")
	crashPruned    = crash.At("addon/object-pruned")
	crashDone      = crash.At("addon/configuration-recorded")
	crashEnded     = crash.At("addon/update-ended")
	crashTakenBack = crash.At("addon/object-taken-back")
	crashDeleted   = crash.At("addon/object-deleted")
	crashGivenUp   = crash.At("addon/object-given-up")
	crashRowsLeft  = crash.At("addon/rows-left")
)

const (
	// What failed is tried again after a while that grows from the one to the other, unless a change of something wakes the add-on before.
	tryAgainFirst = 500 * time.Millisecond
	tryAgainMost  = 15 * time.Second
)

// bring is the story of an add-on.
func (a *addon) bring(ctx context.Context) error {
	if a.cluster.ID != a.row.ClusterID {
		return a.removeRows(ctx) // it went with its cluster
	}
	if a.cluster.Deleting || !a.plane.Ready || a.plane.ClusterID != a.cluster.ID {
		return nil // its row changes
	}
	if a.final() {
		return nil
	}
	var err error
	switch {
	case a.server == nil:
		err = a.disconnected()
	case a.row.Deleting:
		err = a.remove(ctx)
	default:
		err = a.keep(ctx)
	}
	var all troubles
	var one *problem
	switch {
	case errors.As(err, &all):
	case errors.As(err, &one):
		all = troubles{one}
	case err != nil:
		return err
	}
	return a.conclude(ctx, all)
}

// disconnected is the problem of an API server to which there is no connection.
func (a *addon) disconnected() error {
	_, why := a.e.servers.Failing(a.cluster.Key())
	if why == nil {
		a.again(time.Second) // the first one is on its way
		return nil
	}
	return cutOff(a.row.Cluster, why)
}

// final says that the add-on's creation was refused for good: only its owner can resolve conflicts, by another request.
func (a *addon) final() bool {
	s := a.state
	return !a.row.Deleting && !s.Created && s.Failed && s.Change == a.row.Change && !a.updating() && len(s.Issues) > 0 &&
		!slices.ContainsFunc(s.Issues, func(i ekstypes.AddonIssue) bool { return i.Code != ekstypes.AddonIssueCodeConfigurationConflict })
}

// keep makes an add-on as it is wanted.
func (a *addon) keep(ctx context.Context) error {
	if err := a.server.expect(a.row.Key(), a.state.Objects); err != nil {
		return err
	}
	a.issues = a.permissions(ctx, a.row.Now(a.last))
	var err error
	if a.pending() {
		var done bool
		if done, err = a.carryOut(ctx); err == nil && !done {
			return nil // images are on their way
		}
	} else {
		err = a.drift(ctx)
	}
	if err != nil {
		return err
	}
	return a.settle(ctx)
}

// changing says that the add-on is being created or updated.
func (a *addon) changing() bool {
	return !a.state.Created || a.state.Change < a.row.Change || a.updating()
}

// returning says that the last update has failed, so that what was before it is what is wanted.
func (a *addon) returning() bool {
	return a.last.Status == ekstypes.UpdateStatusFailed || a.last.Status == ekstypes.UpdateStatusCancelled
}

// pending says that the objects are not, or may not be, what is wanted makes of them.
func (a *addon) pending() bool {
	return a.state.Applying != nil || !alike(a.state.Applied, a.row.Now(a.last)) ||
		!a.returning() && a.state.AppliedChange != a.row.Change
}

// alike compares what objects are made of.
func alike(a, b record.AddonConfig) bool {
	a.Conflicts, b.Conflicts, a.PodIdentityAssociations, b.PodIdentityAssociations = "", "", nil, nil
	return reflect.DeepEqual(a, b)
}

// troubles are problems that keep a look from coming to its end.
type troubles []*problem

func (t troubles) Error() string {
	var all []string
	for _, p := range t {
		all = append(all, p.Error())
	}
	return strings.Join(all, "; ")
}

// conclude writes down what is wrong, and ends what cannot succeed. A problem that may pass by itself counts once it has lasted.
func (a *addon) conclude(ctx context.Context, all troubles) error {
	if len(all) == 0 {
		if a.server != nil {
			a.tries, a.since = 0, map[string]time.Time{}
			a.state.Issues, a.state.DeleteFailed = a.issues, false
		}
		return nil
	}
	conflict, counts := true, false
	for _, p := range all {
		if p.passing && !a.lasted(p) {
			continue
		}
		counts = true
		conflict = conflict && p.issue.Code == ekstypes.AddonIssueCodeConfigurationConflict
		a.issues = add(a.issues, p.issue)
	}
	a.tries++
	a.again(min(tryAgainFirst<<min(a.tries, 10), tryAgainMost))
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
		return a.finish(ctx, ekstypes.UpdateStatusFailed, details(a.issues)...)
	}
	return nil
}

// lasted says whether a problem has been there for so long that it counts.
func (a *addon) lasted(p *problem) bool {
	key := string(p.issue.Code) + strings.Join(p.issue.ResourceIds, " ")
	if _, known := a.since[key]; !known {
		a.since[key] = a.e.now()
	}
	left := a.since[key].Add(a.e.o.Patience).Sub(a.e.now())
	if left > 0 {
		a.again(left)
	}
	return left <= 0
}

// overdue says that what began then takes longer than it may.
func (a *addon) overdue(since time.Time) bool { return a.e.now().Sub(since) >= a.e.o.Timeout }

// add adds an issue; another of the same code and message lends it its resources.
func add(all []ekstypes.AddonIssue, issue ekstypes.AddonIssue) []ekstypes.AddonIssue {
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
