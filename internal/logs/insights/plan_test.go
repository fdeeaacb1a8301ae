package insights_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

func TestRequestLimit(t *testing.T) {
	t.Parallel()
	var events []event
	for i := range 12_000 {
		events = append(events, event{at: int64(i), n: i, message: `{"a":1}`})
	}
	for _, c := range []struct {
		query string
		limit int
		rows  int
	}{
		{"fields a", 0, 10_000},
		{"fields a", 7, 7},
		{"fields a | limit 5", 7, 5},
		{"fields a | limit 50", 7, 7},
		{"limit 50 | filter a = 1", 7, 7},
		{"stats count(*) by @timestamp", 0, 10_000},
		{"stats count(*) by @timestamp", 3, 3},
	} {
		o := options()
		o.Limit = c.limit
		r := run(t, compile(t, c.query, o), 2, events)
		if len(r.Rows) != c.rows || r.Matched != 12_000 {
			t.Errorf("%s with limit %d in the request: %d rows of %d matched, want %d of 12000", c.query, c.limit,
				len(r.Rows), r.Matched, c.rows)
		}
	}
}

// counter counts which fields of an event are read.
type counter struct {
	reader
	reads map[string]int
}

func (c counter) Value(i int) value.Value {
	c.reads[c.fields[i]]++
	return c.reader.Value(i)
}

// A plan asks for the fields that it needs, each once an event, and not for those of events that it drops.
func TestFieldsAreReadWhenNeeded(t *testing.T) {
	t.Parallel()
	events := log(`{"verb":"get"}`, `{"verb":"list"}`, `{"verb":"get"}`)
	for query, want := range map[string]string{
		"filter verb = 'list' | fields @timestamp, @message":       "@message:1 @ptr:1 @timestamp:1 verb:3",
		"fields @timestamp, @message | filter verb = 'watch'":      "verb:3",
		"fields tolower(@message) as m | filter verb = 'list'":     "@message:1 @ptr:1 @timestamp:1 verb:3",
		"stats count(*) by verb":                                   "@timestamp:3 verb:3",
		"filter verb = 'get' or verb = 'list' | stats count(*)":    "@timestamp:3 verb:3",
		"parse @message '*' as x | display verb | limit 1":         "@ptr:3 @timestamp:3 verb:3",
		"filter @logStream like /audit/ and verb = 'x' | fields a": "@logStream:3 verb:3",
	} {
		p := compile(t, query, options())
		reads := make(map[string]int)
		w := p.NewWorker()
		for _, e := range events {
			if err := w.Push(counter{reader{e, p.Fields()}, reads}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, name := range slices.Sorted(maps.Keys(reads)) {
			got = append(got, fmt.Sprintf("%s:%d", name, reads[name]))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s reads %s, want %s", query, got, want)
		}
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"stats count(*) by verb, bin(5m)":                  "verb @timestamp",
		"fields objectRef.name":                            "objectRef.name @timestamp @ptr",
		"fields user.groups[0], `a-b`.c":                   "user.groups.0 a-b.c @timestamp @ptr",
		"fields verb as v | filter v = 1 | sort v":         "verb @timestamp @ptr",
		"fields jsonParse(@message) as js | filter js.a=1": "@message @timestamp @ptr",
		"limit 5 | filter verb = 'get' | fields @message":  "@timestamp @ptr verb @message",
	} {
		if got := strings.Join(compile(t, query, options()).Fields(), " "); got != want {
			t.Errorf("%s reads the fields %s, want %s", query, got, want)
		}
	}
}

// A plan without events has no rows, but the columns.
func TestNoEvents(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"fields a": "a,@ptr", "filter a = 1": "@timestamp,@message,@ptr", "stats count(*) as n by a": "a,n",
		"fields @ptr, a": "a,@ptr",
		"stats count(*) | stats max(`count(*)`) as m": "m",
		"diff": "@pattern,@ratio,@sampleCount,@severityLabel,@diffEventCount,@diffDescription",
	} {
		r, err := compile(t, query, options()).Finish(nil)
		if err != nil || len(r.Rows) != 0 || strings.Join(r.Columns, ",") != want {
			t.Errorf("%s: %d rows, columns %s, error %v", query, len(r.Rows), r.Columns, err)
		}
	}
}

// The functions that ask for the time get the query's.
func TestTimesOfTheQuery(t *testing.T) {
	t.Parallel()
	o := insights.Options{Start: start, End: start + 999, Now: start + 5000}
	p := compile(t, "fields now() as n, queryStartTime() as s, queryEndTime() as e, bin(1h) as b, @ingestionTime as i",
		o)
	got := table(run(t, p, 1, []event{{at: 61_000}}))
	if want := "n | s | e | b | i\n1782907205 | 1782907200000 | 1782907200999 | 2026-07-01 12:00:00.000 | 2026-07-01 " +
		"12:01:01.500"; got != want {
		t.Errorf("gives\n%s\nwant\n%s", got, want)
	}
}
