package insights

import (
	"slices"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// code is a compiled expression.
type code struct {
	eval       eval
	field      int         // it is the field of this index of the segment, and nothing else; -1: it isn't
	variable   int         // it is the variable of this index of the segment, computed at most once a row; -1: it isn't
	isConstant bool        // it is constant...
	constant   value.Value // ...and this
	reads      []int       // fields of the segment that it depends on, sorted
	// it depends on more than those: on an element that unnest took from a list, or on what stats has aggregated
	perRow bool
}

func fieldCode(i int) code {
	return code{eval: func(f *frame) value.Value { return f.fieldValue(i) }, field: i, variable: -1, reads: []int{i}}
}

// variableCode returns the code of the variable of an index, computed from what others are.
func variableCode(i int, of ...code) code {
	c := reading(func(f *frame) value.Value { return f.variable(i) }, of...)
	c.variable = i
	return c
}

func constantCode(v value.Value) code {
	return code{eval: func(*frame) value.Value { return v }, field: -1, variable: -1, isConstant: true, constant: v}
}

// reading makes code that depends on all that others depend on.
func reading(e eval, of ...code) code {
	c := code{eval: e, field: -1, variable: -1}
	for _, o := range of {
		c.reads = append(c.reads, o.reads...)
		c.perRow = c.perRow || o.perRow
	}
	slices.Sort(c.reads)
	c.reads = slices.Compact(c.reads)
	return c
}

// pathCode resolves a path inside the result of other code.
func pathCode(of code, name string) code {
	path := value.ParsePath(name)
	return reading(func(f *frame) value.Value {
		v := of.eval(f)
		if f.stopped() {
			return value.Value{}
		}
		v = v.Get(path)
		f.charge(v.Bytes())
		return v
	}, of)
}

// callCode returns the code of a call of a function.
func callCode(function *value.Function, args []code, first int, timestamp eval) eval {
	return func(f *frame) value.Value {
		values := f.scratch[first : first+len(args)]
		for i := range args {
			values[i] = args[i].eval(f)
		}
		if timestamp != nil {
			f.env.Timestamp = timestamp(f)
		}
		if f.stopped() {
			return value.Value{}
		}
		v := function.Call(&f.env, values)
		f.charge(v.Bytes())
		return v
	}
}

// compiler turns a syntax tree into segments. Its first error ends it, by a panic that Compile recovers.
type compiler struct {
	text    string
	segment *segment
	// set while the items of stats are compiled: aggregates and the names of items before are allowed, and nothing but
	// aggregates reads rows
	stats *statsSink

	regexes    map[string]*value.Regex // by what the query has between the slashes
	regexSteps int                     // of all of them
}

// maxRegexSteps bounds the programs of all regular expressions of a query: the memory that they take, and the time for
// an event.
const maxRegexSteps = 10_000

func (c *compiler) panicAt(at positioned, format string, args ...any) {
	panic(failure(c.text, at.sourceSpan(), format, args...))
}

// positioned is a part of the query that has a source span.
type positioned interface{ sourceSpan() span }

// compileName compiles the name of a field or an alias.
func (c *compiler) compileName(n nameExpression) code {
	if c.stats != nil {
		if column, ok := c.stats.named[n.text]; ok {
			return column
		}
		c.panicAt(n, "%s stands outside of an aggregate function\x00write it within one, or behind by", n.text)
	}
	found, ok := c.segment.lookupName(n.text)
	if !ok {
		c.panicAt(n, "Unknown symbols found in or after stats: %s\x00%s", n.text, c.available())
	}
	return found
}

// available lists the fields of rows that are no events any more.
func (c *compiler) available() string {
	var names []string
	for s := c.segment; s != nil; s = s.previous {
		for name := range s.names {
			names = append(names, name)
		}
		if s.fixed {
			names = append(names, s.fields...)
			break
		}
	}
	slices.Sort(names)
	return "the rows have only " + strings.Join(slices.Compact(names), ", ")
}

// expression compiles any expression to a value. After stats, an expression that is one of its columns is that column:
// sort count(*).
func (c *compiler) expression(e expression) code {
	if c.stats == nil && c.segment.hasColumns() {
		if column, ok := c.segment.findColumn(e.String()); ok {
			return column
		}
	}
	return c.compute(e)
}

// compute is expression without the look at columns, for parts of what has been looked at.
func (c *compiler) compute(e expression) code {
	switch e := e.(type) {
	case nameExpression:
		return c.compileName(e)
	case numberExpression, stringExpression, boolExpression:
		v, ok := literal(e)
		if !ok {
			c.panicAt(e, "the number %s is too large\x00numbers go up to 1.79e308", e.String())
		}
		return constantCode(v)
	case periodExpression:
		c.panicAt(e,
			"unexpected symbol found %s\x00a period stands only in the parentheses of a function such as bin(5m); a "+
				"field whose name begins with a digit needs backticks", e.text)
	case callExpression:
		if c.stats == nil && c.segment.hasColumns() {
			if column, ok := c.segment.findColumn(e.String()); ok {
				return column
			}
		}
		return c.compileCall(e)
	case accessExpression:
		return pathCode(c.expression(e.of), e.path)
	case unaryExpression:
		if e.operator == "-" {
			of := c.compute(e.of)
			if of.isConstant {
				return constantCode(value.Neg(of.constant))
			}
			return reading(func(f *frame) value.Value { return value.Neg(of.eval(f)) }, of)
		}
	case binaryExpression:
		if operate := arithmetic[e.operator]; operate != nil {
			left, right := c.compute(e.left), c.compute(e.right)
			return reading(func(f *frame) value.Value { return operate(left.eval(f), right.eval(f)) }, left, right)
		}
	}
	holds, from := c.condition(e)
	return reading(func(f *frame) value.Value { return value.Bool(holds(f)) }, from)
}

var arithmetic = map[string]func(a, b value.Value) value.Value{
	"+": value.Add, "-": value.Sub, "*": value.Mul, "/": value.Div, "%": value.Mod, "^": value.Pow,
}

// compileCall compiles a function; in the items of stats also an aggregate.
func (c *compiler) compileCall(e callExpression) code {
	aggregate, isAggregate := value.LookupAggregate(e.function)
	if isAggregate && c.stats != nil {
		return c.aggregate(e, aggregate)
	}
	function, ok := value.LookupFunction(e.function)
	if strings.EqualFold(e.function, "unmask") {
		function, ok = unmask, true
	}
	switch {
	case !ok && isAggregate:
		c.panicAt(e,
			"the aggregate function %s stands outside of stats\x00aggregates are for the stats command, and not "+
				"within each other", e.function)
	case !ok:
		hint := "see the functions of CloudWatch Logs Insights"
		if near := nearest(e.function, append(value.FunctionNames(), value.AggregateNames()...)); near != "" {
			hint = "did you mean " + near + "?"
		}
		c.panicAt(e.name, "unknown function %s\x00%s", e.function, hint)
	case e.star:
		c.panicAt(e, "%s(*) has no meaning\x00only count takes a *", e.function)
	}
	c.arguments(e, function.Min, function.Max)
	args := make([]code, len(e.args))
	takesPeriod := false
	for i, a := range e.args {
		if p, ok := a.(periodExpression); ok {
			args[i] = c.compilePeriod(p)
			takesPeriod = true
			continue
		}
		args[i] = c.expression(a)
		if slices.Contains(function.Patterns, i) && args[i].isConstant {
			c.compileRegex(a, args[i].constant.String())
		}
	}
	if last := len(args) - 1; periodFunctions[strings.ToLower(function.Name)] &&
		(!takesPeriod || args[last].constant.Kind() != value.PeriodKind) {
		c.panicAt(e.args[last],
			"%s needs a period as its last argument\x00a whole number and a unit, such as 30s, 5m, 1h, 1d", e.function)
	} else if takesPeriod && !periodFunctions[strings.ToLower(function.Name)] {
		c.panicAt(e, "%s takes no period\x00bin, datefloor and dateceil do", e.function)
	}
	first := c.segment.scratch
	c.segment.scratch += len(args)
	if !function.UsesTimestamp {
		return reading(callCode(function, args, first, nil), args...)
	}
	timestamp, ok := c.segment.lookupName("@timestamp")
	if !ok {
		c.panicAt(e, "%s needs @timestamp, which the rows don't have any more\x00%s", e.function, c.available())
	}
	return reading(callCode(function, args, first, timestamp.eval), append(args, timestamp)...)
}

// unmask shows what a data protection policy masks. There are no such policies here, so nothing is masked.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-Unmask.html
var unmask = &value.Function{Name: "unmask", Min: 1, Max: 1,
	Call: func(_ *value.Env, args []value.Value) value.Value { return args[0] }}

// periodFunctions are those whose last argument is a period.
var periodFunctions = map[string]bool{"bin": true, "datefloor": true, "dateceil": true}

func (c *compiler) compilePeriod(e periodExpression) code {
	p, ok := value.ParsePeriod(e.text)
	if !ok {
		c.panicAt(e, "unknown period %s\x00a whole number and ms, s, m, h, d, w, mo, q or y, such as 30s, 5m, 1h",
			e.text)
	}
	return constantCode(p)
}

func (c *compiler) arguments(e callExpression, least, most int) {
	n := len(e.args)
	if n >= least && (most < 0 || n <= most) {
		return
	}
	expected := strconv.Itoa(least)
	switch {
	case most < 0:
		expected = "at least " + expected
	case most > least:
		expected += " to " + strconv.Itoa(most)
	}
	c.panicAt(e, "%s has %s\x00it takes %s", e.function, formatCount(n, "argument"), expected)
}

// condition compiles an expression to a decision. The code that it returns, too, says what it depends on; it has no
// eval.
func (c *compiler) condition(e expression) (test, code) {
	switch e := e.(type) {
	case unaryExpression:
		if e.operator == "not" {
			of, from := c.condition(e.of)
			return func(f *frame) bool { return !of(f) }, from
		}
	case binaryExpression:
		switch e.operator {
		case "and":
			left, fromLeft := c.condition(e.left)
			right, fromRight := c.condition(e.right)
			return func(f *frame) bool { return left(f) && right(f) }, reading(nil, fromLeft, fromRight)
		case "or":
			left, fromLeft := c.condition(e.left)
			right, fromRight := c.condition(e.right)
			return func(f *frame) bool { return left(f) || right(f) }, reading(nil, fromLeft, fromRight)
		case "=", "!=":
			return c.equality(e)
		case "<", "<=", ">", ">=":
			left, right, allowed := c.expression(e.left), c.expression(e.right), relations[e.operator]
			return func(f *frame) bool {
				sign, ok := value.Relation(left.eval(f), right.eval(f))
				return ok && allowed[1+sign]
			}, reading(nil, left, right)
		}
	case likeExpression:
		of, matches := c.expression(e.of), c.matcher(e)
		if s := c.segment; of.field >= 0 && s.previous == nil && (s.fields[of.field] == "@logStream" ||
			s.fields[of.field] == "@log") {
			// One event after the other has the same.
			i := s.memos
			s.memos++
			return func(f *frame) bool {
				m, v := &f.memos[i], of.eval(f)
				if text := v.String(); m.text != text || !m.known {
					*m = memo{text: strings.Clone(text), known: true, matches: matches(v, f.env.Done)}
				}
				return m.matches
			}, of
		}
		return func(f *frame) bool { v := of.eval(f); return !f.stopped() && matches(v, f.env.Done) }, of
	case inExpression:
		of, contains := c.expression(e.of), c.membership(e)
		if contains != nil {
			return func(f *frame) bool { return contains(of.eval(f)) }, of
		}
		list := make([]code, len(e.list))
		for i, v := range e.list {
			list[i] = c.expression(v)
		}
		return func(f *frame) bool {
			v := of.eval(f)
			return e.not != slices.ContainsFunc(list, func(l code) bool { return value.Equal(v, l.eval(f)) || f.stopped() })
		}, reading(nil, append(list, of)...)
	}
	of := c.expression(e)
	return func(f *frame) bool { return of.eval(f).Truth() }, of
}

// relations say which results of a comparison (less, equal, greater) an operator allows.
var relations = map[string][3]bool{"<": {true, false, false}, "<=": {true, true, false}, ">": {false, false, true},
	">=": {false, true, true}}

func (c *compiler) equality(e binaryExpression) (test, code) {
	left, right := c.expression(e.left), c.expression(e.right)
	not := e.operator == "!="
	if left.isConstant {
		left, right = right, left
	}
	if right.isConstant {
		equals := equalTo(right.constant)
		return func(f *frame) bool { return equals(left.eval(f)) != not }, reading(nil, left)
	}
	return func(f *frame) bool { return value.Equal(left.eval(f), right.eval(f)) != not }, reading(nil, left, right)
}

// equalTo compares with a constant.
func equalTo(constant value.Value) func(value.Value) bool {
	if text, ok := value.EqualText(constant); ok {
		return func(v value.Value) bool {
			if v.Kind() == value.StringKind {
				return v.String() == text
			}
			return value.Equal(v, constant)
		}
	}
	return func(v value.Value) bool { return value.Equal(v, constant) }
}

// matcher returns the matcher of the right side of like, not like and =~. Nothing is like anything that is absent. What
// the function returns after done was closed says nothing.
func (c *compiler) matcher(e likeExpression) func(v value.Value, done <-chan struct{}) bool {
	var matches func(string, <-chan struct{}) bool
	switch m := e.match.(type) {
	case stringExpression:
		matches = func(s string, _ <-chan struct{}) bool { return strings.Contains(s, m.text) }
	case regexExpression:
		matches = c.compileRegex(m, m.pattern).Match
	}
	return func(v value.Value, done <-chan struct{}) bool {
		return (!v.IsNull() && matches(v.String(), done)) != e.not
	}
}

func (c *compiler) compileRegex(at positioned, pattern string) *value.Regex {
	if r := c.regexes[pattern]; r != nil {
		return r
	}
	r, err := value.CompileRegex(pattern)
	if err != nil {
		c.panicAt(at, "%s", err.Error())
	}
	if c.regexSteps += r.Steps(); c.regexSteps > maxRegexSteps {
		c.panicAt(at, "the regular expressions of the query are too large together\x00they may have %d steps: use "+
			"fewer, or smaller counts in {...}", maxRegexSteps)
	}
	if c.regexes == nil {
		c.regexes = make(map[string]*value.Regex)
	}
	c.regexes[pattern] = r
	return r
}

// membership returns the right side of in; nil if it isn't a list of constants.
func (c *compiler) membership(e inExpression) func(value.Value) bool {
	texts := make(map[string]bool) // those that only the same text is equal to
	var others []value.Value
	for _, v := range e.list {
		constant, ok := literal(v)
		if !ok {
			return nil
		}
		if text, ok := value.EqualText(constant); ok {
			texts[text] = true
		} else {
			others = append(others, constant)
		}
	}
	return func(v value.Value) bool {
		if len(texts) > 0 && !v.IsNull() && v.Kind() != value.ListKind && v.Kind() != value.MapKind &&
			texts[v.String()] {
			return !e.not
		}
		return e.not != slices.ContainsFunc(others, func(o value.Value) bool { return value.Equal(v, o) })
	}
}

// literal returns the value of an expression that is a value.
func literal(e expression) (value.Value, bool) {
	switch e := e.(type) {
	case numberExpression:
		return value.ParseNumber(e.text)
	case stringExpression:
		return value.String(e.text), true
	case boolExpression:
		return value.Bool(e.value), true
	case unaryExpression:
		if v, ok := literal(e.of); ok && e.operator == "-" {
			return value.Neg(v), true
		}
	}
	return value.Value{}, false
}
