package value

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const page = "../../../../docs/logs-insights-functions.md"

// example is a row of the page: what it describes, an expression, and its result.
type example struct{ subject, expression, result string }

func examples(t *testing.T) []example {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\|(.*)\\| `(.*)` \\| (?:`(.*)`|\\*absent\\*) \\|$")
	var all []example
	for _, m := range row.FindAllStringSubmatch(string(data), -1) {
		all = append(all, example{strings.TrimSpace(m[1]), m[2], m[3]})
	}
	if n := strings.Count(string(data), "\n| ") - strings.Count(string(data), "| Result |"); n != len(all) {
		t.Fatalf("%d rows of the page have the form of an example, of %d", len(all), n)
	}
	return all
}

func TestThePageNamesEveryFunctionOnce(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile("^`([A-Za-z0-9_]+)\\(")
	var described []string
	for _, e := range examples(t) {
		if m := name.FindStringSubmatch(e.subject); m != nil {
			described = append(described, m[1])
			if !strings.Contains(e.expression, m[1]+"(") {
				t.Errorf("the example of %s does not use it: %s", m[1], e.expression)
			}
		}
	}
	exist := append(FunctionNames(), AggregateNames()...)
	slices.Sort(exist)
	slices.Sort(described)
	if !slices.Equal(exist, described) {
		t.Errorf("functions:\n%v\nthe page:\n%v", exist, described)
	}
}

func TestTheExamplesOfThePage(t *testing.T) {
	t.Parallel()
	for _, e := range examples(t) {
		t.Run(e.expression, func(t *testing.T) {
			x := expression{t: t, rest: e.expression, env: testEnv()}
			if got := x.all(); got.String() != e.result || got.IsNull() != (e.result == "" &&
				!strings.Contains(e.expression, `""`)) {
				t.Errorf("is %q (%v), the page says %q", got.String(), got.Kind(), e.result)
			}
		})
	}
}

// testEnv is 2026-11-21 10:36:42.123, at the end of a query over an hour.
func testEnv() *Env {
	const now = 1795257402123
	return &Env{Now: now, Start: now - 123 - 3_600_000, End: now - 123, Timestamp: Time(now)}
}

// expression evaluates what the page uses of the language; the real one is the package above this.
type expression struct {
	t    *testing.T
	rest string
	env  *Env
}

func (x *expression) all() Value {
	v := x.operation()
	if x.rest != "" {
		x.t.Fatalf("can't read %q", x.rest)
	}
	return v
}

func (x *expression) skip(s string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(x.rest, " "), s)
	if ok {
		x.rest = strings.TrimLeft(rest, " ")
	}
	return ok
}

var operators = map[string]func(a, b Value) Value{
	"+ ": Add, "- ": Sub, "* ": Mul, "/ ": Div, "% ": Mod, "^ ": Pow,
	"= ": func(a, b Value) Value { return Bool(Equal(a, b)) },
	"< ": func(a, b Value) Value { c, ok := Relation(a, b); return Bool(ok && c < 0) },
	"> ": func(a, b Value) Value { c, ok := Relation(a, b); return Bool(ok && c > 0) },
}

// operation reads operators from left to right; none binds tighter.
func (x *expression) operation() Value {
	v := x.operand()
	for len(x.rest) > 1 && operators[x.rest[:2]] != nil {
		f := operators[x.rest[:2]]
		x.skip(x.rest[:2])
		v = f(v, x.operand())
	}
	return v
}

var (
	aPeriod = regexp.MustCompile(`^\d+[a-z]+`)
	aNumber = regexp.MustCompile(`^-?\d+(\.\d+)?`)
	aName   = regexp.MustCompile(`^@?[A-Za-z0-9_]+`)
	aPath   = regexp.MustCompile(`^\.[A-Za-z0-9_.]+`)
)

func (x *expression) operand() Value {
	if s := aPeriod.FindString(x.rest); s != "" {
		x.skip(s)
		v, ok := ParsePeriod(s)
		if !ok {
			x.t.Fatalf("not a period: %s", s)
		}
		return v
	}
	if s := aNumber.FindString(x.rest); s != "" {
		x.skip(s)
		return FromJSON([]byte(s))
	}
	if s, err := strconv.QuotedPrefix(x.rest); err == nil {
		x.skip(s)
		s, _ = strconv.Unquote(s)
		return String(s)
	}
	name := aName.FindString(x.rest)
	if !x.skip(name) || name == "" {
		x.t.Fatalf("can't read %q", x.rest)
	}
	if !x.skip("(") {
		return map[string]Value{"@timestamp": x.env.Timestamp, "true": Bool(true)}[name]
	}
	if a, ok := LookupAggregate(name); ok {
		return x.aggregate(a)
	}
	f, ok := LookupFunction(name)
	if !ok {
		x.t.Fatalf("no function %s", name)
	}
	var args []Value
	for !x.skip(")") {
		args = append(args, x.operation())
		x.skip(",")
	}
	if len(args) < f.Min || f.Max >= 0 && len(args) > f.Max {
		x.t.Fatalf("%s takes %d to %d arguments, not %d", name, f.Min, f.Max, len(args))
	}
	v := f.Call(x.env, args)
	if s := aPath.FindString(x.rest); s != "" {
		x.skip(s)
		return v.Get(ParsePath(s[1:]))
	}
	return v
}

// aggregate computes over the page's five events.
func (x *expression) aggregate(a *Aggregate) Value {
	if !x.skip("x") {
		x.t.Fatalf("aggregates are of x: %s", x.rest)
	}
	args := []Value{{}}
	var consts []Value
	for !x.skip(")") {
		x.skip(",")
		consts = append(consts, x.operand())
	}
	args = append(args, consts...)
	if a.Check != nil {
		if err := a.Check(consts); err != nil {
			x.t.Fatal(err)
		}
	}
	acc := a.New(consts)
	for i, v := range []Value{Int(4), Int(1), Int(2), Int(3), String("-")} {
		args[0] = v
		acc.Add(args, int64(i)*1000)
	}
	return acc.Result()
}
