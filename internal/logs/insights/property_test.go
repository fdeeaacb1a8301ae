package insights_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/tokenizer"
)

// texts are values and literals that meet in random queries and events: words, and everything that could glue a word to
// another or tear it apart.
var texts = []string{
	"get", "patch", "aws-node", "aws-auth", "kube-system", "system:serviceaccount:kube-system:aws-node", "a", "", " ",
	"201", "201.0", "2.01e2", "0x10", "true", "null",
	"caf\u00e9 noir", "na\u00efve", "x<y and y>z", "Tom & Jerry", `say "get" now`, `back\slash`, "line\nfeed get",
	"tab\tget", "it's get", "a/b/c", "/apis/apps/v1", "\u65e5\u672c get", "GET", "Get it",
	"a=b get", "1.22.3", "-22.5 C", "[1, 22, 3]", `{"get":"patch"}`, "get\u0000patch", "\u2028get",
	strings.Repeat("long", 20), strings.Repeat("long", 20) + " get " + strings.Repeat("x", 64), "12e3", "12000",
	"a+b get",
}

var random = func(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// encode writes a JSON text as one of the encoders of this world would.
func encode(r *rand.Rand, s string) string {
	switch r.IntN(4) {
	case 0: // Go
		b, _ := json.Marshal(s)
		return string(b)
	case 1: // JavaScript
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(s)
		return strings.TrimSuffix(b.String(), "\n")
	case 2: // Python: ASCII only
		b, _ := json.Marshal(s)
		var out strings.Builder
		for _, c := range string(b) {
			if c < 127 {
				out.WriteRune(c)
			} else {
				fmt.Fprintf(&out, `\u%04x`, c)
			}
		}
		return out.String()
	default: // PHP, .NET, Gson: slashes, and all that HTML minds
		b, _ := json.Marshal(s)
		return strings.NewReplacer("/", `\/`, "'", `\u0027`, "+", `\u002B`, "=", `\u003d`, "`",
			`\u0060`).Replace(string(b))
	}
}

func randomMessage(r *rand.Rand) string {
	if r.IntN(10) == 0 {
		return random(r, texts) + " " + random(r, texts)
	}
	scalar := func() string {
		switch r.IntN(8) {
		case 0:
			return []string{"201", "201.0", "2.01e2", "-22.5", "true", "false", "null", "12000", "1.2e4",
				"0.5"}[r.IntN(10)]
		case 1:
			return "[" + encode(r, random(r, texts)) + ", 22, " + encode(r, random(r, texts)) + "]"
		case 2:
			return `{"x": ` + encode(r, random(r, texts)) + "}"
		}
		return encode(r, random(r, texts))
	}
	return fmt.Sprintf(`{"verb":%s, "user":{"name":%s,"groups":[%s,%s]},"code" : %s,"dotted.key":%s,"ms":%d}`,
		scalar(), scalar(), scalar(), scalar(), scalar(), scalar(), r.IntN(50))
}

func randomEvents(r *rand.Rand, n int) []event {
	var events []event
	for i := range n {
		events = append(events, event{at: int64(r.IntN(n)) * 1000, message: randomMessage(r),
			stream: random(r, []string{"kube-apiserver-audit-1", "authenticator-2"}), n: i})
	}
	return events
}

var names = []string{"verb", "user.name", "user.groups.0", "user.groups.1", "user.groups", "code", "dotted.key", "ms",
	"@message", "@logStream", "user", "absent"}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// regexes that quote a text, and some that only need a part of it.
func randomRegex(r *rand.Rand) string {
	text := random(r, texts)
	var b strings.Builder
	for _, c := range text {
		if c == '/' || c < 128 && strings.ContainsRune(`\.+*?()|[]{}^$`, c) {
			b.WriteByte('\\')
		}
		if c == '\n' {
			b.WriteString(`\n`)
			continue
		}
		b.WriteRune(c)
	}
	quoted := b.String()
	if quoted == "" {
		quoted = "."
	}
	return []string{"/" + quoted + "/", "/^" + quoted + "/", "/" + quoted + "$/", "/(?i)" + quoted + "/",
		"/(" + quoted + "|get)/", "/x?" + quoted + ".*/", "/a (get )?" + quoted + "/"}[r.IntN(7)]
}

func randomCondition(r *rand.Rand, depth int) string {
	if depth > 0 && r.IntN(3) > 0 {
		a, b := randomCondition(r, depth-1), randomCondition(r, depth-1)
		return []string{"(" + a + " and " + b + ")", "(" + a + " or " + b + ")", "not (" + a + ")"}[r.IntN(3)]
	}
	name, text := random(r, names), random(r, texts)
	message := text
	if len(text) > 3 && r.IntN(3) == 0 {
		message = strings.ToValidUTF8(text[1:len(text)-1], "")
	}
	switch r.IntN(14) {
	case 0, 1:
		return name + " = " + quoted(text)
	case 2:
		return name + " != " + quoted(text)
	case 3:
		return quoted(text) + " = " + name
	case 4:
		return name + " like " + quoted(message)
	case 5:
		return name + " not like " + quoted(message)
	case 6:
		return name + " like " + randomRegex(r)
	case 7:
		return name + " not like " + randomRegex(r)
	case 8:
		return name + " in [" + quoted(text) + ", " + quoted(random(r, texts)) + ", 201]"
	case 9:
		return name + " not in [" + quoted(text) + ", " + quoted(random(r, texts)) + "]"
	case 10:
		return name + " >= " + random(r, []string{"20", "'get'", "201"})
	case 11:
		return "ispresent(" + name + ")"
	case 12:
		return "strcontains(" + name + ", " + quoted(message) + ")"
	}
	return "tolower(" + name + ") = " + random(r, names)
}

// allows reports whether a condition, with its words, lets an event pass, as an executor would ask it. It fails the
// test if a leaf that passes claims a word that the message lacks.
func allows(t *testing.T, c *insights.Condition, e reader) bool {
	switch {
	case c == nil:
		return true
	case c.All != nil:
		return !slices.ContainsFunc(c.All, func(part *insights.Condition) bool { return !allows(t, part, e) })
	case c.Any != nil:
		return slices.ContainsFunc(c.Any, func(part *insights.Condition) bool { return allows(t, part, e) })
	}
	if !c.Test(e.Value(c.Field)) {
		return false
	}
	words := make(map[string]bool)
	tokenizer.Each(e.message, func(w string) bool { words[w] = true; return true })
	for _, w := range c.Words {
		if !words[w] {
			t.Errorf("%s: a leaf on %s passes and claims the word %q", e.message, e.fields[c.Field], w)
			return false
		}
	}
	return true
}

// Where never rules out an event that the plan keeps. This is the property that answers depend on: a block that is
// skipped wrongly is never missed.
func TestWhereNeverLosesAnEvent(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	kept, ruledOut, words := 0, 0, 0
	for i := range 1500 {
		query := "filter " + randomCondition(r, r.IntN(4))
		switch r.IntN(5) {
		case 0:
			query += " | sort ms | filter " + randomCondition(r, 1)
		case 1:
			query = "fields verb as v, tolower(user.name) as who, strcontains(@message, 'get') as has | filter v = " +
				quoted(random(r, texts)) + " or who like " +
				quoted(random(r, texts)) + " and not has | " + query
		case 2:
			query = "parse @message '\"name\":\"*\"' as verb | " + query
		case 3:
			query = "unnest user.groups into verb | " + query + " | limit 5 | filter code = 5"
		}
		p := compile(t, query, options())
		count(p.Where(), &words)
		for _, e := range randomEvents(r, 20) {
			w := p.NewWorker()
			row := reader{e, p.Fields()}
			if err := w.Push(row); err != nil {
				t.Fatal(err)
			}
			allowed := allows(t, p.Where(), row)
			if w.Matched() == 1 && !allowed {
				t.Fatalf("query %d: %s\nkeeps %s\nbut its condition rules it out", i, query, e.message)
			}
			if w.Matched() == 1 {
				kept++
			}
			if !allowed {
				ruledOut++
			}
		}
	}
	if kept < 500 || ruledOut < 500 || words < 100 {
		t.Errorf("the test is blunt: %d events kept, %d ruled out, %d words", kept, ruledOut, words)
	}
}

func count(c *insights.Condition, words *int) {
	if c == nil {
		return
	}
	*words += len(c.Words)
	for _, part := range slices.Concat(c.All, c.Any) {
		count(part, words)
	}
}

// Words of single conditions, spelled out.
func TestWords(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		`objectRef.name = 'aws-node'`:                    "aws node",
		`'aws-node' = objectRef.name`:                    "aws node",
		`objectRef.name != 'aws-node'`:                   "",
		`not objectRef.name != 'aws-node'`:               "aws node",
		`code = 201`:                                     "",
		`code = '201'`:                                   "",
		`gone = 'true'`:                                  "",
		`user.username = "system:node:ip-10-0-1-7"`:      "system node ip 10",
		`name = 'x<get>y patch'`:                         "patch",
		`name = 'caf\u00e9 noir'`:                        "noir",
		`name = 'café noir vert'`:                        "noir vert",
		`name = "a\nget patch"`:                          "patch",
		`name like 'aws-node'`:                           "",
		`name like 'the aws node is'`:                    "aws node",
		`name like ' 22 '`:                               "",
		`@message like 'the 22 <get> "patch" x'`:         "22 get patch",
		`@message = 'get it'`:                            "get it",
		`@message like /user "(alice|bob)" did get it/`:  "did get",
		`@message like /(?i) did get /`:                  "",
		`@message not like 'a get b'`:                    "",
		`@logStream = 'kube-apiserver-audit-1'`:          "",
		`name =~ /^system:serviceaccount:kube-system:x/`: "serviceaccount kube system",
	} {
		p := compile(t, "filter "+condition, options())
		if got := strings.Join(p.Where().Words, " "); got != want {
			t.Errorf("%s: words %q, want %q", condition, got, want)
		}
	}
}

