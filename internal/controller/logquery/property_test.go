package logquery

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
	"github.com/coracle-eks/coracle/internal/record"
)

// plainEvent is an event as anyone would read it: from the message, each time.
type plainEvent struct {
	fields []string
	group  record.LogGroup
	stream string
	events.Event
}

func (e *plainEvent) Value(field int) value.Value {
	switch name := e.fields[field]; name {
	case "@timestamp":
		return value.Time(e.Timestamp)
	case "@ingestionTime":
		return value.Time(e.Ingested)
	case "@message":
		return value.String(e.Message)
	case "@logStream":
		return value.String(e.stream)
	case "@log":
		return value.String(account + ":" + e.group.Name)
	case "@ptr":
		return value.String(record.LogPointer{GroupID: e.group.ID, Timestamp: e.Timestamp, Seq: e.Seq}.String())
	default:
		var d value.Document
		if !d.Parse([]byte(e.Message)) {
			return value.Value{}
		}
		return d.Field(value.ParsePath(name))
	}
}

// plain evaluates a query over every event there is, one after the other.
func (l *logs) plain(q record.LogQuery, groups []record.LogGroup) ([][]logstypes.ResultField, error) {
	l.t.Helper()
	parsed, err := insights.Parse(q.Text)
	if err != nil {
		l.t.Fatalf("%s: %v", q.Text, err)
	}
	plan, err := insights.Compile(parsed, insights.Options{Start: q.Start * 1000, End: q.End * 1000,
		Now: q.CreatedAt.UnixMilli(), Limit: int(q.Limit)})
	if err != nil {
		l.t.Fatalf("%s: %v", q.Text, err)
	}
	worker := plan.NewWorker()
	for _, g := range groups {
		names := map[events.StreamID]string{}
		rows, err := record.LogStreams(l.store).List(l.t.Context(), record.LogStreamKey(g.ID, ""))
		if err != nil {
			l.t.Fatal(err)
		}
		for _, r := range rows {
			names[events.StreamID(r.Value.ID)] = r.Value.Name
		}
		for e, err := range l.events.Events(l.t.Context(), events.GroupID(g.ID), events.Range{From: 0, To: 1 << 60}) {
			if err != nil {
				l.t.Fatal(err)
			}
			wanted := false
			for _, w := range plan.Windows() {
				wanted = wanted || w.Start <= e.Timestamp && e.Timestamp <= w.End
			}
			if name, ok := names[e.Stream]; ok && wanted {
				if err := worker.Push(&plainEvent{plan.Fields(), g, name, e}); err != nil {
					return nil, err
				}
			}
		}
	}
	result, err := plan.Finish([]*insights.Worker{worker})
	if err != nil {
		return nil, err
	}
	var all [][]logstypes.ResultField
	for _, row := range result.Rows {
		all = append(all, resultFields(result.Columns, row))
	}
	return all, nil
}

// randomMessage returns a message of an audit log or a component, or JSON that tests the reader.
func randomMessage(random *rand.Rand) string {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	name := pick("aws-node", "aws-auth", "coredns", "aws", "node", fmt.Sprint("pod-", random.IntN(2000)))
	verb := pick("get", "get", "list", "watch", "patch", "update")
	switch random.IntN(20) {
	case 0:
		return fmt.Sprintf("I1121 10:00:00.%06d 1 trace.go:236] %s %s took=%dms", random.IntN(1e6), verb, name,
			random.IntN(100))
	case 1:
		return fmt.Sprintf(
			`{"verb":%q,"objectRef":{"name":"\u0061ws-node"},"note":"line\naws-auth","objectRef.name":"x"}`, verb)
	case 2:
		return fmt.Sprintf(`{"verb":%d,"code":"200","objectRef":null,"user":{"username":true}}`, random.IntN(3))
	case 3:
		return fmt.Sprintf(`{"verb":%q,"verb":"twice","objectRef":{"name":%q}`, verb, name) // not closed
	case 4:
		return fmt.Sprintf(`{"verb":%q,"verb":"twice"}`, verb)
	case 5:
		return fmt.Sprintf(`{"a.b":{"c":%d},"a":{"b.c":%d,"b":{"c":%d}},"user":{"groups":[]}}`, random.IntN(3),
			random.IntN(3), random.IntN(3))
	case 6:
		return pick("", "{}", "[]", "null", " {\"verb\":\"get\"} ", "aws-node", `{"verb":"get"} trailing`,
			`prefix {"verb":"get"}`)
	}
	return fmt.Sprintf(
		`{"kind":"Event","verb":%q,"user":{"username":%q,"groups":["system:%s","system:authenticated"]},"objectRef":{"resource":%q,"namespace":"kube-system","name":%q},"responseStatus":{"code":%d,"ratio":%.2f},"annotations":{"authorization.k8s.io/decision":%q},"n":%d}`,
		verb, pick("alice", "bob", "eks:addon-manager"), pick("masters", "nodes"), pick("daemonsets", "configmaps",
			"pods"), name, []int{200, 200, 201, 404}[random.IntN(4)], random.Float64()*4, pick("allow", "forbid"),
		random.IntN(100000))
}

