package fluentbit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Step is one step into a record: to the value of a key, or to an element of a list.
type Step struct {
	Key string
	// Index is the index of the element, from 0, when List is set.
	Index int
	List  bool
}

// Accessor is the way to a value in a record: $kubernetes['labels']['app'], or the name of a key.
// https://docs.fluentbit.io/manual/administration/configuring-fluent-bit/classic-mode/record-accessor
type Accessor []Step

// maxSteps bounds the depth of an accessor.
const maxSteps = 32

// parseAccessor parses an accessor: text is the name of a key unless it begins with $.
func parseAccessor(text string) (Accessor, error) {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok {
		return Accessor{{Key: text}}, nil
	}
	a, n, err := scanAccessor(rest)
	if err == nil && n != len(rest) {
		err = fmt.Errorf("%.60q is not a record accessor", text)
	}
	return a, err
}

// scanAccessor parses the accessor at the beginning of a text, without its $, and returns how many bytes it has.
func scanAccessor(text string) (a Accessor, n int, err error) {
	for n < len(text) && (isWord(text[n]) || text[n] == '-' && n > 0) {
		n++
	}
	if n == 0 {
		return nil, 0, fmt.Errorf("%.60q is not a record accessor: it has no key", "$"+text)
	}
	a = Accessor{{Key: text[:n]}}
	for n < len(text) && text[n] == '[' {
		if len(a) == maxSteps {
			return nil, 0, fmt.Errorf("%.60q is not a record accessor: it has more than %d steps", "$"+text, maxSteps)
		}
		end := strings.IndexByte(text[n:], ']')
		if n+1 < len(text) && (text[n+1] == '\'' || text[n+1] == '"') {
			if i := strings.Index(text[n+2:], string(text[n+1])+"]"); i >= 0 {
				end = i + 3
			} else {
				end = -1
			}
		}
		if end < 0 {
			return nil, 0, fmt.Errorf("%.60q is not a record accessor: a bracket is not closed", "$"+text)
		}
		inside := text[n+1 : n+end]
		if len(inside) >= 2 && (inside[0] == '\'' || inside[0] == '"') {
			a = append(a, Step{Key: inside[1 : len(inside)-1]})
		} else if index, err := strconv.Atoi(inside); err == nil && index >= 0 {
			a = append(a, Step{Index: index, List: true})
		} else {
			return nil, 0, fmt.Errorf("%.60q is not a record accessor: write ['key'] or [0]", "$"+text)
		}
		n += end + 1
	}
	return a, n, nil
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// Part is a part of a template.
type Part struct {
	// Text is the part itself, when it is nothing else.
	Text string
	// Accessor is the way to a value of the record.
	Accessor Accessor
	// Tag says that the part is the tag of the record; TagPart, unless -1, is the index of a part of it between dots.
	Tag     bool
	TagPart int
	// Group, unless -1, is the index of a group of the expression that has matched.
	Group int
}

// Template is a text with parts of records, such as a new tag: from.$TAG[1].$kubernetes['pod_name'].$1.
type Template []Part

// parseTemplate parses the template of a tag, of a log group or a log stream.
func parseTemplate(text string) (Template, error) {
	var t Template
	literal := func(s string) {
		if len(t) > 0 && t[len(t)-1].Text != "" {
			t[len(t)-1].Text += s
		} else if s != "" {
			t = append(t, Part{Text: s, TagPart: -1, Group: -1})
		}
	}
	for text != "" {
		i := strings.IndexByte(text, '$')
		if i < 0 || i+1 == len(text) {
			literal(text)
			break
		}
		literal(text[:i])
		text = text[i+1:]
		switch c := text[0]; {
		case '0' <= c && c <= '9':
			t = append(t, Part{Group: int(c - '0'), TagPart: -1})
			text = text[1:]
		case isWord(c):
			a, n, err := scanAccessor(text)
			if err != nil {
				return nil, err
			}
			part := Part{Accessor: a, TagPart: -1, Group: -1}
			if a[0].Key == "TAG" {
				part.Accessor, part.Tag = nil, true
				if len(a) == 2 && a[1].List {
					part.TagPart = a[1].Index
				} else if len(a) > 1 {
					return nil, errors.New("$TAG has no keys: write $TAG[1] for a part of it")
				}
			}
			t = append(t, part)
			text = text[n:]
		default:
			literal("$")
		}
	}
	return t, nil
}

// parseGoTemplate parses a name with $(...) parts, as the plugin cloudwatch takes them: $(tag), $(tag[1]) or
// $(kubernetes['pod_name']). https://github.com/aws/amazon-cloudwatch-logs-for-fluent-bit
func parseGoTemplate(text string) (Template, error) {
	var t Template
	for text != "" {
		before, rest, found := strings.Cut(text, "$(")
		if before != "" {
			t = append(t, Part{Text: before, TagPart: -1, Group: -1})
		}
		if !found {
			break
		}
		inside, after, closed := strings.Cut(rest, ")")
		if !closed {
			return nil, fmt.Errorf("%.60q has no closing parenthesis", "$("+rest)
		}
		a, n, err := scanAccessor(inside)
		if err != nil || n != len(inside) {
			return nil, fmt.Errorf("%.60q is not a variable: write $(tag), $(tag[1]) or $(key['key'])", "$("+inside+")")
		}
		part := Part{Accessor: a, TagPart: -1, Group: -1}
		if a[0].Key == "tag" && (len(a) == 1 || len(a) == 2 && a[1].List) {
			part.Accessor, part.Tag = nil, true
			if len(a) == 2 {
				part.TagPart = a[1].Index
			}
		}
		t = append(t, part)
		text = after
	}
	return t, nil
}

// accessor returns the accessor of a property.
func (s *section) accessor(p *property, text string) Accessor {
	a, err := parseAccessor(text)
	if err != nil {
		s.recordError(p, fmt.Sprintf("%s: %v", p.key, err), "correct it")
	}
	return a
}