// What can't be decided by one field of an event is no part of the condition.
func TestWhatWhereLeavesOut(t *testing.T) {
	t.Parallel()
	for query, leaves := range map[string]int{
		`filter a = 1 and b = 2`:                              2,
		`filter a = 1 or b = 2`:                               2,
		`filter a = b`:                                        0,
		`filter a = 1 and a = b`:                              1,
		`filter a = 1 or a = b`:                               0,
		`filter not (a = 1 or a = b)`:                         1,
		`limit 5 | filter a = 1`:                              0,
		`sort a | filter a = 1 | limit 5`:                     1,
		`stats count(*) as n by a | filter n = 1`:             0,
		`unnest a into b | filter b = 1 and c = 2`:            1,
		`fields a as x, abs(b) as y | filter x = 1 and y = 2`: 2,
		`parse "* *" as a, b | filter a = 1`:                  1,
		`filter bin(5m) = 5`:                                  1,
		`filter now() > 5`:                                    0,
		`filter a in [1, 2, 3]`:                               3,
		`pattern @message | filter @ratio > 0.5`:              0,
	} {
		if strings.HasPrefix(query, "pattern") {
			continue
		}
		var walk func(c *insights.Condition) int
		walk = func(c *insights.Condition) int {
			if c == nil {
				return 0
			}
			n := 0
			for _, part := range slices.Concat(c.All, c.Any) {
				n += walk(part)
			}
			if c.Test != nil {
				n++
			}
			return n
		}
		if got := walk(compile(t, query, options()).Where()); got != leaves {
			t.Errorf("%s: %d leaves, want %d", query, got, leaves)
		}
	}
}

