package value

import (
	"math"
	"math/bits"
)

// The arithmetic operators take what AsNumber takes. They are Null when an operand isn't a number and when the result
// isn't one (x/0, an overflow). Integers within int64 are computed exactly.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html#CWL_QuerySyntax-operations-arithmetic

// operands returns a and b as doubles, and as integers too if both are; ok is false unless both are numbers.
func operands(a, b Value) (x, y float64, m, n int64, whole, ok bool) {
	x, ok = a.AsNumber()
	if !ok {
		return
	}
	if y, ok = b.AsNumber(); !ok {
		return
	}
	if x == math.Trunc(x) && y == math.Trunc(y) {
		var both bool
		if m, whole = a.AsInt(); whole {
			n, both = b.AsInt()
			whole = both
		}
	}
	return
}

// Add returns a + b.
func Add(a, b Value) Value {
	x, y, m, n, whole, ok := operands(a, b)
	if !ok {
		return Value{}
	}
	if s := m + n; whole && (s > m) == (n > 0) {
		return Int(s)
	}
	return Number(x + y)
}

// Sub returns a - b.
func Sub(a, b Value) Value {
	x, y, m, n, whole, ok := operands(a, b)
	if !ok {
		return Value{}
	}
	if s := m - n; whole && (s < m) == (n > 0) {
		return Int(s)
	}
	return Number(x - y)
}

// Mul returns a * b.
func Mul(a, b Value) Value {
	x, y, m, n, whole, ok := operands(a, b)
	if !ok {
		return Value{}
	}
	if whole {
		if p, ok := product(m, n); ok {
			return Int(p)
		}
	}
	return Number(x * y)
}

// product returns m * n, unless that overflows.
func product(m, n int64) (int64, bool) {
	high, low := bits.Mul64(magnitude(m), magnitude(n))
	if high != 0 || low > math.MaxInt64 {
		return 0, false
	}
	return m * n, true
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// Div returns a / b.
func Div(a, b Value) Value {
	x, y, m, n, whole, ok := operands(a, b)
	if !ok || y == 0 {
		return Value{}
	}
	if whole && n != -1 && m%n == 0 {
		return Int(m / n)
	}
	return Number(x / y)
}

// Mod returns a % b, with the sign of a.
func Mod(a, b Value) Value {
	x, y, m, n, whole, ok := operands(a, b)
	if !ok || y == 0 {
		return Value{}
	}
	if whole {
		if n == -1 {
			return Int(0)
		}
		return Int(m % n)
	}
	return Number(math.Mod(x, y))
}

// Pow returns a ^ b.
func Pow(a, b Value) Value {
	x, y, m, n, whole, ok := operands(a, b)
	if !ok {
		return Value{}
	}
	if f := math.Pow(x, y); !whole || n < 0 || math.Abs(f) < exact || math.Abs(f) >= 1<<63 {
		return Number(f)
	}
	p, fits := int64(1), true // n is below 63 unless m is 1, 0 or -1, which the case above has done
	for ; n > 0 && fits; n-- {
		p, fits = product(p, m)
	}
	if !fits {
		return Number(math.Pow(x, y))
	}
	return Int(p)
}

// Neg returns -a.
func Neg(a Value) Value { return Sub(Int(0), a) }
