// Package logdelivery delivers the logs of load balancers to the log groups of their owners.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AWS-vended-logs-permissions-V2.html
//
// The process that forwards writes the entries of each log into files (package vended). The [Controller] reads them,
// makes an event of each as a delivery wants it, and appends the events to the store of log events together with the
// position in the files, in one atomic write: each entry becomes an event of each delivery exactly once, at whichever
// instruction the daemon is killed. Files that all deliveries of a log have had are removed.
//
// It reads LogDeliverySources, LogDeliveries and LogDeliveryDestinations, and has log streams made by the service that
// owns them, which asks the resource policies. It writes events, and positions as marks in the store of log events.
package logdelivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/vended"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store  *store.Store
	Events Events
	// Streams makes log streams. logs.DeliveryStreams does.
	Streams Streams
	// Dir is the directory of the files of all logs.
	Dir   string
	Log   *slog.Logger     // slog.Default() when nil (optional)
	Clock clock.WithTicker // the real one when nil (optional)
}

// Events is the part of the store of log events that is written to. *events.Store has it.
type Events interface {
	Append(context.Context, events.Batch) (first uint64, err error)
	Mark(key string) ([]byte, error)
	Marks(prefix string) (map[string][]byte, error)
	SetMarks(map[string][]byte) error
}

// Streams makes log streams.
type Streams interface {
	// Ensure returns the IDs of a log group and of the stream of a source in it, which it makes when there is none. It
	// returns store.ErrNotFound while there is no such group, and vended.ErrRefused while no resource policy lets the
	// source be delivered there.
	Ensure(ctx context.Context, source record.LogDeliverySource, group string) (groupID, streamID uint64, err error)
}

// Controller delivers logs.
type Controller struct {
	o            Options
	sources      store.Table[record.LogDeliverySource]
	destinations store.Table[record.LogDeliveryDestination]
	deliveries   store.Table[record.LogDelivery]
	deliveriesOf store.Index[record.LogDelivery]

	mu     sync.Mutex
	losses map[string]loss // by account
}

// The instructions at which a test kills the daemon.
var (
	crashRead     = crash.At("logdelivery/read")
	crashAppended = crash.At("logdelivery/appended")
	crashTrimmed  = crash.At("logdelivery/trimmed")
)

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Controller{o: o, sources: record.LogDeliverySources(o.Store),
		destinations: record.LogDeliveryDestinations(o.Store), deliveries: record.LogDeliveries(o.Store),
		deliveriesOf: record.LogDeliveriesBySource(o.Store), losses: map[string]loss{}}
}

const (
	// interval is the time between two looks at the files of a log that is delivered.
	interval = time.Second
	// atOnce is the number of reads of a log, by all its deliveries, before other logs get their turn: a MiB each, at
	// most, and one more of each delivery.
	atOnce = 8
)

// Controllers returns the controllers that reconcile.Run runs.
func (c *Controller) Controllers() []reconcile.Controller {
	all := func(string) []string { return []string{"all"} }
	return []reconcile.Controller{
		{
			Name:      "log-delivery",
			Reconcile: c.Reconcile,
			Sources: []reconcile.Source{
				reconcile.Table(c.sources, ""),
				reconcile.Mapped(c.deliveries, "", c.sourceOf),
				reconcile.Mapped(c.destinations, "", reconcile.Below(c.sources, 2)),
			},
			// A pass waits for others of its account when their events are sealed.
			Workers: 4, AccountWorkers: 2, Timeout: 5 * time.Minute,
			Resync:     time.Minute,
			MaxBackoff: 10 * time.Second,
			Clock:      c.o.Clock,
		},
		{
			Name:      "log-delivery-leftovers",
			Reconcile: c.clean,
			Sources: []reconcile.Source{
				func(ctx context.Context, changed func(string)) { changed("all"); <-ctx.Done() },
				reconcile.Mapped(c.sources, "", all),
				reconcile.Mapped(c.deliveries, "", all),
			},
			Resync: time.Hour,
			Clock:  c.o.Clock,
		},
	}
}

