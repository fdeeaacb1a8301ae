package value

import (
	"math"
	"strconv"
)

// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html#CWL_QuerySyntax-operations-numeric
var numeric = []Function{
	{Name: "abs", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value {
		if f, ok := a[0].AsNumber(); ok && f < 0 {
			return Neg(a[0])
		}
		return asNumber(a[0])
	}},
	{Name: "ceil", Min: 1, Max: 1, Call: rounding(math.Ceil)},
	{Name: "floor", Min: 1, Max: 1, Call: rounding(math.Floor)},
	{Name: "greatest", Min: 1, Max: -1, Call: extreme(1)},
	{Name: "least", Min: 1, Max: -1, Call: extreme(-1)},
	{Name: "log", Min: 1, Max: 1, Call: floatFunction(math.Log)},
	{Name: "sqrt", Min: 1, Max: 1, Call: floatFunction(math.Sqrt)},
	{Name: "round", Min: 1, Max: 2, Call: func(_ *Env, a []Value) Value { return roundNumber(a) }},
	{Name: "haversine", Min: 4, Max: 4, Call: func(_ *Env, a []Value) Value { return haversine(a) }},
	{Name: "toNumber", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value { return asNumber(a[0]) }},
	{Name: "toInt", Min: 1, Max: 1, Call: truncation(32)},
	{Name: "toLong", Min: 1, Max: 1, Call: truncation(64)},
	{Name: "toDouble", Min: 1, Max: 1, Call: floatFunction(func(f float64) float64 { return f })},
}

// asNumber returns v as a plain number.
func asNumber(v Value) Value {
	if n, ok := v.AsInt(); ok {
		return Int(n)
	}
	f, ok := v.AsNumber()
	if !ok {
		return Value{}
	}
	if v.kind == NumberKind {
		return v
	}
	return Number(f)
}

func floatFunction(f func(float64) float64) func(*Env, []Value) Value {
	return func(_ *Env, a []Value) Value {
		x, ok := a[0].AsNumber()
		if !ok {
			return Value{}
		}
		return Number(f(x))
	}
}

// rounding leaves integers as they are, also beyond 2^53.
func rounding(f func(float64) float64) func(*Env, []Value) Value {
	of := floatFunction(f)
	return func(env *Env, a []Value) Value {
		if n, ok := a[0].AsInt(); ok {
			return Int(n)
		}
		return of(env, a)
	}
}

// truncation converts to an integer of some bits, towards zero; what doesn't fit is Null.
func truncation(bits int) func(*Env, []Value) Value {
	return func(_ *Env, a []Value) Value {
		n, ok := a[0].AsInt()
		if !ok {
			f, number := a[0].AsNumber()
			if f = math.Trunc(f); !number || f < -1<<63 || f >= 1<<63 {
				return Value{}
			}
			n = int64(f)
		}
		if bits == 32 && n != int64(int32(n)) {
			return Value{}
		}
		return Int(n)
	}
}

// extreme gives the largest (sign 1) or smallest (-1) of its arguments, all of which must be numbers.
func extreme(sign int) func(*Env, []Value) Value {
	return func(_ *Env, a []Value) Value {
		best := a[0]
		for _, v := range a {
			if _, ok := v.AsNumber(); !ok {
				return Value{}
			}
			if compareNumbers(v, best)*sign > 0 {
				best = v
			}
		}
		if _, ok := best.AsNumber(); !ok {
			return Value{}
		}
		if best.kind == TimeKind {
			return best
		}
		return asNumber(best)
	}
}

// roundNumber rounds halves away from zero, in the decimal digits that the number is shown with: round(2.675, 2) is
// 2.68. Digits to round to are -20 to 20; a negative count rounds before the point.
func roundNumber(a []Value) Value {
	var digits int64
	if len(a) == 2 {
		var ok bool
		if digits, ok = a[1].AsInt(); !ok || digits < -20 || digits > 20 {
			return Value{}
		}
	}
	if n, ok := a[0].AsInt(); ok && digits >= 0 {
		return Int(n)
	}
	f, ok := a[0].AsNumber()
	if !ok {
		return Value{}
	}
	shown := strconv.AppendFloat(nil, math.Abs(f), 'f', -1, 64)
	point := len(shown)
	for i, c := range shown {
		if c == '.' {
			point = i
			break
		}
	}
	// 0 before the first digit takes the carry.
	all := append([]byte{'0'}, shown[:point]...)
	if point < len(shown) {
		all = append(all, shown[point+1:]...)
	}
	keep := point + 1 + int(digits)
	switch {
	case keep >= len(all):
		return asNumber(a[0])
	case keep < 0:
		return Int(0)
	case all[keep] >= '5':
		i := keep - 1
		for ; all[i] == '9'; i-- {
			all[i] = '0'
		}
		all[i]++
	}
	for i := keep; i < len(all); i++ {
		all[i] = '0'
	}
	out := string(all[:point+1]) + "." + string(all[point+1:]) + "0"
	r, err := strconv.ParseFloat(out, 64)
	if err != nil {
		return Value{}
	}
	return Number(math.Copysign(r, f))
}

// earthRadius is the mean radius in km that the haversine formula is commonly used with.
const earthRadius = 6371

// haversine returns the distance in km along a great circle; Null for a latitude beyond 90 degrees or a longitude
// beyond 180.
func haversine(a []Value) Value {
	var rad [4]float64
	for i, v := range a {
		f, ok := v.AsNumber()
		if !ok || math.Abs(f) > 90 && i%2 == 0 || math.Abs(f) > 180 {
			return Value{}
		}
		rad[i] = f * math.Pi / 180
	}
	h := halfVersine(rad[2]-rad[0]) + math.Cos(rad[0])*math.Cos(rad[2])*halfVersine(rad[3]-rad[1])
	return Number(2 * earthRadius * math.Asin(math.Sqrt(min(h, 1))))
}

func halfVersine(x float64) float64 { return math.Sin(x/2) * math.Sin(x/2) }
