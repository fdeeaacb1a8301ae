package value

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Aggregate is a function of the `stats` command. Each is described, with an example that a test
// runs, in docs/logs-insights-functions.md.
type Aggregate struct {
	Name      string // as AWS writes it
	Min, Max  int    // how many arguments it takes; count() and count(*) have none
	Constants []int  // indexes of the arguments that must be constants (pct's percentage)
	// Check returns the error of the constants (in the order of Constants), or returns nil. It is nil where there
	// are none.
	Check func(consts []Value) error
	// New makes an accumulator for one group; consts have passed Check.
	New func(consts []Value) Accumulator
}

// Accumulator computes one aggregate of one group. Partial accumulators of the same aggregate and
// constants merge; the result does not depend on how the rows were divided or ordered, approximations included.
//
// Absent values count nowhere, nor do lists and maps (except for count). Aggregates of numbers leave out what isn't one
// (Value.AsNumber), and are Null if nothing is left.
type Accumulator interface {
	// Add takes the values of all arguments (constants too) for one row, and the row's @timestamp (ms; 0 if it has
	// none). It keeps neither args nor their text.
	Add(args []Value, timestamp int64)
	// Merge takes over what other has seen; other must not be used afterwards.
	Merge(other Accumulator)
	// Result is the value so far; it may be called at any time, and Add may follow.
	Result() Value
	// Bytes is the memory held, in bytes.
	Bytes() int
}

// aggregates is every function of `stats` that AWS documents:
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-Stats.html#CWL_QuerySyntax-stats-functions
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-timeseries-functions.html
var aggregates = map[string]*Aggregate{}

func init() {
	for _, a := range []Aggregate{
		{Name: "avg", Min: 1, Max: 1, New: newAccumulator[avg]},
		{Name: "count", Min: 0, Max: 1, New: newAccumulator[count]},
		{Name: "count_distinct", Min: 1, Max: 1, New: newAccumulator[distinct]},
		{Name: "max", Min: 1, Max: 1, New: func([]Value) Accumulator { return &best{sign: 1} }},
		{Name: "min", Min: 1, Max: 1, New: func([]Value) Accumulator { return &best{sign: -1} }},
		{Name: "pct", Min: 2, Max: 2, Constants: []int{1}, Check: checkPercent, New: func(c []Value) Accumulator {
			p, _ := c[0].AsNumber()
			return &percentile{percent: p}
		}},
		{Name: "stddev", Min: 1, Max: 1, New: newAccumulator[deviation]},
		{Name: "sum", Min: 1, Max: 1, New: newAccumulator[sum]},
		{Name: "earliest", Min: 1, Max: 1, New: func([]Value) Accumulator { return &moments{sign: -1} }},
		{Name: "latest", Min: 1, Max: 1, New: func([]Value) Accumulator { return &moments{sign: 1} }},
		{Name: "sortsFirst", Min: 1, Max: 1, New: func([]Value) Accumulator { return &best{sign: -1, sorting: true} }},
		{Name: "sortsLast", Min: 1, Max: 1, New: func([]Value) Accumulator { return &best{sign: 1, sorting: true} }},
		{Name: "rate", Min: 2, Max: 2, Constants: []int{1}, Check: checkInterval, New: func(c []Value) Accumulator {
			ms, _ := c[0].Milliseconds()
			return &rate{interval: float64(ms)}
		}},
		{Name: "count_over_time", Min: 0, Max: 1, New: newAccumulator[count]},
		{Name: "sum_over_time", Min: 1, Max: 1, New: newAccumulator[sum]},
		{Name: "histogram", Min: 2, Max: 2, Constants: []int{1}, Check: checkBuckets, New: func(c []Value) Accumulator {
			n, _ := c[0].AsInt()
			return &histogram{buckets: int(n)}
		}},
	} {
		aggregates[strings.ToLower(a.Name)] = &a
	}
}

// newAccumulator makes the accumulator that needs no constants.
func newAccumulator[A any, P interface {
	*A
	Accumulator
}]([]Value) Accumulator {
	return P(new(A))
}

// LookupAggregate finds an aggregate by its name, in any case.
func LookupAggregate(name string) (*Aggregate, bool) {
	a, ok := aggregates[strings.ToLower(name)]
	return a, ok
}

// AggregateNames returns the names of all aggregates, sorted, as AWS writes them.
func AggregateNames() []string {
	var names []string
	for _, a := range aggregates {
		names = append(names, a.Name)
	}
	slices.SortFunc(names, compareNames)
	return names
}

func checkPercent(c []Value) error {
	if p, ok := c[0].AsNumber(); !ok || p < 0 || p > 100 {
		return fmt.Errorf("the percentage of pct is %q; it must be a number from 0 to 100", c[0].String())
	}
	return nil
}

func checkInterval(c []Value) error {
	if _, ok := c[0].Milliseconds(); !ok {
		return fmt.Errorf(
			"the interval of rate is %q; it must be a period of weeks, days, hours or shorter, such as 1m",
			c[0].String())
	}
	return nil
}

func checkBuckets(c []Value) error {
	if n, ok := c[0].AsInt(); !ok || n < 1 || n > 1000 {
		return fmt.Errorf("the number of buckets of histogram is %q; it must be 1 to 1000", c[0].String())
	}
	return nil
}

// count counts rows, or those in which its argument is present (lists and maps are).
type count struct{ n int64 }

