package insights

import "github.com/coracle-eks/coracle/internal/logs/insights/value"

// Expressions are compiled to functions of a frame. A frame holds the row at hand: fields come from the row when they
// are first asked for, and variables (aliases, fields of parse) are computed then, too, so that what a filter drops
// costs nothing more than the filter.

// eval computes an expression for the row at hand.
type eval func(f *frame) value.Value

// test decides a condition for the row at hand.
type test func(f *frame) bool

// variable computes a variable, and others of the same command with it, by frame.set.
type variable func(f *frame)

// rowValues is the source of a frame's fields: an Event, or a row that an earlier segment kept.
type rowValues interface{ Value(field int) value.Value }

type frame struct {
	segment *segment
	row     rowValues
	fields  []value.Value
	vars    []value.Value
	has     []bool // of fields, then of vars
	scratch []value.Value
	results []value.Value // of a group's aggregates, while the items of stats are computed
	found   []value.Value // of parse
	memos   []memo
	env     value.Env
	// sequence is the row's position among the rows of a later segment, or of an event's elements that unnest made rows of
	sequence int
	elements int // that unnest has taken from lists of the row
	texts    account
	held     int   // of texts: those that functions have made of the row at hand
	err      error // why the row is computed no further
}

// memo caches the result of a condition for the previous row.
type memo struct {
	text           string
	known, matches bool
}

func (s *segment) newFrame() *frame {
	return &frame{
		segment: s,
		fields:  make([]value.Value, len(s.fields)),
		vars:    make([]value.Value, len(s.variables)),
		has:     make([]bool, len(s.fields)+len(s.variables)),
		scratch: make([]value.Value, s.scratch),
		memos:   make([]memo, s.memos),
		env:     s.env,
		texts: account{
			budget: s.budget, command: "a row, with what functions make of it,",
			advice: "use fewer functions, or ask for fewer and shorter fields",
		},
	}
}

// longText is the size in bytes from which on a value counts as memory of its row. Of shorter ones a row has few, for
// queries are short.
const longText = 1 << 10

// charge takes memory for something that is made of the row at hand, until the next row. When there is none, the row is
// computed no further.
func (f *frame) charge(bytes int) {
	if bytes >= longText && f.err == nil {
		f.held += bytes
		f.err = f.texts.reserve(bytes)
	}
}

// discharge gives back what was charged beyond the given bytes, and drops what it was charged for: the variables from
// the given one on, and arguments.
func (f *frame) discharge(to, variable int) {
	if f.held == to {
		return
	}
	f.texts.reserve(to - f.held) //nolint:errcheck // giving back does not fail
	f.held = to
	clear(f.vars[variable:])
	clear(f.scratch)
	clear(f.found[:cap(f.found)])
}

// stopped reports whether the row is computed no further: it takes too much memory, or the query was stopped.
func (f *frame) stopped() bool {
	if f.err == nil && f.env.Stopped() {
		f.err = ErrStopped
	}
	return f.err != nil
}

func (f *frame) resetRow(row rowValues) {
	f.row, f.elements = row, 0
	clear(f.has)
	f.discharge(0, 0)
}

func (f *frame) fieldValue(i int) value.Value {
	if !f.has[i] {
		f.has[i] = true
		f.fields[i] = f.row.Value(i)
	}
	return f.fields[i]
}

func (f *frame) variable(i int) value.Value {
	if !f.has[len(f.fields)+i] {
		f.segment.variables[i](f)
	}
	return f.vars[i]
}

func (f *frame) setVariable(i int, v value.Value) {
	f.vars[i] = v
	f.has[len(f.fields)+i] = true
}

// clearVariables drops the variables from i on: what they are computed from has changed.
func (f *frame) clearVariables(i int) { clear(f.has[len(f.fields)+i:]) }

// passedRow is a row that a segment hands to the next one.
type passedRow []value.Value

func (r passedRow) Value(i int) value.Value { return r[i] }
