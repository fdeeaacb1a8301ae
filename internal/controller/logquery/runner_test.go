package logquery

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func audit(name, resource, verb, user string) string {
	return fmt.Sprintf(
		`{"kind":"Event","verb":%q,"user":{"username":%q,"groups":["system:masters"]},"objectRef":{"resource":%q,"name":%q}}`,
		verb,
		user,
		resource,
		name,
	)
}

// The two queries of everybody who debugs EKS, and the broken third, which the API refuses before it comes here.
func TestWhoChangedThis(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.group("/aws/eks/demo/cluster")
	auditLog, other := l.stream(g, "kube-apiserver-audit-0123456789abcdef0123456789abcdef"), l.stream(g,
		"kube-apiserver-0123456789abcdef0123456789abcdef")
	l.put(g, auditLog, 1000,
		audit("aws-node", "daemonsets", "get", "bob"),
		audit("aws-node", "daemonsets", "patch", "eks:addon-manager"),
		audit("aws-node", "serviceaccounts", "patch", "alice"),
		audit("aws-auth", "configmaps", "get", "bob"),
		audit("aws-auth", "configmaps", "update", "alice"),
		audit("aws-auth", "configmaps", "list", "bob"),
		audit("aws-node", "daemonsets", "patch", "alice"),
		audit("aws-auth", "configmaps", "patch", "eks:node-manager"),
	)
	l.put(g, other, 1000, "I1121 aws-node daemonsets patch", audit("aws-node", "daemonsets", "patch", "mallory"))
	l.serve()

	_, got := l.results(`filter @logStream like /^kube-apiserver-audit/
 | fields @timestamp, @message
 | sort @timestamp asc
 | filter objectRef.name == 'aws-node' AND objectRef.resource == 'daemonsets' AND verb == 'patch'
 | limit 10000`, g)
	want := []string{
		"@timestamp=1970-01-01 00:00:01.001 | @message=" + audit("aws-node", "daemonsets", "patch",
			"eks:addon-manager"),
		"@timestamp=1970-01-01 00:00:01.006 | @message=" + audit("aws-node", "daemonsets", "patch", "alice"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("aws-node (-want +got):\n%s", diff)
	}
	run, got := l.results(`filter @logStream like /^kube-apiserver-audit/
 | fields @timestamp, @message
 | sort @timestamp asc
 | filter objectRef.name == 'aws-auth' AND verb != 'get' AND verb != 'list' AND verb != 'watch'
 | limit 10000`, g)
	want = []string{
		"@timestamp=1970-01-01 00:00:01.004 | @message=" + audit("aws-auth", "configmaps", "update", "alice"),
		"@timestamp=1970-01-01 00:00:01.007 | @message=" + audit("aws-auth", "configmaps", "patch", "eks:node-manager"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("aws-auth (-want +got):\n%s", diff)
	}
	if s := run.Statistics; s.RecordsMatched != 2 || s.RecordsScanned != 10 || s.BytesScanned < 900 ||
		s.LogGroupsScanned != 1 {
		t.Errorf("statistics are %+v", s)
	}
}

func TestPointer(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.group("g")
	st := l.stream(g, "s")
	l.put(g, st, 1000, "a", "b")
	l.serve()
	_, rows := l.end(l.start("fields @message | filter @message = 'b'", []record.LogGroup{g}))
	if len(rows) != 1 || *rows[0][len(rows[0])-1].Field != "@ptr" {
		t.Fatalf("rows are %v", lines(rows))
	}
	p, ok := record.ParseLogPointer(*rows[0][len(rows[0])-1].Value)
	if !ok || p.GroupID != g.ID {
		t.Fatalf("the pointer is %+v, %v", p, ok)
	}
	e, found, err := l.events.Event(events.GroupID(p.GroupID), events.Position{Timestamp: p.Timestamp, Seq: p.Seq})
	if err != nil || !found || e.Message != "b" {
		t.Errorf("it points at %+v, %v, %v", e, found, err)
	}
}

func TestTimeRangeIsInclusive(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.group("g")
	st := l.stream(g, "s")
	for _, ms := range []int64{9_999, 10_000, 15_000, 20_000, 20_001} {
		l.put(g, st, ms, fmt.Sprint(ms))
	}
	l.serve()
	run, rows := l.end(l.start("fields @message | sort @timestamp asc", []record.LogGroup{g},
		func(q *record.LogQuery) { q.Start, q.End = 10, 20 }))
	if got := lines(rows); !slices.Equal(got, []string{"@message=10000", "@message=15000", "@message=20000"}) ||
		run.Statistics.RecordsScanned != 3 {
		t.Errorf("rows are %v, statistics %+v", got, run.Statistics)
	}
}

func TestSeveralGroups(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	a, b := l.group("a"), l.group("b")
	l.put(a, l.stream(a, "x"), 1000, "one", "two")
	l.put(b, l.stream(b, "x"), 1000, "three")
	l.serve()
	run, got := l.results("stats count(*) by @log | sort @log asc", a, b)
	want := []string{"@log=111122223333:a | count(*)=2", "@log=111122223333:b | count(*)=1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if run.Statistics.LogGroupsScanned != 2 {
		t.Errorf("statistics are %+v", run.Statistics)
	}
}

func TestGroupsAndStreamsThatAreGone(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.group("g")
	keep, drop := l.stream(g, "keep"), l.stream(g, "drop")
	l.put(g, keep, 1000, "kept")
	l.put(g, drop, 1000, "dropped")
	streams := record.LogStreams(l.store)
	row, err := streams.Get(t.Context(), record.LogStreamKey(g.ID, "drop"))
	if err != nil {
		t.Fatal(err)
	}
	if err := streams.Delete(t.Context(), row); err != nil { // its events are still there
		t.Fatal(err)
	}
	l.serve()
	if _, got := l.results("fields @message", g); !slices.Equal(got, []string{"@message=kept"}) {
		t.Errorf("rows are %v", got)
	}
	groups := record.LogGroups(l.store)
	old, err := groups.Get(t.Context(), record.LogGroupKey(account, region, "g"))
	if err != nil {
		t.Fatal(err)
	}
	if err := groups.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	again := l.group("g")
	if run, got := l.results("fields @message", g); len(got) != 0 || run.Statistics.LogGroupsScanned != 0 {
		t.Errorf("a group that was made again shows what the old one had: %v", got)
	}
	if _, got := l.results("fields @message", again); len(got) != 0 {
		t.Errorf("rows are %v", got)
	}
}

// many puts events that keep a query busy until it is told to end: a regular expression that is slow by its size.
func (l *logs) many(n int) record.LogGroup {
	g := l.group("many")
	st := l.stream(g, "s")
	text := strings.Repeat("ab", 2000)
	messages := make([]string, 1000)
	for i := range messages {
		messages[i] = text
	}
	for i := range n / len(messages) {
		l.put(g, st, int64(i)*1000, messages...)
	}
	return g
}

const (
	slow    = `filter @message like /(a|b)+[^ab]/ | stats count(*)` // a second
	endless = `filter @message like /(a|b)+[ab]{450}[^ab]/ | stats count(*)`
)

func running(run record.LogQueryRun) bool { return run.Status == logstypes.QueryStatusRunning }

func TestStop(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.many(5_000)
	l.serve(func(o *Options) { o.Concurrent = 1 })
	first, second := l.start(endless, []record.LogGroup{g}), record.LogQuery{}
	l.await(first, running)
	second = l.start(endless, []record.LogGroup{g})
	if run, _, err := l.runner.Results(t.Context(), second, all, counted); err != nil ||
		run.Status != logstypes.QueryStatusScheduled {
		t.Errorf("the second query is %s, %v", run.Status, err)
	}
	for _, q := range []record.LogQuery{second, first} {
		_, err := record.LogQueries(l.store).Modify(t.Context(), record.LogQueryKey(account, region, q.ID),
			func(q *record.LogQuery) error {
				q.Stop = true
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if run, _ := l.end(q); run.Status != logstypes.QueryStatusCancelled {
			t.Errorf("the query is %s: %s", run.Status, run.Reason)
		}
	}
}

// A query that takes hours for one event ends when it is stopped, and when its time is over.
func TestAQueryEndsWithinAnEvent(t *testing.T) {
	t.Parallel()
	for status, end := range map[logstypes.QueryStatus]func(l *logs, q record.LogQuery) error{
		logstypes.QueryStatusCancelled: func(l *logs, q record.LogQuery) error {
			_, err := record.LogQueries(l.store).Modify(t.Context(), record.LogQueryKey(account, region, q.ID),
				func(q *record.LogQuery) error {
					q.Stop = true
					return nil
				})
			return err
		},
		logstypes.QueryStatusTimeout: func(l *logs, _ record.LogQuery) error {
			l.clock.Sleep(time.Hour)
			return nil
		},
	} {
		l := newLogs(t)
		l.clock = clocktesting.NewFakeClock(time.Now())
		g := l.group("/one/event")
		l.put(g, l.stream(g, "stream"), 0, strings.Repeat("a", 1<<20))
		l.serve()
		q := l.start(`filter regexReplace(@message, "a.*b|a", "") = "b"`, []record.LogGroup{g})
		l.await(q, func(run record.LogQueryRun) bool { return run.Statistics.RecordsScanned == 1 })
		if err := end(l, q); err != nil {
			t.Fatal(err)
		}
		if run, _ := l.end(q); run.Status != status {
			t.Errorf("the query is %s, and not %s: %s", run.Status, status, run.Reason)
		}
	}
}

// However many queries an account has, those of another get their turn.
func TestAccountsShareTheTurns(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.many(5_000)
	l.serve(func(o *Options) { o.Concurrent = 2 })
	var busy []record.LogQuery
	for range 3 {
		busy = append(busy, l.start(endless, []record.LogGroup{g}))
	}
	eventually.Nil(t, "one query of the account runs", func() error {
		n := 0
		for _, q := range busy {
			run, _, err := l.runner.Results(t.Context(), q, nil, nil)
			if err != nil {
				return err
			}
			if running(run) {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	other := l.start("fields @message", nil, func(q *record.LogQuery) { q.Account = "444455556666" })
	if run, _ := l.end(other); run.Status != logstypes.QueryStatusComplete {
		t.Errorf("the query of another account is %s: %s", run.Status, run.Reason)
	}
	if run, _, err := l.runner.Results(t.Context(), busy[2], nil, nil); err != nil || ended(run) {
		t.Errorf("a query that does not end is %s, %v", run.Status, err)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	clock := clocktesting.NewFakeClock(time.Now())
	l.clock = clock
	g := l.many(5_000)
	l.serve()
	q := l.start(endless, []record.LogGroup{g})
	l.await(q, running)
	run, _ := l.await(q, func(run record.LogQueryRun) bool {
		clock.Step(30 * time.Minute)
		return ended(run)
	})
	if run.Status != logstypes.QueryStatusTimeout || !strings.Contains(run.Reason, "1h") {
		t.Errorf("the query is %s: %s", run.Status, run.Reason)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.group("g")
	st := l.stream(g, "s")
	for i := range int64(20) {
		messages := make([]string, 1000)
		for n := range messages {
			messages[n] = fmt.Sprintf(`{"id":"%d-%d-%s"}`, i, n, strings.Repeat("x", 100))
		}
		l.put(g, st, 1000*i, messages...)
	}
	l.serve(func(o *Options) { o.Memory = 1 << 20 })
	run, _ := l.end(l.start("stats count(*) by id", []record.LogGroup{g}))
	if run.Status != logstypes.QueryStatusFailed || run.Reason == "" {
		t.Errorf("the query is %s: %s", run.Status, run.Reason)
	}
	if _, got := l.results("stats count(*)", g); !slices.Equal(got, []string{"count(*)=20000"}) {
		t.Errorf("the next query finds %v", got)
	}
}

func TestQueryThatDoesNotCompileFails(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	l.serve()
	if run, _ := l.end(l.start("fields (",
		[]record.LogGroup{l.group("g")})); run.Status != logstypes.QueryStatusFailed || run.Reason == "" {
		t.Errorf("the query is %s: %s", run.Status, run.Reason)
	}
}

func TestPanicFailsTheQueryOnly(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.group("g")
	l.put(g, l.stream(g, "s"), 1000, "a")
	l.serve()
	l.runner.groups = nil // as good a bug as any
	if run, _ := l.end(l.start("fields @message", []record.LogGroup{g})); run.Status != logstypes.QueryStatusFailed {
		t.Errorf("the query is %s", run.Status)
	}
}

func TestUnfinishedQueriesRunAgain(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.many(5_000)
	l.serve()
	q := l.start(slow, []record.LogGroup{g})
	l.await(q, running)
	l.kill()
	if _, err := record.LogQueryRuns(l.store).Get(t.Context(), record.LogQueryKey(account, region, q.ID)); !errors.Is(
		err, store.ErrNotFound) {
		t.Fatalf("the query has a run: %v", err)
	}
	half := filepath.Join(l.dir, "results", "writing-1")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.serve()
	run, rows := l.end(q)
	if got := lines(rows); run.Status != logstypes.QueryStatusComplete || len(got) != 0 {
		t.Errorf("the query is %s with %v", run.Status, got)
	}
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was half written is still there: %v", err)
	}
}

func TestQueryThatKillsTheDaemonIsNotStartedForEver(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.group("g")
	l.put(g, l.stream(g, "s"), 1000, "a")
	q := l.start("fields @message", []record.LogGroup{g})
	results := filepath.Join(l.dir, "results")
	if err := os.MkdirAll(results, 0o700); err != nil {
		t.Fatal(err)
	}
	// As a daemon leaves it that was killed twice.
	if err := os.WriteFile(filepath.Join(results, q.ID+startedSuffix), []byte(".."), 0o600); err != nil {
		t.Fatal(err)
	}
	l.serve()
	if run, _ := l.end(q); run.Status != logstypes.QueryStatusFailed || run.Reason != errInterrupted.Error() {
		t.Errorf("the query is %s: %s", run.Status, run.Reason)
	}
	if run, _ := l.end(l.start("fields @message", []record.LogGroup{g})); run.Status != logstypes.QueryStatusComplete {
		t.Errorf("another query is %s: %s", run.Status, run.Reason)
	}
	l.kill() // in order: the marks are gone
	if marks, err := filepath.Glob(filepath.Join(results, "*"+startedSuffix)); err != nil || len(marks) > 0 {
		t.Errorf("left over: %v, %v", marks, err)
	}
}

func TestResultsOutliveTheDaemonAndExpire(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	clock := clocktesting.NewFakeClock(time.Now())
	l.clock = clock
	g := l.group("g")
	l.put(g, l.stream(g, "s"), 1000, "a", "b", "c")
	l.serve()
	q := l.start("fields @message | sort @timestamp desc", []record.LogGroup{g})
	want, before := l.end(q)
	l.kill()
	l.serve()
	run, after, err := l.runner.Results(t.Context(), q, all, counted)
	if err != nil || run.Status != logstypes.QueryStatusComplete || run.Statistics != want.Statistics {
		t.Errorf("the query is %+v after a restart, %v", run, err)
	}
	if diff := cmp.Diff(lines(before), lines(after)); diff != "" || len(after) != 3 {
		t.Errorf("the results changed:\n%s", diff)
	}
	// A backup has no results.
	l.kill()
	if err := os.Remove(filepath.Join(l.dir, "results", q.ID)); err != nil {
		t.Fatal(err)
	}
	l.serve()
	run, again := l.end(q)
	if diff := cmp.Diff(lines(before), lines(again)); diff != "" {
		t.Errorf("the results that were made again differ:\n%s", diff)
	}
	if err := eventually.Try(time.Millisecond, func() error { // many looks
		clock.Step(time.Hour)
		_, err := record.LogQueries(l.store).Get(t.Context(), record.LogQueryKey(account, region, q.ID))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("the query is still there after %s, %v", clock.Since(run.EndedAt), err)
	}); err != nil {
		t.Fatal(err)
	}
	if age := clock.Since(run.EndedAt); age < 7*24*time.Hour {
		t.Errorf("the query was deleted after %s", age)
	}
	if files, err := os.ReadDir(filepath.Join(l.dir, "results")); err != nil || len(files) > 0 {
		t.Errorf("left over: %v, %v", files, err)
	}
	if _, err := record.LogQueryRuns(l.store).Get(t.Context(), record.LogQueryKey(account, region, q.ID)); !errors.Is(
		err, store.ErrNotFound) {
		t.Errorf("its run is left: %v", err)
	}
}

func TestGroupDeletedDuringTheQuery(t *testing.T) {
	t.Parallel()
	l := newLogsOf(t, events.Options{SealBytes: 1 << 20})
	g := l.many(5_000)
	l.serve()
	q := l.start(slow, []record.LogGroup{g})
	l.await(q, running)
	if err := l.events.DeleteGroup(events.GroupID(g.ID)); err != nil {
		t.Fatal(err)
	}
	if run, _ := l.end(q); run.Status != logstypes.QueryStatusComplete {
		t.Errorf("the query is %s: %s", run.Status, run.Reason)
	}
}

func TestPartialResults(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.many(5_000)
	clock := clocktesting.NewFakeClock(time.Now())
	l.clock = clock
	l.serve(func(o *Options) { o.Timeout = 1000 * time.Hour })
	q := l.start(`filter @message not like /(a|b)+[^ab]/ | limit 5`, []record.LogGroup{g})
	seen := 0
	l.await(q, func(run record.LogQueryRun) bool {
		clock.Step(3 * time.Second)
		if _, rows, err := l.runner.Results(t.Context(), q, all, counted); err != nil {
			t.Fatal(err)
		} else if running(run) && len(rows) > 0 {
			seen++
		}
		return ended(run)
	})
	if seen == 0 {
		t.Error("no rows were seen while it ran")
	}
}

func TestBitmap(t *testing.T) {
	t.Parallel()
	s := &scan{}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		n := random.IntN(500)
		b, want := s.acquireBitmap(n), []int(nil)
		for i := range n {
			if random.IntN(3) == 0 {
				b.set(i)
				if random.IntN(5) == 0 {
					b.clear(i)
				} else {
					want = append(want, i)
				}
			}
		}
		if got := slices.Collect(b.allRows); !slices.Equal(got, want) || b.hasAnyBit() != (len(want) > 0) {
			t.Fatalf("%d rows: %v, not %v", n, got, want)
		}
		s.release(b)
	}
}
