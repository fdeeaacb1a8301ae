package value

import (
	"math"
	"slices"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
)

// exactValues is up to how many values a distribution keeps as they are. With more it is a DDSketch, whose percentiles
// are within 0.5 % of the value at that rank. Unlike a t-digest's, its result does not depend on the order of values or
// merges. Its 4096 bins span a factor of 10^17: only values smaller than the largest by more than that are lumped
// together.
const (
	exactValues = 1024
	accuracy    = 0.005
	bins        = 4096
)

// distribution is the numbers pct and histogram have seen.
type distribution struct {
	n        int64
	min, max float64
	values   []float64 // until there are too many
	sketch   *ddsketch.DDSketch
}

func (d *distribution) add(v Value) {
	f, ok := v.AsNumber()
	if !ok {
		return
	}
	if d.n == 0 {
		d.min, d.max = f, f
	}
	d.n++
	d.min, d.max = min(d.min, f), max(d.max, f)
	if d.sketch != nil {
		d.addToSketch(f)
		return
	}
	if d.values = append(d.values, f); len(d.values) > exactValues {
		d.approximate()
	}
}

func (d *distribution) addToSketch(f float64) {
	if err := d.sketch.Add(f); err != nil {
		// Beyond what the bins can tell apart (about 1e304): as the largest that they can.
		limit := math.Copysign(d.sketch.MaxIndexableValue(), f)
		if err := d.sketch.Add(limit); err != nil {
			panic(err) // impossible: it is indexable
		}
	}
}

func (d *distribution) approximate() {
	m, err := mapping.NewLogarithmicMapping(accuracy)
	if err != nil {
		panic(err) // a constant is out of range: impossible
	}
	d.sketch = ddsketch.NewDDSketch(m, store.NewCollapsingLowestDenseStore(bins),
		store.NewCollapsingLowestDenseStore(bins))
	for _, f := range d.values {
		d.addToSketch(f)
	}
	d.values = nil
}

func (d *distribution) merge(o *distribution) {
	switch {
	case o.n == 0:
		return
	case d.n == 0:
		*d = *o
		return
	}
	d.n += o.n
	d.min, d.max = min(d.min, o.min), max(d.max, o.max)
	if d.sketch == nil && o.sketch == nil && len(d.values)+len(o.values) <= exactValues {
		d.values = append(d.values, o.values...)
		return
	}
	if d.sketch == nil {
		d.approximate()
	}
	for _, f := range o.values {
		d.addToSketch(f)
	}
	if o.sketch != nil {
		if err := d.sketch.MergeWith(o.sketch); err != nil {
			panic(err) // their mappings differ: impossible
		}
	}
}

// percentile returns the smallest value that at least p percent of the values are not above.
func (d *distribution) percentile(p float64) Value {
	if d.n == 0 {
		return Value{}
	}
	if p == 0 {
		return Number(d.min)
	}
	if p == 100 {
		return Number(d.max)
	}
	if d.sketch == nil {
		slices.Sort(d.values)
		rank := int(math.Ceil(p / 100 * float64(len(d.values))))
		return Number(d.values[max(rank, 1)-1])
	}
	f, err := d.sketch.GetValueAtQuantile(p / 100)
	if err != nil {
		return Value{} // only of an empty sketch
	}
	return Number(min(max(f, d.min), d.max))
}

// forEachValue calls yield with values and how often each was seen.
func (d *distribution) forEachValue(yield func(f, times float64)) {
	if d.sketch == nil {
		for _, f := range d.values {
			yield(f, 1)
		}
		return
	}
	d.sketch.ForEach(func(f, times float64) bool {
		yield(f, times)
		return false
	})
}

// memoryBytes counts a sketch by the bins that its smallest and largest value are apart, at most.
func (d *distribution) memoryBytes() int {
	n := 64 + 8*cap(d.values)
	if d.sketch != nil {
		n += 256
		if d.max > 0 {
			n += 8 * d.binSpan(max(d.min, 0), d.max)
		}
		if d.min < 0 {
			n += 8 * d.binSpan(max(-d.max, 0), -d.min)
		}
	}
	return n
}

func (d *distribution) binSpan(from, to float64) int {
	from = max(from, d.sketch.MinIndexableValue())
	to = min(max(to, from), d.sketch.MaxIndexableValue())
	return min(d.sketch.Index(to)-d.sketch.Index(from)+128, bins)
}

// percentile is pct.
type percentile struct {
	percent float64
	distribution
}

func (p *percentile) Add(args []Value, _ int64) { p.add(args[0]) }
func (p *percentile) Merge(other Accumulator)   { p.merge(&other.(*percentile).distribution) }
func (p *percentile) Result() Value             { return p.distribution.percentile(p.percent) }
func (p *percentile) Bytes() int                { return 8 + p.memoryBytes() }

// histogram counts the values in equal ranges between the smallest and the largest one. AWS only says that the result
// is a map: its keys here are "from..to", where to belongs to the next range except in the last one.
type histogram struct {
	buckets int
	distribution
}

func (h *histogram) Add(args []Value, _ int64) { h.add(args[0]) }
func (h *histogram) Merge(other Accumulator)   { h.merge(&other.(*histogram).distribution) }
func (h *histogram) Bytes() int                { return 8 + h.memoryBytes() }

func (h *histogram) Result() Value {
	if h.n == 0 {
		return Value{}
	}
	n := h.buckets
	width := (h.max - h.min) / float64(n)
	if width == 0 || math.IsInf(width, 0) {
		n = 1
	}
	counts := make([]int64, n)
	h.forEachValue(func(f, times float64) {
		i := 0
		if n > 1 {
			i = min(max(int((f-h.min)/width), 0), n-1)
		}
		counts[i] += int64(times)
	})
	b := []byte{'{'}
	for i, c := range counts {
		from, to := h.min+float64(i)*width, h.min+float64(i+1)*width
		if i == 0 {
			from = h.min
		}
		if i == n-1 {
			to = h.max
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendNumber(append(b, '"'), from), ".."...)
		b = append(appendNumber(b, to), '"', ':')
		b = appendNumber(b, float64(c))
	}
	return Value{kind: MapKind, text: string(append(b, '}'))}
}
