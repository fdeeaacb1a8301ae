package value

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Equal returns the result of `a = b` in the language.
//
// Both are numbers (a moment, a boolean, a number, or a string that spells one): equal as numbers, exactly, also beyond
// 2^53. Two strings are compared as numbers only if both spell plain decimals (without exponent: the git commits "12e3"
// and "12000" differ). A boolean also equals the string "true" or "false", in any case, because queries on AWS are
// written both ways. Otherwise the texts are compared. Null, a list or a map equals nothing, not even itself
// (https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html#CWL_QuerySyntax-structure-types).
func Equal(a, b Value) bool {
	if a.kind == StringKind && b.kind == StringKind {
		if a.text == b.text {
			return true
		}
		return numeral(a.text) && numeral(b.text) && compareNumbers(a, b) == 0
	}
	if a.kind == BoolKind && b.kind == StringKind || a.kind == StringKind && b.kind == BoolKind {
		if a.kind == StringKind {
			a, b = b, a
		}
		if strings.EqualFold(b.text, strconv.FormatBool(a.num != 0)) {
			return true
		}
	}
	c, ok := Relation(a, b)
	return ok && c == 0
}

// EqualText returns the one text s with Equal(v, x) only where x.String() is s; false if values of another
// text are equal to v too (numbers and their spellings, booleans). For planners that look for the text in raw messages.
func EqualText(v Value) (s string, ok bool) {
	if v.kind != StringKind || decimal(v.text, true) || strings.EqualFold(v.text, "true") || strings.EqualFold(v.text,
		"false") {
		return "", false
	}
	return v.text, true
}

// Relation compares a and b as `<`, `<=`, `>` and `>=` do: as numbers when both are (see Equal),
// as text, by code points, otherwise. ok is false when there is nothing to compare (one is Null, a
// list or a map): then every such condition is false.
func Relation(a, b Value) (c int, ok bool) {
	switch {
	case !ordered(a) || !ordered(b):
		return 0, false
	case a.kind == StringKind && b.kind == StringKind:
		if numeral(a.text) && numeral(b.text) {
			return compareNumbers(a, b), true
		}
		return strings.Compare(a.text, b.text), true
	}
	if _, ok := a.AsNumber(); ok {
		if _, ok := b.AsNumber(); ok {
			return compareNumbers(a, b), true
		}
	}
	return strings.Compare(a.String(), b.String()), true
}

func ordered(v Value) bool {
	switch v.kind {
	case Null, ListKind, MapKind:
		return false
	}
	return true
}

// numeral reports whether s spells a number without exponent.
func numeral(s string) bool { return decimal(s, false) }

// compareNumbers compares two values that are numbers (AsNumber).
func compareNumbers(a, b Value) int {
	x, _ := a.AsNumber()
	y, _ := b.AsNumber()
	if x != y || math.Abs(x) < exact {
		return cmp.Compare(x, y)
	}
	m, ok1 := a.AsInt()
	n, ok2 := b.AsInt()
	if ok1 && ok2 {
		return cmp.Compare(m, n)
	}
	return rational(a, x).Cmp(rational(b, y))
}

// rational returns the exact value of a number: what it is shown as. A text beyond the longest counts as the double
// nearest to it.
func rational(v Value, f float64) *big.Rat {
	if len(v.text) > longest {
		v = Number(f)
	}
	r, ok := new(big.Rat).SetString(v.String())
	if v.kind == TimeKind || !ok {
		return new(big.Rat).SetFloat64(f)
	}
	return r
}

// kindRank orders kinds of values: absent, structures, text, numbers.
func kindRank(v Value) int {
	switch v.kind {
	case Null:
		return 0
	case ListKind, MapKind:
		return 1
	case StringKind:
		if !numeral(v.text) {
			return 2
		}
		if len(v.text) > 300 { // perhaps too large for a double
			if _, ok := v.AsNumber(); !ok {
				return 2
			}
		}
	case PeriodKind:
		return 2
	}
	return 3
}

// Compare returns the order of `sort`, sortsFirst and sortsLast: a total order over all values. As AWS documents it,
// what is not a number comes before all numbers; such text is compared in chunks of digits (by length, then value) and
// of other characters (by code points):
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-Sort.html
// Numbers that are equal are ordered by their text (0, 01, 1). What AWS does not say: absent values
// come first, then lists and maps by their text.
func Compare(a, b Value) int {
	r := kindRank(a)
	if c := cmp.Compare(r, kindRank(b)); c != 0 {
		return c
	}
	switch r {
	case 0:
		return 0
	case 1:
		return strings.Compare(a.text, b.text)
	case 2:
		return natural(a.String(), b.String())
	}
	if c := compareNumbers(a, b); c != 0 || a.kind == b.kind && a.text == b.text {
		return c
	}
	return strings.Compare(a.String(), b.String())
}

// natural compares texts by chunks. Texts that differ only in ways that chunks don't (there are none but
// leading zeros) are compared by code points.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := countDigits(x), countDigits(y)
		if m > 0 && n > 0 {
			// Two numbers: the one of more digits is larger.
			if c := cmp.Compare(m, n); c != 0 {
				return c
			}
			if c := strings.Compare(x[:m], y[:n]); c != 0 {
				return c
			}
			x, y = x[m:], y[n:]
			continue
		}
		// UTF-8 orders bytes as it orders code points.
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Compare(len(x), len(y))
}

// countDigits returns the length of the digits that s begins with.
func countDigits(s string) int {
	n := 0
	for n < len(s) && s[n]-'0' <= 9 {
		n++
	}
	return n
}

// AppendKey appends to b a text that two values share exactly if they belong into the same group (of `stats by`, dedup,
// count_distinct): if they are shown alike, or are the same number in different notations (1 and 1.0 in JSON; not in
// strings). Absent values are one group, the empty string is another. Keys can be joined: none is another's prefix.
func AppendKey(b []byte, v Value) []byte {
	switch v.kind {
	case Null:
		return append(b, 0)
	case TimeKind:
		return binary.BigEndian.AppendUint64(append(b, 1), uint64(int64(v.num)))
	}
	at := len(b)
	b = append(b, 0, 0) // the length as most often: 1 + two bytes at most of uvarint
	if v.kind == NumberKind && !(math.Abs(v.num) >= exact && integer(v.text)) {
		b = appendNumber(b, v.num)
	} else {
		b = v.Append(b)
	}
	n := uint64(len(b) - at - 2) // its first byte is 0x80 at least: neither Null's nor a moment's
	if n < 0x4000 {
		b[at], b[at+1] = byte(n)|0x80, byte(n>>7)
		return b
	}
	var prefix [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(prefix[:], n)
	b = append(b, prefix[:size-2]...)
	copy(b[at+size:], b[at+2:len(b)-size+2])
	copy(b[at:], prefix[:size])
	return b
}

// integer reports whether s is an integer in its only notation.
func integer(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s != "" && s[0] != '0' && countDigits(s) == len(s)
}