// However events are dealt to workers, and in which order, the result is the same.
func TestWorkersDontChangeTheResult(t *testing.T) {
	t.Parallel()
	queries := []string{
		"fields @timestamp, @message",
		"fields verb, code | limit 7",
		"sort verb, code desc | limit 9 | display verb, code",
		"sort @timestamp asc | limit 11",
		"sort ms desc, @timestamp asc | limit 11 | fields ms * 2 as m | filter m > 20 | sort m | limit 3",
		"stats count(*) as n, sum(ms), avg(ms), min(code), max(code), stddev(ms), pct(ms, 90), earliest(verb), " +
			"latest(verb), sortsFirst(verb), sortsLast(verb) by user.name",
		"stats count(*), count_distinct(verb) by bin(10s), verb",
		"stats sum(ms) / count(*) as mean by verb | filter mean > 10 | stats max(mean), count(*)",
		"dedup verb",
		"sort ms desc | dedup verb, code | limit 6",
		"unnest user.groups into g | stats count(*) by g",
		"unnest user.groups into g | sort g | limit 13 | display g, ms",
		"parse @message '\"name\":\"*\"' as who | stats count(*) by who",
		"limit 20 | stats count(*) by verb",
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 150 {
		query := queries[i%len(queries)]
		if r.IntN(2) == 0 {
			query = "filter " + randomCondition(r, 1) + " | " + query
		}
		events := randomEvents(r, 1+r.IntN(200))
		one := everything(run(t, compile(t, query, options()), 1, events))
		for range 2 {
			r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			if four := everything(run(t, compile(t, query, options()), 4, events)); four != one {
				t.Fatalf("%s: with one worker (-) and with four (+):\n%s", query, cmp.Diff(strings.Split(one, "\n"),
					strings.Split(four, "\n")))
			}
		}
	}
}

// everything is a result as text, with @ptr.
func everything(r *insights.Result) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Matched, r.Columns)
	for _, row := range r.Rows {
		for _, v := range row {
			fmt.Fprintf(&b, "%v %q ", v.IsNull(), v.String())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	for query, says := range map[string]string{
		"fields @timestamp, @message":                      "the result holds more than the 1.0 MiB",
		"sort code":                                        "the result holds more than the 1.0 MiB",
		"stats count(*) by @message":                       "stats count(*) by @message holds more than the 1.0 MiB",
		"stats count_distinct(@message), count(*) by verb": "",
	} {
		o := options()
		o.Memory = 1 << 20
		p := compile(t, query, o)
		workers := []*insights.Worker{p.NewWorker(), p.NewWorker()}
		var err error
		for i := 0; err == nil && i < 20_000; i++ {
			e := event{at: int64(i), n: i, message: fmt.Sprintf(`{"verb":"v%d","text":"%s %d"}`, i%3,
				strings.Repeat("text ", 200), i)}
			err = workers[i%2].Push(reader{e, p.Fields()})
		}
		switch {
		case says == "" && err != nil:
			t.Errorf("%s: %v", query, err)
		case says != "" && (!errors.Is(err, insights.ErrMemory) || !strings.HasPrefix(err.Error(), says)):
			t.Errorf("%s: %v, want %s", query, err, says)
		}
	}
}

// The first 10,000 events cost the same memory however many workers look for them.
func TestWorkersShareWhatALimitKeeps(t *testing.T) {
	t.Parallel()
	o := options()
	o.Memory = 8 << 20
	p := compile(t, "fields @message | limit 1000", o)
	var events []event
	for i := range 40_000 {
		events = append(events, event{at: int64(i / 3), n: i, message: strings.Repeat("message ", 500)})
	}
	if r := run(t, p, 16, events); len(r.Rows) != 1000 || r.Rows[0][1].String() != "ptr-039999" ||
		r.Rows[999][1].String() != "ptr-039000" {
		t.Errorf("%d rows", len(r.Rows))
	}
}

// A worker's partial result is right, and asking for it changes nothing.
func TestPartial(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	events := randomEvents(r, 100)
	for _, query := range []string{"fields verb | sort ms | limit 5", "dedup verb",
		"sort ms | limit 9 | filter code = 201"} {
		p := compile(t, query, options())
		workers := []*insights.Worker{p.NewWorker(), p.NewWorker()}
		for i, e := range events {
			if i == 50 {
				partial, ok := p.Partial(workers)
				if half := run(t, compile(t, query, options()), 1, events[:50]); !ok ||
					everything(partial) != everything(half) {
					t.Errorf("%s: partial result\n%s\nwant\n%s", query, everything(partial), everything(half))
				}
			}
			if err := workers[i%2].Push(reader{e, p.Fields()}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := p.Finish(workers)
		if want := run(t, compile(t, query, options()), 1, events); err != nil || everything(got) != everything(want) {
			t.Errorf("%s after a partial result:\n%s\nwant\n%s (%v)", query, everything(got), everything(want), err)
		}
	}
}
