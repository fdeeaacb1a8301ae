package value

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// The scanner below checks JSON (RFC 8259) strictly and finds where values end, without building anything. It exists
// because queries read a few fields of every message: on audit events it checks a message and finds five fields at
// about 1,000 MB a second of one CPU, valyala/fastjson, with the check that its parser leaves out, at 365 (go test
// -bench Document ./internal/logs/insights/value), and fastjson keeps neither the text of objects nor the place of a
// key that has dots. Functions return the index behind what they read, or invalid.

const invalid = -1

// maxDepth bounds how deeply objects and arrays nest; a message beyond it is not JSON to us.
// (The fields AWS discovers nest far less; etcd refuses objects long before.)
const maxDepth = 512

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipSpace returns the index of the first byte at or behind i that isn't JSON white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ' ', '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}
	return i
}

// scanString reads a string whose opening quote is at i-1, and says whether it has escapes.
func scanString(b []byte, i int) (end int, escaped bool) {
	for {
		// Eight bytes at a time: which of them are a quote, a backslash or a control character.
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			q := x ^ ones*'"'
			s := x ^ ones*'\\'
			stop := ((q - ones) &^ q) | ((s - ones) &^ s) | ((x - ones*0x20) &^ x)
			stop &= highs
			if stop == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(stop) >> 3
			break
		}
		if i >= len(b) {
			return invalid, false
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped
		case c == '\\':
			escaped = true
			if i = scanEscape(b, i+1); i < 0 {
				return invalid, false
			}
		case c < 0x20:
			return invalid, false
		default:
			i++ // only behind the last eight bytes
		}
	}
}

// scanEscape reads what follows a backslash.
func scanEscape(b []byte, i int) int {
	if i >= len(b) {
		return invalid
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if i+5 > len(b) {
			return invalid
		}
		for _, c := range b[i+1 : i+5] {
			if hexValue(c) < 0 {
				return invalid
			}
		}
		return i + 5
	}
	return invalid
}

func hexValue(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func scanDigits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// scanNumber reads a number.
func scanNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	start := i
	i = scanDigits(b, i)
	if i == start || (b[start] == '0' && i > start+1) {
		return invalid
	}
	if i < len(b) && b[i] == '.' {
		start = i + 1
		if i = scanDigits(b, start); i == start {
			return invalid
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		start = i
		if i = scanDigits(b, start); i == start {
			return invalid
		}
	}
	return i
}

func scanLiteral(b []byte, i int, w string) int {
	if len(b)-i >= len(w) && string(b[i:i+len(w)]) == w {
		return i + len(w)
	}
	return invalid
}

// scanScalar reads a string, number, true, false or null.
func scanScalar(b []byte, i int) int {
	if i >= len(b) {
		return invalid
	}
	switch b[i] {
	case '"':
		end, _ := scanString(b, i+1)
		return end
	case 't':
		return scanLiteral(b, i, "true")
	case 'f':
		return scanLiteral(b, i, "false")
	case 'n':
		return scanLiteral(b, i, "null")
	}
	return scanNumber(b, i)
}

// skipValue reads one value of any kind that starts at i and lies depth levels deep.
func skipValue(b []byte, i, depth int) int {
	if i >= len(b) {
		return invalid
	}
	if c := b[i]; c != '{' && c != '[' {
		return scanScalar(b, i)
	}
	var objects [maxDepth / 64]uint64 // one bit a level: is it an object
	level := depth
value:
	if i >= len(b) {
		return invalid
	}
	switch b[i] {
	case '{':
		if level++; level >= maxDepth {
			return invalid
		}
		objects[level>>6] |= 1 << (level & 63)
		i = skipSpace(b, i+1)
		if i < len(b) && b[i] == '}' {
			i++
			goto closed
		}
		goto key
	case '[':
		if level++; level >= maxDepth {
			return invalid
		}
		objects[level>>6] &^= 1 << (level & 63)
		i = skipSpace(b, i+1)
		if i < len(b) && b[i] == ']' {
			i++
			goto closed
		}
		goto value
	case '"':
		i, _ = scanString(b, i+1)
	default:
		i = scanScalar(b, i)
	}
	if i < 0 {
		return invalid
	}
next: // behind a value inside an object or array
	if i < len(b) && b[i] <= ' ' {
		i = skipSpace(b, i)
	}
	if i >= len(b) {
		return invalid
	}
	if objects[level>>6]&(1<<(level&63)) != 0 {
		switch b[i] {
		case ',':
			i++
			goto key
		case '}':
			i++
			goto closed
		}
		return invalid
	}
	switch b[i] {
	case ',':
		if i++; i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}
		goto value
	case ']':
		i++
		goto closed
	}
	return invalid
key:
	if i < len(b) && b[i] <= ' ' {
		i = skipSpace(b, i)
	}
	if i >= len(b) || b[i] != '"' {
		return invalid
	}
	if i, _ = scanString(b, i+1); i < 0 {
		return invalid
	}
	if i < len(b) && b[i] <= ' ' {
		i = skipSpace(b, i)
	}
	if i >= len(b) || b[i] != ':' {
		return invalid
	}
	if i++; i < len(b) && b[i] <= ' ' {
		i = skipSpace(b, i)
	}
	goto value
closed:
	if level--; level == depth {
		return i
	}
	goto next
}

// unescape appends to dst the text of a JSON string (without its quotes) that has been checked.
// Half a surrogate pair becomes U+FFFD, as everywhere in Go.
func unescape(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			dst = append(dst, s[i])
			i++
			continue
		}
		i += 2
		switch c := s[i-1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := parseCodeUnit(s[i:])
			i += 4
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if len(s)-i >= 6 && s[i] == '\\' && s[i+1] == 'u' {
					pair = utf16.DecodeRune(r, parseCodeUnit(s[i+2:]))
				}
				if r = pair; pair != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func parseCodeUnit(s []byte) rune {
	return rune(hexValue(s[0])<<12 | hexValue(s[1])<<8 | hexValue(s[2])<<4 | hexValue(s[3]))
}