// sourceOf returns the key of the source of a delivery.
func (c *Controller) sourceOf(key string) []string {
	row, err := c.deliveries.Get(context.Background(), key)
	if err != nil {
		return nil
	}
	return []string{record.LogDeliveryKey(row.Value.Account, row.Value.Region, row.Value.Source)}
}

// logOf returns the log that a source is.
func logOf(s record.LogDeliverySource) vended.Log {
	return vended.Log{Account: s.Account, ID: path.Base(s.ResourceARN), Type: s.LogType}
}

// marks is the prefix of the keys of positions in the store of log events; the key of the delivery follows.
const marks = "log-deliveries/"

// Reconcile delivers what has come to the log that the source with the given key is.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := c.sources.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	deliveries, err := c.deliveriesOf.List(ctx, key)
	if err != nil || len(deliveries) == 0 {
		return reconcile.Result{}, err
	}
	result := reconcile.Result{After: interval}
	var all []*position
	var failures []error
	for _, d := range deliveries {
		p, err := c.positionOf(d.Value)
		if err != nil { // files that it may not have had stay
			return reconcile.Result{}, fmt.Errorf("delivery %s: %w", d.Value.ID, err)
		}
		all = append(all, p)
	}
	// Each delivery has one read after the other, so that none waits for what another has to catch up with.
	for reads := 0; reads < atOnce && slices.ContainsFunc(all, (*position).hasMore); {
		for _, p := range all {
			if !p.hasMore() {
				continue
			}
			if ctx.Err() != nil { // the next pass goes on from here
				reads = atOnce
				break
			}
			reads++
			if err := c.deliver(ctx, row.Value, p); err != nil {
				failures = append(failures, fmt.Errorf("delivery %s: %w", p.delivery.ID, err))
				p.done = true
			}
		}
	}
	if len(failures) == 0 && slices.ContainsFunc(all, (*position).hasMore) {
		result.After = time.Nanosecond
	}
	had := slices.MinFunc(all, func(a, b *position) int { // by all deliveries
		switch {
		case a.at.Less(b.at):
			return -1
		case b.at.Less(a.at):
			return 1
		}
		return 0
	})
	if err := vended.Trim(c.o.Dir, logOf(row.Value), had.at); err != nil {
		failures = append(failures, err)
	}
	crashTrimmed.Here()
	return result, errors.Join(failures...)
}

// position is how far a delivery has come in a pass.
type position struct {
	delivery record.LogDelivery
	mark     string
	at       vended.Position
	done     bool // it has all that there is, or failed
}

func (p *position) hasMore() bool { return !p.done }

// positionOf returns the position to which everything is delivered.
func (c *Controller) positionOf(d record.LogDelivery) (*position, error) {
	p := &position{delivery: d, mark: marks + d.Key()}
	value, err := c.o.Events.Mark(p.mark)
	if err == nil && value != nil {
		err = json.Unmarshal(value, &p.at)
	}
	if err != nil {
		return nil, fmt.Errorf("how far it has come: %w", err)
	}
	return p, nil
}

// deliver delivers what has come since the last time: what one read has of it.
func (c *Controller) deliver(ctx context.Context, source record.LogDeliverySource, p *position) error {
	entries, next, err := vended.Read(c.o.Dir, logOf(source), p.at)
	if err != nil {
		return err
	}
	if next == p.at {
		p.done = true
		return nil
	}
	crashRead.Here()
	value, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := c.deliverEntries(ctx, source, p.delivery, entries, map[string][]byte{p.mark: value}); err != nil {
		return err
	}
	crashAppended.Here()
	p.at = next
	return nil
}

