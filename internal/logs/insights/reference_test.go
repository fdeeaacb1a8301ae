package insights_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// The reference runs a query as it is written: one command after the other, each over all rows in their order. The plan
// moves filters before sorts, computes what it needs only when it needs it, and keeps no more rows than it must; the
// result is the same.

// named is a row of the reference: an event, and the names that commands have given.
type named struct {
	reader
	names map[string]value.Value
}

func (n named) get(name string) value.Value {
	for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], '.') {
		if v, ok := n.names[name[:end]]; ok {
			if end == len(name) {
				return v
			}
			return v.Get(value.ParsePath(name[end+1:]))
		}
	}
	return reader{n.event, []string{name}}.Value(0)
}

func (n named) with(name string, v value.Value) named {
	names := map[string]value.Value{name: v}
	for other, v := range n.names {
		if other != name {
			names[other] = v
		}
	}
	return named{n.reader, names}
}

// asked is a row as an event of a plan.
type asked struct {
	named
	fields []string
}

func (a asked) Value(i int) value.Value { return a.get(a.fields[i]) }

// evaluate runs commands that look at one row over one row; false if it is filtered out.
func (n named) evaluate(t *testing.T, commands string) ([]value.Value, bool) {
	p := compile(t, commands, options())
	w := p.NewWorker()
	if err := w.Push(asked{n, p.Fields()}); err != nil {
		t.Fatal(err)
	}
	r, err := p.Finish([]*insights.Worker{w})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) == 0 {
		return nil, false
	}
	return r.Rows[0], true
}

// reference runs a query.
func reference(t *testing.T, commands []string, events []event) []named {
	var rows []named
	for _, e := range events {
		rows = append(rows, named{reader{event: e}, nil})
	}
	slices.SortFunc(rows, func(a, b named) int { return int(b.at - a.at) })
	for _, command := range commands {
		name, rest, _ := strings.Cut(command, " ")
		var next []named
		switch name {
		case "filter":
			for _, row := range rows {
				if _, ok := row.evaluate(t, command); ok {
					next = append(next, row)
				}
			}
		case "fields", "parse":
			for _, row := range rows {
				of, as, _ := strings.Cut(rest, " as ")
				if name == "parse" {
					of = "x"
				}
				values, _ := row.evaluate(t, map[string]string{"fields": "fields " + of + " as x", "parse": "parse " +
					rest + " | display " + as}[name])
				next = append(next, row.with(as, values[0]))
			}
		case "sort":
			keys := strings.Split(rest, ", ")
			at := make(map[string][]value.Value)
			for _, row := range rows {
				var of []value.Value
				for _, k := range keys {
					values, _ := row.evaluate(t, "fields "+strings.TrimSuffix(strings.TrimSuffix(k, " desc"), " asc")+
						" as x")
					of = append(of, values[0])
				}
				at[fmt.Sprintf("%p", row.names)+fmt.Sprint(row.n)] = of
			}
			next = rows
			slices.SortStableFunc(next, func(a, b named) int {
				ka, kb := at[fmt.Sprintf("%p", a.names)+fmt.Sprint(a.n)], at[fmt.Sprintf("%p", b.names)+fmt.Sprint(b.n)]
				for i, k := range keys {
					c := value.Compare(ka[i], kb[i])
					if strings.HasSuffix(k, " desc") {
						c = -c
					}
					if c != 0 {
						return c
					}
				}
				return 0
			})
		case "limit":
			var n int
			fmt.Sscan(rest, &n)
			next = rows[:min(n, len(rows))]
		case "dedup":
			seen := make(map[string]bool)
			for _, row := range rows {
				var key []byte
				null := false
				for _, field := range strings.Split(rest, ", ") {
					v := row.get(field)
					null = null || v.IsNull()
					key = value.AppendKey(key, v)
				}
				if null || !seen[string(key)] {
					next = append(next, row)
				}
				seen[string(key)] = true
			}
		case "unnest":
			of, into, _ := strings.Cut(rest, " into ")
			for _, row := range rows {
				switch list := row.get(of); list.Kind() {
				case value.Null:
				case value.ListKind:
					list.Elements(func(_ string, element value.Value) bool {
						next = append(next, row.with(into, element.Clone()))
						return true
					})
				default:
					next = append(next, row.with(into, list))
				}
			}
		}
		rows = next
	}
	return rows
}

func TestPlansDoWhatIsWritten(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	steps := []func() string{
		func() string {
			return "filter " + random(r, []string{
				"ms > 10", "x like 'a'", "y >= 20", "e = 'get' or verb = 'patch'", "not (code = 201)", "ispresent(x)",
				"verb != 'get'", "js.user.name = 'get'", "y",
				"user.groups.0 = e", "strlen(x) > 3",
			})
		},
		func() string {
			return "fields " + random(r, []string{
				"tolower(verb) as x", "ms * 2 as y", "x as y", "concat(y, verb) as x", "strlen(@message) as verb",
				"jsonParse(@message) as js", "user as js", "js.verb as x", "ms % 7 as ms", "5 as y",
			})
		},
		func() string {
			return "parse " + random(r, []string{`@message '"code" : *,' as x`, `verb 'a*' as y`, `x /(.)$/ as verb`})
		},
		func() string {
			return "sort " + random(r, []string{"ms desc", "x, code", "@timestamp asc", "verb", "y desc, ms asc",
				"e, verb desc", "ms % 3, @timestamp asc", "strlen(@message) desc"})
		},
		func() string { return fmt.Sprintf("limit %d", 1+r.IntN(25)) },
		func() string {
			return "unnest " + random(r, []string{"user.groups into e", "verb into e", "code into x", "js.code into y",
				"e into e"})
		},
	}
	full := 0
	for range 400 {
		var events []event
		for i, at := range r.Perm(30) {
			events = append(events, event{at: int64(at) * 1000, message: randomMessage(r), n: i, stream: "s"})
		}
		var commands []string
		for range 1 + r.IntN(6) {
			commands = append(commands, steps[r.IntN(len(steps))]())
		}
		end := []string{}
		if r.IntN(3) == 0 {
			end = append(end, "dedup "+random(r, []string{"verb", "x, code", "e", "ms"}))
			if r.IntN(2) == 0 {
				end = append(end, fmt.Sprintf("limit %d", 1+r.IntN(9)))
			}
		}
		names := []string{"verb", "code", "ms", "x", "y", "e", "js.code"}
		query := strings.Join(slices.Concat(commands, []string{"display " + strings.Join(names, ", ")}, end), " | ")
		var want strings.Builder
		for _, row := range reference(t, slices.Concat(commands, end), events) {
			for _, name := range names {
				fmt.Fprintf(&want, "%q ", row.get(name).String())
			}
			fmt.Fprintf(&want, "ptr-%06d\n", row.n)
		}
		var got strings.Builder
		for _, row := range run(t, compile(t, query, options()), 1+r.IntN(3), events).Rows {
			for i := range names {
				fmt.Fprintf(&got, "%q ", row[i].String())
			}
			fmt.Fprintln(&got, row[len(names)].String())
		}
		if got.String() != want.String() {
			t.Fatalf("%s\ngives\n%s\nas it is written it means\n%s", query, got.String(), want.String())
		}
		if want.Len() > 0 {
			full++
		}
	}
	if full < 100 {
		t.Errorf("the test is blunt: %d results have rows", full)
	}
}
