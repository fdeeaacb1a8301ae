package insights

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// Compile checks what a parsed query means and makes a plan for it. Its error is a *SyntaxError.
func Compile(q *Query, o Options) (p *Plan, err error) {
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	env := value.Env{Now: o.Now, Start: o.Start, End: o.End, Done: o.Done}
	first := newSegment(nil, env)
	first.budget, first.size = &budget{limit: o.Memory}, &size{text: q.text}
	c := &planner{
		compiler: compiler{text: q.text, segment: first},
		options:  o,
		plan: &Plan{segments: []*segment{first}, reference: -1, windows: []Window{{o.Start, o.End}},
			budget: first.budget},
	}
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case *SyntaxError:
			p, err = nil, failed
		default:
			panic(failed)
		}
	}()
	for i, s := range q.statements {
		c.statement(s, q.statements[:i], q.statements[i+1:])
	}
	c.completePlan()
	return c.plan, nil
}

// planner turns the commands of a query, one after the other, into the segments of a plan.
type planner struct {
	compiler
	options Options
	plan    *Plan
	columns []column // what fields, parse and unnest show; nil: nothing said yet
	shown   bool     // columns are those of display
}

type column struct {
	name string
	of   code
}

// rowsAreEvents reports whether rows are still log events, not what stats or pattern made of them.
func (c *planner) rowsAreEvents() bool { return !c.segment.hasColumns() }

// beginSegment begins a new segment. The sink of the one before is complete.
func (c *planner) beginSegment(sinkOf string) *segment {
	before := c.segment
	c.plan.sinkCommands = append(c.plan.sinkCommands, sinkOf)
	s := newSegment(before, before.env)
	if before.sink == nil {
		if before.limit == 0 {
			before.limit = MaxLimit
		}
		c.needOrder(before)
	}
	c.plan.segments = append(c.plan.segments, s)
	c.segment = s
	for i, column := range c.columns {
		c.columns[i].of = fieldCode(s.carryField(column.of))
	}
	return s
}

// needOrder makes the fields that order events available.
func (c *planner) needOrder(s *segment) {
	if s.previous == nil {
		s.fieldIndex("@timestamp")
		s.fieldIndex("@ptr")
	}
}

// ensureOpenSegment gives the segment for a command that looks at rows after the limit or dedup before it, if there was
// one.
func (c *planner) ensureOpenSegment() *segment {
	switch {
	case c.segment.dedup != nil:
		return c.beginSegment("dedup")
	case c.segment.limit > 0:
		return c.beginSegment("limit")
	}
	return c.segment
}

func (c *planner) statement(at statement, before, after []statement) {
	if countCommands[dedupCommand](before) > 0 {
		if _, isLimit := at.command.(limitCommand); !isLimit {
			c.panicAt(at, "%s stands after dedup\x00only limit can follow dedup; write it before", at.commandName())
		}
	}
	switch e := at.command.(type) {
	case fieldsCommand:
		c.compileFields(e)
	case filterCommand:
		c.compileFilter(e)
	case statsCommand:
		c.compileStats(at, e, before)
	case sortCommand:
		c.compileSort(e)
	case limitCommand:
		s := c.segment
		if s.limit > 0 {
			s = c.ensureOpenSegment()
		}
		s.limit = e.count
	case parseCommand:
		c.compileParse(at, e)
	case dedupCommand:
		s := c.ensureOpenSegment()
		s.dedup = []code{}
		for _, field := range e.fields {
			s.dedup = append(s.dedup, c.compileName(field))
		}
	case patternCommand:
		var diff diffCommand
		if len(after) > 0 {
			diff, _ = after[0].command.(diffCommand)
		}
		c.pattern(at, e.of, diff, before)
	case diffCommand:
		if len(before) > 0 {
			if _, ok := before[len(before)-1].command.(patternCommand); ok {
				return // it is part of that
			}
		}
		c.pattern(at, nameExpression{at.span, "@message"}, e, before)
	case anomalyCommand:
		c.panicAt(at,
			"Coracle doesn't serve the anomaly command\x00it is a trained model on AWS; pattern, or pattern and "+
				"diff, show what is new or frequent")
	case unnestCommand:
		c.compileUnnest(e)
	case unmaskCommand:
		for _, field := range e.fields {
			c.setColumn(field.text, c.compileName(field))
		}
	default:
		panic(fmt.Sprintf("insights: command %T has no plan", e))
	}
}

