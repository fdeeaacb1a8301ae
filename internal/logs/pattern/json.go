package pattern

import (
	"strconv"
	"strings"

	"github.com/valyala/fastjson"
)

// jsonPattern is a pattern of conditions on the values of a JSON message. Other messages don't match it.
type jsonPattern struct {
	where    *expression[*fastjson.Value]
	literals []string
}

func parseJSON(s *scanner) (*jsonPattern, error) {
	open := s.pos
	if !strings.HasSuffix(strings.TrimRight(s.text, " \t\r\n"), "}") {
		return nil, s.errorAt(open, "If a filter pattern starts with '{' it must end with '}'")
	}
	s.pos++
	where, err := parseExpression(s, s.jsonCondition)
	if err != nil {
		return nil, err
	}
	if s.skipSpace(); !s.consume("}") {
		return nil, s.invalid("&&, || or }")
	}
	if s.skipSpace(); !s.isAtEnd() {
		return nil, s.invalid("the end of the pattern")
	}
	p := &jsonPattern{where: where}
	for _, text := range where.collectRequired(
		func(leaf *expression[*fastjson.Value]) []string { return leaf.literals }) {
		if plainInJSON(text) {
			p.literals = append(p.literals, text)
		}
	}
	return p, nil
}

// jsonCondition reads a selector and what must be true of the values that it selects.
func (s *scanner) jsonCondition() (*expression[*fastjson.Value], error) {
	path, err := s.selector()
	if err != nil {
		return nil, err
	}
	s.skipSpace()
	at := s.pos
	if isNameByte(s.peekByte()) {
		keyword := func() string { s.skipSpace(); return s.consumeWhile(isNameByte) }
		first, second := keyword(), keyword()
		var holds func(*fastjson.Value) bool
		switch first + " " + second {
		case "IS NULL":
			holds = path.matchAny(func(v *fastjson.Value) bool { return v.Type() == fastjson.TypeNull })
		case "IS TRUE":
			holds = path.matchAny(func(v *fastjson.Value) bool { return v.Type() == fastjson.TypeTrue })
		case "IS FALSE":
			holds = path.matchAny(func(v *fastjson.Value) bool { return v.Type() == fastjson.TypeFalse })
		case "NOT EXISTS":
			exists := path.matchAny(func(*fastjson.Value) bool { return true })
			holds = func(v *fastjson.Value) bool { return !exists(v) }
		default:
			return nil, s.errorAt(at,
				"behind a selector comes an operator (= != < <= > >=), IS NULL, IS TRUE, IS FALSE or NOT EXISTS")
		}
		return &expression[*fastjson.Value]{holds: holds}, nil
	}
	c, err := s.condition(")}")
	if err != nil {
		return nil, err
	}
	leaf := &expression[*fastjson.Value]{words: c.requiredWords(true), steps: c.steps,
		holds: path.matchAny(func(v *fastjson.Value) bool {
			// Only strings and numbers are compared; a selector that finds nothing else doesn't match, whatever the
			// operator.
			switch v.Type() {
			case fastjson.TypeString:
				return c.matchesValue(string(v.GetStringBytes()))
			case fastjson.TypeNumber:
				return c.matchesValue(v.String())
			}
			return false
		})}
	if literal := c.literal(); literal != "" {
		leaf.literals = []string{literal}
	}
	return leaf, nil
}

// selector is the way to values: $.user.groups[0].
type selector []step

// step goes from a value to a property or an element of it, or to all.
type step struct {
	name  string // of a property
	index int    // of an element, -1 otherwise
	each  bool   // .* or [*]: every property, or every element
}

