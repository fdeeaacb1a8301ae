package logquery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/sourcegraph/conc"
	"github.com/sourcegraph/conc/panics"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/turn"
)

// Options configures a Runner. Store, Events and Dir are required.
type Options struct {
	Store  *store.Store
	Events *events.Store
	// Dir is the directory of the results' files; it is made when the controller starts.
	Dir string
	// Concurrent is the number of queries that run at once, and one more than that of one account; each uses all
	// processors. 0 is DefaultConcurrent.
	Concurrent int64
	// Memory is the memory limit of one query, in bytes; 0 is DefaultMemory.
	Memory int64
	// Page is the size of the text of one answer of Results, in bytes; the row that exceeds it is the last. 0 is
	// DefaultPage.
	Page int
	// Timeout is the time that a query may run; 0 is 60 minutes, as on AWS.
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html
	Timeout time.Duration
	Clock   clock.WithTicker // nil: the real one
	Log     *slog.Logger     // nil: slog.Default()
}

const (
	// DefaultConcurrent lets a short query pass a long one, and an account that has only long ones leave others a turn.
	DefaultConcurrent = 3
	// DefaultMemory keeps a daemon with DefaultConcurrent queries below 300 MiB.
	DefaultMemory = 80 << 20
	// DefaultPage has room for 10,000 events of 25 KB: clients made before results had pages get all of them. The rows
	// of an answer are in memory as a whole, once; encoded they are sent as they are written.
	DefaultPage = 256 << 20
	// retention is the time for which results are available after a query has ended.
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetQueryResults.html
	retention = 7 * 24 * time.Hour
	// maxQueued is the maximum number of queued queries; StartQuery refuses more long before.
	maxQueued = 256
)

// After a query has ended, and before the row that says so.
var crashEnded = crash.At("logs/query-ended")

// Runner runs queries.
type Runner struct {
	o       Options
	queries store.Table[record.LogQuery]
	runs    store.Table[record.LogQueryRun]
	groups  store.Table[record.LogGroup]
	streams store.Table[record.LogStream]
	turns   *turn.Places // of queries; each account leaves one to others

	mu     sync.Mutex
	active map[string]*execution // by the key of the query; those that run
}

