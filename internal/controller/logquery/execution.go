package logquery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// execution is one query that waits, runs, or has just ended.
type execution struct {
	r         *Runner
	query     record.LogQuery
	noColumns bool // a test reads all fields from messages
	progress  progress

	// mu guards what partial results are made of.
	mu       sync.Mutex
	plan     *insights.Plan
	scans    []*scan
	blocks   []*events.Block
	rows     [][]logstypes.ResultField // the last partial results
	rowsNext time.Time                 // when they may be made again
}

// progress is the progress of a query.
type progress struct {
	matched, scanned, scannedBytes, skipped, skippedBytes, groups atomic.Int64
}

func newExecution(r *Runner, q record.LogQuery) *execution {
	return &execution{r: r, query: q}
}

func (e *execution) statistics() logstypes.QueryStatistics {
	return logstypes.QueryStatistics{
		RecordsMatched:          float64(e.progress.matched.Load()),
		RecordsScanned:          float64(e.progress.scanned.Load()),
		BytesScanned:            float64(e.progress.scannedBytes.Load()),
		EstimatedRecordsSkipped: float64(e.progress.skipped.Load()),
		EstimatedBytesSkipped:   float64(e.progress.skippedBytes.Load()),
		LogGroupsScanned:        float64(e.progress.groups.Load()),
	}
}

// source is a log group that a query reads.
type source struct {
	id      events.GroupID
	log     string // @log
	streams map[events.StreamID]string
	blocks  []*events.Block
}

// computeResult computes the result and passes it to write while the snapshots that it refers to are open.
func (e *execution) computeResult(ctx context.Context, write func(*resultSet) error) error {
	q, err := insights.Parse(e.query.Text)
	if err != nil {
		return err
	}
	plan, err := insights.Compile(q, insights.Options{
		Start:  e.query.Start * 1000,
		End:    e.query.End * 1000,
		Now:    e.query.CreatedAt.UnixMilli(),
		Limit:  int(e.query.Limit),
		Memory: e.r.o.Memory,
		Done:   ctx.Done(),

		References: true,
	})
	if err != nil {
		return err
	}

	// Snapshots of the groups.
	var sources []*source
	for i, id := range e.query.GroupIDs {
		view, src, err := e.openSnapshot(ctx, plan, e.query.Groups[i], id)
		if err != nil {
			return err
		}
		if view == nil {
			continue // the group is gone
		}
		defer view.Close() //nolint:errcheck // it was only read
		sources = append(sources, src)
		e.progress.groups.Add(1)
	}

	// The blocks of the groups, distributed to the processors.
	type job struct {
		source *source
		block  *events.Block
	}
	var jobs []job
	for _, src := range sources {
		for _, b := range src.blocks {
			jobs = append(jobs, job{src, b})
		}
	}
	// The newest first: most queries want few of them.
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.block.MaxTime(), a.block.MaxTime()) })
	blocks := make([]*events.Block, len(jobs))
	for i, j := range jobs {
		blocks[i] = j.block
	}
	var next atomic.Int64
	scans := make([]*scan, max(1, min(runtime.GOMAXPROCS(0), len(jobs))))
	for i := range scans {
		scans[i] = newScan(e, plan)
	}
	e.mu.Lock()
	e.plan, e.scans, e.blocks = plan, scans, blocks
	e.mu.Unlock()
	group := recovery.Group(ctx)
	for _, s := range scans {
		group.Go(func(ctx context.Context) error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := s.scanBlock(ctx, i, jobs[i].source, jobs[i].block); err != nil {
					return err
				}
			}
		})
	}
	err = group.Wait()
	e.mu.Lock()
	e.plan, e.scans, e.blocks = nil, nil, nil // no partial results from now on
	e.mu.Unlock()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	workers := make([]*insights.Worker, len(scans))
	for i, s := range scans {
		workers[i] = s.worker
	}
	result, err := plan.Finish(workers)
	if err != nil {
		return err
	}
	e.progress.matched.Store(result.Matched)
	return write(&resultSet{result, blocks})
}

// openSnapshot takes the snapshot of one group; nil when the group is gone.
func (e *execution) openSnapshot(ctx context.Context, plan *insights.Plan, name string, id uint64) (
	*events.View, *source, error) {
	row, err := e.r.groups.Get(ctx, record.LogGroupKey(e.query.Account, e.query.Region, name))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ID != id {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	windows := plan.Windows()
	from, to := windows[0].Start, windows[0].End
	for _, w := range windows {
		from, to = min(from, w.Start), max(to, w.End)
	}
	src := &source{id: events.GroupID(id), log: e.query.Account + ":" + name, streams: map[events.StreamID]string{}}
	view, err := e.r.o.Events.View(src.id, from, to+1)
	if err != nil {
		return nil, nil, fmt.Errorf("read log group %s: %w", name, err)
	}
	// The streams are read after the snapshot: an event in it belongs to a known stream or to a deleted one.
	if err := e.readStreams(ctx, id, src.streams); err != nil {
		view.Close() //nolint:errcheck // it was only read
		return nil, nil, err
	}
	src.blocks = view.Blocks()
	return view, src, nil
}

// streamsAtOnce is the number of log streams that are read together: a group may have several hundred thousand.
const streamsAtOnce = 1000

// readStreams reads the names of the streams of a group.
func (e *execution) readStreams(ctx context.Context, group uint64, into map[events.StreamID]string) error {
	for after := ""; ; {
		rows, next, err := e.r.streams.Page(ctx, record.LogStreamKey(group, ""), after, streamsAtOnce)
		if err != nil {
			return err
		}
		for _, s := range rows {
			into[events.StreamID(s.Value.ID)] = s.Value.Name
		}
		if after = next; next == "" {
			return nil
		}
	}
}

// partialRows returns the first rows so far. It computes them anew only when that takes no more than a tenth of the
// query's time.
func (e *execution) partialRows() ([][]logstypes.ResultField, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	start := e.r.o.Clock.Now()
	if e.rowsNext.IsZero() {
		e.rowsNext = start.Add(2 * time.Second) // most queries have ended by then
	}
	if e.plan == nil || start.Before(e.rowsNext) {
		return e.rows, nil
	}
	if result, ok := e.partialResult(); ok { // otherwise the last ones are shown again
		rows, err := (&resultSet{result, e.blocks}).firstRows()
		if err != nil {
			return nil, err
		}
		e.rows = rows
	}
	now := e.r.o.Clock.Now()
	e.rowsNext = now.Add(max(time.Second, 10*now.Sub(start)))
	return e.rows, nil
}

// partialResult returns the result so far, while no scan is running.
func (e *execution) partialResult() (*insights.Result, bool) {
	workers := make([]*insights.Worker, len(e.scans))
	for i, s := range e.scans {
		s.mu.Lock()
		defer s.mu.Unlock()
		workers[i] = s.worker
	}
	return e.plan.Partial(workers)
}
