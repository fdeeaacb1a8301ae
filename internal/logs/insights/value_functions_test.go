package insights_test

import (
	"os"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/insights"
)

// The edges of every function (package value's table) hold for queries, too. What can't have a result may also be
// refused before it runs.
func TestEdgesOfFunctions(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("value/testdata/functions.txt")
	if err != nil {
		t.Fatal(err)
	}
	const now = 1795257402123 // 2026-11-21 10:36:42.123
	o := insights.Options{Start: now - 123 - 3_600_000, End: now - 123, Now: now}
	_, table, _ := strings.Cut(string(data), "\n\n")
	ran := 0
	for line := range strings.Lines(table) {
		text, want, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  =>  ")
		if !ok {
			continue
		}
		ran++
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			query := "fields " + text + " as result"
			if want == "(absent)" {
				q, err := insights.Parse(query)
				if err == nil {
					_, err = insights.Compile(q, o)
				}
				if err != nil {
					return
				}
			}
			r := run(t, compile(t, query, o), 1, []event{{at: now - start, message: "{}"}})
			got := r.Rows[0][0].String()
			if r.Rows[0][0].IsNull() {
				got = "(absent)"
			}
			if got != want {
				t.Errorf("is %q, not %q", got, want)
			}
		})
	}
	if ran < 450 {
		t.Errorf("the table has %d lines", ran)
	}
}
