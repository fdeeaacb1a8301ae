package insights_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// referrer is an event of a plan with references: the position in the log.
type referrer struct {
	reader
	reference int
}

func (e referrer) Value(i int) value.Value {
	if i == e.reference {
		return value.Int(int64(e.n))
	}
	return e.reader.Value(i)
}

// Rows refer to their messages unless something behind the place where rows are kept reads them, and show the same.
func TestReferences(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	for query, columns := range map[string]string{
		"":                               "1",
		"fields @timestamp, @message":    "1",
		"fields @message as m | sort ms": "0",
		"fields @message, @message as m, @message as o | sort @message":                               "0 1 2",
		"filter @message like 'get' | parse @message '\"name\":\"*\"' as who | display who, @message": "1",
		"unnest user.groups into g | sort g | fields @message":                                        "1",
		"dedup @message": "1",
		"sort ms | limit 30 | filter code = 201 | sort verb | limit 20 | fields @message as m": "0",
		"fields @message as m, strlen(m) as n | limit 30 | filter n > 10 | limit 20":           "0",
		"fields @message | limit 30 | dedup verb":                                              "0",
		"fields verb":                                                                              "",
		"fields tolower(@message) as @message":                                                     "",
		"fields verb as @message":                                                                  "",
		"parse @message '*' as @message":                                                           "",
		"fields @message | limit 30 | filter @message like 'get'":                                  "",
		"fields @message | limit 30 | parse @message '\"name\":\"*\"' as who":                      "0",
		"fields @message | limit 30 | sort @message":                                               "",
		"fields @message as m | limit 30 | dedup m":                                                "",
		"fields @message | limit 30 | filter ispresent(verb) | limit 20 | fields strlen(@message)": "",
		"limit 30 | stats count(*) by @message":                                                    "",
		"stats count(*) by @message":                                                               "",
		"pattern @message":                                                                         "",
	} {
		if query == "" {
			query = "filter ms > 3"
		}
		events := randomEvents(r, 100)
		want := run(t, compile(t, query, options()), 1, events)
		o := options()
		o.References = true
		p := compile(t, query, o)
		workers := []*insights.Worker{p.NewWorker(), p.NewWorker()}
		for i, e := range events {
			if err := workers[i%2].Push(referrer{reader{e, p.Fields()}, p.Reference()}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := p.Finish(workers)
		if err != nil {
			t.Fatal(err)
		}
		if is := strings.Trim(fmt.Sprint(got.References), "[]"); is != columns ||
			(p.Reference() >= 0) != (columns != "") {
			t.Errorf("%s: references in columns %q, want %q", query, is, columns)
		}
		for _, row := range got.Rows {
			for _, c := range got.References {
				n, _ := row[c].AsNumber()
				row[c] = value.String(events[slices.IndexFunc(events,
					func(e event) bool { return e.n == int(n) })].message)
			}
		}
		if diff := cmp.Diff(strings.Split(everything(want), "\n"), strings.Split(everything(got), "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

// With references, the longest messages cost no memory, and no message is read of an event that is not looked at.
func TestReferencesCostNoMemory(t *testing.T) {
	t.Parallel()
	o := options()
	o.References, o.Memory = true, 8<<20
	p := compile(t, "fields @timestamp, @message | sort @timestamp asc | filter verb = 'get'", o)
	w := p.NewWorker()
	reads := make(map[string]int)
	for i := range 10_500 {
		e := event{at: int64(i), n: i, message: `{"verb":"get"}` + strings.Repeat(" ", 20_000)}
		if err := w.Push(counter{reader{e, p.Fields()}, reads}); err != nil {
			t.Fatal(err)
		}
	}
	if reads["@message"] > 0 {
		t.Errorf("%d messages were read", reads["@message"])
	}
	if r, err := p.Finish([]*insights.Worker{w}); err != nil || len(r.Rows) != 10_000 {
		t.Errorf("%v, %v", r, err)
	}
}
