package logquery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
	"github.com/coracle-eks/coracle/internal/record"
)

// padding is text to cut long messages from.
var padding = func() string {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 64<<10)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz -_/.:"[random.IntN(32)]
	}
	return string(b)
}()

// podEvent returns an audit event of 20 KB, as those of pods are.
func podEvent(i int) string {
	at := i * 7919 % (len(padding) - 20_000)
	return fmt.Sprintf(`{"verb":"patch","objectRef":{"resource":"pods","name":"pod-%d"},"requestObject":"%s"}`, i,
		padding[at:at+20_000])
}

// rowOf gives the number of the event that a row shows, -1 if its message is not just that of one.
func rowOf(row []logstypes.ResultField) int {
	for _, f := range row {
		if *f.Field != "@message" {
			continue
		}
		_, rest, _ := strings.Cut(*f.Value, `"pod-`)
		number, _, _ := strings.Cut(rest, `"`)
		n := -1
		if _, err := fmt.Sscan(number, &n); err != nil || podEvent(n) != *f.Value {
			return -1
		}
		return n
	}
	return -1
}

// Ten thousand events of pods, 200 MB, are an everyday answer: it needs no more memory than that of short ones.
func TestTenThousandLongMessages(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	a, b := l.group("a"), l.group("b")
	streams := map[uint64]events.StreamID{a.ID: l.stream(a, "kube-apiserver-audit-1"),
		b.ID: l.stream(b, "kube-apiserver-audit-1")}
	// Event n is at n milliseconds; each tenth is of group b.
	const total = 10_500
	const most = 10_000
	for from := 0; from < total; from += 100 {
		batches := map[uint64]*events.Batch{a.ID: {Group: events.GroupID(a.ID)}, b.ID: {Group: events.GroupID(b.ID)}}
		for n := from; n < from+100; n++ {
			g := a.ID
			if n%10 == 0 {
				g = b.ID
			}
			batches[g].Events = append(batches[g].Events, events.Event{Stream: streams[g], Timestamp: int64(n),
				Message: podEvent(n)})
		}
		for _, b := range batches {
			if _, err := l.events.Append(t.Context(), *b); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.serve(func(o *Options) { o.Memory, o.Page = 16<<20, 1<<30 })
	ascending, descending := make([]int, most), make([]int, most)
	for i := range most {
		ascending[i], descending[i] = i, total-1-i
	}
	check := func(what string, q record.LogQuery, want []int) {
		t.Helper()
		run, rows := l.end(q)
		if run.Status != logstypes.QueryStatusComplete || len(rows) != len(want) {
			t.Fatalf("%s is %s with %d rows: %s", what, run.Status, len(rows), run.Reason)
		}
		for i, row := range rows {
			if got := rowOf(row); got != want[i] {
				t.Fatalf("%s: row %d shows event %d, want %d", what, i, got, want[i])
			}
		}
	}
	both := []record.LogGroup{a, b}
	const asked = `fields @timestamp, @message | sort @timestamp asc | filter objectRef.resource == 'pods' | limit 10000`
	first := l.start(asked, both)
	check("in the order of time", first, ascending)
	check("newest first", l.start(`fields @timestamp, @message | sort @timestamp desc | limit 10000`, both), descending)
	check("with a limit in the middle", l.start(
		`fields @timestamp, @message | limit 10000 | filter objectRef.resource == 'pods'`, both), descending)
	check("in the default order of one group", l.start(`filter objectRef.resource == 'pods'`, both[:1]),
		slices.DeleteFunc(slices.Collect(func(yield func(int) bool) {
			for n := total - 1; n >= 0 && yield(n); n-- {
			}
		}), func(n int) bool { return n%10 == 0 }))

	// A page costs what it shows.
	_, rows, err := l.runner.Results(t.Context(), first, func(rows int) (int, int, error) {
		return rows - 3, rows, nil
	}, counted)
	if err != nil || len(rows) != 3 || rowOf(rows[0]) != most-3 || rowOf(rows[2]) != most-1 {
		t.Errorf("the last page has %d rows, %v", len(rows), err)
	}

	// Results don't need the log group.
	for _, g := range both {
		row, err := record.LogGroups(l.store).Get(t.Context(), record.LogGroupKey(account, region, g.Name))
		if err == nil {
			err = errors.Join(record.LogGroups(l.store).Delete(t.Context(), row),
				l.events.DeleteGroup(events.GroupID(g.ID)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check("after the groups were deleted", first, ascending)
}

// putPodEvents makes a log group with so many events of pods, a millisecond apart.
func (l *logs) putPodEvents(n int) record.LogGroup {
	l.t.Helper()
	g := l.group("g")
	st := l.stream(g, "s")
	for i := range n {
		l.put(g, st, int64(i), podEvent(i))
	}
	return g
}

// An answer ends with the row that fills it, and the next one goes on behind it.
func TestLongRowsArePaged(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.putPodEvents(25)
	l.serve(func(o *Options) { o.Page = 190_000 })
	q := l.start(`fields @message | sort @timestamp asc`, []record.LogGroup{g})
	_, rows := l.end(q)
	var sizes, got []int
	for len(rows) > 0 {
		sizes = append(sizes, len(rows))
		for _, row := range rows {
			got = append(got, rowOf(row))
		}
		var err error
		if _, rows, err = l.runner.Results(t.Context(), q, func(all int) (int, int, error) {
			return len(got), all, nil
		}, counted); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(sizes, []int{10, 10, 5}) || !slices.IsSorted(got) || len(got) != 25 || got[0] != 0 ||
		got[24] != 24 {
		t.Errorf("pages of %v rows: %v", sizes, got)
	}
}

// An answer is charged with what it takes before it takes it, also while the query runs.
func TestAnswersAreCharged(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.putPodEvents(25)
	l.serve()
	q := l.start(`fields @message | sort @timestamp asc`, []record.LogGroup{g})
	_, rows := l.end(q)
	var charged int64
	_, again, err := l.runner.Results(t.Context(), q, all, func(bytes int64) error {
		charged = bytes
		return nil
	})
	if err != nil || len(again) != len(rows) || charged != bytesOf(rows) {
		t.Errorf("%d rows of %d bytes were charged with %d bytes, %v", len(again), bytesOf(rows), charged, err)
	}
	full := errors.New("others have all")
	if _, rows, err := l.runner.Results(t.Context(), q, all,
		func(int64) error { return full }); !errors.Is(err, full) || rows != nil {
		t.Errorf("there were %d rows nobody had room for, %v", len(rows), err)
	}
}

// What commands behind a limit read of messages counts as memory.
func TestMessagesThatAreHeldCount(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.putPodEvents(100)
	l.serve(func(o *Options) { o.Memory = 1 << 20 })
	run, _ := l.end(l.start(`fields @message | limit 100 | filter @message like 'patch'`, []record.LogGroup{g}))
	if run.Status != logstypes.QueryStatusFailed || !strings.Contains(run.Reason, "limit holds more than the 1.0 MiB") {
		t.Errorf("the query is %s: %s", run.Status, run.Reason)
	}
	if _, got := l.results(`fields @message | limit 20 | filter @message like 'pod-9' | display @timestamp`,
		g); len(got) != 10 {
		t.Errorf("%d rows", len(got))
	}
}

// Several columns and several rows may show one message.
func TestOneMessageSeveralTimes(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.group("g")
	l.put(g, l.stream(g, "s"), 1000, "", `{"list":["a","b"]}`)
	l.serve()
	_, got := l.results(
		`fields @message as m, jsonParse(@message) as j, m as again | unnest j.list into e | display m, e, again`, g)
	want := []string{`m={"list":["a","b"]} | e=a | again={"list":["a","b"]}`,
		`m={"list":["a","b"]} | e=b | again={"list":["a","b"]}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, got := l.results(`fields @message | sort @timestamp asc`, g); len(got) != 2 || got[0] != "@message=" {
		t.Errorf("rows are %v", got)
	}
}

// A file of results that was cut short, that has changed, or that an earlier version wrote, is not taken for
// one: the query runs again.
func TestDamagedResultsAreMadeAgain(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.putPodEvents(50)
	l.serve()
	q := l.start("fields @message, verb | sort @timestamp asc", []record.LogGroup{g})
	_, want := l.end(q)
	path := l.runner.resultsPath(q.ID)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	broken := [][]byte{nil, good[:len(good)-1], good[:len(good)/2], good[:len(resultsFormat)],
		append(slices.Clone(good), 0), []byte(strings.Replace(string(good), "results 2", "results 1", 1))}
	for range 200 {
		bad := slices.Clone(good)
		bad[random.IntN(len(bad))] ^= byte(1 + random.IntN(255))
		broken = append(broken, bad)
	}
	for i, bad := range broken {
		other := path + "-damaged"
		if err := os.WriteFile(other, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		rows, err := func() ([][]logstypes.ResultField, error) {
			r, err := openResults(other)
			if err != nil {
				return nil, err
			}
			defer r.close()
			return r.readRows(0, r.rows, 1<<30, counted)
		}()
		// A byte that means nothing may change: that of a frame's header which only a decoder with less memory would
		// mind.
		if err == nil && cmp.Equal(lines(want), lines(rows)) {
			continue
		}
		if !errors.Is(err, errResults) {
			t.Errorf("damage %d gives %d rows, %v", i, len(rows), err)
		}
	}
	for _, bad := range broken[:7] {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		run, got := l.end(q)
		if run.Status != logstypes.QueryStatusComplete || !cmp.Equal(lines(want), lines(got)) {
			t.Errorf("the query is %s: %s", run.Status, run.Reason)
		}
	}
}

// While a query runs it shows the first of its rows, and not more than it should hold for that.
func TestFirstRowsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.putPodEvents(400)
	l.serve()
	e := newExecution(l.runner, l.start("fields @message | sort @timestamp asc", []record.LogGroup{g}))
	err := e.computeResult(t.Context(), func(f *resultSet) error {
		rows, err := f.firstRows()
		if err != nil {
			return err
		}
		if len(rows) < 150 || len(rows) > 250 { // 4 MiB
			t.Errorf("%d rows", len(rows))
		}
		for i, row := range rows {
			if got := rowOf(row); got != i {
				t.Fatalf("row %d shows event %d", i, got)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Results that could not be written leave nothing behind.
func TestResultsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := l.group("g")
	l.put(g, l.stream(g, "s"), 1000, "a")
	l.serve()
	e := newExecution(l.runner, l.start("fields @message", []record.LogGroup{g}))
	dir := t.TempDir()
	err := e.computeResult(t.Context(), func(f *resultSet) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return writeResults(ctx, dir+"/results", f)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left over: %v, %v", files, err)
	}
	if _, err := openResults(dir + "/results"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := writeResults(t.Context(), dir+"/empty",
		&resultSet{Result: &insights.Result{Columns: []string{"a"}, Rows: [][]value.Value{{{}}}}}); err != nil {
		t.Fatal(err)
	}
}
