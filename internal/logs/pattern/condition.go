package pattern

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/logs/tokenizer"
)

// condition is an operator and what stands behind it: `>= 400`, `= "*.html"`, `!= %^kube%`.
type condition struct {
	operator string // one of = != < <= > >=

	// One of these. An unquoted number is a text, too: 4* and 404 are both compared with the text 404.
	regex               *regexp.Regexp
	steps               int // of the regular expression
	text                string
	anyBefore, anyAfter bool // asterisks at the text's ends
	number              number
	numeric             bool
}

// operators are in the order of trying.
var operators = []string{"!=", "<=", ">=", "=", "<", ">"}

// condition reads one. What it compares with ends at a space, at && or ||, or at one of the closing bytes.
func (s *scanner) condition(closing string) (condition, error) {
	c := condition{}
	for _, operator := range operators {
		if s.consume(operator) {
			c.operator = operator
			break
		}
	}
	if c.operator == "" {
		return c, s.invalid("one of the operators = != < <= > >=")
	}
	s.skipSpace()
	start := s.pos
	switch s.peekByte() {
	case '"':
		text, err := s.scanQuoted()
		if err != nil {
			return c, err
		}
		c.setGlob(text)
	case '%':
		var err error
		if c.regex, c.steps, err = s.scanRegex(); err != nil {
			return c, err
		}
	default:
		text := s.consumeWhile(func(b byte) bool { return isNameByte(b) || strings.IndexByte("*.+-", b) >= 0 })
		if text == "" {
			return c,
				s.invalid(
					"a number, a string (in double quotes, if it has others than letters, digits and underscores) or " +
						"a %regular expression%")
		}
		c.setGlob(text)
		c.number, c.numeric = parseNumber(text)
	}
	if !c.numeric && c.operator != "=" && c.operator != "!=" {
		return c, s.errorAt(start, "the operator %s compares numbers, and %s is none", c.operator, s.text[start:s.pos])
	}
	if rest := s.remaining(); rest != "" && !isSpace(rest[0]) && strings.IndexByte(closing, rest[0]) < 0 &&
		!strings.HasPrefix(rest, "&&") && !strings.HasPrefix(rest, "||") {
		return c,
			s.invalid(
				"the end of the value (put it in double quotes, if it has others than letters, digits and underscores)")
	}
	return c, nil
}

// setGlob sets the text, whose asterisks at either end stand for anything. One between other characters is itself.
func (c *condition) setGlob(text string) {
	c.text, c.anyBefore = strings.CutPrefix(text, "*")
	c.text, c.anyAfter = strings.CutSuffix(c.text, "*")
	if text == "*" {
		c.anyAfter = true
	}
}

// matchesValue reports whether a value, as text, fulfills the condition.
func (c *condition) matchesValue(value string) bool {
	switch c.operator {
	case "=":
		return c.isEqual(value)
	case "!=":
		return !c.isEqual(value)
	}
	n, ok := parseNumber(value)
	if !ok {
		return false
	}
	order := n.compare(c.number)
	switch c.operator {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

func (c *condition) isEqual(value string) bool {
	if c.regex != nil {
		return c.regex.MatchString(value)
	}
	switch {
	case c.anyBefore && c.anyAfter:
		return strings.Contains(value, c.text)
	case c.anyBefore:
		return strings.HasSuffix(value, c.text)
	case c.anyAfter:
		return strings.HasPrefix(value, c.text)
	case value == c.text:
		return true
	}
	if c.numeric {
		n, ok := parseNumber(value)
		return ok && n.compare(c.number) == 0
	}
	return false
}

// literal returns a text that is part of every value which fulfills the condition; empty when there is none.
func (c *condition) literal() string {
	if c.operator != "=" || c.regex != nil || c.numeric {
		return ""
	}
	return c.text
}

// requiredWords returns whole words of every message that has, between characters which are no letters or digits, a
// value that fulfills the condition. With escaped, the message may have the value as JSON writes it.
func (c *condition) requiredWords(escaped bool) []string {
	return wholeWords(c.literal(), !c.anyBefore, !c.anyAfter, escaped)
}

// number is an integer, exactly, or another number as good as a float64 can.
type number struct {
	integer int64
	exact   bool
	float   float64
}

// parseNumber reads an integer or a decimal with an optional sign and exponent.
func parseNumber(text string) (number, bool) {
	digits, rest := false, text
	skip := func() {
		for rest != "" && isDigit(rest[0]) {
			digits, rest = true, rest[1:]
		}
	}
	sign := func() {
		if rest != "" && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
	}
	sign()
	skip()
	integer := rest == ""
	if after, ok := strings.CutPrefix(rest, "."); ok {
		rest = after
		skip()
	}
	if !digits {
		return number{}, false
	}
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		digits, rest = false, rest[1:]
		sign()
		skip()
	}
	if rest != "" || !digits {
		return number{}, false
	}
	n := number{}
	if integer {
		i, err := strconv.ParseInt(text, 10, 64)
		n.integer, n.exact = i, err == nil
	}
	n.float, _ = strconv.ParseFloat(text, 64) // out of range is infinite, which compares as it should
	return n, true
}

func (n number) compare(m number) int {
	switch {
	case n.exact && m.exact && n.integer < m.integer, (!n.exact || !m.exact) && n.float < m.float:
		return -1
	case n.exact && m.exact && n.integer > m.integer, (!n.exact || !m.exact) && n.float > m.float:
		return 1
	}
	return 0
}

// wholeWords cuts text as package tokenizer does, without a word that touches an end behind which more of it may
// follow, or when escaped a character that JSON may write as \n or \u00fc, with letters that become part of the word.
func wholeWords(text string, beginning, ending, escaped bool) []string {
	apart := func(c byte) bool { return !escaped || ' ' <= c && c < 0x7f && c != '"' && c != '\\' }
	var words []string
	for i := 0; i < len(text); {
		start := i
		for i < len(text) && tokenizer.Is(text[i]) {
			i++
		}
		if i-start >= tokenizer.Min && (start == 0 && beginning || start > 0 && apart(text[start-1])) &&
			(i == len(text) && ending || i < len(text) && apart(text[i])) {
			words = append(words, text[start:min(i, start+tokenizer.Max)])
		}
		i++
	}
	return words
}

// intersection returns the elements of a that are in b.
func intersection(a, b []string) []string {
	var both []string
	for _, s := range a {
		if slices.Contains(b, s) {
			both = append(both, s)
		}
	}
	return both
}