// New makes a Runner. Its Controller must run for queries to be run.
func New(o Options) *Runner {
	if o.Concurrent == 0 {
		o.Concurrent = DefaultConcurrent
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Page == 0 {
		o.Page = DefaultPage
	}
	if o.Timeout == 0 {
		o.Timeout = time.Hour
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Runner{
		o:       o,
		queries: record.LogQueries(o.Store),
		runs:    record.LogQueryRuns(o.Store),
		groups:  record.LogGroups(o.Store),
		streams: record.LogStreams(o.Store),
		turns:   turn.Shared(o.Concurrent, 1),
		active:  map[string]*execution{},
	}
}

// Controller runs each started query to its end and deletes it when its results have expired.
func (r *Runner) Controller() reconcile.Controller {
	return reconcile.Controller{
		Name:      "logs-query",
		Reconcile: r.reconcile,
		Sources: []reconcile.Source{func(ctx context.Context, changed func(string)) {
			r.removeUnknownResults(ctx)
			var both conc.WaitGroup
			both.Go(func() { r.runs.Notify(ctx, "", changed) })
			both.Go(func() { r.queries.Notify(ctx, "", changed) })
			both.Wait()
		}},
		Workers: maxQueued,
		Clock:   r.o.Clock,
	}
}

func (r *Runner) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	query, err := r.queries.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	run, err := r.runs.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		if err := r.runQuery(ctx, query); err != nil {
			return reconcile.Result{}, err
		}
		run, err = r.runs.Get(ctx, key)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if left := r.remainingRetention(run.Value); left > 0 {
		return reconcile.Result{After: left}, nil
	}
	r.unmarkStarted(query.Value.ID)
	if err := os.Remove(r.resultsPath(query.Value.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return reconcile.Result{}, err
	}
	return reconcile.Result{Gone: true}, r.o.Store.Txn(ctx, r.queries.DeleteOp(query), r.runs.DeleteOp(run))
}

// remainingRetention returns how long the results of a query will be kept.
func (r *Runner) remainingRetention(run record.LogQueryRun) time.Duration {
	return run.EndedAt.Add(retention).Sub(r.o.Clock.Now())
}

// removeUnknownResults makes the directory of the results and removes files there that belong to no query: half-written
// ones, and those of queries that a restored backup does not know.
func (r *Runner) removeUnknownResults(ctx context.Context) {
	err := func() error {
		if err := os.MkdirAll(r.o.Dir, 0o700); err != nil {
			return err
		}
		files, err := os.ReadDir(r.o.Dir)
		if err != nil {
			return err
		}
		rows, err := r.queries.List(ctx, "")
		if err != nil {
			return err
		}
		known := map[string]bool{}
		for _, row := range rows {
			known[row.Value.ID] = true
		}
		for _, f := range files {
			if !known[strings.TrimSuffix(f.Name(), startedSuffix)] {
				if err := os.Remove(filepath.Join(r.o.Dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
		return nil
	}()
	if err != nil {
		r.o.Log.Error("could not tidy up the results of queries", "directory", r.o.Dir, "error", err)
	}
}

// Why a query is ended before its end.
var (
	errStopped = errors.New("the query was stopped")
	errTimeout = errors.New("the query ran too long")
)

// maxStarts is the maximum number of starts of a query that never ended.
const maxStarts = 2

var errInterrupted = fmt.Errorf("coracle was killed %d times while the query ran: ask for less time or fewer log "+
	"groups, and start it again", maxStarts)

// runQuery runs a query that has not ended. It returns an error only when that could not be recorded, or
// with ctx, which leaves the query as it was.
func (r *Runner) runQuery(ctx context.Context, query store.Row[record.LogQuery]) error {
	running, end := context.WithCancelCause(ctx)
	var stopper conc.WaitGroup
	defer stopper.Wait()
	defer end(nil)
	stopper.Go(func() {
		r.queries.Notify(running, query.Key, func(string) {
			now, err := r.queries.Get(running, query.Key)
			if err == nil && now.Value.Stop {
				end(errStopped)
			}
		})
	})

	e := newExecution(r, query.Value)
	inTurn, release, err := r.turns.Acquire(running, query.Value.Account)
	if err == nil {
		r.mu.Lock()
		r.active[query.Key] = e
		r.mu.Unlock()
		if err = r.markStarted(query.Value.ID); err == nil {
			err = r.execute(inTurn, end, e)
		}
		release()
		defer func() {
			r.mu.Lock()
			delete(r.active, query.Key)
			r.mu.Unlock()
		}()
	}
	if ctx.Err() != nil {
		r.unmarkStarted(query.Value.ID) // the daemon ends in order
		return ctx.Err()
	}
	out := record.LogQueryRun{Status: logstypes.QueryStatusComplete, Statistics: e.statistics()}
	cause := context.Cause(running)
	switch {
	case err == nil:
	case errors.Is(cause, errStopped):
		out.Status = logstypes.QueryStatusCancelled
	case errors.Is(cause, errTimeout):
		out.Status = logstypes.QueryStatusTimeout
		out.Reason = fmt.Sprintf("the query did not end within %s: ask for less time or fewer log groups", r.o.Timeout)
	default:
		out.Status, out.Reason = logstypes.QueryStatusFailed, record.Reason(err.Error())
		r.o.Log.Warn("a Logs Insights query failed", "query", query.Value.ID, "text", query.Value.Text, "error", err)
	}
	crashEnded.Here()
	out.EndedAt = r.o.Clock.Now()
	if _, err := r.runs.Put(ctx, query.Key, out); err != nil {
		return err
	}
	r.unmarkStarted(query.Value.ID)
	return nil
}

// markStarted counts that a query starts, until unmarkStarted. It returns errInterrupted when the daemon has died too
// often while the query ran: one that kills the daemon must not do so at each start.
func (r *Runner) markStarted(id string) error {
	before, err := os.ReadFile(r.startedPath(id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(before) >= maxStarts {
		return errInterrupted
	}
	return durable.WriteFile(r.startedPath(id), append(before, '.'), 0o600)
}

func (r *Runner) unmarkStarted(id string) {
	if err := os.Remove(r.startedPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.o.Log.Error("could not remove the mark of a query that ended", "query", id, "error", err)
	}
}

// execute computes the results of a query that has its turn, and writes them.
func (r *Runner) execute(ctx context.Context, end context.CancelCauseFunc, e *execution) (err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := string(debug.Stack())
			if scan, ok := p.(*panics.Recovered); ok { // of a goroutine of the query
				p, stack = scan.Value, string(scan.Stack)
			}
			r.o.Log.Error("a Logs Insights query panicked", "query", e.query.ID, "text", e.query.Text, "panic", p,
				"stack", stack)
			err = fmt.Errorf("an error inside the query engine: %v", p)
		}
	}()
	timer := r.o.Clock.NewTimer(r.o.Timeout)
	defer timer.Stop()
	ended := make(chan struct{})
	var timeout conc.WaitGroup
	defer timeout.Wait()
	defer close(ended)
	timeout.Go(func() {
		select {
		case <-timer.C():
			end(errTimeout)
		case <-ended:
		}
	})
	return e.computeResult(ctx, func(f *resultSet) error {
		if err := writeResults(ctx, r.resultsPath(e.query.ID), f); err != nil {
			return fmt.Errorf("could not write the results: %w", err)
		}
		return nil
	})
}

func (r *Runner) resultsPath(id string) string { return filepath.Join(r.o.Dir, id) }

// startedSuffix is of the file that has a byte for each start of a query that has not ended.
const startedSuffix = ".started"

func (r *Runner) startedPath(id string) string { return r.resultsPath(id) + startedSuffix }

// Results returns the status and results of a query. While the query is waiting or running, Status is Scheduled or
// Running, the statistics are those so far and the rows, if any, are the first of those so far. After its end, they are
// final.
//
// page gets the number of rows and returns which are wanted, from <= i < to; without it none are. Rows are as
// GetQueryResults shows them: the columns in order, without those that a row lacks, and @ptr last where rows are
// events. When the wanted rows exceed Options.Page together, Results returns the first ones. hold gets the memory that
// they take, in bytes, before they are read; its error is returned.
//
// A Complete query whose file of results is gone (a restored backup has none), damaged, or of an earlier version, is
// run again.
func (r *Runner) Results(ctx context.Context, q record.LogQuery, page func(rows int) (from, to int, err error),
	hold func(bytes int64) error) (record.LogQueryRun, [][]logstypes.ResultField, error) {
	key := record.LogQueryKey(q.Account, q.Region, q.ID)
	for {
		run, err := r.runs.Get(ctx, key)
		if err == nil {
			if run.Value.Status != logstypes.QueryStatusComplete || page == nil {
				return run.Value, nil, nil
			}
			rows, err := r.readResults(q.ID, page, hold)
			if err == nil || r.remainingRetention(run.Value) <= 0 ||
				!errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errResults) {
				return run.Value, rows, err
			}
			r.o.Log.Warn("a Logs Insights query runs again, for its results can't be read", "query", q.ID, "error", err)
			err = r.runs.Delete(ctx, run)
			if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
				continue
			}
			return record.LogQueryRun{}, nil, err
		}
		if !errors.Is(err, store.ErrNotFound) {
			return record.LogQueryRun{}, nil, err
		}
		r.mu.Lock()
		e := r.active[key]
		r.mu.Unlock()
		if e != nil {
			run := record.LogQueryRun{Status: logstypes.QueryStatusRunning, Statistics: e.statistics()}
			if page == nil {
				return run, nil, nil
			}
			rows, err := e.partialRows()
			if err != nil {
				return run, nil, err
			}
			from, to, err := page(len(rows))
			if err != nil {
				return run, nil, err
			}
			rows = rows[from:to]
			return run, rows, hold(bytesOf(rows))
		}
		// It waits, or has ended in between.
		if _, err := r.runs.Get(ctx, key); errors.Is(err, store.ErrNotFound) {
			return record.LogQueryRun{Status: logstypes.QueryStatusScheduled}, nil, nil
		}
	}
}

// readResults reads rows of a query that has ended.
func (r *Runner) readResults(
	id string, page func(rows int) (from, to int, err error), hold func(bytes int64) error,
) ([][]logstypes.ResultField, error) {
	file, err := openResults(r.resultsPath(id))
	if err != nil {
		return nil, err
	}
	defer file.close()
	from, to, err := page(file.rows)
	if err != nil {
		return nil, err
	}
	return file.readRows(from, to, r.o.Page, hold)
}
