package value

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// Kind is the type of a Value.
type Kind uint8

// The kinds of values.
const (
	Null       Kind = iota // a field that the event lacks, and JSON's null
	BoolKind               // JSON's true and false, and the result of a condition
	NumberKind             // a double, or an integer kept exactly as written
	StringKind             // text
	ListKind               // a JSON array
	MapKind                // a JSON object
	TimeKind               // a moment: milliseconds since 1970 UTC, a number that is shown as a date
	PeriodKind             // a length of time in a query, such as 5m in bin(5m)
)

// Value is one value of a field or an expression. The zero Value is Null. A list or map is held
// as its JSON text and read when asked for.
//
// JSON's null is Null: Insights shows neither, ispresent is false for both.
// JSON's true and false are shown as 1 and 0, as Insights stores them
// (https://github.com/aws-powertools/powertools-lambda-dotnet/issues/667).
type Value struct {
	kind Kind
	unit Unit    // PeriodKind
	num  float64 // NumberKind, TimeKind (ms), BoolKind (0 or 1), PeriodKind (how many units)
	// StringKind; ListKind, MapKind: JSON; NumberKind: the number as it was written, empty for computed ones that num
	// holds exactly
	text string
}

// exact is up to where a double holds every integer.
const exact = 1 << 53

// Number returns a double. NaN and infinities are Null: Insights has no such numbers.
func Number(f float64) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}
	}
	return Value{kind: NumberKind, num: f + 0} // + 0: no -0
}

// Int returns an integer, exact over the whole range of int64.
func Int(n int64) Value {
	v := Value{kind: NumberKind, num: float64(n)}
	if n > exact || n < -exact {
		v.text = strconv.FormatInt(n, 10)
	}
	return v
}

// literal returns a number as JSON writes it; one beyond what a double holds is text.
func literal(s string) Value {
	if f, ok := parseSmallInt(s); ok {
		return Value{kind: NumberKind, num: f, text: s}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return String(s)
	}
	return Value{kind: NumberKind, num: f + 0, text: s}
}

// ParseNumber reads a number as queries and messages write it: decimal digits with or without sign, fraction and
// exponent. It keeps all digits. One beyond what a double holds is none.
func ParseNumber(s string) (Value, bool) {
	if !decimal(s, true) {
		return Value{}, false
	}
	v := literal(s)
	return v, v.kind == NumberKind
}

