package policy

import (
	"strings"
	"unicode/utf8"
)

// In a compiled pattern these bytes stand for the wildcards. They occur in no valid UTF-8 text, so that an asterisk
// that came from ${*} or from the value of a variable stays an asterisk.
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
	unread    string // the condition key of a variable whose value is not known, for which there is a *
}

// part is a piece of a pattern: text, or a variable.
type part struct {
	text     string
	key      string // of a variable
	fallback *string
}

// syntax lists what the text of a pattern may hold.
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

// literalPattern compiles text to a pattern.
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

// substitute puts the values of the variables in. A variable without a value and without a default makes a pattern that
// matches nothing; one whose value is not known is any text.
func (p pattern) substitute(e *evaluation) pattern {
	if p.parts == nil {
		return p
	}
	var text strings.Builder
	unread := ""
	for _, part := range p.parts {
		if part.key == "" {
			text.WriteString(part.text)
			continue
		}
		values, known := e.lookupKey(part.key)
		switch {
		case !known && e.unread != nil && e.unread(part.key):
			unread = part.key
			text.WriteByte(anyText)
		case len(values) == 1 && e.canCompare(part.key, values[0]): // a key with several values cannot be a variable
			text.WriteString(strings.ToValidUTF8(values[0], "\uFFFD"))
		case part.fallback != nil:
			text.WriteString(*part.fallback)
		default:
			return pattern{}
		}
	}
	e.tryConsume(text.Len())
	filled := literalPattern(text.String())
	filled.unread = unread
	return filled
}

func (p *pattern) matchFilled(s string, e *evaluation) bool {
	if p.parts == nil {
		return p.matches(s, e)
	}
	filled := p.substitute(e)
	return filled.matches(s, e) && filled.isKnown(e)
}

// isKnown reports whether the values of all variables were known. The evaluation notes the one that was not.
func (p *pattern) isKnown(e *evaluation) bool {
	if p.unread != "" {
		e.variable = p.unread
	}
	return p.unread == ""
}

// matches compares case-sensitively. The pattern's variables must have been filled.
func (p *pattern) matches(s string, e *evaluation) bool {
	if !e.tryConsume(1 + len(p.literal)) {
		return false
	}
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
	matched, steps := matchGlob(p.text[len(p.literal):], s[len(p.literal):])
	return e.tryConsume(steps) && matched
}

// matchGlob matches a pattern whose wildcards are anyText and anyRune, and returns how many steps that took: about as
// many as both have bytes. The text before the first * must begin s, the text behind the last * must end it, and of
// each text between two of them the first occurrence is as good as any, so that no byte is visited again.
func matchGlob(pattern, s string) (matched bool, steps int) {
	steps = len(pattern) + len(s)
	first, pattern, more := strings.Cut(pattern, string([]byte{anyText}))
	n, ok := matchPrefix(first, s)
	if !ok || !more {
		return ok && n == len(s), steps
	}
	s = s[n:]
	for {
		var text string
		text, pattern, more = strings.Cut(pattern, string([]byte{anyText}))
		if !more {
			return matchSuffix(text, s), steps
		}
		end, took := searchText(text, s)
		steps += took
		if end < 0 {
			return false, steps
		}
		s = s[end:]
	}
}

// matchPrefix matches text, which may have anyRune, with the beginning of s, and returns how many bytes of s it takes.
func matchPrefix(text, s string) (n int, ok bool) {
	for i := 0; i < len(text); i++ {
		switch {
		case n == len(s):
			return 0, false
		case text[i] == anyRune:
			_, size := utf8.DecodeRuneInString(s[n:])
			n += size
		case text[i] == s[n]:
			n++
		default:
			return 0, false
		}
	}
	return n, true
}

// matchSuffix matches text, which may have anyRune, with the end of s.
func matchSuffix(text, s string) bool {
	if strings.IndexByte(text, anyRune) < 0 {
		return strings.HasSuffix(s, text)
	}
	start := len(s)
	for range countRunes(text) {
		if start == 0 {
			return false
		}
		_, size := utf8.DecodeLastRuneInString(s[:start])
		start -= size
	}
	n, ok := matchPrefix(text, s[start:])
	return ok && start+n == len(s)
}

// countRunes counts the characters that text matches. An anyRune is invalid UTF-8 and counts as one.
func countRunes(text string) int { return utf8.RuneCountInString(text) }

// searchText returns where the first occurrence of text in s ends, -1 if there is none. With anyRune in text it is the
// shift-and algorithm: bit i of state says whether the first i+1 characters of text end at the current character of s.
// A step handles 64 characters of text.
func searchText(text, s string) (end, steps int) {
	if strings.IndexByte(text, anyRune) < 0 {
		start := strings.Index(s, text)
		if start < 0 {
			return -1, 0
		}
		return start + len(text), 0
	}
	length := countRunes(text)
	if length > len(s) {
		return -1, 0
	}
	words := (length + 63) / 64
	wild, masks := make([]uint64, words), map[rune][]uint64{}
	i := 0
	for at := 0; at < len(text); i++ {
		r, size := utf8.DecodeRuneInString(text[at:])
		mask := wild
		if text[at] != anyRune {
			if mask = masks[r]; mask == nil {
				mask = make([]uint64, words)
				masks[r] = mask
				steps += words
			}
		}
		mask[i/64] |= 1 << (i % 64)
		at += size
	}
	state, none := make([]uint64, words), make([]uint64, words)
	for at := 0; at < len(s); {
		r, size := utf8.DecodeRuneInString(s[at:])
		at += size
		mask := masks[r]
		if mask == nil || r == utf8.RuneError && size == 1 { // an invalid byte is no character of a policy
			mask = none
		}
		carry := uint64(1)
		for w := range state {
			shifted := state[w]<<1 | carry
			carry = state[w] >> 63
			state[w] = shifted & (mask[w] | wild[w])
		}
		steps += words
		if state[words-1]>>((length-1)%64)&1 == 1 {
			return at, steps
		}
	}
	return -1, steps
}

// arnPattern matches ARNs part by part: a wildcard does not reach over a colon, except in the last part, the resource.
type arnPattern struct {
	all   bool      // "*"
	parts []pattern // arn, partition, service, region, account, resource; fewer when the last of them ends in *
}

const arnParts = 6

// MatchesARN reports whether a resource of a policy, which may have wildcards, stands for an ARN. Variables of policies
// are text to it. The time that it takes is linear.
func MatchesARN(resource, arn string) bool {
	p := compileARN(resource, syntax{wildcards: true})
	return p.matches(arn, &evaluation{})
}

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

func (a *arnPattern) matches(s string, e *evaluation) bool {
	if a.all {
		return true
	}
	last := len(a.parts) - 1
	for i := range last {
		part, rest, ok := strings.Cut(s, ":")
		if !ok || !a.parts[i].matchFilled(part, e) {
			return false
		}
		s = rest
	}
	return a.parts[last].matchFilled(s, e)
}
