package value

import (
	"strings"
)

// Kind is the type of a Value.
type Kind uint8

const (
	Null        Kind = iota // a field that the event lacks, and JSON's null
	BoolKind                // JSON's true and false, and the result of a condition
	NumberKind              // a double, or an integer kept exactly as written
	StringKind              // text
	ListKind                // a JSON array
	MapKind                 // a JSON object
	TimeKind                // a moment: milliseconds since 1970 UTC, a number that is shown as a date
	PeriodKind              // a length of time in a query, such as 5m in bin(5m)
)

// Value is one value of a field or an expression. The zero Value is Null. A list or map is held
// as its JSON text and read when asked for.
type Value struct {
	kind Kind
	unit Unit    // PeriodKind
	num  float64 // NumberKind, TimeKind (ms), BoolKind (0 or 1), PeriodKind (how many units)
	text string  // StringKind; NumberKind: the digits as written, when a double would lose some or the source had some; ListKind, MapKind: JSON
}

// Number is a double. NaN and infinities are Null: Insights has no such numbers.
func Number(f float64) Value { panic("unfinished") }

// Int is an integer, exact over the whole range of int64.
func Int(n int64) Value { panic("unfinished") }

// String is text.
func String(s string) Value { return Value{kind: StringKind, text: s} }

// Bool is true or false. Insights shows them as 1 and 0.
func Bool(b bool) Value {
	if b {
		return Value{kind: BoolKind, num: 1}
	}
	return Value{kind: BoolKind}
}

// Time is the moment ms milliseconds after 1970-01-01 00:00:00 UTC. It computes and compares as
// that number and is shown as "2006-01-02 15:04:05.000".
func Time(ms int64) Value { return Value{kind: TimeKind, num: float64(ms)} }

// List is a list of the given values.
func List(vs []Value) Value { panic("unfinished") }

// FromJSON is the value of one JSON text; text that isn't JSON gives Null. The Value may hold parts of raw.
func FromJSON(raw []byte) Value { panic("unfinished") }

// Kind returns the type of v.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether v is absent.
func (v Value) IsNull() bool { return v.kind == Null }

// String returns v as GetQueryResults shows it; the empty string when v is Null.
func (v Value) String() string { panic("unfinished") }

// Append appends v.String() to b.
func (v Value) Append(b []byte) []byte { panic("unfinished") }

// AsNumber returns v as a number: a number, a moment (ms), a boolean (0 or 1), or a string that
// spells a decimal number. The second result is false for everything else.
func (v Value) AsNumber() (float64, bool) { panic("unfinished") }

// Truth says whether a filter keeps an event for which its condition is v.
func (v Value) Truth() bool { panic("unfinished") }

// Clone returns v with its own copy of its text, for whoever keeps it longer than the message it came from.
func (v Value) Clone() Value {
	v.text = strings.Clone(v.text)
	return v
}

// Bytes is the memory v holds, in bytes, its own size included.
func (v Value) Bytes() int { return 40 + len(v.text) }

// Elements calls yield with each element of a list (the key is its index) or map, in order. Other values have none.
func (v Value) Elements(yield func(key string, element Value) bool) { panic("unfinished") }

// Get returns what path names inside a list or map; Null if there is no such thing.
func (v Value) Get(path *Path) Value { panic("unfinished") }