// parseSmallInt reads what most numbers are: an integer of up to 15 digits.
func parseSmallInt(s string) (float64, bool) {
	digits := s
	if s != "" && s[0] == '-' {
		digits = s[1:]
	}
	if digits == "" || len(digits) > 15 {
		return 0, false
	}
	n := int64(0)
	for i := range len(digits) {
		c := digits[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	if len(digits) < len(s) {
		n = -n
	}
	return float64(n), true
}

// String returns a string.
func String(s string) Value { return Value{kind: StringKind, text: s} }

// Bool returns true or false. Insights shows them as 1 and 0.
func Bool(b bool) Value {
	if b {
		return Value{kind: BoolKind, num: 1}
	}
	return Value{kind: BoolKind}
}

// Time returns the moment ms milliseconds after 1970-01-01 00:00:00 UTC. It computes and compares as that number and is
// shown as "2006-01-02 15:04:05.000".
func Time(ms int64) Value { return Value{kind: TimeKind, num: float64(ms)} }

// List returns a list of the given values.
func List(vs []Value) Value {
	b := []byte{'['}
	for i, v := range vs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(b, v)
	}
	return Value{kind: ListKind, text: string(append(b, ']'))}
}

// FromJSON returns the value of one JSON text; text that isn't JSON gives Null. The Value may hold parts of raw.
func FromJSON(raw []byte) Value {
	start := skipSpace(raw, 0)
	end := skipValue(raw, start, 0)
	if end < 0 || skipSpace(raw, end) != len(raw) {
		return Value{}
	}
	var text []byte
	return decodeValue(raw[start:end], &text)
}

// Kind returns the type of v.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether v is absent.
func (v Value) IsNull() bool { return v.kind == Null }

// String returns v as GetQueryResults shows it; the empty string when v is Null.
//
// A number from a message is shown as the message has it; a computed one in the fewest decimal
// digits that give it back, without exponent. (AWS documents no format.) A list or map is shown as its JSON.
func (v Value) String() string {
	switch v.kind {
	case StringKind, ListKind, MapKind:
		return v.text
	case NumberKind:
		if v.text != "" {
			return v.text
		}
	case BoolKind:
		if v.num != 0 {
			return "1"
		}
		return "0"
	case Null:
		return ""
	}
	var b [32]byte
	return string(v.Append(b[:0]))
}

// Append appends v.String() to b.
func (v Value) Append(b []byte) []byte {
	switch v.kind {
	case NumberKind:
		if v.text != "" {
			return append(b, v.text...)
		}
		return appendNumber(b, v.num)
	case BoolKind:
		return append(b, '0'+byte(v.num))
	case TimeKind:
		return time.UnixMilli(int64(v.num)).UTC().AppendFormat(b, "2006-01-02 15:04:05.000")
	case PeriodKind:
		return append(appendNumber(b, v.num), v.unit.String()...)
	}
	return append(b, v.text...)
}

func appendNumber(b []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) <= exact {
		return strconv.AppendInt(b, int64(f), 10)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

// appendJSON appends v as JSON. A moment is the text that shows it.
func appendJSON(b []byte, v Value) []byte {
	switch v.kind {
	case Null:
		return append(b, "null"...)
	case BoolKind:
		return strconv.AppendBool(b, v.num != 0)
	case NumberKind, ListKind, MapKind:
		return v.Append(b)
	}
	return appendQuoted(b, v.String())
}

// appendQuoted appends s as a JSON string, with no more escapes than JSON asks for.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// AsNumber returns v as a number: a number, a moment (ms), a boolean (0 or 1), or a string that
// spells a decimal number (200, -1.5, 1.28E8). The second result is false for everything else.
func (v Value) AsNumber() (float64, bool) {
	switch v.kind {
	case NumberKind, TimeKind, BoolKind:
		return v.num, true
	case StringKind:
		if f, ok := parseSmallInt(v.text); ok {
			return f, true
		}
		if decimal(v.text, true) {
			if f, err := strconv.ParseFloat(v.text, 64); err == nil {
				return f + 0, true
			}
		}
	}
	return 0, false
}

// AsInt returns v as an integer: what AsNumber accepts, when it is a whole number within int64 that is known exactly
// (also beyond 2^53).
func (v Value) AsInt() (int64, bool) {
	if (v.kind == NumberKind || v.kind == StringKind) && len(v.text) <= longest && integral(v.text) {
		n, err := strconv.ParseInt(v.text, 10, 64)
		return n, err == nil
	}
	f, ok := v.AsNumber()
	if !ok || f != math.Trunc(f) || math.Abs(f) > exact || math.Abs(f) == exact && v.text != "" {
		return 0, false
	}
	return int64(f), true
}

// longest is up to how many bytes a number's text is taken exactly; beyond it counts as the double nearest to it.
const longest = 64

// integral reports whether s is a sign, if any, and digits.
func integral(s string) bool {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	return s != "" && countDigits(s) == len(s)
}

// decimal reports whether s spells a number in decimal digits, with a sign, a fraction and (if exponent) an exponent.
func decimal(s string, exponent bool) bool {
	i, n := 0, 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		i++
	}
	for ; i < len(s) && s[i]-'0' <= 9; i++ {
		n++
	}
	if i < len(s) && s[i] == '.' {
		for i++; i < len(s) && s[i]-'0' <= 9; i++ {
			n++
		}
	}
	if n == 0 {
		return false
	}
	if exponent && i < len(s) && s[i]|0x20 == 'e' {
		if i++; i < len(s) && (s[i] == '-' || s[i] == '+') {
			i++
		}
		for n = 0; i < len(s) && s[i]-'0' <= 9; i++ {
			n++
		}
	}
	return i == len(s) && n > 0
}

// Truth reports whether a filter keeps an event for which its condition is v: true, a number that isn't 0
// (strcontains is documented to give 1 and 0), or the text of either ("true" in any case).
func (v Value) Truth() bool {
	if f, ok := v.AsNumber(); ok {
		return f != 0
	}
	return v.kind == StringKind && strings.EqualFold(v.text, "true")
}

// Clone returns v with its own copy of its text, for whoever keeps it longer than the message it came from.
func (v Value) Clone() Value {
	v.text = strings.Clone(v.text)
	return v
}

// Bytes returns the memory v holds, in bytes, its own size included.
func (v Value) Bytes() int { return 32 + len(v.text) }

// rawJSON returns the text of a list or map, not to be changed.
func (v Value) rawJSON() []byte { return unsafe.Slice(unsafe.StringData(v.text), len(v.text)) }

// Elements calls yield with each element of a list (the key is its index) or map, in order. Other values have none.
func (v Value) Elements(yield func(key string, element Value) bool) {
	if v.kind != ListKind && v.kind != MapKind {
		return
	}
	b := v.rawJSON()
	i := skipSpace(b, skipSpace(b, 0)+1)
	if b[i] == ']' || b[i] == '}' {
		return
	}
	for n := 0; ; n++ {
		var key string
		if v.kind == MapKind {
			start := i + 1
			i, _ = scanString(b, start)
			key = string(unescape(nil, b[start:i-1]))
			i = skipSpace(b, skipSpace(b, i)+1)
		} else {
			key = strconv.Itoa(n)
		}
		end := skipValue(b, i, 0)
		var text []byte
		if !yield(key, decodeValue(b[i:end], &text)) {
			return
		}
		if i = skipSpace(b, end); b[i] != ',' {
			return
		}
		i = skipSpace(b, i+1)
	}
}

var finders = sync.Pool{New: func() any { return NewDocument(nil) }}

// Get returns what path names inside a list or map; Null if there is no such thing.
func (v Value) Get(path *Path) Value {
	if v.kind != ListKind && v.kind != MapKind {
		return Value{}
	}
	d := finders.Get().(*Document)
	defer finders.Put(d)
	var text []byte
	return d.findPath(v.rawJSON(), path, &text)
}
