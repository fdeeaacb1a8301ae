package insights

import (
	"bytes"
	"slices"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// statsSink is the stats command: a row per distinct combination of the values of by.
type statsSink struct {
	by         []code
	aggregates []aggregateUse
	items      []code          // computed from frame.results, a value per aggregate
	named      map[string]code // the items that have a name, for those behind them
	time       code            // @timestamp; no eval when the rows have none
}

type aggregateUse struct {
	of     *value.Aggregate
	args   []code
	consts []value.Value
}

// aggregate compiles a call of an aggregate function in an item of stats.
func (c *compiler) aggregate(e callExpression, a *value.Aggregate) code {
	s := c.stats
	c.stats = nil // what it aggregates is about rows again
	defer func() { c.stats = s }()
	if e.star && (a.Min > 0 || a.Name != "count") {
		c.panicAt(e, "%s(*) has no meaning\x00only count takes a *", e.function)
	}
	c.arguments(e, a.Min, a.Max)
	use := aggregateUse{of: a}
	for i, arg := range e.args {
		if p, ok := arg.(periodExpression); ok && slices.Contains(a.Constants, i) {
			use.args = append(use.args, c.compilePeriod(p))
			continue
		}
		use.args = append(use.args, c.expression(arg))
	}
	for _, i := range a.Constants {
		if i >= len(use.args) {
			continue
		}
		if !use.args[i].isConstant {
			c.panicAt(e.args[i], "%s needs a constant here\x00write the value itself, such as 95 or 5m, not a field",
				e.function)
		}
		use.consts = append(use.consts, use.args[i].constant)
	}
	if a.Check != nil {
		if err := a.Check(use.consts); err != nil {
			at := expressionPlace(e)
			if len(a.Constants) > 0 && a.Constants[0] < len(e.args) {
				at = e.args[a.Constants[0]]
			}
			c.panicAt(at, "%s can't be computed\x00%s", e.function, err.Error())
		}
	}
	i := len(s.aggregates)
	s.aggregates = append(s.aggregates, use)
	of := reading(func(f *frame) value.Value { return f.results[i] })
	of.perRow = true
	return of
}

// statsState is the groups of one worker.
type statsState struct {
	sink    *statsSink
	segment *segment
	groups  map[string]*group
	key     []byte
	args    []value.Value
	account account
}

type group struct {
	by           []value.Value
	accumulators []value.Accumulator
	bytes        int // of the accumulators
}

func (s *statsSink) newState(in *segment, b *budget, command string) state {
	most := 0
	for _, a := range s.aggregates {
		most = max(most, len(a.args))
	}
	return &statsState{sink: s, segment: in, groups: make(map[string]*group), args: make([]value.Value, most),
		account: account{
			budget: b, command: command,
			advice: "group by fewer or coarser fields, filter more, or shorten the time range",
		}}
}

func (s *statsState) add(f *frame) error {
	s.key = s.key[:0]
	for i := range s.sink.by {
		s.key = value.AppendKey(s.key, s.sink.by[i].eval(f))
	}
	g := s.groups[string(s.key)]
	if g == nil {
		var err error
		if g, err = s.newGroup(f); err != nil {
			return err
		}
	}
	var time int64
	if s.sink.time.eval != nil {
		ms, _ := s.sink.time.eval(f).AsNumber()
		time = int64(ms)
	}
	bytes := 0
	for i := range s.sink.aggregates {
		use := &s.sink.aggregates[i]
		args := s.args[:len(use.args)]
		for j := range use.args {
			args[j] = use.args[j].eval(f)
		}
		g.accumulators[i].Add(args, time)
		bytes += g.accumulators[i].Bytes()
	}
	if bytes != g.bytes {
		more := bytes - g.bytes
		g.bytes = bytes
		return s.account.reserve(more)
	}
	return nil
}

func (s *statsState) newGroup(f *frame) (*group, error) {
	g := &group{by: make([]value.Value, len(s.sink.by)), accumulators: make([]value.Accumulator,
		len(s.sink.aggregates))}
	bytes := 160 + len(s.key)
	for i := range s.sink.by {
		g.by[i] = canonicalValue(s.sink.by[i].eval(f)).Clone()
		bytes += g.by[i].Bytes()
	}
	for i, use := range s.sink.aggregates {
		g.accumulators[i] = use.of.New(use.consts)
		bytes += 16
	}
	s.groups[string(s.key)] = g
	return g, s.account.reserve(bytes)
}

// canonicalValue is the value that stands for its group: of a number that events write in different ways (1 and 1.0)
// always the same one.
func canonicalValue(v value.Value) value.Value {
	if v.Kind() != value.NumberKind {
		return v
	}
	n, _ := v.AsNumber()
	plain := value.Number(n)
	if bytes.Equal(value.AppendKey(nil, plain), value.AppendKey(nil, v)) {
		return plain
	}
	return v
}

func (s *statsState) merge(other state) error {
	from := other.(*statsState)
	if len(from.groups) > len(s.groups) {
		s.groups, from.groups = from.groups, s.groups
	}
	for key, theirs := range from.groups {
		mine := s.groups[key]
		if mine == nil {
			s.groups[key] = theirs
			continue
		}
		for i := range mine.accumulators {
			mine.accumulators[i].Merge(theirs.accumulators[i])
		}
	}
	return nil
}

// rows are in the order of by: periods newest first, other values ascending.
func (s *statsState) rows() []keptRow {
	f := s.segment.newFrame()
	f.results = make([]value.Value, len(s.sink.aggregates))
	rows := make([]keptRow, 0, len(s.groups))
	for _, g := range s.groups {
		row := append(make(keptRow, 0, len(g.by)+len(s.sink.items)), g.by...)
		for i, a := range g.accumulators {
			f.results[i] = a.Result()
		}
		for i := range s.sink.items {
			row = append(row, s.sink.items[i].eval(f))
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b keptRow) int {
		for i := range s.sink.by {
			if c := compareKeys(a[i], b[i], a[i].Kind() == value.TimeKind && b[i].Kind() == value.TimeKind); c != 0 {
				return c
			}
		}
		return 0
	})
	return rows
}

func (s *statsState) release() { s.account.release() }