var propertyQueries = []string{
	`fields @timestamp, @message`,
	`fields @timestamp, @message, @logStream, @log, @ingestionTime | sort @timestamp asc | limit 50`,
	`filter @logStream like /^kube-apiserver-audit/ | fields @timestamp, @message | sort @timestamp asc | filter objectRef.name == 'aws-node' AND objectRef.resource == 'daemonsets' AND verb == 'patch' | limit 10000`,
	`filter @logStream like /^kube-apiserver-audit/ | fields @timestamp, @message | sort @timestamp asc | filter objectRef.name == 'aws-auth' AND verb != 'get' AND verb != 'list' AND verb != 'watch' | limit 10000`,
	`filter verb = 'patch' or objectRef.name = 'aws-auth' | stats count(*) by verb, objectRef.name`,
	`filter not (verb = 'get' or verb = 'list') | stats count(*) by verb, user.username, bin(5m)`,
	`stats count(*) by verb, user.username, bin(5m)`,
	`stats count(*), sum(n), avg(responseStatus.ratio), min(n), max(n) by responseStatus.code | sort responseStatus.code asc`,
	`filter @message like 'aws-auth' | fields verb | stats count(*) by verb`,
	`filter @message like /aws-(node|auth)/ and responseStatus.code >= 400 | fields objectRef.name, n | sort n desc | limit 20`,
	`filter ispresent(verb) | stats count(*) as c by verb | sort c desc, verb asc`,
	`filter not ispresent(objectRef.name) | stats count(*)`,
	`filter objectRef.name like 'aws' and @logStream = 'other' | stats count(*) by objectRef.name`,
	`filter objectRef.name in ['aws-node', 'coredns'] and (verb = 'get' or user.username = 'alice' or @message like 'took') | stats count(*) by objectRef.name, verb`,
	"filter annotations.`authorization.k8s.io/decision` = 'forbid' | stats count(*) by user.groups.0",
	`filter a.b.c = 1 | fields @message | sort @timestamp asc, @message asc`,
	`fields a.b.c as x | stats count(*) by x`,
	`filter objectRef.name = 'x' | stats count(*)`,
	`filter responseStatus.code = 200 and n < 5000 | fields n, responseStatus.ratio * 2 as twice | sort n asc | limit 100`,
	`parse @message 'took=*ms' as took | filter ispresent(took) | stats count(*), max(took)`,
	`filter verb = 'nothing' | stats count(*)`,
	`filter verb = 'nothing' | fields @message`,
	`filter @timestamp > 100000 and verb = 'update' | stats count(*) by bin(1m)`,
	`fields objectRef.name, @timestamp | sort @timestamp desc | dedup objectRef.name`,
	`fields @message | limit 7 | filter verb = 'get'`,
	`filter strlen(objectRef.name) > 4 and objectRef.resource != 'pods' | stats count_distinct(objectRef.name) by objectRef.resource`,
	`filter @log = '111122223333:b' | stats count(*) by @log`,
	`filter @log = '111122223333:none' | stats count(*)`,
	`filter verb = 1 | stats count(*)`,
	`filter user.username = 1 | stats count(*) by user.username`,
	`filter responseStatus.code = '404' | stats count(*) by verb`,
	`filter n = 4242 or n = 17 or note like 'aws-auth' | fields n, note, @timestamp | sort @timestamp asc`,
	`stats count(*) by user`,
	`filter verb = 'update' | pattern @message`,
	`pattern @message | diff`,
	`filter verb = 'patch' | fields @timestamp, objectRef.name | diff previousDay`,
	`fields jsonParse(@message) as j | unnest j.user.groups into g | stats count(*) by g`,
	`stats count(*) as n by verb, objectRef.name | stats max(n) by verb`,
	`stats latest(verb), earliest(objectRef.name), pct(n, 50) by user.username`,
	`fields jsonParse(@message) as j | stats count(*) by j.verb`,
}

