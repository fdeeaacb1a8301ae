package events

import (
	"encoding/binary"
	"math/bits"
)

// scanner reads JSON (RFC 8259), strictly: what it accepts, every reader accepts. Its methods read one
// thing at b[i:], move i behind it, and are false when it is not there.
type scanner struct {
	b []byte
	i int
}

// nesting is the maximum nesting depth of objects and arrays.
const nesting = 200

func (x *scanner) skipSpace() {
	for x.i < len(x.b) && (x.b[x.i] == ' ' || x.b[x.i] == '\n' || x.b[x.i] == '\t' || x.b[x.i] == '\r') {
		x.i++
	}
}

// scanString reads a string with its quotes.
func (x *scanner) scanString() bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	b, i := x.b, x.i+1
	for {
		// Eight bytes at a time: the lowest top bit stands at the first quote, backslash or control character.
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^(ones*'"'), w^(ones*'\\')
			found := ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & tops
			if found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			return false
		}
		switch c := b[i]; {
		case c == '"':
			x.i = i + 1
			return true
		case c < 0x20:
			return false
		case c != '\\':
			i++
		case i+1 >= len(b):
			return false
		default:
			switch b[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if i+6 > len(b) {
					return false
				}
				for _, h := range b[i+2 : i+6] {
					if !('0' <= h && h <= '9' || 'a' <= h && h <= 'f' || 'A' <= h && h <= 'F') {
						return false
					}
				}
				i += 6
			default:
				return false
			}
		}
	}
}

// scanScalar reads a string, a number, true, false or null.
func (x *scanner) scanScalar() bool {
	if x.i >= len(x.b) {
		return false
	}
	switch x.b[x.i] {
	case '"':
		return x.scanString()
	case 't':
		return x.literal("true")
	case 'f':
		return x.literal("false")
	case 'n':
		return x.literal("null")
	}
	return x.scanNumber()
}

func (x *scanner) literal(s string) bool {
	if len(x.b)-x.i < len(s) || string(x.b[x.i:x.i+len(s)]) != s {
		return false
	}
	x.i += len(s)
	return true
}

func (x *scanner) scanNumber() bool {
	x.scanOneOf("-")
	if !x.scanOneOf("0") && !x.scanDigits() {
		return false
	}
	if x.scanOneOf(".") && !x.scanDigits() {
		return false
	}
	if x.scanOneOf("eE") {
		x.scanOneOf("+-")
		return x.scanDigits()
	}
	return true
}

func (x *scanner) scanOneOf(chars string) bool {
	for i := range len(chars) {
		if x.i < len(x.b) && x.b[x.i] == chars[i] {
			x.i++
			return true
		}
	}
	return false
}

func (x *scanner) scanDigits() bool {
	start := x.i
	for x.i < len(x.b) && '0' <= x.b[x.i] && x.b[x.i] <= '9' {
		x.i++
	}
	return x.i > start
}

// skipValue reads any value.
func (x *scanner) skipValue() bool {
	var open [nesting]byte // the closing brackets that are due
	depth := 0
	for {
		// A value begins here.
		if x.i >= len(x.b) {
			return false
		}
		switch c := x.b[x.i]; c {
		case '{', '[':
			if depth == nesting {
				return false
			}
			open[depth] = c + 2 // } and ] stand two behind { and [
			depth++
			x.i++
			x.skipSpace()
			if x.i < len(x.b) && x.b[x.i] == c+2 {
				break // empty: it is closed below
			}
			if c == '{' && !x.scanKey() {
				return false
			}
			continue
		default:
			if !x.scanScalar() {
				return false
			}
		}
		// A value, or nothing in an empty bracket, has ended here.
		for {
			if depth == 0 {
				return true
			}
			x.skipSpace()
			if x.i >= len(x.b) {
				return false
			}
			c := x.b[x.i]
			x.i++
			if c == ',' {
				x.skipSpace()
				if open[depth-1] == '}' && !x.scanKey() {
					return false
				}
				break
			}
			if c != open[depth-1] {
				return false
			}
			depth--
		}
	}
}

// scanKey reads a key of an object, its colon, and the space behind.
func (x *scanner) scanKey() bool {
	if x.i >= len(x.b) || x.b[x.i] != '"' || !x.scanString() {
		return false
	}
	x.skipSpace()
	if !x.scanOneOf(":") {
		return false
	}
	x.skipSpace()
	return true
}
