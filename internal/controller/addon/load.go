package addon

import (
	"context"
	"errors"
	"reflect"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// addon is one reconcile pass over one add-on. The files of this package have its steps.
type addon struct {
	e       *engine
	row     record.Addon
	last    record.Update // the latest update, row.LastUpdateID; zero without one
	cluster record.Cluster
	plane   record.ControlPlane
	// state is the observed state; steps change it, and saveState writes it.
	state record.AddonState
	saved store.Row[record.AddonState] // as last read or written; its revision is 0 before the first write
	*memory

	server  *server // nil while the API server cannot be reached
	issues  []ekstypes.AddonIssue
	requeue time.Duration // the delay of the next pass without a change; 0 for none
}

// errGone reports that nothing is left of the add-on.
var errGone = errors.New("the add-on is gone")

// loadAddon loads the records of an add-on.
func (e *engine) loadAddon(ctx context.Context, key string) (*addon, error) {
	row, err := e.addons.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	a := &addon{e: e, row: row.Value, memory: e.memoryOf(key)}
	if a.saved, err = e.states.Copy(ctx, key); store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if a.saved.Value.AddonID == a.row.ID {
		a.state = a.saved.Value
		if a.saved, err = e.states.Copy(ctx, key); err != nil { // a second copy, to compare the changed one with
			return nil, err
		}
	} else {
		a.state.AddonID = a.row.ID // the saved state is that of an earlier add-on of that name
	}
	at := record.ClusterKey(a.row.Account, a.row.Region, a.row.Cluster)
	cluster, err := e.clusters.Get(ctx, at)
	if store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	plane, err := e.planes.Get(ctx, at)
	if store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	a.cluster, a.plane = cluster.Value, plane.Value
	if a.row.LastUpdateID != "" {
		last, err := e.updates.Get(ctx, record.UpdateKey(a.row.Account, a.row.Region, a.row.Cluster,
			a.row.LastUpdateID))
		if store.IgnoreNotFound(err) != nil {
			return nil, err
		}
		a.last = last.Value
	}
	if s, ok := e.servers.Get(at); ok && s.serving() {
		a.server = s
	}
	return a, nil
}

// dropState deletes the observed state of an add-on that was deleted.
func (e *engine) dropState(ctx context.Context, key string) error {
	if s, ok := e.servers.Get(store.Key(store.Parts(key)[:record.ClusterKeyParts]...)); ok {
		if err := s.watchObjects(key, nil); err != nil {
			return err
		}
	}
	return store.IgnoreNotFound(e.o.Store.Txn(ctx, e.states.RemoveOp(key)))
}

// saveState writes the observed state of the add-on if it has changed. It is called before each action that must be
// recorded first, and at the end of a pass.
func (a *addon) saveState(ctx context.Context) error {
	if a.saved.Revision != 0 && reflect.DeepEqual(a.saved.Value, a.state) {
		return nil
	}
	a.state.ModifiedAt = a.e.now()
	row := store.Row[record.AddonState]{Key: a.row.Key(), Value: a.state, Revision: a.saved.Revision}
	ctx = store.Paced(ctx) // pods say how often there is another issue
	var err error
	if row.Revision == 0 {
		_, err = a.e.states.Create(ctx, row.Key, row.Value)
	} else {
		_, err = a.e.states.Update(ctx, row)
	}
	if err == nil {
		a.saved, err = a.e.states.Copy(ctx, row.Key)
	}
	return err
}

// updating reports whether an update is in progress.
func (a *addon) updating() bool {
	return a.last.ID != "" && a.last.ID == a.row.LastUpdateID && a.last.Status == ekstypes.UpdateStatusInProgress
}

// finishUpdate ends the update in progress, if there is one.
func (a *addon) finishUpdate(ctx context.Context, status ekstypes.UpdateStatus, errs ...ekstypes.ErrorDetail) error {
	if !a.updating() {
		return nil
	}
	if err := a.saveState(ctx); err != nil { // what the update came to, before it ends
		return err
	}
	key := record.UpdateKey(a.row.Account, a.row.Region, a.row.Cluster, a.last.ID)
	row, err := a.e.updates.Modify(store.Paced(ctx), key, func(u *record.Update) error { // as saveState
		if u.Status == ekstypes.UpdateStatusInProgress {
			u.Status, u.Errors = status, errs
		}
		return nil
	})
	if err != nil {
		return err
	}
	crashEnded.Here()
	a.last = row.Value
	return nil
}

// requeueAfter requests another pass after a delay, unless an earlier one is requested.
func (a *addon) requeueAfter(after time.Duration) {
	if a.requeue == 0 || after < a.requeue {
		a.requeue = max(after, time.Millisecond)
	}
}
