package pattern

import (
	"regexp"
	"slices"
	"strings"
)

// terms is a pattern of words, phrases and regular expressions that are somewhere in the message. A term is found
// inside of longer words, too: Exception is in IllegalArgumentException.
type terms struct {
	include  []term
	exclude  []term
	optional []term // one of them must be there
}

// term is one of two.
type term struct {
	text  string
	regex *regexp.Regexp
	steps int // of the regular expression
}

func parseTerms(s *scanner) (*terms, error) {
	t := &terms{}
	for s.skipSpace(); !s.isAtEnd(); s.skipSpace() {
		list := &t.include
		switch s.peekByte() {
		case '-':
			list = &t.exclude
			s.pos++
		case '?':
			list = &t.optional
			s.pos++
		}
		one, err := s.scanTerm()
		if err != nil {
			return nil, err
		}
		*list = append(*list, one)
		if !s.isAtEnd() && !isSpace(s.peekByte()) {
			return nil,
				s.invalid(
					"a space between terms (put a term in double quotes if it has others than letters, digits and " +
						"underscores)")
		}
	}
	if len(t.include)+len(t.exclude) > 0 {
		t.optional = nil // as documented: ignored next to others
	}
	return t, nil
}

func (s *scanner) scanTerm() (term, error) {
	start := s.pos
	switch s.peekByte() {
	case '"':
		text, err := s.scanQuoted()
		if err == nil && text == "" {
			err = s.errorAt(start, `Invalid character(s) in term '""': a phrase is not empty (" " matches everything)`)
		}
		if strings.TrimSpace(text) == "" {
			text = ""
		}
		return term{text: text}, err
	case '%':
		regex, steps, err := s.scanRegex()
		return term{regex: regex, steps: steps}, err
	}
	text := s.consumeWhile(isNameByte)
	if text == "" {
		return term{}, s.invalid("a term of letters, digits and underscores, or one in double quotes,")
	}
	return term{text: text}, nil
}

func (t *terms) match(message string) bool {
	for _, one := range t.include {
		if !one.matches(message) {
			return false
		}
	}
	for _, one := range t.exclude {
		if one.matches(message) {
			return false
		}
	}
	for _, one := range t.optional {
		if one.matches(message) {
			return true
		}
	}
	return len(t.optional) == 0
}

func (t term) matches(message string) bool {
	if t.regex != nil {
		return t.regex.MatchString(message)
	}
	return strings.Contains(message, t.text)
}

func (t *terms) cost() int {
	n := 0
	for _, one := range slices.Concat(t.include, t.exclude, t.optional) {
		n += 1 + one.steps
	}
	return n
}

// words returns the words inside of phrases: at its ends a phrase may touch more letters of a longer word.
func (t *terms) words() []string {
	var words []string
	for _, one := range t.include {
		words = append(words, wholeWords(one.text, false, false, false)...)
	}
	for i, one := range t.optional {
		inside := wholeWords(one.text, false, false, false)
		if i == 0 {
			words = inside
		} else {
			words = intersection(words, inside)
		}
	}
	return words
}