func (c *count) Add(args []Value, _ int64) {
	if len(args) == 0 || !args[0].IsNull() {
		c.n++
	}
}
func (c *count) Merge(other Accumulator) { c.n += other.(*count).n }
func (c *count) Result() Value           { return Int(c.n) }
func (c *count) Bytes() int              { return 8 }

// sum is exact for integers, and otherwise the double nearest to the exact sum.
type sum struct{ total }

func (s *sum) Add(args []Value, _ int64) { s.add(args[0]) }
func (s *sum) Merge(other Accumulator)   { s.merge(&other.(*sum).total) }
func (s *sum) Result() Value             { return s.toValue() }

// avg is the sum divided by the count.
type avg struct{ total }

func (a *avg) Add(args []Value, _ int64) { a.add(args[0]) }
func (a *avg) Merge(other Accumulator)   { a.merge(&other.(*avg).total) }
func (a *avg) Result() Value             { return Div(a.toValue(), Int(a.n)) }

// deviation is the standard deviation of a sample (divided by n-1; 0 for a single value). AWS does not say which one
// its is.
type deviation struct {
	total
	squares partials
}

func (d *deviation) Add(args []Value, _ int64) {
	if d.add(args[0]) {
		x, _ := args[0].AsNumber()
		d.squares.add(x * x)
		d.squares.add(math.FMA(x, x, -(x * x))) // what x*x was rounded by
	}
}

func (d *deviation) Merge(other Accumulator) {
	o := other.(*deviation)
	d.merge(&o.total)
	d.squares.merge(o.squares)
}

func (d *deviation) Result() Value {
	switch d.n {
	case 0:
		return Value{}
	case 1:
		return Int(0)
	}
	// (n Σx² - (Σx)²) / n(n-1), exactly until the last division.
	s, ok1 := d.exactly()
	q, ok2 := d.squares.exactly()
	if !ok1 || !ok2 {
		return Value{}
	}
	n := newExact().SetInt64(d.n)
	q.Mul(q, n)
	s.Mul(s, s)
	f, _ := q.Sub(q, s).Float64()
	return Number(math.Sqrt(max(f, 0) / float64(d.n) / float64(d.n-1)))
}

func (d *deviation) Bytes() int { return d.total.Bytes() + d.squares.memoryBytes() }

// best is the largest (sign 1) or smallest (-1) value. max and min compare numbers if there are any, and texts
// only if there are none: a "-" among latencies is no minimum. sortsFirst and sortsLast go by the order of `sort`.
type best struct {
	sign    int
	sorting bool
	v       Value
}

func (b *best) Add(args []Value, _ int64) {
	if v := args[0]; ordered(v) && b.isBetter(v) {
		b.v = v.Clone()
	}
}

func (b *best) isBetter(v Value) bool {
	if b.v.IsNull() {
		return true
	}
	if !b.sorting {
		_, old := b.v.AsNumber()
		if _, number := v.AsNumber(); number != old {
			return number
		} else if number {
			if c := compareNumbers(v, b.v); c != 0 {
				return c*b.sign > 0
			}
		}
	}
	c := Compare(v, b.v)
	if c == 0 { // shown alike
		return v.kind > b.v.kind
	}
	return c*b.sign > 0
}

func (b *best) Merge(other Accumulator) {
	if o := other.(*best); !o.v.IsNull() && b.isBetter(o.v) {
		b.v = o.v
	}
}
func (b *best) Result() Value { return b.v }
func (b *best) Bytes() int    { return 16 + b.v.Bytes() }

// moments is the value of the earliest (sign -1) or latest (1) row that has one. Of several at the same
// moment it is the one that sorts first, or last for latest.
type moments struct {
	sign int
	at   int64
	v    Value
}

func (m *moments) Add(args []Value, timestamp int64) {
	if ordered(args[0]) && m.isBetter(args[0], timestamp) {
		m.at, m.v = timestamp, args[0].Clone()
	}
}

func (m *moments) isBetter(v Value, at int64) bool {
	if m.v.IsNull() {
		return true
	}
	if at != m.at {
		return (at > m.at) == (m.sign > 0)
	}
	c := Compare(v, m.v)
	return c*m.sign > 0 || c == 0 && v.kind > m.v.kind
}

func (m *moments) Merge(other Accumulator) {
	if o := other.(*moments); !o.v.IsNull() && m.isBetter(o.v, o.at) {
		m.at, m.v = o.at, o.v
	}
}
func (m *moments) Result() Value { return m.v }
func (m *moments) Bytes() int    { return 16 + m.v.Bytes() }

// rate computes the change of a field from the earliest to the latest row that has it, per interval. AWS only says
// "the per-interval rate of change". It is Null unless rows of two moments have it.
type rate struct {
	interval    float64 // ms
	first, last moments
}

func (r *rate) Add(args []Value, timestamp int64) {
	if _, ok := args[0].AsNumber(); ok {
		r.first.sign, r.last.sign = -1, 1
		r.first.Add(args, timestamp)
		r.last.Add(args, timestamp)
	}
}

func (r *rate) Merge(other Accumulator) {
	o := other.(*rate)
	r.first.sign, r.last.sign = -1, 1
	r.first.Merge(&o.first)
	r.last.Merge(&o.last)
}

func (r *rate) Result() Value {
	intervals := float64(r.last.at-r.first.at) / r.interval
	return Div(Sub(r.last.v, r.first.v), Number(intervals))
}
func (r *rate) Bytes() int { return 8 + r.first.Bytes() + r.last.Bytes() }
