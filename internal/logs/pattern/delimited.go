package pattern

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// delimited is a pattern of fields that spaces delimit. What stands between brackets or double quotes is one field.
//
// Without an ellipsis the last field of the pattern takes all that is left of the message: [level=ERROR, rest].
type delimited struct {
	before, after []field // the ellipsis
	ellipsis      bool
}

// field is one of a pattern; it has a name, conditions, or neither.
type field struct {
	name  string
	where *expression[string] // nil: any value
}

func parseDelimited(s *scanner) (*delimited, error) {
	open := s.pos
	if !strings.HasSuffix(strings.TrimRight(s.text, " \t\r\n"), "]") {
		return nil, s.errorAt(open, "If a filter pattern starts with '[' it must end with ']'")
	}
	s.pos++
	d := &delimited{}
	var names []string
	if s.skipSpace(); s.peekByte() == ']' {
		d.ellipsis = true // [] is any fields
	}
	for s.peekByte() != ']' {
		s.skipSpace()
		at := s.pos
		f, err := s.scanField()
		switch {
		case err != nil:
			return nil, err
		case f.name == "...":
			if d.ellipsis {
				return nil, s.errorAt(at, "a pattern has one ellipsis at most")
			}
			d.ellipsis = true
		case f.name != "" && slices.Contains(names, f.name):
			return nil, s.errorAt(at, "there are two fields named %s", f.name)
		case d.ellipsis:
			d.after = append(d.after, f)
		default:
			d.before = append(d.before, f)
		}
		names = append(names, f.name)
		if s.skipSpace(); s.peekByte() == ']' {
			break
		}
		if !s.consume(",") {
			return nil, s.invalid("a comma or ]")
		}
		if s.skipSpace(); s.peekByte() == ']' { // a last field without a name
			if d.ellipsis {
				d.after = append(d.after, field{})
			} else {
				d.before = append(d.before, field{})
			}
		}
	}
	s.pos++
	if s.skipSpace(); !s.isAtEnd() {
		return nil, s.invalid("the end of the pattern")
	}
	return d, nil
}

// scanField reads one, whose name is "..." when it is the ellipsis.
func (s *scanner) scanField() (field, error) {
	if s.consume("...") {
		return field{name: "..."}, nil
	}
	if c := s.peekByte(); c == ',' || c == ']' {
		return field{}, nil
	}
	f := field{}
	start := s.pos
	for s.peekByte() == '(' || isSpace(s.peekByte()) {
		s.pos++
	}
	at := s.pos
	f.name = s.consumeWhile(func(c byte) bool { return isNameByte(c) || c == '-' })
	if f.name == "" || isDigit(f.name[0]) || f.name[0] == '-' {
		s.pos = at
		return f, s.invalid("the name of a field, of letters, digits, _ and -,")
	}
	if s.skipSpace(); start == at && (s.peekByte() == ',' || s.peekByte() == ']') {
		return f, nil
	}
	s.pos = start
	var err error
	f.where, err = parseExpression(s, func() (*expression[string], error) {
		at := s.pos
		if name := s.consumeWhile(func(c byte) bool { return isNameByte(c) || c == '-' }); name != f.name {
			s.pos = at
			return nil, s.invalid("a condition on the field " + f.name)
		}
		s.skipSpace()
		c, err := s.condition(",])")
		if err != nil {
			return nil, err
		}
		return &expression[string]{holds: c.matchesValue, words: c.requiredWords(false), steps: c.steps}, nil
	})
	return f, err
}

// span is a field: where it is in the message with its delimiters, and what is between them.
type span struct {
	start, end int
	value      string
}

// fieldsOf yields the fields of a message, in time linear in its length.
func fieldsOf(message string) iter.Seq[span] {
	return func(yield func(span) bool) {
		bracket := -1 // the last closing bracket that was looked for, len(message) if there is none
		for i := 0; i < len(message); {
			if isSpace(message[i]) {
				i++
				continue
			}
			start := i
			switch message[start] {
			case '[':
				if bracket < start {
					bracket = len(message)
					if at := strings.IndexByte(message[start:], ']'); at >= 0 {
						bracket = start + at
					}
				}
				if bracket < len(message) {
					i = bracket
				}
			case '"':
				i = quoteEnd(message, start)
			}
			for i < len(message) && !isSpace(message[i]) {
				i++
			}
			value := message[start:i]
			if n := len(value); n >= 2 &&
				(value[0] == '[' && value[n-1] == ']' || value[0] == '"' && value[n-1] == '"') {
				value = value[1 : n-1]
			}
			if !yield(span{start, i, value}) {
				return
			}
		}
	}
}

// quoteEnd returns the position of the quotation mark that ends the one at start; start if none does. Each unmatched
// mark is searched for once: it is the last one in the message.
func quoteEnd(message string, start int) int {
	for at := start + 1; at < len(message); at++ {
		if message[at] == '"' {
			return at
		}
		if message[at] == '\\' {
			at++
		}
	}
	return start
}

// count returns the number of fields in a message.
func count(message string) int {
	n := 0
	for range fieldsOf(message) {
		n++
	}
	return n
}

// forEachField calls yield with the position of every field of the message, its value, and the pattern's field for it
// (an empty one for those of the ellipsis), until yield returns false. It returns false without a call when the message
// has too few fields.
func (d *delimited) forEachField(message string, yield func(position int, value string, f field) bool) bool {
	total, before, after := count(message), len(d.before), len(d.after)
	if total < before+after {
		return false
	}
	i := 0
	for one := range fieldsOf(message) {
		value := one.value
		var f field
		switch {
		case i < before:
			f = d.before[i]
		case i >= total-after:
			f = d.after[i-(total-after)]
		}
		last := !d.ellipsis && i == before-1
		if last && total > before {
			value = strings.TrimRight(message[one.start:], " \t\n\r")
		}
		if i++; !yield(i, value, f) {
			return false
		}
		if last {
			break
		}
	}
	return true
}

func (d *delimited) match(message string) bool {
	return d.forEachField(message, func(_ int, value string, f field) bool {
		return f.where == nil ||
			f.where.evaluate(value)
	})
}

func (d *delimited) extract(message string) map[string]string {
	extracted := map[string]string{}
	d.forEachField(message, func(position int, value string, f field) bool {
		name := f.name
		if name == "" {
			name = strconv.Itoa(position)
		}
		extracted["$"+name] = value
		return true
	})
	return extracted
}

func (d *delimited) cost() int {
	n := 1
	for _, f := range slices.Concat(d.before, d.after) {
		if f.where != nil {
			n += f.where.cost()
		}
	}
	return n
}

// words returns the words of the values that fields must have: white space or delimiters are around them.
func (d *delimited) words() []string {
	var words []string
	for _, f := range slices.Concat(d.before, d.after) {
		if f.where != nil {
			words = append(words, f.where.collectRequired(
				func(leaf *expression[string]) []string { return leaf.words })...)
		}
	}
	return words
}
