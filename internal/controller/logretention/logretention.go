// Package logretention deletes log events that have passed the retention of their log group, and those of deleted
// groups and streams.
//
// It reads the records of log groups and streams, which internal/aws/logs writes. It deletes events from the store of
// log events, and the records of streams whose group was deleted. It writes the account into records of streams that
// have none, and nothing else.
//
// A deleted record does not tell what it held. The controller therefore compares the contents of the store of log
// events with the existing records: when a record was deleted, at start, and once an hour. The hourly pass also finds
// events that were appended to a group while it was being deleted.
package logretention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// interval is the interval at which retention is applied, and leftovers are searched for, when nothing changes.
const interval = time.Hour

// Options configures a Controller.
type Options struct {
	Store  *store.Store
	Events *events.Store
	Clock  clock.WithTicker // the real one when nil
	Log    *slog.Logger     // slog.Default() when nil
}

// Controller deletes log events.
type Controller struct {
	groups  store.Table[record.LogGroup]
	streams store.Table[record.LogStream]
	store   *store.Store
	events  *events.Store
	clock   clock.WithTicker
	log     *slog.Logger
}

// New returns a Controller over both stores.
func New(o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{groups: record.LogGroups(o.Store), streams: record.LogStreams(o.Store), store: o.Store,
		events: o.Events, clock: o.Clock, log: o.Log}
}

// Controllers returns what reconcile.Run runs. Log events are local to a machine, so every daemon runs them, leader or
// not.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{
		{
			Name:      "log-retention",
			Reconcile: c.retain,
			Sources:   []reconcile.Source{reconcile.Table(c.groups, "")},
			Resync:    interval,
			Clock:     c.clock,
		},
		{
			Name:      "log-leftovers",
			Reconcile: c.clean,
			Sources: []reconcile.Source{
				singleKeySource(all),
				replaced(c.groups, func(g record.LogGroup) uint64 { return g.ID }, func(string) string { return all }),
				replaced(c.streams, func(s record.LogStream) uint64 { return s.ID },
					func(key string) string { return store.Parts(key)[0] }),
			},
			Resync: interval,
			Clock:  c.clock,
		},
	}
}

// retain deletes the events of a group that are older than its retention.
func (c *Controller) retain(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := c.groups.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if days := row.Value.RetentionDays; days > 0 {
		before := c.clock.Now().Add(-time.Duration(days) * 24 * time.Hour).UnixMilli()
		if err := c.events.Expire(events.GroupID(row.Value.ID), before); err != nil {
			return reconcile.Result{}, fmt.Errorf("expire events of log group %s: %w", row.Value.Name, err)
		}
	}
	return reconcile.Result{}, nil
}

// all is the key of everything; the other keys of clean are the IDs of groups, as the keys of their streams' rows
// begin.
const all = "*"

// clean deletes what belongs to no row.
func (c *Controller) clean(ctx context.Context, key string) (reconcile.Result, error) {
	if key == all {
		return reconcile.Result{}, c.cleanGroups(ctx)
	}
	id, err := strconv.ParseUint(key, 16, 64)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("log-streams has a row of the group %q, which is no ID: %w", key, err)
	}
	return reconcile.Result{Gone: true}, c.cleanStreams(ctx, events.GroupID(id))
}

