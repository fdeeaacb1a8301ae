package addon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// addon is one look at one add-on. Its steps are in the files of this package, each on what it is about.
type addon struct {
	e       *engine
	row     record.Addon
	last    record.Update // the one named by row.LastUpdateID; zero without one
	cluster record.Cluster
	plane   record.ControlPlane
	// state is what is known; steps change it, and save writes it.
	state record.AddonState
	saved store.Row[record.AddonState] // as it was last read or written; no revision before it was
	*memory

	server *server // nil while the API server cannot be reached
	issues []ekstypes.AddonIssue
	soon   time.Duration // when to look again though nothing is heard; 0 is not
}

// errGone says that nothing is left of the add-on.
var errGone = errors.New("the add-on is gone")

// Reconcile brings one add-on about.
func (e *engine) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	a, err := e.look(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		e.forget(key)
		return reconcile.Result{Gone: true}, e.dropState(ctx, key)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	err = a.bring(ctx)
	if errors.Is(err, errGone) {
		e.forget(key)
		return reconcile.Result{Gone: true}, nil
	}
	if err == nil {
		err = a.save(ctx)
	}
	if err != nil {
		err = fmt.Errorf("add-on %s of cluster %s: %w", a.row.Name, a.row.Cluster, err)
	}
	return reconcile.Result{After: a.soon}, err
}

// look reads what there is in the store about an add-on.
func (e *engine) look(ctx context.Context, key string) (*addon, error) {
	row, err := e.addons.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	a := &addon{e: e, row: row.Value, memory: e.remember(key)}
	if a.saved, err = e.states.Copy(ctx, key); missing(err) != nil {
		return nil, err
	}
	if a.saved.Value.AddonID == a.row.ID {
		a.state = a.saved.Value
		if a.saved, err = e.states.Copy(ctx, key); err != nil { // one to change, one to compare with
			return nil, err
		}
	} else {
		a.state.AddonID = a.row.ID // the rest is of another add-on of that name
	}
	at := record.ClusterKey(a.row.Account, a.row.Region, a.row.Cluster)
	cluster, err := e.clusters.Get(ctx, at)
	if missing(err) != nil {
		return nil, err
	}
	plane, err := e.planes.Get(ctx, at)
	if missing(err) != nil {
		return nil, err
	}
	a.cluster, a.plane = cluster.Value, plane.Value
	if a.row.LastUpdateID != "" {
		last, err := e.updates.Get(ctx, record.UpdateKey(a.row.Account, a.row.Region, a.row.Cluster, a.row.LastUpdateID))
		if missing(err) != nil {
			return nil, err
		}
		a.last = last.Value
	}
	if s, ok := e.servers.Get(at); ok && s.serving() {
		a.server = s
	}
	return a, nil
}

// dropState removes what was observed of an add-on that is gone.
func (e *engine) dropState(ctx context.Context, key string) error {
	if s, ok := e.servers.Get(store.Key(store.Parts(key)[:record.ClusterKeyParts]...)); ok {
		if err := s.expect(key, nil); err != nil {
			return err
		}
	}
	return missing(e.o.Store.Txn(ctx, e.states.RemoveOp(key)))
}

// save writes what is known of the add-on, if it changed. It is called before an act that must be remembered, and at the end.
func (a *addon) save(ctx context.Context) error {
	if a.saved.Revision != 0 && reflect.DeepEqual(a.saved.Value, a.state) {
		return nil
	}
	a.state.ModifiedAt = a.e.now()
	row := store.Row[record.AddonState]{Key: a.row.Key(), Value: a.state, Revision: a.saved.Revision}
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

// updating says that an update is under way.
func (a *addon) updating() bool {
	return a.last.ID != "" && a.last.ID == a.row.LastUpdateID && a.last.Status == ekstypes.UpdateStatusInProgress
}

// finish ends the update under way, if there is one.
func (a *addon) finish(ctx context.Context, status ekstypes.UpdateStatus, errs ...ekstypes.ErrorDetail) error {
	if !a.updating() {
		return nil
	}
	if err := a.save(ctx); err != nil { // what the update came to, before it ends
		return err
	}
	key := record.UpdateKey(a.row.Account, a.row.Region, a.row.Cluster, a.last.ID)
	row, err := a.e.updates.Modify(ctx, key, func(u *record.Update) error {
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

// again asks for another look after a while, unless an earlier one is asked for.
func (a *addon) again(after time.Duration) {
	if a.soon == 0 || after < a.soon {
		a.soon = max(after, time.Millisecond)
	}
}

// missing makes nothing of ErrNotFound.
func missing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
