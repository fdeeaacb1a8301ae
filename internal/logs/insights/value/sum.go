package value

import (
	"math"
	"math/big"
	"math/bits"
)

// total adds numbers such that neither their order nor how they were divided among workers shows in the result:
// integers in 128 bits, doubles as partial sums without rounding error. (Sums beyond 1.8e308 on the way are the
// exception.)
type total struct {
	n      int64  // how many
	high   int64  // of the integers
	low    uint64 // of the integers
	floats partials
}

// add reports whether v was a number.
func (t *total) add(v Value) bool {
	if n, ok := v.AsInt(); ok {
		var carry uint64
		t.low, carry = bits.Add64(t.low, uint64(n), 0)
		t.high += n>>63 + int64(carry)
		t.n++
		return true
	}
	f, ok := v.AsNumber()
	if ok {
		t.floats.add(f)
		t.n++
	}
	return ok
}

func (t *total) merge(o *total) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, o.low, 0)
	t.high += o.high + int64(carry)
	t.n += o.n
	t.floats.merge(o.floats)
}

func (t *total) toValue() Value {
	switch {
	case t.n == 0:
		return Value{}
	case t.floats == nil && t.high == int64(t.low)>>63:
		return Int(int64(t.low))
	}
	s, ok := t.exactly()
	if !ok {
		return Value{}
	}
	f, _ := s.Float64()
	return Number(f)
}

// exactly returns the sum without rounding; false if it was beyond doubles on the way.
func (t *total) exactly() (*big.Float, bool) {
	n := new(big.Int).Lsh(big.NewInt(t.high), 64)
	n.Add(n, new(big.Int).SetUint64(t.low))
	s, ok := t.floats.exactly()
	if !ok {
		return nil, false
	}
	return s.Add(s, newExact().SetInt(n)), true
}

// Bytes returns the memory held.
func (t *total) Bytes() int { return 24 + t.floats.memoryBytes() }

// partials is a sum of doubles as doubles that don't overlap, the smallest first (J. R. Shewchuk, Adaptive
// Precision Floating-Point Arithmetic, 1997). There are 40 at most, usually one or two.
type partials []float64

// Once it is beyond what a double holds, it stays infinite.
func (p *partials) add(x float64) {
	if len(*p) > 0 && math.IsInf((*p)[0], 0) {
		return
	}
	kept := (*p)[:0]
	for _, y := range *p {
		if math.Abs(x) < math.Abs(y) {
			x, y = y, x
		}
		high := x + y
		if math.IsInf(high, 0) {
			*p = partials{high}
			return
		}
		if low := y - (high - x); low != 0 {
			kept = append(kept, low)
		}
		x = high
	}
	*p = append(kept, x)
}

func (p *partials) merge(o partials) {
	for _, x := range o {
		p.add(x)
	}
}

// newExact returns a number with the bits that sums, squares and products of sums of doubles need.
func newExact() *big.Float { return new(big.Float).SetPrec(4500) }

func (p partials) exactly() (*big.Float, bool) {
	s := newExact()
	for _, x := range p {
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return nil, false
		}
		s.Add(s, newExact().SetFloat64(x))
	}
	return s, true
}

func (p partials) memoryBytes() int { return 24 + 8*cap(p) }
