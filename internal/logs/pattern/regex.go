package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/regexsize"
)

// maxRepeated bounds what all counted repetitions of a regular expression, such as \d{1,3}, ask for together, so that a
// short pattern can't become a program that takes seconds for a message.
const maxRepeated = 250

const (
	regexSymbols   = ":_#=@/;,-"
	regexOperators = `^$?[]{}|\*+.`
)

// scanRegex reads a regular expression between percent signs. Filter patterns have only a part of what others do, so it
// is translated piece by piece for package regexp, whose time is linear. steps is about how many
// instructions it has.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html#regex-expressions
func (s *scanner) scanRegex() (re *regexp.Regexp, steps int, err error) {
	start := s.pos
	s.pos++
	length := strings.IndexByte(s.remaining(), '%')
	switch {
	case length < 0:
		return nil, 0, s.errorAt(start, "the regular expression that begins with this %% has no %% at its end")
	case length == 0:
		return nil, 0, s.errorAt(start, "the regular expression is empty")
	}
	if s.regexes++; s.regexes > MaxRegexes {
		return nil, 0, s.errorAt(start, "a filter pattern has at most %d regular expressions", MaxRegexes)
	}
	t := translation{scanner: &scanner{text: s.text[:s.pos+length], pos: s.pos}}
	if err := t.translate(); err != nil {
		return nil, 0, err
	}
	s.pos += length + 1
	text := "(?s)" + t.out.String()
	var tree *syntax.Regexp
	if tree, err = syntax.Parse(text, syntax.Perl); err == nil {
		steps = regexsize.Estimate(tree) // translate bounds it
		re, err = regexp.Compile(text)
	}
	if err != nil {
		var bad *syntax.Error
		if errors.As(err, &bad) {
			return nil, 0, s.errorAt(start, "the regular expression is malformed: %s", bad.Code)
		}
		return nil, 0, s.errorAt(start, "the regular expression is malformed: %v", err)
	}
	return re, steps, nil
}

// translation turns the regular expression in a scanner's text into one of Go's.
type translation struct {
	*scanner
	out      strings.Builder
	repeated int
}

func (t *translation) translate() error {
	for !t.isAtEnd() {
		at := t.pos
		c := t.peekByte()
		switch {
		case c == '[':
			if err := t.scanClass(); err != nil {
				return err
			}
			continue
		case c == '{':
			if err := t.repetition(); err != nil {
				return err
			}
			continue
		case c == '\\':
			set, literal, err := t.scanEscape()
			if err != nil {
				return err
			}
			if set == "" {
				set = regexp.QuoteMeta(string(literal))
			}
			t.out.WriteString(set)
			continue
		case strings.IndexByte(`^$?|*+.`, c) >= 0:
			t.out.WriteByte(c)
		case c == ']' || c == '}' || c == ' ' || isAlphanumeric(c) || strings.IndexByte(regexSymbols, c) >= 0:
			t.out.WriteString(regexp.QuoteMeta(string(c)))
		default:
			return t.unsupported(at)
		}
		t.pos++
	}
	return nil
}

// unsupported returns the error for a character that a regular expression can't have.
func (t *translation) unsupported(at int) error {
	t.pos = at
	hint := "letters, digits, " + strings.Join(strings.Split(regexSymbols, ""), " ") + " or one of the operators " +
		regexOperators
	if c := t.peekByte(); c < 0x80 {
		hint += fmt.Sprintf(` (write \x%02X for this character)`, c)
	}
	return t.invalid(hint)
}

// scanEscape reads a backslash and what follows: a set of characters, in Go's syntax, or a literal one.
func (t *translation) scanEscape() (set string, literal byte, err error) {
	at := t.pos
	t.pos++
	c := t.peekByte()
	t.pos++
	switch {
	case c == 0:
		return "", 0, t.errorAt(at, "the regular expression ends with a backslash")
	case strings.IndexByte("dDsSwW", c) >= 0:
		return `\` + string(c), 0, nil
	case c == 'x':
		if len(t.remaining()) < 2 {
			break
		}
		n, err := strconv.ParseUint(t.remaining()[:2], 16, 8)
		if err != nil || n > 0x7f {
			break
		}
		t.pos += 2
		return "", byte(n), nil
	case strings.IndexByte(regexOperators+regexSymbols, c) >= 0:
		return "", c, nil
	}
	t.pos = min(t.pos, len(t.text))
	return "", 0, t.errorAt(at,
		`Invalid character(s) in term '\%s': after a backslash comes an operator, d, D, s, S, w, W, or x with the two hexadecimal digits of an ASCII character`, string(c))
}

// repetition reads {m}, {m,}, {,n} or {m,n}.
func (t *translation) repetition() error {
	at := t.pos
	t.pos++
	least := t.consumeWhile(isDigit)
	most := least
	if t.consume(",") {
		t.consumeWhile(func(c byte) bool { return c == ' ' })
		most = t.consumeWhile(isDigit)
	}
	if !t.consume("}") || least == "" && most == "" {
		return t.errorAt(at, `a repetition is {m}, {m,}, {,n} or {m,n}; write \{ for the character`)
	}
	low, lowErr := parseCount(least)
	high, highErr := parseCount(most)
	if t.repeated += max(low, high); lowErr != nil || highErr != nil || t.repeated > maxRepeated {
		return t.errorAt(at, "the repetitions of a regular expression ask for %d characters at most", maxRepeated)
	}
	fmt.Fprintf(&t.out, "{%d", low)
	if strings.Contains(t.text[at:t.pos], ",") {
		t.out.WriteByte(',')
		if most != "" {
			fmt.Fprintf(&t.out, "%d", high)
		}
	}
	t.out.WriteByte('}')
	return nil
}

func parseCount(digits string) (int, error) {
	if digits == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return int(n), err
}

// scanClass reads a list of characters and ranges in brackets.
func (t *translation) scanClass() error {
	open := t.pos
	t.pos++
	t.out.WriteByte('[')
	if t.consume("^") {
		t.out.WriteByte('^')
	}
	for empty := true; ; empty = false {
		if t.isAtEnd() {
			return t.errorAt(open, "this bracket is never closed; write \\[ for the character")
		}
		if t.peekByte() == ']' {
			if empty {
				return t.errorAt(open, "the brackets are empty")
			}
			t.pos++
			t.out.WriteByte(']')
			return nil
		}
		at := t.pos
		set, from, err := t.scanClassMember()
		if err != nil {
			return err
		}
		if set != "" {
			t.out.WriteString(set)
			continue
		}
		to := from
		if rest := t.remaining(); len(rest) >= 2 && rest[0] == '-' && rest[1] != ']' {
			t.pos++
			if set, to, err = t.scanClassMember(); err != nil {
				return err
			}
			if set != "" || to < from {
				return t.errorAt(at, "the range of characters %s has no beginning and end in that order",
					t.text[at:t.pos])
			}
		}
		fmt.Fprintf(&t.out, `\x%02x-\x%02x`, from, to)
	}
}

// scanClassMember reads one member of a class.
func (t *translation) scanClassMember() (set string, literal byte, err error) {
	c := t.peekByte()
	if c == '\\' {
		return t.scanEscape()
	}
	if c != ' ' && !isAlphanumeric(c) && strings.IndexByte(regexSymbols+regexOperators, c) < 0 {
		return "", 0, t.unsupported(t.pos)
	}
	t.pos++
	return "", c, nil
}
