package document

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Limits of quantities. The largest one that Kubernetes writes has 19 digits, and the smallest the exponent -9.
const (
	maxDigits   = 99
	maxExponent = 99

	// maxJSONDepth is the depth at which encoding/json stops.
	maxJSONDepth = 10_000
	// maxField is the length of the longest name in quantityFields and freeFields.
	maxField = 25
)

// quantityFields are the fields of Kubernetes' types that have quantities: their own, or somewhere below. The names are
// in lower case, as decoders of JSON may compare them without regard to it. The test of internal/kube/client holds them
// against the types.
var quantityFields = map[string]bool{
	"allocatable": true, "allocatedresources": true, "averagevalue": true, "capacity": true, "consumedcapacity": true,
	"counters": true, "current": true, "currentaveragevalue": true, "currentvalue": true, "default": true,
	"defaultrequest": true, "divisor": true, "hard": true, "limits": true, "max": true, "maximumvolumesize": true,
	"maxlimitrequestratio": true, "min": true, "overhead": true, "podfixed": true, "requests": true,
	"sizelimit": true, "target": true, "targetaveragevalue": true, "targetvalue": true, "tolerance": true, "used": true,
}

// freeFields are the fields whose keys or values users choose freely, in lower case: no type has a quantity below one
// of them, and a label may be called "target". Where they stand below one of quantityFields, they are keys like others,
// of resources for example, and judged. The test of internal/kube/client holds them against the types, too.
var freeFields = map[string]bool{
	"annotations": true, "attachmentmetadata": true, "binarydata": true, "data": true, "deprecatedtopology": true,
	"labels": true, "matchlabels": true, "metadata": true, "nodeselector": true, "options": true, "parameters": true,
	"selector": true, "stringdata": true, "topology": true, "unverifieduserannotations": true,
	"updatedannotations": true, "userannotations": true, "volumeattributes": true,
}

// CheckQuantities reports an error for a JSON text that has a quantity with more than 99 digits, or with an exponent
// beyond 99: see [Quantities].
func CheckQuantities(text []byte) error { return new(Quantities).Add(text) }

// Quantities finds the quantities of Kubernetes that cost too much in a JSON text, or in several that follow each
// other, which come piece by piece. The type resource.Quantity computes a power of ten when it is decoded, added or
// compared, so that "1e-1000000000" takes an hour, and nothing ends that. Only the fields of
// Kubernetes' types that have quantities are looked at: 12e34567 may be the commit in a label, whatever the label is
// called. The zero value is ready to be used.
type Quantities struct {
	levels []level

	inString bool
	escape   int  // 1 after a backslash, and then up to 5 with the digits of \u
	escaped  rune // of those digits

	wantsKey, isKey bool
	key             [maxField]byte // of the string, in lower case
	keyLength       int
	isOddKey        bool // it has what may stand for other characters

	isField bool // the value that follows is one of quantityFields
	isFree  bool // the value that follows is one of freeFields
	isBare  bool // within a value without quotes
	judged  bool // the value is judged
	number  number
}

// level is an array or object that is not closed yet.
type level struct{ isObject, isQuantity, isFree bool }

// Add reads the next piece. After an error it is not to be called again.
func (q *Quantities) Add(p []byte) error {
	for _, c := range p {
		if q.inString {
			if err := q.addToString(c); err != nil {
				return err
			}
			continue
		}
		switch c {
		case '"', '{', '[', '}', ']', ',', ':', ' ', '\t', '\r', '\n':
			if q.isBare {
				q.isBare = false
				if err := q.endValue(); err != nil {
					return err
				}
			}
		default:
			if !q.isBare {
				q.isBare = true
				q.beginValue()
			}
			if q.judged {
				q.number.add(rune(c))
			}
			continue
		}
		switch c {
		case '"':
			q.inString, q.isKey = true, q.wantsKey
			q.keyLength, q.isOddKey = 0, false
			q.beginValue()
		case '{', '[':
			if len(q.levels) == maxJSONDepth {
				return fmt.Errorf("the text is nested more than %d levels deep", maxJSONDepth)
			}
			q.levels = append(q.levels, level{isObject: c == '{', isQuantity: q.isQuantity(), isFree: q.isFreeText()})
			q.wantsKey, q.isField, q.isFree = c == '{', false, false
		case '}', ']':
			q.levels = q.levels[:max(len(q.levels)-1, 0)]
			q.wantsKey, q.isField, q.isFree = false, false, false
		case ',':
			q.wantsKey = len(q.levels) > 0 && q.levels[len(q.levels)-1].isObject
			q.isField, q.isFree = false, false
		}
	}
	return nil
}

