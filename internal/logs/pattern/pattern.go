// Package pattern understands the filter patterns of CloudWatch Logs, which select log events by their messages.
//
// FilterLogEvents, StartLiveTail and TestMetricFilter take such a pattern. Parse turns its text into a *Pattern
// once; the pattern then judges any number of messages, from any number of goroutines. There are three kinds, told
// apart by their first character:
//
//	ERROR -"no such user" ?%4\d\d%       terms, phrases and regular expressions somewhere in the message
//	{ $.verb = "patch" && $.code >= 400 }  conditions on the values of a message that is JSON
//	[ip, ..., status = 4*, bytes > 1000]   conditions on the fields of a message that spaces delimit
//
// Where the documentation is silent, a pattern is rather refused than guessed at, with a message that says how to
// write it so that AWS takes it, too.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
package pattern

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// AWS's quotas for one filter pattern.
const (
	// MaxLength is the most characters of a pattern.
	MaxLength = 1024
	// MaxRegexes is the most regular expressions in a pattern.
	MaxRegexes = 2
	// MaxWildcards is the most wildcard selectors, [*] or .*, in a JSON pattern; a single selector has one at most.
	MaxWildcards = 3
)

// Pattern is a parsed filter pattern. It is immutable.
type Pattern struct {
	text string
	kind interface {
		match(message string) bool
		words() []string
		cost() int
	}
}

// SyntaxError is the error of Parse for a text that is not a filter pattern.
type SyntaxError struct {
	// Message describes the error and its remedy, without the position.
	Message string
	// Offset is the position of the error, in characters from the start of the pattern.
	Offset int
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("Invalid filter pattern: %s (character %d)", e.Message, e.Offset+1)
}

// Parse reads a filter pattern. Its errors are *SyntaxError. A text without anything but white space is the pattern
// that every message matches.
func Parse(text string) (*Pattern, error) {
	s := &scanner{text: text}
	if n := utf8.RuneCountInString(text); n > MaxLength {
		return nil, &SyntaxError{fmt.Sprintf("a pattern has at most %d characters, this one has %d", MaxLength, n),
			MaxLength}
	}
	if !utf8.ValidString(text) {
		return nil, &SyntaxError{"the pattern is not UTF-8", 0}
	}
	p := &Pattern{text: text, kind: everything{}}
	s.skipSpace()
	var err error
	switch {
	case s.isAtEnd():
	case s.peekByte() == '{':
		p.kind, err = parseJSON(s)
	case s.peekByte() == '[':
		p.kind, err = parseDelimited(s)
	default:
		p.kind, err = parseTerms(s)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// String returns the text that the pattern was parsed from.
func (p *Pattern) String() string { return p.text }

// Match reports whether the pattern selects an event with the message. Its time is linear in the length of the message.
func (p *Pattern) Match(message string) bool { return p.kind.match(message) }

// Cost returns the work that the pattern takes for each byte of a message in the worst case, as a multiple of the work
// of reading the byte. Callers use it to bound the work for many messages.
func (p *Pattern) Cost() int { return 1 + p.kind.cost()/8 }

// Extract returns what TestMetricFilter shows as extractedValues for a message that matches: the fields of a
// space-delimited pattern, by name ("$status") or, without one, by position ("$1"). Other patterns extract nothing,
// as documented.
func (p *Pattern) Extract(message string) map[string]string {
	if d, ok := p.kind.(*delimited); ok {
		return d.extract(message)
	}
	return map[string]string{}
}

// Words returns words (as package tokenizer cuts them) every one of which is, as a whole word, in every message that
// the pattern matches, as it is written or after word.Unescaped. Blocks of events that lack one of them need not be
// read.
func (p *Pattern) Words() []string {
	words := slices.Clone(p.kind.words())
	slices.Sort(words)
	return slices.Compact(words)
}

// everything is the empty pattern.
type everything struct{}

func (everything) match(string) bool { return true }
func (everything) words() []string   { return nil }
func (everything) cost() int         { return 0 }

// scanner reads the text of a pattern.
type scanner struct {
	text      string
	pos       int // in bytes
	regexes   int // seen so far
	wildcards int // selectors with one, seen so far
}

func (s *scanner) isAtEnd() bool { return s.pos >= len(s.text) }

// peekByte returns the next byte, 0 at the end.
func (s *scanner) peekByte() byte {
	if s.isAtEnd() {
		return 0
	}
	return s.text[s.pos]
}

func (s *scanner) remaining() string { return s.text[s.pos:] }

func (s *scanner) skipSpace() {
	for !s.isAtEnd() && isSpace(s.text[s.pos]) {
		s.pos++
	}
}

// consume consumes prefix, if it is next.
func (s *scanner) consume(prefix string) bool {
	if !strings.HasPrefix(s.remaining(), prefix) {
		return false
	}
	s.pos += len(prefix)
	return true
}

func (s *scanner) consumeWhile(accept func(byte) bool) string {
	start := s.pos
	for !s.isAtEnd() && accept(s.text[s.pos]) {
		s.pos++
	}
	return s.text[start:s.pos]
}

// errorAt returns an error at a byte of the pattern.
func (s *scanner) errorAt(at int, format string, args ...any) error {
	return &SyntaxError{fmt.Sprintf(format, args...), utf8.RuneCountInString(s.text[:at])}
}

// invalid returns AWS's error for a character at the scanner's position that needs quotes.
func (s *scanner) invalid(what string) error {
	if s.isAtEnd() {
		return s.errorAt(s.pos, "the pattern ends where %s is expected", what)
	}
	_, size := utf8.DecodeRuneInString(s.remaining())
	return s.errorAt(s.pos, "Invalid character(s) in term '%s': %s is expected here", s.text[s.pos:s.pos+size], what)
}

// scanQuoted reads a string in double quotes. \" is a quotation mark in it and \\ a backslash.
func (s *scanner) scanQuoted() (string, error) {
	open := s.pos
	s.pos++
	var b strings.Builder
	for !s.isAtEnd() {
		c := s.text[s.pos]
		s.pos++
		switch {
		case c == '"':
			return b.String(), nil
		case c == '\\' && (s.peekByte() == '"' || s.peekByte() == '\\'):
			c = s.peekByte()
			s.pos++
		}
		b.WriteByte(c)
	}
	return "", s.errorAt(open, "this quotation mark is never closed")
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// isNameByte accepts what a term without quotes may have.
func isNameByte(c byte) bool { return isAlphanumeric(c) || c == '_' }

func isAlphanumeric(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
