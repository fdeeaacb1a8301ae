package insights

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// segment is a part of a query: steps that process one row at a time, in any order, and then a sink, which processes
// all rows. The rows of the first segment are log events, and it runs in all workers at once; the rows of each later
// segment are the output of the one before.
//
// Sorting by itself is no step: a sink keeps the order that its rows were sorted by. So a filter after sort is a step
// before the sink.
type segment struct {
	previous *segment
	env      value.Env
	budget   *budget
	size     *size     // of the plan
	spare    sync.Pool // frames for tests outside of a worker
	fixed    bool      // the rows are what stats or pattern made: they have the fields given at first, and no others

	fields    []string       // what the rows are asked for, by index
	fieldAt   map[string]int // index in fields
	variables []variable
	scratch   int // how many values calls need for their arguments
	memos     int // how many conditions remember what they came to

	// aliases and other names that the query defines, as they are at the end of the segment so far
	names map[string]code
	texts map[string]int // fixed: the fields that are expressions, by what the expression prints

	steps []step
	order []orderKey
	limit int    // rows at most; 0: not limited yet
	dedup []code // nil: none
	sink  sink   // nil: order, limit, dedup
	puts  []code // what the next segment, or the result, gets of each row
}

// orderKey is a key of sort.
type orderKey struct {
	of         code
	time       bool // it is the event's @timestamp
	descending bool
}

// step is a filter or an unnest.
type step struct {
	filter test
	// unnest: the rest of the segment runs once for each element of list, which is variable into
	list eval
	into int

	reads []int // fields that it depends on
}

func newSegment(previous *segment, env value.Env) *segment {
	s := &segment{previous: previous, env: env, fieldAt: make(map[string]int), names: make(map[string]code)}
	if previous != nil {
		s.budget, s.size = previous.budget, previous.size
	}
	s.spare.New = func() any { return s.newFrame() }
	return s
}

// What a plan may have, so that it takes little memory: fields of events, each of which is read from each block of
// them, and columns of rows that go from a segment to the next, in all of them together. A short query can ask for
// thousands of fields, and for hundreds of segments.
const (
	maxFields  = 1000
	maxOutputs = 20_000
)

// size counts what a plan has.
type size struct {
	text            string // of the query, for errors
	fields, outputs int
}

// addField counts a field of events. Compile recovers the panic when there are too many, as that of a syntax error.
func (z *size) addField() {
	if z.fields++; z.fields > maxFields {
		z.panicWith("the query reads too many fields\x00it may have %d: ask for fewer", maxFields)
	}
}

// addOutput does the same for a column.
func (z *size) addOutput() {
	if z.outputs++; z.outputs > maxOutputs {
		z.panicWith("the commands of the query pass on too many columns\x00they may have %d together: name fewer, or "+
			"write fewer limit, dedup and stats commands", maxOutputs)
	}
}

func (z *size) panicWith(format string, args ...any) {
	panic(failure(z.text, span{0, len(z.text)}, format, args...))
}

// fieldIndex returns the index of a field of the segment's rows; false if they have no such field.
func (s *segment) fieldIndex(name string) (int, bool) {
	if i, ok := s.fieldAt[name]; ok {
		return i, true
	}
	if s.fixed {
		return 0, false
	}
	i := len(s.fields)
	if s.previous == nil {
		s.size.addField()
		s.fields = append(s.fields, name)
	} else {
		c, ok := s.previous.lookupName(name)
		if !ok {
			return 0, false
		}
		i = s.carryField(c)
	}
	s.fieldAt[name] = i
	return i, true
}

// carryField makes what the segment before computes a field of this one's rows; it says which.
func (s *segment) carryField(of code) int {
	i := s.previous.addOutput(of)
	for len(s.fields) <= i {
		s.fields = append(s.fields, "")
	}
	return i
}

// addOutput adds to what the segment puts out; it says at which index.
func (s *segment) addOutput(c code) int {
	if c.field >= 0 || c.variable >= 0 {
		if i := slices.IndexFunc(s.puts, func(p code) bool {
			return p.field == c.field &&
				p.variable == c.variable
		}); i >= 0 {
			return i
		}
	}
	s.size.addOutput()
	s.puts = append(s.puts, c)
	return len(s.puts) - 1
}

// lookupName finds what a name means at the end of the segment so far: an alias, something inside one, or a field.
func (s *segment) lookupName(name string) (code, bool) {
	if c, ok := s.names[name]; ok {
		return c, true
	}
	if s.fixed {
		if i, ok := s.fieldAt[name]; ok {
			return fieldCode(i), true
		}
	}
	for end := strings.LastIndexByte(name, '.'); end > 0; end = strings.LastIndexByte(name[:end], '.') {
		outer, ok := s.names[name[:end]]
		if !ok && s.fixed {
			var i int
			if i, ok = s.fieldAt[name[:end]]; ok {
				outer = fieldCode(i)
			}
		}
		if ok {
			return pathCode(outer, name[end+1:]), true
		}
	}
	i, ok := s.fieldIndex(name)
	if !ok {
		return code{}, false
	}
	return fieldCode(i), true
}

// hasColumns reports whether the rows are of stats or pattern, with fixed columns.
func (s *segment) hasColumns() bool { return s.fixed || s.previous != nil && s.previous.hasColumns() }

// findColumn finds a column of stats by the expression that it shows.
func (s *segment) findColumn(expression string) (code, bool) {
	if i, ok := s.texts[expression]; ok {
		return fieldCode(i), true
	}
	if s.previous == nil || s.fixed {
		return code{}, false
	}
	c, ok := s.previous.findColumn(expression)
	if !ok {
		return code{}, false
	}
	return fieldCode(s.carryField(c)), true
}

// defineAlias makes a name stand for an expression that is computed once a row, when first needed.
func (s *segment) defineAlias(name string, c code) {
	if c.field < 0 && c.variable < 0 && !c.isConstant {
		i, of := len(s.variables), c.eval
		s.variables = append(s.variables, func(f *frame) { f.setVariable(i, of(f)) })
		c = variableCode(i, c)
	}
	s.names[name] = c
}

// maxElements limits the rows that unnest makes from one row, also when lists of lists are unnested one after the
// other: their numbers multiply.
const maxElements = 1_000_000

// runSteps takes a row through the steps from the given one on, and gives it to the sink if it passes.
func (s *segment) runSteps(f *frame, from int, to func(f *frame) error) error {
	for i := from; i < len(s.steps); i++ {
		step := &s.steps[i]
		if step.filter != nil {
			if passes := step.filter(f); f.stopped() || !passes {
				return f.err
			}
			continue
		}
		list := step.list(f)
		if f.stopped() || list.IsNull() {
			return f.err
		}
		if list.Kind() != value.ListKind {
			f.clearVariables(step.into)
			f.setVariable(step.into, list)
			continue
		}
		var err error
		held := f.held
		list.Elements(func(_ string, element value.Value) bool {
			if f.elements++; f.elements > maxElements {
				err = fmt.Errorf(
					"unnest makes more than %d rows of one event: unnest shorter lists, or fewer of them in one query",
					maxElements)
				return false
			}
			f.clearVariables(step.into)
			f.discharge(held, step.into)
			f.charge(element.Bytes())
			f.setVariable(step.into, element)
			err = s.runSteps(f, i+1, to)
			return err == nil
		})
		return err
	}
	return to(f)
}