// Whatever blocks, words, columns and goroutines do, the result is that of reading every event.
func TestSkippingChangesNothing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			t.Logf("the seed was %d", seed)
		}
	}()
	l := newLogsOf(t, events.Options{SealBytes: 256 << 10})
	a, b := l.group("a"), l.group("b")
	streams := map[uint64][]events.StreamID{}
	for _, g := range []record.LogGroup{a, b} {
		for _, name := range []string{"kube-apiserver-audit-1", "kube-apiserver-audit-2", "other"} {
			streams[g.ID] = append(streams[g.ID], l.stream(g, name))
		}
	}
	put := func(batches int) {
		for i := range batches {
			g := a
			if random.IntN(3) == 0 {
				g = b
			}
			messages := make([]string, 1+random.IntN(100))
			for i := range messages {
				messages[i] = randomMessage(random)
			}
			l.put(g, streams[g.ID][random.IntN(3)], int64(1000*random.IntN(1+i)), messages...)
		}
	}
	put(200)
	if err := l.events.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(10) // some that are not sealed
	if err := l.events.DeleteStream(events.GroupID(a.ID), streams[a.ID][1]); err != nil {
		t.Fatal(err)
	}
	put(3)
	if err := l.events.Expire(events.GroupID(b.ID), 5000); err != nil {
		t.Fatal(err)
	}
	l.serve()
	groups := []record.LogGroup{a, b}
	skipped := 0.0
	for _, text := range propertyQueries {
		t.Run(strings.ReplaceAll(text, "/", "_"), func(t *testing.T) {
			from := int64(random.IntN(100))
			q := l.start(text, groups, func(q *record.LogQuery) { q.Start, q.End = from, from+int64(random.IntN(200)) })
			want, err := l.plain(q, groups)
			if err != nil {
				t.Fatal(err)
			}
			run, got := l.end(q)
			if run.Status != logstypes.QueryStatusComplete {
				t.Fatalf("the query is %s: %s", run.Status, run.Reason)
			}
			skipped += run.Statistics.EstimatedRecordsSkipped
			if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
				t.Errorf("with columns (-want +got):\n%s", diff)
			}
			e := newExecution(l.runner, q)
			e.noColumns = true
			err = e.computeResult(t.Context(), func(f *resultSet) error {
				return writeResults(t.Context(), l.runner.resultsPath(q.ID), f)
			})
			if err != nil {
				t.Fatal(err)
			}
			_, got = l.end(q)
			if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
				t.Errorf("without columns (-want +got):\n%s", diff)
			}
			if s := e.statistics(); s.RecordsMatched != run.Statistics.RecordsMatched {
				t.Errorf("%v events match without columns, %v with", s.RecordsMatched, run.Statistics.RecordsMatched)
			}
		})
	}
	if skipped == 0 {
		t.Error("no query skipped anything: this test tests nothing")
	}
}

// A query of many fields over blocks each of which keeps other ones in columns holds few documents.
func TestFewDocumentsAreHeld(t *testing.T) {
	t.Parallel()
	s := &scan{fields: make([]string, 10), sources: make([]fieldSource, 10), columns: make([]column, 10)}
	s.event.s = s
	for i := range s.columns {
		s.fields[i], s.columns[i].loaded = fmt.Sprint("field", i), true
	}
	for combination := range 1 << 10 {
		for i := range s.columns {
			s.columns[i].stored = nil
			if combination&(1<<i) != 0 {
				s.columns[i].stored = &events.Column{}
			}
		}
		if err := s.event.chooseDocument(); err != nil {
			t.Fatal(err)
		}
		if n := len(s.event.made); n > maxDocuments {
			t.Fatalf("%d documents", n)
		}
	}
}
