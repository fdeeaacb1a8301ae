package fluentbit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// property is one line of a section.
type property struct {
	key, value string
	line       int
	used       bool
}

// section is one section of a file.
type section struct {
	file, kind string
	name       string
	line       int
	properties []*property
	budget     *regexBudget
	err        error // the first one that a getter found
}

// parseSections splits a file into its sections, which are all of one kind.
func parseSections(file, kind, text string) ([]*section, error) {
	var sections []*section
	var directive, indent *string
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for i, line := range strings.Split(text, "\n") {
		fail := func(reason, advice string) ([]*section, error) {
			e := &Error{File: file, Line: i + 1, Reason: reason, Advice: advice}
			if len(sections) > 0 {
				e.Section = sections[len(sections)-1].title()
			}
			return nil, e
		}
		content := strings.TrimSpace(line)
		if content == "" || content[0] == '#' {
			continue
		}
		if j := strings.Index(content, "${"); j >= 0 {
			return fail("environment variables such as ${ENV_VAR} are not allowed", "write the value itself")
		}
		space := line[:strings.Index(line, content)]
		if content[0] == '@' {
			return fail(fmt.Sprintf("the command %.40s is not allowed", strings.Fields(content)[0]),
				"write what it includes or sets into the ConfigMap")
		}
		if content[0] == '[' {
			name, _, closed := strings.Cut(content[1:], "]")
			if !closed || !strings.HasSuffix(content, "]") || strings.Count(content, "]") != 1 {
				return fail(fmt.Sprintf("%.60q is not a section header", content), "write ["+kind+"]")
			}
			if !strings.EqualFold(strings.TrimSpace(name), kind) {
				return fail(fmt.Sprintf("section [%.40s] is not supported in %s", name, file),
					"only ["+kind+"] sections are accepted there")
			}
			if directive != nil && *directive != space {
				return fail("the directive is not indented like the ones above it",
					"give all directives of the file the same indentation")
			}
			directive = &space
			sections = append(sections, &section{file: file, kind: kind, line: i + 1})
			continue
		}
		if len(sections) == 0 {
			return fail(fmt.Sprintf("%.60q is outside of a section", content), "begin the file with ["+kind+"]")
		}
		if indent != nil && *indent != space {
			return fail("the key is not indented like the ones above it",
				"give all keys of the file the same indentation")
		}
		if len(space) <= len(*directive) {
			return fail("the key is not indented more than its directive", "indent it with four spaces")
		}
		indent = &space
		key, value := content, ""
		if j := strings.IndexAny(content, " \t"); j >= 0 {
			key, value = content[:j], strings.TrimSpace(content[j:])
		}
		if value == "" {
			return fail(fmt.Sprintf("key %.60s has no value", key), "give it one, or remove it")
		}
		s := sections[len(sections)-1]
		s.properties = append(s.properties, &property{key: key, value: value, line: i + 1})
		if strings.EqualFold(key, "Name") && s.name == "" {
			s.name = value
		}
	}
	return sections, nil
}

func (s *section) title() string {
	if s.name == "" {
		return "[" + s.kind + "]"
	}
	return fmt.Sprintf("[%s] %.60s", s.kind, s.name)
}

// newError returns an error about a property, or about the whole section when there is no such property.
func (s *section) newError(key, reason, advice string) *Error {
	e := &Error{File: s.file, Line: s.line, Section: s.title(), Reason: reason, Advice: advice}
	for _, p := range s.properties {
		if key != "" && strings.EqualFold(p.key, key) {
			e.Line = p.line
			break
		}
	}
	return e
}

// recordError records an error about a property, unless there was one before.
func (s *section) recordError(p *property, reason, advice string) {
	if s.err == nil {
		s.err = &Error{File: s.file, Line: p.line, Section: s.title(), Reason: reason, Advice: advice}
	}
}

// allProperties returns the properties with a key, in order.
func (s *section) allProperties(keys ...string) []*property {
	var found []*property
	for _, p := range s.properties {
		for _, key := range keys {
			if strings.EqualFold(p.key, key) {
				p.used = true
				found = append(found, p)
			}
		}
	}
	return found
}

// property returns the property that may be there once.
func (s *section) property(keys ...string) *property {
	found := s.allProperties(keys...)
	if len(found) == 0 {
		return nil
	}
	if len(found) > 1 {
		s.recordError(found[1], fmt.Sprintf("key %s is set %d times", found[1].key, len(found)), "keep one of them")
	}
	return found[0]
}

func (s *section) stringValue(key, fallback string) string {
	if p := s.property(key); p != nil {
		return p.value
	}
	return fallback
}

func (s *section) boolValue(key string, fallback bool) bool {
	p := s.property(key)
	if p == nil {
		return fallback
	}
	value, ok := parseBool(p.value)
	if !ok {
		s.recordError(p, fmt.Sprintf("%s is %.60q, which is not a boolean", p.key, p.value), "use On or Off")
	}
	return value
}

