package insights_test

import (
	"slices"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/insights"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	events := log(
		"2026-07-01 12:00:00 ERROR connection to 10.0.0.1 refused",
		"2026-07-01 12:00:01 ERROR connection to 10.0.0.2 refused",
		"2026-07-01 12:00:02 INFO request took 12 ms",
		"2026-07-01 12:00:03 ERROR connection to 10.0.0.7 refused",
	)
	for query, want := range map[string]string{
		"pattern @message": "@pattern | @ratio | @sampleCount | @severityLabel\n" +
			"<Date-1> <Time-2> ERROR connection to <IP-3> refused | 0.75 | 3 | ERROR\n<Date-1> <Time-2> INFO request " +
			"took <Number-3> ms | 0.25 | 1 | INFO",
		"fields @message | filter @message like 'ERROR' | pattern @message | display @sampleCount, @severityLabel": "@sampleCount | @severityLabel\n3 | ERROR",
		"pattern @message | filter @severityLabel = 'INFO' | display @ratio":                                       "@ratio\n0.25",
		"pattern @message | sort @sampleCount asc | limit 1 | display @sampleCount":                                "@sampleCount\n1",
		"parse @message '* * * *' as day, time, level, rest | pattern rest | display @pattern":                     "@pattern\nconnection to <IP-1> refused\nrequest took <Number-1> ms",
		"pattern substr(@message, 20, 5) | display @sampleCount":                                                   "@sampleCount\n3\n1",
		"pattern absent": "@pattern | @ratio | @sampleCount | @severityLabel",
		"limit 1 | pattern @message | display @severityLabel": "@severityLabel\nERROR",
	} {
		for _, workers := range []int{1, 3} {
			if got := table(run(t, compile(t, query, options()), workers, events)); got != want {
				t.Errorf("%s with %d workers gives\n%s\nwant\n%s", query, workers, got, want)
			}
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	const hour, day = 3600_000, 24 * 3600_000
	at := func(ms int64, messages ...string) (events []event) {
		for i, m := range messages {
			events = append(events, event{at: ms + int64(i), message: m})
		}
		return events
	}
	now := at(1000, "took 1 ms", "took 2 ms", "took 3 ms", "refused by 10.0.0.1")
	for query, before := range map[string][]event{
		"diff":                                    at(-hour, "took 5 ms", "took 6 ms", "gone away"),
		"pattern @message | diff":                 at(-1000, "took 5 ms", "took 6 ms", "gone away"),
		"diff previousTime":                       at(-1000, "took 5 ms", "took 6 ms", "gone away"),
		"pattern @message | diff previousDay":     at(-day, "took 5 ms", "took 6 ms", "gone away"),
		"sort @timestamp asc | diff previousWeek": at(-7*day, "took 5 ms", "took 6 ms", "gone away"),
		// June has 30 days
		"diff previousMonth": at(-30*day, "took 5 ms", "took 6 ms", "gone away"),
	} {
		p := compile(t, query, options())
		other := p.Windows()[1]
		if w := p.Windows()[0]; len(p.Windows()) != 2 || w != (insights.Window{Start: start, End: start + hour}) ||
			other.End-other.Start != hour {
			t.Errorf("%s: windows %v", query, p.Windows())
		}
		for _, e := range before {
			if ms := start + e.at; ms < other.Start || ms > other.End {
				t.Errorf("%s: %d ms after the start is not in %v", query, e.at, other)
			}
		}
		outside := at(-90*day, "took 9 ms")
		const want = "@pattern | @ratio | @sampleCount | @severityLabel | @diffEventCount | @diffDescription\n" +
			"took <Number-1> ms | 0.75 | 3 | NONE | 1 | 50.0% more\nrefused by <IP-1> | 0.25 | 1 | NONE | 1 | " +
			"New\ngone away | 0 | 0 | NONE | -1 | Disappeared"
		if got := table(run(t, p, 2, slices.Concat(now, before, outside))); got != want {
			t.Errorf("%s gives\n%s\nwant\n%s", query, got, want)
		}
	}
	if w := compile(t, "fields @message", options()).Windows(); len(w) != 1 {
		t.Errorf("windows %v", w)
	}
}