// setColumn adds a column to those of the result, or lets one of that name show something else.
func (c *planner) setColumn(name string, of code) {
	if c.shown {
		return
	}
	if i := slices.IndexFunc(c.columns, func(col column) bool { return col.name == name }); i >= 0 {
		c.columns[i].of = of
		return
	}
	c.columns = append(c.columns, column{name, of})
}

func (c *planner) compileFields(e fieldsCommand) {
	var shown []column
	for _, i := range e.items {
		of := c.expression(i.of)
		if i.as != nil {
			c.segment.defineAlias(i.as.text, of)
			of = c.segment.names[i.as.text]
		} else if i.text != "" {
			// It may be referred to by its text, and is computed once though it is shown and perhaps carried on.
			c.segment.defineAlias(i.text, of)
			of = c.segment.names[i.text]
		}
		if !e.display {
			c.setColumn(i.columnName(), of)
		}
		shown = append(shown, column{i.columnName(), of})
	}
	if e.display {
		c.columns, c.shown = nil, false
		for _, col := range shown {
			c.setColumn(col.name, col.of)
		}
		c.shown = true
	}
}

func (c *planner) compileFilter(e filterCommand) {
	if e.index {
		c.indexable(e.condition)
	}
	s := c.ensureOpenSegment()
	holds, from := c.condition(e.condition)
	s.steps = append(s.steps, step{filter: holds, reads: from.reads})
	if s.previous == nil {
		c.plan.where = combine(true, c.plan.where, c.compileCondition(e.condition, false))
	}
}

// indexable checks that a condition is one that field indexes can answer.
func (c *planner) indexable(e expression) {
	const expected = "filterIndex takes only field = value and field in [values], joined by and and or"
	switch e := e.(type) {
	case binaryExpression:
		switch e.operator {
		case "and", "or":
			c.indexable(e.left)
			c.indexable(e.right)
			return
		case "=":
			_, isName := e.left.(nameExpression)
			if _, isLiteral := literal(e.right); isName && isLiteral {
				return
			}
		}
	case inExpression:
		_, isName := e.of.(nameExpression)
		if isName && !e.not && !slices.ContainsFunc(e.list,
			func(v expression) bool { _, ok := literal(v); return !ok }) {
			return
		}
	}
	c.panicAt(e, "this condition can't be answered by a field index\x00%s", expected)
}

func (c *planner) compileSort(e sortCommand) {
	s := c.ensureOpenSegment()
	var order []orderKey
	for _, k := range e.keys {
		of := c.expression(k.of)
		if k.as != nil {
			s.defineAlias(k.as.text, of)
			of = s.names[k.as.text]
		}
		key := orderKey{of: of, descending: k.descending}
		if at, ok := s.fieldAt["@timestamp"]; ok && s.previous == nil && of.field == at {
			key.time = true
		}
		order = append(order, key)
	}
	s.order = append(order, s.order...) // an earlier sort orders what this one leaves equal
}

func (c *planner) compileUnnest(e unnestCommand) {
	s := c.ensureOpenSegment()
	list := c.compileName(e.list)
	i := len(s.variables)
	s.variables = append(s.variables, func(f *frame) { f.setVariable(i, value.Value{}) })
	s.steps = append(s.steps, step{list: list.eval, into: i, reads: list.reads})
	into := variableCode(i, list)
	into.perRow = true
	s.names[e.into.text] = into
	c.setColumn(e.into.text, into)
}

