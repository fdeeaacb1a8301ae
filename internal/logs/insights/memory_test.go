package insights_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/insights"
)

// list repeats a part of a query, with a number in the place of #.
func list(times int, part string) string {
	var all []string
	for i := range times {
		all = append(all, strings.ReplaceAll(part, "#", fmt.Sprint(i)))
	}
	return strings.Join(all, ", ")
}

// What a query makes counts as memory, too: of one row, of a group, when groups are merged, and for the result.
func TestWhatAQueryMakesTakesMemory(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long text ", 6000)
	for _, c := range []struct {
		query  string
		events int
		says   string
	}{
		{"fields " + list(100, `concat(@message, "#") as f#`), 1, "a row, with what functions make of it,"},
		{"fields " + list(100, `concat(@message, "#") as f#`) + " | filter f0 = '' or " +
			strings.ReplaceAll(list(100, "f# = ''"), ",", " or"), 1, "a row, with what functions make of it,"},
		{"fields jsonParse(@message) as m | filter " + strings.ReplaceAll(list(100, `m.text = concat(m.text, "#")`),
			",", " or"), 1, "a row, with what functions make of it,"},
		{`stats count(*) by ` + list(100, `@message as b#`), 1, "a row, with what functions make of it,"},
		{`sort ` + list(100, `@message`), 1, "a row, with what functions make of it,"},
		{`stats ` + list(100, `max(@message) as m#`), 1, "stats max(@message) as m0"},
		{`stats concat(` + list(15, `max(@message)`) + `) by n % 10`, 200, "stats concat("},
		{`stats ` + list(100, `concat(max(@message), "#") as c#`), 1, "stats concat("},
		{`stats histogram(n, 1000) by n % 200`, 1000, "stats histogram(n, 1000)"},
		{`stats pct(10 ^ (n % 40), 50) by floor(n / 1400)`, 56_000, "stats pct("},
		{`fields ` + list(100, `n as n#`) + ` | sort n`, 2000, "the result"},
		{`filter n < 5 | fields text as t | fields ` + list(100, `t as t#`), 50, "the result"},
	} {
		o := options()
		o.Memory = 1 << 20
		p := compile(t, c.query, o)
		workers := []*insights.Worker{p.NewWorker(), p.NewWorker()}
		var err error
		for i := 0; err == nil && i < c.events; i++ {
			message := fmt.Sprintf(`{"n":%d,"text":"\u0020%s"}`, i, long)
			if c.events > 200 {
				message = fmt.Sprintf(`{"n":%d}`, i)
			}
			err = workers[i%2].Push(reader{event{at: int64(i), n: i, message: message}, p.Fields()})
		}
		if err == nil {
			_, err = p.Finish(workers)
		}
		if !errors.Is(err, insights.ErrMemory) || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%.80s: %.200v; want an error about %s", c.query, err, c.says)
		}
	}
}

// The memory of a row is given back for the next one, and that of an element of a list for the next element.
func TestRowsGiveTheirMemoryBack(t *testing.T) {
	t.Parallel()
	for _, query := range []string{
		"fields concat(@message, @message) as long | filter strlen(long) > 10 | stats count(*)",
		"fields jsonParse(@message) as m | unnest m.list into e | fields concat(@message, e) as long " +
			"| stats sum(strlen(long))",
		"stats max(@message) as m by n % 5 | fields substr(concat(m, m), 0, 1) as s | stats count(s)",
	} {
		o := options()
		o.Memory = 2 << 20
		var events []event
		for i := range 100 {
			events = append(events, event{at: int64(i), n: i, message: fmt.Sprintf(`{"n":%d,"list":[%s],"text":"%s"}`, i,
				list(50, "#"), strings.Repeat("long text ", 6000))})
		}
		run(t, compile(t, query, o), 2, events)
	}
}

// A query ends within an event, and within what it computes at its end.
func TestAStoppedQueryEnds(t *testing.T) {
	t.Parallel()
	for _, query := range []string{
		"filter @message like /x{1,30}y/ or @message like /y{1,30}z/",
		"parse @message /(?<a>a.*)b/ | filter a = ''",
		"fields tolower(@message) as a | stats count(*) by a",
		"unnest list into e | stats count(*) by e",
		"pattern @message",
		"stats sum(strlen(tolower(@message)))",
	} {
		done := make(chan struct{})
		o := options()
		o.Done = done
		p := compile(t, query, o)
		w := p.NewWorker()
		e := event{message: `{"list":[1,2,3]}`}
		if err := w.Push(reader{e, p.Fields()}); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		close(done)
		if err := w.Push(reader{e, p.Fields()}); !errors.Is(err, insights.ErrStopped) {
			t.Errorf("%s: %v", query, err)
		}
		if _, err := p.Finish([]*insights.Worker{w}); strings.Contains(query, "pattern") &&
			!errors.Is(err, insights.ErrStopped) {
			t.Errorf("%s: at the end %v", query, err)
		}
	}
}

func TestRegularExpressionsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	var conditions []string
	for i := range 20 {
		conditions = append(conditions, fmt.Sprintf("@message like /%d(ab{0,30}c{0,30}){0,7}/", i))
	}
	q, err := insights.Parse("filter " + strings.Join(conditions, " or "))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := insights.Compile(q, options()); err == nil || !strings.Contains(err.Error(), "too large together") {
		t.Errorf("%v", err)
	}
}
