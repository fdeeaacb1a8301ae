package insights_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/insights"
)

// refuse is the error of a query that must be refused, by Parse or by Compile.
func refuse(t *testing.T, query string) *insights.SyntaxError {
	t.Helper()
	q, err := insights.Parse(query)
	if err == nil {
		_, err = insights.Compile(q, options())
	}
	e, ok := errors.AsType[*insights.SyntaxError](err)
	if !ok {
		t.Fatalf("%s\nis not refused with a SyntaxError: %v", query, err)
	}
	return e
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/malformed.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(golden), "\n"), "\n")[1:]
	if len(lines) < 3*80 || len(lines)%3 != 0 {
		t.Fatalf("%d lines", len(lines))
	}
	for ; len(lines) > 0; lines = lines[3:] {
		query, expected := lines[1], lines[2]
		t.Run(query, func(t *testing.T) {
			before, _, _ := strings.Cut(expected, "^")
			carets, message, _ := strings.Cut(expected[len(before):], " ")
			e := refuse(t, query)
			if e.Message != message {
				t.Errorf("says %s\nwant %s", e.Message, message)
			}
			if e.Start != len(before) || max(1, e.End-e.Start) != len(carets) {
				t.Errorf("points to %d-%d, want %d-%d", e.Start, e.End, len(before), len(before)+len(carets))
			}
			if e.Line != 1 || e.Column != e.Start+1 {
				t.Errorf("is at line %d, column %d, offset %d", e.Line, e.Column, e.Start)
			}
		})
	}
}

// Lines, columns and offsets count characters, comments and newlines included.
func TestMalformedLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		query        string
		at           string
		line, column int
	}{
		{"fields @timestamp\n| filter verb == == 'x'", "==", 2, 18},
		{"# who?\nfilter verb = 'é'\n  | limt 5", "limt", 3, 5},
		{"filter verb = 'zwei\nZeilen' code", "code", 2, 9},
		{"fields ünï, `größe ß`, 日本 x", "x", 1, 27},
		{"filter verb like /a/\r\n| sort verb backwards", "backwards", 2, 13},
		{"stats count(*) as n\nby verb\n| filter code = 5", "code", 3, 10},
		{"filter verb in [\n  'get',\n  'list'\n", "", 4, 1},
	} {
		e := refuse(t, c.query)
		if got := string([]rune(c.query)[e.Start:e.End]); got != c.at || e.Line != c.line || e.Column != c.column {
			t.Errorf("%s\nis refused at %q, line %d, column %d; want %q, line %d, column %d: %s", c.query, got, e.Line,
				e.Column, c.at, c.line, c.column, e.Message)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	t.Parallel()
	for _, query := range []string{
		"filter " + strings.Repeat("(", 5000) + "a" + strings.Repeat(")", 5000),
		"filter " + strings.Repeat("not ", 5000) + "a",
		"fields " + strings.Repeat("-", 5000) + "a",
		"fields " + strings.Repeat("abs(", 5000) + "a" + strings.Repeat(")", 5000),
		"fields 2" + strings.Repeat("^2", 5000),
	} {
		if e := refuse(t, query); !strings.Contains(e.Message, "nested more than") {
			t.Errorf("%.20s...: %s", query, e.Message)
		}
	}
	compile(t, "filter a = 1"+strings.Repeat(" or a = 1", 2000), options())
}

// Long queries, up to what StartQuery takes, are compiled and run without delay.
func TestLongQueries(t *testing.T) {
	t.Parallel()
	for _, query := range []string{
		"stats count(*) as a | fields a" + strings.Repeat("+a", 4900),
		"fields a" + strings.Repeat(" + a1", 1600),
		"filter a = 1" + strings.Repeat(" or a = 1", 1000),
		"filter a in [1" + strings.Repeat(",1", 4900) + "]",
		"fields a" + strings.Repeat("|fields a", 1000),
		"fields a" + strings.Repeat("|limit 1", 1000),
		"fields a" + strings.Repeat("|filter a", 1000),
		"fields a" + strings.Repeat("|limit 9|filter a=1", 500),
		"fields a as b" + strings.Repeat("|fields b+b as b", 600),
		"fields a.b" + strings.Repeat(".c", 4900),
		"fields a" + strings.Repeat("|unnest a into a", 600),
		"stats count(*)" + strings.Repeat(",max(a)", 1) + strings.Repeat(",sum(a)+1", 1),
	} {
		if len(query) > 10_000 {
			t.Fatalf("%d characters", len(query))
		}
		run(t, compile(t, query, options()), 1, log(`{"a":1,"a1":2}`, `{"a":[1,2]}`))
	}
}

// A query that makes rows without end of an event ends with an error.
func TestUnnestIsBounded(t *testing.T) {
	t.Parallel()
	message := `{"a":[` + strings.Repeat("1,", 99) + `1]}`
	p := compile(t, "fields a"+strings.Repeat(" | unnest a into b", 10)+" | filter b = 2", options())
	err := p.NewWorker().Push(reader{event{message: message}, p.Fields()})
	if err == nil || !strings.HasPrefix(err.Error(), "unnest makes more than 1000000 rows of one event") {
		t.Errorf("error %v", err)
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"fields a": "",
		"SOURCE logGroups(namePrefix: ['/aws/eks/', 'b'], class: ['STANDARD'], accountIdentifiers:['111122223333']) " +
			"| fields a": "true [] [/aws/eks/ b] [STANDARD] [111122223333]",
		"source logGroups()":                             "true [] [] [] []",
		"SOURCE '/aws/eks/a' | SOURCE \"b\"\n| fields a": "false [/aws/eks/a b] [] [] []",
	} {
		q, err := insights.Parse(query)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if s := q.Source(); s != nil {
			got = strings.TrimSpace(strings.Join([]string{map[bool]string{true: "true", false: "false"}[s.All],
				sprint(s.Names), sprint(s.Prefixes), sprint(s.Classes), sprint(s.Accounts)}, " "))
		}
		if got != want {
			t.Errorf("%s: source is %s, want %s", query, got, want)
		}
		if _, err := insights.Compile(q, options()); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func sprint(texts []string) string { return "[" + strings.Join(texts, " ") + "]" }