func (s *scanner) selector() (selector, error) {
	start := s.pos
	if !s.consume("$") {
		return nil, s.invalid("a selector, which begins with $.,")
	}
	var path selector
	wildcards := 0
	for !s.isAtEnd() {
		bracket := s.pos
		var next step
		switch {
		case s.consume(".["), s.consume("["):
			inside, err := s.bracket(bracket)
			if err != nil {
				return nil, err
			}
			next = inside
		case s.consume("."):
			name := s.consumeWhile(func(c byte) bool { return isNameByte(c) || c == '-' })
			next = step{name: name, index: -1}
			if name == "" {
				if !s.consume("*") {
					return nil, s.invalid(
						"the name of a property (write $.['a.b'] for one that has others than letters, digits, _ and -)")
				}
				next = step{each: true, index: -1}
			}
		default:
			goto done
		}
		if next.each {
			wildcards++
		}
		path = append(path, next)
	}
done:
	if len(path) == 0 {
		return nil, s.errorAt(start, "a selector names a property behind the dollar sign, as in $.eventName")
	}
	if wildcards > 1 {
		return nil, s.errorAt(start, "a selector has one wildcard at most")
	}
	if s.wildcards += wildcards; s.wildcards > MaxWildcards {
		return nil, s.errorAt(start, "a filter pattern has at most %d selectors with a wildcard", MaxWildcards)
	}
	return path, nil
}

// bracket reads the inside of a bracket, which is open, and closes it.
func (s *scanner) bracket(open int) (step, error) {
	next := step{index: -1}
	at := s.pos
	switch c := s.peekByte(); {
	case s.consume("*"):
		next.each = true
	case c == '"':
		name, err := s.scanQuoted()
		if err != nil {
			return next, err
		}
		next.name = name
	case c == '\'':
		name, _, closed := strings.Cut(s.text[s.pos+1:], "'")
		if !closed {
			return next, s.errorAt(at, "this quotation mark is never closed")
		}
		s.pos += len(name) + 2
		next.name = name
	default:
		n, err := strconv.ParseUint(s.consumeWhile(isDigit), 10, 31)
		if err != nil {
			s.pos = at
			return next, s.invalid("the number of an element, * or a property's name in quotation marks")
		}
		next.index = int(n)
	}
	if !s.consume("]") {
		if s.isAtEnd() {
			return next, s.errorAt(open, "this bracket is never closed")
		}
		return next, s.invalid("]")
	}
	return next, nil
}

// matchAny returns a function that reports whether test is true of one of the values that the selector finds.
func (path selector) matchAny(test func(*fastjson.Value) bool) func(*fastjson.Value) bool {
	if len(path) == 0 {
		return test
	}
	first, rest := path[0], path[1:].matchAny(test)
	return func(v *fastjson.Value) bool {
		switch {
		case first.each:
			return anyChild(v, rest)
		case first.index >= 0:
			if v.Type() != fastjson.TypeArray || first.index >= len(v.GetArray()) {
				return false
			}
			return rest(v.GetArray()[first.index])
		}
		if v.Type() != fastjson.TypeObject {
			return false
		}
		child := v.GetObject().Get(first.name)
		return child != nil && rest(child)
	}
}

func anyChild(v *fastjson.Value, test func(*fastjson.Value) bool) (found bool) {
	switch v.Type() {
	case fastjson.TypeArray:
		for _, element := range v.GetArray() {
			if test(element) {
				return true
			}
		}
	case fastjson.TypeObject:
		v.GetObject().Visit(func(_ []byte, child *fastjson.Value) { found = found || test(child) })
	}
	return found
}

func (p *jsonPattern) cost() int { return p.where.cost() }

// A parser holds up to 100 times the memory of its message.
const longMessage = 64 << 10

var (
	parsers fastjson.ParserPool // of short messages
	// long has a place for each long message that is parsed at the time.
	long = make(chan struct{}, 4)
)

func (p *jsonPattern) match(message string) bool {
	if start := strings.TrimLeft(message, " \t\r\n"); start == "" || start[0] != '{' && start[0] != '[' {
		return false
	}
	for _, text := range p.literals {
		// Cheaper than parsing, and enough to refuse most messages.
		if !strings.Contains(message, text) && !strings.Contains(message, `\u`) {
			return false
		}
	}
	parser := &fastjson.Parser{}
	if len(message) <= longMessage {
		parser = parsers.Get()
		defer parsers.Put(parser)
	} else {
		long <- struct{}{}
		defer func() { <-long }()
	}
	v, err := parser.Parse(message)
	return err == nil && p.where.evaluate(v)
}

// plainInJSON reports whether a JSON text that has the string s has its characters in this form, if it has no \u
// escapes.
func plainInJSON(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == '/' }) < 0
}

// words returns the words of the values that must be present.
func (p *jsonPattern) words() []string {
	return p.where.collectRequired(func(leaf *expression[*fastjson.Value]) []string { return leaf.words })
}