func (c *planner) compileStats(at statement, e statsCommand, before []statement) {
	if n := countCommands[statsCommand](before); n == 2 {
		c.panicAt(at, "a third stats command\x00a query has at most two")
	} else if n == 1 {
		first := slices.IndexFunc(before, func(b statement) bool { _, ok := b.command.(statsCommand); return ok })
		for _, between := range before[first:] {
			switch between.command.(type) {
			case sortCommand, limitCommand:
				c.panicAt(between, "%s stands between two stats commands\x00write it behind the second one",
					between.commandName())
			}
		}
	}
	s := c.ensureOpenSegment()
	sink := &statsSink{named: make(map[string]code)}
	names := make([]string, 0, len(e.by)+len(e.items))
	texts := make(map[string]int)
	name := func(i item) {
		if slices.Contains(names, i.columnName()) {
			where := positioned(i.of)
			if i.as != nil {
				where = *i.as
			}
			c.panicAt(where, "stats has two columns called %s\x00give one of them another name with as", i.columnName())
		}
		if _, isName := i.of.(nameExpression); !isName {
			texts[i.of.String()] = len(names)
		}
		names = append(names, i.columnName())
	}
	for _, i := range e.by {
		name(i)
		sink.by = append(sink.by, c.expression(i.of))
	}
	c.stats = sink
	for _, i := range e.items {
		name(i)
		of := c.expression(i.of)
		if !of.perRow {
			c.panicAt(i.of, "%s is no aggregate\x00stats takes %s; fields to group by stand behind by", i.of.String(),
				strings.Join(value.AggregateNames(), ", "))
		}
		sink.items = append(sink.items, of)
		if i.as != nil {
			sink.named[i.as.text] = of
		}
	}
	c.stats = nil
	if t, ok := s.lookupName("@timestamp"); ok {
		sink.time = t
	}
	s.sink = sink
	c.beginDerivedSegment(e.String(), names, texts)
}

// beginDerivedSegment begins the segment behind stats or pattern, whose rows have just these fields.
func (c *planner) beginDerivedSegment(by string, names []string, texts map[string]int) {
	c.columns, c.shown = nil, false
	s := c.beginSegment(by)
	s.fixed, s.texts = true, texts
	s.fields = slices.Clone(names)
	for i, name := range names {
		s.fieldAt[name] = i
	}
}

func countCommands[T command](statements []statement) int {
	n := 0
	for _, s := range statements {
		if _, ok := s.command.(T); ok {
			n++
		}
	}
	return n
}

func (c *planner) pattern(at statement, of expression, diff diffCommand, before []statement) {
	if !c.rowsAreEvents() {
		c.panicAt(at,
			"%s stands behind stats or pattern\x00it is about log events: write diff right behind pattern, and "+
				"pattern before stats", at.commandName())
	}
	isDiff := diff.with != ""
	if isDiff {
		for _, b := range before {
			switch b.command.(type) {
			case limitCommand, dedupCommand:
				c.panicAt(b, "%s stands before diff\x00diff compares all events of two periods; write %s behind it",
					b.commandName(), b.commandName())
			}
		}
	}
	s := c.ensureOpenSegment()
	sink := &patternSink{of: c.expression(of)}
	names := slices.Clone(value.PatternColumns)
	if isDiff {
		asked := Window{c.options.Start, c.options.End}
		sink.windows = []Window{asked, compared(asked, diff.with)}
		sink.time, _ = s.lookupName("@timestamp")
		c.plan.windows = sink.windows
		names = append(names, diffColumns...)
	}
	s.sink = sink
	c.beginDerivedSegment(at.String(), names, nil)
}

// completePlan completes the last segment and decides about the columns.
func (c *planner) completePlan() {
	s := c.segment
	asked := MaxLimit
	if c.options.Limit > 0 {
		asked = min(asked, c.options.Limit)
	}
	if s.limit == 0 || s.limit > asked {
		s.limit = asked
	}
	c.needOrder(s)
	if c.columns == nil {
		c.columns = c.defaults()
	}
	if c.rowsAreEvents() {
		ptr, _ := s.lookupName("@ptr")
		c.columns = slices.DeleteFunc(c.columns, func(col column) bool { return col.name == "@ptr" })
		c.columns = append(c.columns, column{"@ptr", ptr})
	}
	for _, col := range c.columns {
		c.plan.columns = append(c.plan.columns, col.name)
		c.plan.puts = append(c.plan.puts, s.addOutput(col.of))
	}
	c.plan.sinkCommands = append(c.plan.sinkCommands, "the result")
	if c.options.References {
		c.useReferences()
	}
	if first := c.plan.segments[0]; first.sink == nil && first.dedup == nil {
		c.plan.shared = newTopSink(first, c.plan.budget, c.plan.sinkCommands[0])
	}
}

// defaults returns the columns of a query that names none.
func (c *planner) defaults() []column {
	names := []string{"@timestamp", "@message"}
	for _, s := range slices.Backward(c.plan.segments) {
		if s.fixed {
			names = s.fields
			break
		}
	}
	var columns []column
	for _, name := range names {
		of, _ := c.segment.lookupName(name)
		columns = append(columns, column{name, of})
	}
	return columns
}
