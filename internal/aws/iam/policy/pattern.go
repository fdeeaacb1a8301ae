package policy

import (
	"strings"
	"unicode/utf8"
)

// In a compiled pattern these bytes stand for the wildcards. They occur in no valid UTF-8 text, so that an asterisk that came from ${*} or
// from the value of a variable stays an asterisk.
const (
	anyText = '\xff' // *
	anyRune = '\xfe' // ?
)

// pattern is text with wildcards and policy variables, taken apart.
type pattern struct {
	text      string // without variables: wildcards as above. With variables: unused
	parts     []part // with variables only
	wild      bool   // text has wildcards
	prefix    bool   // text is literal but for one * at its end; literal holds it
	literal   string // text without wildcards, or what comes before the * of a prefix
	matchable bool   // false for a pattern that can match nothing
}

// part is a piece of a pattern: text, or a variable.
type part struct {
	text     string
	key      string // of a variable
	fallback *string
}

// syntax says what the text of a pattern may hold.
type syntax struct {
	wildcards bool
	variables bool // the document's version knows them
}

// compilePattern takes s apart. An unclosed or unknown ${...} is literal text, as it is for AWS.
func compilePattern(s string, allowed syntax) pattern {
	var parts []part
	var text strings.Builder
	variable := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '*' && allowed.wildcards:
			text.WriteByte(anyText)
		case c == '?' && allowed.wildcards:
			text.WriteByte(anyRune)
		case c == '$' && allowed.variables && strings.HasPrefix(s[i:], "${"):
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				text.WriteByte(c)
				continue
			}
			name := s[i+2 : i+end]
			i += end
			switch name {
			case "*", "?", "$":
				text.WriteString(name)
				continue
			}
			variable = true
			parts = append(parts, part{text: text.String()}, parseVariable(name))
			text.Reset()
		default:
			text.WriteByte(c)
		}
	}
	if variable {
		return pattern{parts: append(parts, part{text: text.String()}), matchable: true}
	}
	return literalPattern(text.String())
}

// parseVariable reads the inside of ${key} or ${key, 'default'}.
func parseVariable(inside string) part {
	key, fallback, ok := strings.Cut(inside, ",")
	p := part{key: strings.TrimSpace(key)}
	if ok {
		value := strings.Trim(strings.TrimSpace(fallback), "'")
		p.fallback = &value
	}
	return p
}

// literalPattern is the pattern of text in compiled form.
func literalPattern(text string) pattern {
	p := pattern{text: text, matchable: true}
	wildcard := indexWildcard(text)
	if wildcard < 0 {
		p.literal = text
		return p
	}
	p.wild = true
	p.literal = text[:wildcard]
	p.prefix = wildcard == len(text)-1 && text[wildcard] == anyText
	return p
}

func indexWildcard(text string) int {
	for i := range len(text) {
		if text[i] == anyText || text[i] == anyRune {
			return i
		}
	}
	return -1
}

// fill puts the values of the variables in. A variable without a value and without a default makes a pattern that
// matches nothing.
func (p pattern) fill(keys Keys) pattern {
	if p.parts == nil {
		return p
	}
	var text strings.Builder
	for _, part := range p.parts {
		if part.key == "" {
			text.WriteString(part.text)
			continue
		}
		values, _ := lookUp(keys, part.key)
		switch {
		case len(values) == 1: // a key with several values cannot be a variable
			text.WriteString(strings.ToValidUTF8(values[0], "\uFFFD"))
		case part.fallback != nil:
			text.WriteString(*part.fallback)
		default:
			return pattern{}
		}
	}
	return literalPattern(text.String())
}

func (p *pattern) matchFilled(s string, keys Keys) bool {
	if p.parts == nil {
		return p.match(s)
	}
	filled := p.fill(keys)
	return filled.match(s)
}

// match compares case-sensitively. The pattern's variables must have been filled.
func (p *pattern) match(s string) bool {
	switch {
	case !p.matchable:
		return false
	case !p.wild:
		return s == p.literal
	case p.prefix:
		return strings.HasPrefix(s, p.literal)
	case !strings.HasPrefix(s, p.literal):
		return false
	}
	return glob(p.text[len(p.literal):], s[len(p.literal):])
}

// glob is the usual matching with one point to go back to: the last * seen.
func glob(pattern, s string) bool {
	star, resume := -1, 0
	i, j := 0, 0
	for j < len(s) {
		if i < len(pattern) {
			switch c := pattern[i]; {
			case c == anyText:
				star, resume = i, j
				i++
				continue
			case c == anyRune:
				_, size := utf8.DecodeRuneInString(s[j:])
				i++
				j += size
				continue
			case c == s[j]:
				i++
				j++
				continue
			}
		}
		if star < 0 {
			return false
		}
		resume++
		i, j = star+1, resume
	}
	for i < len(pattern) && pattern[i] == anyText {
		i++
	}
	return i == len(pattern)
}

// arnPattern matches ARNs part by part: a wildcard does not reach over a colon, except in the last part, the resource.
type arnPattern struct {
	all   bool      // "*"
	parts []pattern // arn, partition, service, region, account, resource; fewer when the last of them ends in *
}

const arnParts = 6

func compileARN(s string, allowed syntax) arnPattern {
	if s == "*" {
		return arnPattern{all: true}
	}
	var a arnPattern
	for _, text := range splitARN(s) {
		a.parts = append(a.parts, compilePattern(text, allowed))
	}
	return a
}

// splitARN splits at the colons that are not inside ${...}.
func splitARN(s string) []string {
	var parts []string
	start, variable := 0, false
	for i := range len(s) {
		switch {
		case s[i] == '$' && i+1 < len(s) && s[i+1] == '{':
			variable = true
		case s[i] == '}':
			variable = false
		case s[i] == ':' && !variable && len(parts) < arnParts-1:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

func (a *arnPattern) match(s string, keys Keys) bool {
	if a.all {
		return true
	}
	last := len(a.parts) - 1
	for i := range last {
		part, rest, ok := strings.Cut(s, ":")
		if !ok || !a.parts[i].matchFilled(part, keys) {
			return false
		}
		s = rest
	}
	return a.parts[last].matchFilled(s, keys)
}
