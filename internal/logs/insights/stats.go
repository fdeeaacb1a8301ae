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
			at := positioned(e)
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
	accumulators []accumulator
}

// accumulator is one with the memory that its account has for it.
type accumulator struct {
	value.Accumulator
	bytes int
}

// charge reports the change in the accumulator's memory to an account.
func (a *accumulator) charge(to *account) error {
	before := a.bytes
	if a.bytes = a.Bytes(); a.bytes == before {
		return nil
	}
	return to.reserve(a.bytes - before)
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
	s.key = smallKey(s.key)
	for i := range s.sink.by {
		v := s.sink.by[i].eval(f)
		f.charge(2 * v.Bytes()) // the key, as it grows
		if f.stopped() {
			return f.err
		}
		s.key = value.AppendKey(s.key, v)
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
	for i := range s.sink.aggregates {
		use := &s.sink.aggregates[i]
		args := s.args[:len(use.args)]
		for j := range use.args {
			args[j] = use.args[j].eval(f)
		}
		if f.stopped() {
			return f.err
		}
		a := &g.accumulators[i]
		a.Add(args, time)
		if err := a.charge(&s.account); err != nil {
			return err
		}
	}
	return nil
}

func (s *statsState) newGroup(f *frame) (*group, error) {
	g := &group{
		by: make([]value.Value, len(s.sink.by)), accumulators: make([]accumulator, len(s.sink.aggregates)),
	}
	if err := s.account.reserve(groupBytes + len(s.key)); err != nil {
		return nil, err
	}
	for i := range s.sink.by {
		v := canonicalValue(s.sink.by[i].eval(f))
		if err := s.account.reserve(v.Bytes()); err != nil {
			return nil, err
		}
		g.by[i] = v.Clone()
	}
	for i, use := range s.sink.aggregates {
		g.accumulators[i] = accumulator{Accumulator: use.of.New(use.consts)}
		if err := s.account.reserve(accumulatorBytes); err != nil {
			return nil, err
		}
	}
	s.groups[string(s.key)] = g
	return g, nil
}

// What a group and each of its accumulators take in memory, beside keys and what accumulators say that they hold.
const (
	groupBytes       = 160
	accumulatorBytes = 64
)

// canonicalValue returns the value that stands for its group: of a number that events write in different ways (1 and
// 1.0) always the same one.
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
		s.account, from.account = from.account, s.account
	}
	for key, theirs := range from.groups {
		mine := s.groups[key]
		if mine == nil {
			s.groups[key] = theirs
			continue
		}
		delete(from.groups, key)
		for i := range mine.accumulators {
			a, other := &mine.accumulators[i], &theirs.accumulators[i]
			a.Merge(other.Accumulator)
			// Giving back does not fail.
			from.account.reserve(-other.bytes) //nolint:errcheck
			if err := a.charge(&s.account); err != nil {
				return err
			}
		}
	}
	return nil
}

// rows are in the order of by: periods newest first, other values ascending.
func (s *statsState) rows() ([]passedRow, error) {
	f := s.segment.newFrame()
	f.results = make([]value.Value, len(s.sink.aggregates))
	rows := make([]passedRow, 0, len(s.groups))
	defer f.texts.release()
	for _, g := range s.groups {
		f.discharge(0, 0)
		if err := s.account.reserve(24 + len(g.by)*(value.Value{}).Bytes()); err != nil {
			return nil, err
		}
		row := append(make(passedRow, 0, len(g.by)+len(s.sink.items)), g.by...)
		for i, a := range g.accumulators {
			f.results[i] = a.Result()
			f.charge(f.results[i].Bytes())
		}
		for i := range s.sink.items {
			v := s.sink.items[i].eval(f)
			if f.stopped() {
				return nil, f.err
			}
			if err := s.account.reserve(v.Bytes()); err != nil {
				return nil, err
			}
			row = append(row, v.Clone()) // it may be a small part of a large text
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b passedRow) int {
		for i := range s.sink.by {
			if c := compareKeys(a[i], b[i], a[i].Kind() == value.TimeKind && b[i].Kind() == value.TimeKind); c != 0 {
				return c
			}
		}
		return 0
	})
	return rows, nil
}

func (s *statsState) release() { s.account.release() }
