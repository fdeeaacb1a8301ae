package insights_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// The examples of docs/logs-insights-functions.md are expressions of the language, and mean there what the page says.
// (Package value runs them with an evaluator of its own.)
func TestFunctionsOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/logs-insights-functions.md")
	if err != nil {
		t.Fatal(err)
	}
	const now = 1795257402123 // 2026-11-21 10:36:42.123
	row := regexp.MustCompile("(?m)^\\|(.*)\\| `(.*)` \\| (?:`(.*)`|\\*absent\\*) \\|$")
	examples := row.FindAllStringSubmatch(string(page), -1)
	if len(examples) < 100 {
		t.Fatalf("the page has %d examples", len(examples))
	}
	for _, m := range examples {
		expression, want := m[2], m[3]
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			name, _, _ := strings.Cut(expression, "(")
			query, events := "fields "+expression+" as result", []event{{at: now - start, message: "{}"}}
			if _, ok := value.LookupAggregate(name); ok {
				query = "stats " + expression + " as result"
				events = log(`{"x":4}`, `{"x":"1"}`, `{"x":2}`, `{"x":3}`, `{"x":"-"}`)
			}
			r := run(t, compile(t, query, insights.Options{Start: now - 123 - 3_600_000, End: now - 123, Now: now}), 1,
				events)
			if len(r.Rows) != 1 {
				t.Fatalf("%s gives %d rows", query, len(r.Rows))
			}
			if got := r.Rows[0][0]; got.String() != want {
				t.Errorf("%s gives %q, the page says %q", query, got, want)
			}
		})
	}
}