// deliverEntries appends events of entries and moves the position, in one atomic write. Where no log group takes them,
// they are lost, as on AWS: it was deleted, or its policy was, and the files would fill the disk.
func (c *Controller) deliverEntries(ctx context.Context, source record.LogDeliverySource, d record.LogDelivery,
	entries []vended.Entry, moved map[string][]byte) error {
	destination, err := c.destinations.Get(ctx, record.LogDeliveryKey(d.Account, d.Region, d.Destination))
	if err != nil {
		return fmt.Errorf("delivery destination %s: %w", d.Destination, err)
	}
	kind, ok := vended.TypeNamed(source.LogType)
	if !ok {
		return fmt.Errorf("there is no log type %q", source.LogType)
	}
	format, err := vended.NewFormat(kind, d.RecordFields, destination.Value.OutputFormat == logstypes.OutputFormatJson,
		d.FieldDelimiter)
	if err != nil {
		return err
	}
	batch := events.Batch{Marks: moved}
	ingested := c.o.Clock.Now().UnixMilli()
	for _, e := range entries {
		if e.Time >= d.CreatedAt.UnixMilli() {
			batch.Events = append(batch.Events, events.Event{Timestamp: e.Time, Ingested: ingested,
				Message: format.Message(e.Text)})
		}
	}
	if len(batch.Events) == 0 {
		return c.o.Events.SetMarks(moved)
	}
	group, stream, err := c.o.Streams.Ensure(ctx, source, destination.Value.Group)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, vended.ErrRefused) {
		c.tellLoss(d, destination.Value.Group, len(batch.Events), err)
		return c.o.Events.SetMarks(moved)
	}
	if err != nil {
		return err
	}
	batch.Group = events.GroupID(group)
	for i := range batch.Events {
		batch.Events[i].Stream = events.StreamID(stream)
	}
	_, err = c.o.Events.Append(ctx, batch)
	return err
}

// tellLosses is the least time between two lines in the log about lost entries of an account.
const tellLosses = 10 * time.Second

// loss is what an account has lost since the last line in the log about it.
type loss struct {
	told    time.Time
	entries int
}

// tellLoss logs that entries of a delivery are lost and why, and what was lost since the last time.
func (c *Controller) tellLoss(d record.LogDelivery, group string, entries int, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Clock.Now()
	l := c.losses[d.Account]
	if l.entries += entries; now.Sub(l.told) >= tellLosses {
		c.o.Log.Warn("entries of logs of load balancers are lost: no log group takes them", "group", group, "account",
			d.Account, "delivery", d.ID, "entries", l.entries, "reason", why)
		l = loss{told: now}
	}
	maps.DeleteFunc(c.losses, func(_ string, l loss) bool { return l.entries == 0 && now.Sub(l.told) >= tellLosses })
	c.losses[d.Account] = l
}

// clean removes the files of logs that nobody delivers, and the positions of deliveries that are gone.
func (c *Controller) clean(ctx context.Context, _ string) (reconcile.Result, error) {
	// What there is must be at least as old as the records that it is compared with.
	files, err := vended.Logs(c.o.Dir)
	if err != nil {
		return reconcile.Result{}, err
	}
	positions, err := c.o.Events.Marks(marks)
	if err != nil {
		return reconcile.Result{}, err
	}
	deliveries, err := c.deliveries.List(ctx, "")
	if err != nil {
		return reconcile.Result{}, err
	}
	delivered := map[vended.Log]bool{}
	for _, row := range deliveries {
		delete(positions, marks+row.Key)
		d := row.Value
		source, err := c.sources.Get(ctx, record.LogDeliveryKey(d.Account, d.Region, d.Source))
		if err != nil {
			return reconcile.Result{}, err
		}
		delivered[logOf(source.Value)] = true
	}
	var failures []error
	for _, l := range files {
		if !delivered[l] {
			failures = append(failures, vended.Remove(c.o.Dir, l))
		}
	}
	if len(positions) > 0 {
		for key := range positions {
			positions[key] = nil
		}
		failures = append(failures, c.o.Events.SetMarks(positions))
	}
	return reconcile.Result{}, errors.Join(failures...)
}
