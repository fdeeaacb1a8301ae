package insights_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// start is the time of the first event of most tests: 2026-07-01 12:00:00.000.
const start = 1782907200000

// event is a log event of a test.
type event struct {
	at      int64 // ms after start
	message string
	stream  string
	n       int // position in the log, for @ptr
}

// log makes events of messages, a second apart.
func log(messages ...string) []event {
	var events []event
	for i, m := range messages {
		events = append(events, event{at: int64(i) * 1000, message: m, stream: "kube-apiserver-audit-1", n: i})
	}
	return events
}

// reader is an event as the executor shows it to a plan.
type reader struct {
	event
	fields []string
}

func (r reader) Value(i int) value.Value {
	switch name := r.fields[i]; name {
	case "@timestamp":
		return value.Time(start + r.at)
	case "@ingestionTime":
		return value.Time(start + r.at + 500)
	case "@message":
		return value.String(r.message)
	case "@logStream":
		return value.String(r.stream)
	case "@log":
		return value.String("111122223333:/aws/eks/demo/cluster")
	case "@ptr":
		return value.String(fmt.Sprintf("ptr-%06d", r.n))
	default:
		var d value.Document
		if !d.Parse([]byte(r.message)) {
			return value.Value{}
		}
		return d.Field(value.ParsePath(name))
	}
}

func options() insights.Options {
	return insights.Options{Start: start, End: start + 3600_000, Now: start + 3600_000}
}

func compile(t testing.TB, query string, o insights.Options) *insights.Plan {
	t.Helper()
	q, err := insights.Parse(query)
	if err != nil {
		t.Fatalf("Parse(%s): %v", query, err)
	}
	p, err := insights.Compile(q, o)
	if err != nil {
		t.Fatalf("Compile(%s): %v", query, err)
	}
	return p
}

// run runs a query over events, dealt to workers in turn, each of which works in a goroutine of its own.
func run(t testing.TB, p *insights.Plan, workers int, events []event) *insights.Result {
	t.Helper()
	var ws []*insights.Worker
	for range workers {
		ws = append(ws, p.NewWorker())
	}
	errs := make([]error, workers)
	var wait sync.WaitGroup
	for i, w := range ws {
		wait.Go(func() {
			for at := i; at < len(events) && errs[i] == nil; at += workers {
				errs[i] = w.Push(reader{events[at], p.Fields()})
			}
		})
	}
	wait.Wait()
	r, err := p.Finish(ws)
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	return r
}

// table writes a result as text: a line of columns, and one per row. Absent fields are "-". @ptr is left out.
func table(r *insights.Result) string {
	var b strings.Builder
	columns := r.Columns
	if len(columns) > 0 && columns[len(columns)-1] == "@ptr" {
		columns = columns[:len(columns)-1]
	}
	b.WriteString(strings.Join(columns, " | "))
	for _, row := range r.Rows {
		b.WriteByte('\n')
		for i := range columns {
			if i > 0 {
				b.WriteString(" | ")
			}
			if row[i].IsNull() {
				b.WriteByte('-')
			} else {
				b.WriteString(row[i].String())
			}
		}
	}
	return b.String()
}