func (s *section) intValue(key string, fallback, least, most int) int {
	p := s.property(key)
	if p == nil {
		return fallback
	}
	n, err := strconv.Atoi(p.value)
	if err != nil || n < least || n > most {
		s.recordError(p, fmt.Sprintf("%s is %.60q, which is not a number from %d to %d", p.key, p.value, least, most),
			"correct it")
	}
	return n
}

// sizeValue returns a number of bytes: 32000, 32K, 32KB, 1M, or false for 0.
func (s *section) sizeValue(key string, fallback int64) int64 {
	p := s.property(key)
	if p == nil {
		return fallback
	}
	text := strings.TrimSuffix(strings.ToUpper(p.value), "B")
	unit := 1.0
	for suffix, factor := range map[string]float64{"K": 1e3, "M": 1e6, "G": 1e9} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = rest, factor
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if strings.EqualFold(p.value, "false") {
		n, err = 0, nil
	}
	if err != nil || !(n >= 0 && n*unit < math.MaxInt32) {
		s.recordError(p, fmt.Sprintf("%s is %.60q, which is not a size", p.key, p.value), "write it like 32KB or 1M")
		return fallback
	}
	return int64(n * unit)
}

// seconds returns a duration: 300, 300s, 1.5m, 1h or 1d.
func (s *section) seconds(key string, fallback time.Duration) time.Duration {
	p := s.property(key)
	if p == nil {
		return fallback
	}
	text, unit := p.value, 1.0
	for suffix, factor := range map[string]float64{"s": 1, "m": 60, "h": 3600, "d": 86400} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = rest, factor
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n*unit <= 366*86400) {
		s.recordError(p, fmt.Sprintf("%s is %.60q, which is not a time", p.key, p.value), "write it like 30s or 5m")
		return fallback
	}
	return time.Duration(n * unit * float64(time.Second))
}

func (s *section) choiceValue(key, fallback string, values ...string) string {
	p := s.property(key)
	if p == nil {
		return fallback
	}
	for _, value := range values {
		if strings.EqualFold(p.value, value) {
			return value
		}
	}
	s.recordError(p, fmt.Sprintf("%s is %.60q, which is not supported", p.key, p.value), "use "+orList(values))
	return fallback
}

// ignored marks properties that have no effect here, or none on what a record becomes.
func (s *section) ignored(keys ...string) { s.allProperties(keys...) }

// required fails unless the section has the property.
func (s *section) required(key string) {
	if s.err == nil && len(s.allProperties(key)) == 0 {
		s.err = s.newError("", fmt.Sprintf("key %s is missing", key), "add it to the section")
	}
}

// checkUnused returns the first error of the section. A property that nobody has asked for is one.
func (s *section) checkUnused() error {
	if s.err != nil {
		return s.err
	}
	for _, p := range s.properties {
		if !p.used {
			return &Error{File: s.file, Line: p.line, Section: s.title(),
				Reason: fmt.Sprintf("unknown key %.60s", p.key), Advice: "correct its name, or remove it"}
		}
	}
	return nil
}

// Match says which records pass a filter or an output, by their tags.
type Match struct {
	// Wildcard is a tag in which each * stands for any characters. It is empty when there is Regex alone.
	Wildcard string
	// Regex is an expression that matches tags, or nil.
	Regex *Regex
}

// Matches reports whether records with the tag pass.
func (m Match) Matches(tag string) bool {
	return m.Regex != nil && m.Regex.MatchString(tag) || m.Wildcard != "" && wildcard(m.Wildcard, tag)
}

// wildcard matches a text with a pattern in which * stands for any characters.
func wildcard(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, parts[last])
}

// match returns the Match or Match_Regex of a section.
func (s *section) match() Match {
	m := Match{Wildcard: s.stringValue("Match", "")}
	if p := s.property("Match_Regex"); p != nil {
		m.Regex = s.regex(p, p.value)
	}
	if m.Wildcard == "" && m.Regex == nil && s.err == nil {
		s.err = s.newError("", "key Match is missing", "add Match, or Match_Regex, to the section")
	}
	return m
}

// fields splits a value at spaces into at most n fields, the last of which is the rest. A field in double or single
// quotes may have spaces; the quotes are removed when they enclose the field.
func fields(value string, n int) []string {
	var out []string
	for value = strings.TrimSpace(value); value != ""; value = strings.TrimLeft(value, " \t") {
		if len(out) == n-1 {
			return append(out, unquote(value))
		}
		end, quote := len(value), byte(0)
	scan:
		for i := 0; i < len(value); i++ {
			switch c := value[i]; {
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case (c == '"' || c == '\'') && i == 0 && strings.IndexByte(value[1:], c) > 0:
				quote = c
			case c == ' ' || c == '\t':
				end = i
				break scan
			}
		}
		out = append(out, unquote(value[:end]))
		value = value[end:]
	}
	return out
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] && strings.IndexByte(s[1:], s[0]) == len(s)-2 {
		return s[1 : len(s)-1]
	}
	return s
}

func orList(values []string) string {
	if len(values) < 2 {
		return strings.Join(values, "")
	}
	return strings.Join(values[:len(values)-1], ", ") + " or " + values[len(values)-1]
}