// isQuantity reports whether the next value is of one of quantityFields, or below one, and not below one of freeFields.
func (q *Quantities) isQuantity() bool {
	if len(q.levels) == 0 {
		return q.isField
	}
	above := q.levels[len(q.levels)-1]
	return above.isQuantity || q.isField && !above.isFree
}

// isFreeText reports whether the next value is of one of freeFields, or below one, and not below one of quantityFields.
func (q *Quantities) isFreeText() bool {
	if len(q.levels) == 0 {
		return q.isFree
	}
	above := q.levels[len(q.levels)-1]
	return above.isFree || q.isFree && !above.isQuantity
}

func (q *Quantities) beginValue() {
	q.judged = q.isQuantity() && !q.isKey
	if q.judged {
		q.number = number{}
	}
}

func (q *Quantities) endValue() error {
	if q.judged && q.number.isTooLarge() {
		return fmt.Errorf("a quantity has more than %d digits, or an exponent beyond %d", maxDigits, maxExponent)
	}
	q.judged = false
	return nil
}

// addToString reads a byte of a string, or its end.
func (q *Quantities) addToString(c byte) error {
	switch {
	case q.escape == 1 && c == 'u':
		q.escape, q.escaped = 2, 0
	case q.escape == 1:
		q.escape = 0
		q.addRune(escapeOf(c), true)
	case q.escape > 1:
		q.escaped = q.escaped<<4 | hexOf(c)
		if q.escape++; q.escape == 6 {
			q.escape = 0
			q.addRune(q.escaped, true)
		}
	case c == '\\':
		q.escape = 1
	case c != '"':
		q.addRune(rune(c), false)
	default:
		q.inString = false
		if !q.isKey {
			return q.endValue()
		}
		q.isKey, q.wantsKey = false, false
		name := q.key[:q.keyLength]
		q.isField = q.isOddKey || quantityFields[string(name)]
		q.isFree = !q.isOddKey && freeFields[string(name)]
	}
	return nil
}

// addRune reads a character of a string; of one that is not ASCII, a byte.
func (q *Quantities) addRune(r rune, isEscaped bool) {
	switch {
	case q.judged:
		q.number.add(r)
	case !q.isKey:
	case isEscaped || r >= utf8.RuneSelf: // decoders may take it for a letter
		q.isOddKey = true
	case q.keyLength == maxField: // longer than any field
		q.key[0] = 0
	default:
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		q.key[q.keyLength] = byte(r)
		q.keyLength++
	}
}

// escapeOf returns the character that one after a backslash stands for.
func escapeOf(c byte) rune {
	switch c {
	case 'n', 'r', 't', 'f':
		return ' '
	}
	return '\\' // no part of a number
}

func hexOf(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10
	}
	return 0
}

// number is a text that may be a number with a suffix or an exponent.
type number struct {
	isNone     bool // it is no number
	isExponent bool // within the exponent
	hasSuffix  bool
	digits     int
	exponent   int // without its sign
}

// add reads a character. It takes more for numbers than decoders do, which find what is wrong with the others.
func (n *number) add(r rune) {
	switch {
	case n.isNone || r >= utf8.RuneSelf || unicode.IsSpace(r): // spaces around a number are passed over
	case '0' <= r && r <= '9' && n.isExponent:
		n.exponent = min(n.exponent*10+int(r-'0'), maxExponent+1)
	case '0' <= r && r <= '9':
		n.digits = min(n.digits+1, maxDigits+1)
	case r == '+' || r == '-' || r == '.':
	case (r == 'e' || r == 'E') && !n.isExponent && !n.hasSuffix:
		n.isExponent = true
	default:
		switch r {
		case 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P':
			n.hasSuffix, n.isExponent = true, false
		default:
			n.isNone = true
		}
	}
}

func (n *number) isTooLarge() bool {
	return !n.isNone && (n.digits > maxDigits || n.exponent > maxExponent)
}