// cleanGroups deletes the events and the streams of groups that are gone, and what streams that are gone have left in
// the others, whose streams it charges to their account.
func (c *Controller) cleanGroups(ctx context.Context) error {
	// What is held is listed before the rows: whatever is written under a row that comes in between is not in the first
	// list.
	held := c.events.Groups()
	owners := map[uint64]bool{} // groups that have streams
	var uncharged []store.Row[record.LogStream]
	if err := c.eachStream(ctx, "", func(row store.Row[record.LogStream]) {
		owners[row.Value.GroupID] = true
		if row.Value.Account == "" { // of an earlier version
			uncharged = append(uncharged, row)
		}
	}); err != nil {
		return err
	}
	rows, err := c.groups.List(ctx, "")
	if err != nil {
		return err
	}
	accounts := map[uint64]string{} // of the groups that are there
	for _, row := range rows {
		accounts[row.Value.ID] = row.Value.Account
	}
	var failed []error
	for _, id := range held {
		if id >= events.Reserved {
			continue
		}
		if _, live := accounts[uint64(id)]; live {
			failed = append(failed, c.cleanStreams(ctx, id))
			continue
		}
		c.log.Debug("deleting the events of a log group that is gone", "id", uint64(id))
		if err := c.events.DeleteGroup(id); err != nil {
			failed = append(failed, fmt.Errorf("delete the events of log group %d: %w", id, err))
		}
	}
	for id := range owners {
		if _, live := accounts[id]; !live {
			failed = append(failed, c.removeStreams(ctx, id))
		}
	}
	var changes []store.Op
	for _, row := range uncharged {
		if account, live := accounts[row.Value.GroupID]; live {
			row.Value.Account = account
			changes = append(changes, c.streams.UpdateOp(row))
		}
	}
	for ops := range slices.Chunk(changes, opsAtOnce) {
		failed = append(failed, c.store.Txn(ctx, ops...))
	}
	return errors.Join(failed...)
}

const (
	opsAtOnce = 100 // etcd takes 128 in a transaction
	// streamsAtOnce is the number of streams that are read together: an account may have several hundred thousand.
	streamsAtOnce = 1000
)

// eachStream calls f for the streams whose keys have a prefix.
func (c *Controller) eachStream(ctx context.Context, prefix string, f func(store.Row[record.LogStream])) error {
	for after := ""; ; {
		rows, next, err := c.streams.Page(ctx, prefix, after, streamsAtOnce)
		if err != nil {
			return err
		}
		for _, row := range rows {
			f(row)
		}
		if after = next; next == "" {
			return nil
		}
	}
}

// removeStreams removes the streams of a group that is gone. No other group gets its ID.
func (c *Controller) removeStreams(ctx context.Context, group uint64) error {
	for {
		rows, _, err := c.streams.Page(ctx, record.LogStreamKey(group, ""), "", opsAtOnce)
		if err != nil || len(rows) == 0 {
			return err
		}
		var ops []store.Op
		for _, row := range rows {
			ops = append(ops, c.streams.RemoveOp(row.Key))
		}
		if err := c.store.Txn(ctx, ops...); err != nil {
			return err
		}
	}
}

// cleanStreams deletes the events of a group's streams that are gone.
func (c *Controller) cleanStreams(ctx context.Context, group events.GroupID) error {
	held := c.events.Streams(group) // before the rows, as above
	live := map[events.StreamID]bool{}
	if err := c.eachStream(ctx, record.LogStreamKey(uint64(group), ""), func(row store.Row[record.LogStream]) {
		live[events.StreamID(row.Value.ID)] = true
	}); err != nil {
		return err
	}
	var failed []error
	for _, id := range held {
		if !live[id] {
			if err := c.events.DeleteStream(group, id); err != nil {
				failed = append(failed, fmt.Errorf("delete the events of stream %d of log group %d: %w", id, group,
					err))
			}
		}
	}
	return errors.Join(failed...)
}

// singleKeySource returns a source that sends one key at the start.
func singleKeySource(key string) reconcile.Source {
	return func(ctx context.Context, changed func(string)) {
		changed(key)
		<-ctx.Done()
	}
}

// replaced returns a source of the keys that of returns for records which were deleted, or which have another ID than
// before: new records and other changes leave nothing behind.
func replaced[T any](t store.Table[T], id func(T) uint64, of func(key string) string) reconcile.Source {
	return func(ctx context.Context, changed func(string)) {
		ids := map[string]uint64{}
		t.Notify(ctx, "", func(key string) {
			row, err := t.Get(ctx, key)
			before, known := ids[key]
			if err == nil {
				ids[key] = id(row.Value)
			} else {
				delete(ids, key)
			}
			if err != nil || known && before != id(row.Value) {
				changed(of(key))
			}
		})
	}
}
