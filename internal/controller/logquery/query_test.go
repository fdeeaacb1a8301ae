package logquery

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
)

// logs is a store of log events with its groups and streams, and a runner over them.
type logs struct {
	t      *testing.T
	store  *store.Store
	events *events.Store
	dir    string
	seq    uint64 // the last number given
	runner *Runner
	stop   func() // the controller
	clock  clock.WithTicker
}

func newLogs(t *testing.T) *logs {
	t.Helper()
	return newLogsOf(t, events.Options{Log: slog.New(slog.DiscardHandler)})
}

func newLogsOf(t *testing.T, o events.Options) *logs {
	t.Helper()
	l := &logs{t: t, store: storetest.New(t), dir: t.TempDir()}
	var err error
	if l.events, err = events.Open(filepath.Join(l.dir, "events"), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.events.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { l.kill() })
	return l
}

// serve runs the controller of a new runner, as a daemon that has just started does.
func (l *logs) serve(change ...func(*Options)) {
	l.t.Helper()
	o := Options{Store: l.store, Events: l.events, Dir: filepath.Join(l.dir, "results"), Clock: l.clock,
		Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	l.runner = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- reconcile.Run(ctx, o.Log, l.runner.Controller()) }()
	l.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
	})
}

// kill ends the controller in the middle of what it does.
func (l *logs) kill() {
	if l.stop != nil {
		l.stop()
	}
}

func (l *logs) group(name string) record.LogGroup {
	l.t.Helper()
	l.seq++
	g := record.LogGroup{Account: account, Region: region, Name: name, ID: l.seq, CreatedAt: time.Now()}
	if _, err := record.LogGroups(l.store).Create(l.t.Context(), record.LogGroupKey(account, region, name),
		g); err != nil {
		l.t.Fatal(err)
	}
	return g
}

func (l *logs) stream(g record.LogGroup, name string) events.StreamID {
	l.t.Helper()
	l.seq++
	st := record.LogStream{Account: g.Account, GroupID: g.ID, Name: name, ID: l.seq, CreatedAt: time.Now()}
	if _, err := record.LogStreams(l.store).Create(l.t.Context(), record.LogStreamKey(g.ID, name), st); err != nil {
		l.t.Fatal(err)
	}
	return events.StreamID(st.ID)
}

// put appends messages, a millisecond apart from the given one on.
func (l *logs) put(g record.LogGroup, st events.StreamID, from int64, messages ...string) {
	l.t.Helper()
	b := events.Batch{Group: events.GroupID(g.ID)}
	for i, m := range messages {
		b.Events = append(b.Events, events.Event{Stream: st, Timestamp: from + int64(i), Ingested: from + 5000,
			Message: m})
	}
	if _, err := l.events.Append(l.t.Context(), b); err != nil {
		l.t.Fatal(err)
	}
}

// start starts a query over groups, from second 0 to the end of time unless change edits it.
func (l *logs) start(text string, groups []record.LogGroup, change ...func(*record.LogQuery)) record.LogQuery {
	l.t.Helper()
	l.seq++
	q := record.LogQuery{Account: account, Region: region, ID: fmt.Sprintf("00000000-0000-0000-0000-%012d", l.seq),
		Text:     text,
		Language: logstypes.QueryLanguageCwli, End: 1 << 32, CreatedAt: time.UnixMilli(1_700_000_000_000)}
	for _, g := range groups {
		q.Groups, q.GroupIDs = append(q.Groups, g.Name), append(q.GroupIDs, g.ID)
	}
	for _, c := range change {
		c(&q)
	}
	if _, err := record.LogQueries(l.store).Create(l.t.Context(), record.LogQueryKey(q.Account, region, q.ID),
		q); err != nil {
		l.t.Fatal(err)
	}
	return q
}

// await waits until the query satisfies what.
func (l *logs) await(q record.LogQuery, what func(record.LogQueryRun) bool) (
	record.LogQueryRun, [][]logstypes.ResultField) {
	l.t.Helper()
	var run record.LogQueryRun
	var rows [][]logstypes.ResultField
	if err := eventually.Try(2*time.Millisecond, func() (err error) { // there are many queries
		if run, rows, err = l.runner.Results(l.t.Context(), q, all, counted); err != nil {
			return eventually.Never(err)
		}
		if !what(run) {
			return fmt.Errorf("the query is %s", run.Status)
		}
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	return run, rows
}

// counted lets an answer take what it needs.
func counted(int64) error { return nil }

// all selects all rows.
func all(rows int) (from, to int, err error) { return 0, rows, nil }

func ended(run record.LogQueryRun) bool {
	return run.Status != logstypes.QueryStatusScheduled && run.Status != logstypes.QueryStatusRunning
}

func (l *logs) end(q record.LogQuery) (record.LogQueryRun, [][]logstypes.ResultField) {
	l.t.Helper()
	return l.await(q, ended)
}

// results returns the rows of a query that must complete, one a line, without @ptr.
func (l *logs) results(text string, groups ...record.LogGroup) (record.LogQueryRun, []string) {
	l.t.Helper()
	run, rows := l.end(l.start(text, groups))
	if run.Status != logstypes.QueryStatusComplete {
		l.t.Fatalf("%s\nis %s: %s", text, run.Status, run.Reason)
	}
	return run, lines(rows)
}

func lines(rows [][]logstypes.ResultField) []string {
	var all []string
	for _, row := range rows {
		var cells []string
		for _, f := range row {
			if *f.Field != "@ptr" {
				cells = append(cells, *f.Field+"="+*f.Value)
			}
		}
		all = append(all, strings.Join(cells, " | "))
	}
	return all
}
