package insights_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/logs/insights"
)

// seeds adds queries of every kind to a fuzz target.
func seeds(f *testing.F) {
	f.Helper()
	for _, query := range everyCommand {
		f.Add(query)
	}
	malformed, err := os.ReadFile("testdata/malformed.txt")
	if err != nil {
		f.Fatal(err)
	}
	for i, line := range strings.Split(string(malformed), "\n") {
		if i%3 == 2 {
			f.Add(line)
		}
	}
}

var everyCommand = []string{
	"filter @logStream like /^kube-apiserver-audit/\n | fields @timestamp, @message\n | sort @timestamp asc\n | " +
		"filter objectRef.name == 'aws-node' AND verb == 'patch'\n | limit 10000",
	"fields a + b * -c ^ 2 % 3 / 4 as x, `odd name` as `and`, user.groups[1] # comment\n| display x",
	"fields a -b, a - -b, (a), not (a or b) and c, a in [1, -2, 'x'], not a not in [b + 1]",
	"filterIndex a = 1 or b in ['x', 'y'] | dedup a, b.c | limit 5",
	"filter (a =~ 'x' and b not like /x\\/y/) or not c = true",
	"parse @message \"user=*, *\" as user, `rest of it` | parse user /(?<first>\\w)(\\w)/ | stats pct(x, 95) / " +
		"count(*) as p by bin(5m), tolower(user) as u | stats max(p)",
	"SOURCE logGroups(namePrefix: ['a', \"b\"], class: ['STANDARD']) | unnest jsonParse into x | unmask x | sort x " +
		"desc, strlen(x) as l",
	"SOURCE 'a' | SOURCE 'b' | pattern @message | diff previousWeek | filter @sampleCount > 5",
	"fields \"\\\"\\\\\\n\\t\\d\", 'it\\'s', 1.5e-3, 10ms",
	"fields jsonParse(a).b.0.`c-d`[1].e as x, split(a, ',')[0], jsonParse(b).`and`.c",
	"fields a / b / c, a/b, (a / b) / /x/",
	"fields case(a > 1, 'x', b like 'y', 'z', 'w') as c, bin(1h), datefloor(@timestamp, 1d), now()",
}

// Parsing never panics, and what a query prints parses to the same query.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		q, err := insights.Parse(text)
		if err != nil {
			e, ok := errors.AsType[*insights.SyntaxError](err)
			if !ok || e.Line < 1 || e.Column < 1 || e.Start < 0 || e.End < e.Start || e.End > len([]rune(text)) ||
				e.Message == "" {
				t.Fatalf("%q: the error is %+v", text, err)
			}
			return
		}
		printed := q.String()
		again, err := insights.Parse(printed)
		if err != nil {
			t.Fatalf("%q prints %q, which is refused: %v", text, printed, err)
		}
		if second := again.String(); second != printed {
			t.Fatalf("%q prints %q, and that prints %q", text, printed, second)
		}
		if !insights.Same(q, again) {
			t.Fatalf("%q prints %q, which means something else", text, printed)
		}
	})
}

// Any query over nasty events ends, within its memory and without a panic, with a result of the promised form; and the
// condition for skipping agrees with what it keeps.
func FuzzEvaluate(f *testing.F) {
	seeds(f)
	r := rand.New(rand.NewPCG(7, 8))
	events := append(
		randomEvents(r, 30),
		log(
			"",
			"{",
			"[]",
			`""`,
			`{"a":`+strings.Repeat("[", 300)+strings.Repeat("]", 300)+"}",
			"\xff\xfe",
			strings.Repeat("a ", 3000),
			`{"a":{"b":{"c":[1,{"d":null}]}},"x":[[],{}],"":{"":1},".":2,"a.b":3}`,
			`{"@timestamp":1,"@message":"inner","a":1e999,"b":-0,"c":123456789012345678901234567890}`,
		)...)
	for i := range events {
		events[i].n = i
	}
	for _, name := range names {
		f.Add("stats count(*) by " + name + " | sort " + name)
	}
	for range 40 {
		f.Add("filter " + randomCondition(r, 2))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 10_000 { // StartQuery's limit
			return
		}
		q, err := insights.Parse(text)
		if err != nil {
			return
		}
		o := options()
		o.Memory = 1 << 20
		p, err := insights.Compile(q, o)
		if err != nil {
			if _, ok := errors.AsType[*insights.SyntaxError](err); !ok {
				t.Fatalf("%q: Compile gives %v", text, err)
			}
			return
		}
		workers := []*insights.Worker{p.NewWorker(), p.NewWorker()}
		for i, e := range events {
			w, row := workers[i%2], reader{e, p.Fields()}
			matched := w.Matched()
			if err := w.Push(row); err != nil {
				return // out of memory
			}
			if w.Matched() > matched && !allows(t, p.Where(), row) {
				t.Fatalf("%q keeps %q, but its condition rules it out", text, e.message)
			}
		}
		result, err := p.Finish(workers)
		if err != nil {
			return
		}
		if len(result.Rows) > insights.MaxLimit {
			t.Fatalf("%q gives %d rows", text, len(result.Rows))
		}
		for _, row := range result.Rows {
			if len(row) != len(result.Columns) {
				t.Fatalf("%q gives a row of %d values for the columns %s", text, len(row), result.Columns)
			}
		}
	})
}

func TestStringOfEveryCommand(t *testing.T) {
	t.Parallel()
	var got []string
	for _, query := range []string{
		"FIELDS a+b   as x,a.b[0].`c d`|Display x",
		"filter not(a==1 or b!=2)and c like 'x' or d not in[1,\"2\"]",
		"sort a,b desc|limit 5|parse '*' as x|dedup x",
		"stats COUNT(*)  as n,sum( a )/2 by bin( 5m ),b",
	} {
		q, err := insights.Parse(query)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.ReplaceAll(q.String(), "\n", " "))
	}
	want := []string{
		"fields a + b as x, `a.b.0.c d` | display x",
		`filter not (a = 1 or b != 2) and c like "x" or d not in [1, "2"]`,
		`sort a asc, b desc | limit 5 | parse "*" as x | dedup x`,
		"stats count(*) as n, sum( a )/2 by bin( 5m ), b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
