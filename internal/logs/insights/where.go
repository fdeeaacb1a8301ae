package insights

import (
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
	"github.com/coracle-eks/coracle/internal/logs/tokenizer"
)

// Condition is a predicate on events, as a tree without negations: exactly one of All, Any and Test is set. It is
// weaker than the query's filters (what can't be said by looking at one field is left out), never stronger.
type Condition struct {
	All, Any []*Condition
	Field    int // a leaf's field, an index of Plan.Fields
	// a leaf: whether a value of the field passes; pure, safe for concurrent use. Absent fields are value.Null, and may
	// pass.
	Test func(value.Value) bool
	// a leaf: whole words, in the sense of package tokenizer, of the raw message of any event that passes it
	Words []string
}

// maxWords limits the values of a list that get leaves with words of their own.
const maxWords = 64

// compileCondition makes the condition for a filter of the first segment, at the place where the filter stands: names
// mean what they mean there. Nil: nothing can be said.
func (c *compiler) compileCondition(e expression, not bool) *Condition {
	switch e := e.(type) {
	case unaryExpression:
		if e.operator == "not" {
			return c.compileCondition(e.of, !not)
		}
	case binaryExpression:
		switch e.operator {
		case "and", "or":
			return combine((e.operator == "and") != not, c.compileCondition(e.left, not),
				c.compileCondition(e.right, not))
		case "=", "!=":
			return c.leafCondition(e, not, func(field string, ofLeft bool) []string {
				if (e.operator == "=") == not {
					return nil
				}
				other := e.right
				if !ofLeft {
					other = e.left
				}
				if s, ok := other.(stringExpression); ok {
					return equalWords(field, s.text)
				}
				return nil
			})
		}
	case likeExpression:
		return c.leafCondition(e, not, func(field string, _ bool) []string {
			if e.not != not {
				return nil
			}
			switch m := e.match.(type) {
			case stringExpression:
				return interiorWords(field, m.text)
			case regexExpression:
				var words []string
				for _, l := range c.compileRegex(m, m.pattern).Literals() {
					words = append(words, interiorWords(field, l)...)
				}
				return words
			}
			return nil
		})
	case inExpression:
		// Only of names there are words, and anything else would be computed once more for each value.
		if _, isName := e.of.(nameExpression); isName && e.not == not && len(e.list) <= maxWords {
			var any *Condition
			for i, v := range e.list {
				one := c.compileCondition(binaryExpression{e.span, "=", e.of, v}, false)
				if i == 0 {
					any = one
				} else {
					any = combine(false, any, one)
				}
			}
			return any
		}
	}
	return c.leafCondition(e, not, func(string, bool) []string { return nil })
}

// combine joins conditions by and (all) or or. What is nil may be anything.
func combine(all bool, a, b *Condition) *Condition {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil || b == nil:
		if !all {
			return nil
		}
		if a == nil {
			return b
		}
		return a
	case all:
		return &Condition{All: append(conditionParts(a, a.All), conditionParts(b, b.All)...)}
	}
	return &Condition{Any: append(conditionParts(a, a.Any), conditionParts(b, b.Any)...)}
}

// conditionParts returns the parts of a condition of the same kind as the one that it becomes a part of, or else the
// condition.
func conditionParts(c *Condition, same []*Condition) []*Condition {
	if same != nil {
		return same
	}
	return []*Condition{c}
}

// leafCondition makes a condition of an expression that depends on one field only. words gives the words that the
// message then has if the expression is about the field itself, by name, on its left side or its right.
func (c *compiler) leafCondition(e expression, not bool, words func(field string, ofLeft bool) []string) *Condition {
	holds, from := c.condition(e)
	if len(from.reads) != 1 || from.perRow {
		return nil
	}
	s, field := c.segment, from.reads[0]
	leaf := &Condition{Field: field}
	var name expression
	ofLeft := true
	switch e := e.(type) {
	case binaryExpression:
		name = e.left
		if _, ok := literal(e.left); ok {
			name, ofLeft = e.right, false
		}
		if other, ok := literal(e.right); ok && ofLeft && (e.operator == "=" || e.operator == "!=") {
			equals := equalTo(other)
			wanted := (e.operator == "=") != not
			leaf.Test = func(v value.Value) bool { return equals(v) == wanted }
		}
	case likeExpression:
		name = e.of
		matches := c.matcher(e)
		leaf.Test = func(v value.Value) bool { return matches(v, c.segment.env.Done) != not }
	}
	direct := false
	if n, ok := name.(nameExpression); ok && c.compileName(n).field == field {
		direct = true
		leaf.Words = words(s.fields[field], ofLeft)
	}
	if !direct || leaf.Test == nil {
		leaf.Test = s.onlyField(holds, field, not)
	}
	return leaf
}

// onlyField returns a test, for many goroutines, of a condition that depends on one field only. All tests have frames
// in common: one may be large, and a query may have hundreds of conditions.
func (s *segment) onlyField(holds test, field int, not bool) func(value.Value) bool {
	return func(v value.Value) bool {
		f := s.spare.Get().(*frame)
		defer s.spare.Put(f)
		f.resetRow(nil)
		f.fields[field], f.has[field] = v, true
		result := holds(f) != not || f.stopped() // then it is for the plan to fail
		f.fields[field], f.err = value.Value{}, nil
		f.discharge(0, 0)
		f.env.DropRegexes(500) // there are as many frames as goroutines
		return result
	}
}

// inMessage describes the form of a field's value in the message: as it is, or as text in JSON.
func inMessage(field string) (raw, json bool) {
	switch field {
	case "@message":
		return true, false
	case "@timestamp", "@ingestionTime", "@logStream", "@log", "@ptr", "@entity":
		return false, false
	}
	return false, true
}

// equalWords returns words of the message of any event in which a field equals a text.
func equalWords(field, text string) []string {
	raw, json := inMessage(field)
	if !raw && !json {
		return nil
	}
	if _, ok := value.EqualText(value.String(text)); !ok {
		return nil // 201 may stand there as 2.01e2
	}
	return safeWords(text, raw, true)
}

// interiorWords returns words of the message of any event in which a field contains a text. A word at an end of the
// text may be part of a longer one.
func interiorWords(field, text string) []string {
	raw, json := inMessage(field)
	if !raw && !json {
		return nil
	}
	words := safeWords(text, raw, false)
	if raw {
		return words
	}
	return slices.DeleteFunc(words, func(w string) bool {
		return strings.Trim(w, "0123456789eE") == "" // a number may stand there in another form than it is shown in
	})
}

// safeWords returns the words of a text that stand as whole words in a message with that text: raw, or in a JSON text.
// JSON encoders may write many a character as \u003c, \n or \/, whose letters then run into the next word; so words
// count only between characters that none of them touches. With ends, nothing stands before and behind the text but
// what separates words.
func safeWords(text string, raw, ends bool) []string {
	var words []string
	for start := 0; start < len(text); start++ {
		if !tokenizer.Is(text[start]) {
			continue
		}
		end := start
		for end < len(text) && tokenizer.Is(text[end]) {
			end++
		}
		before := start == 0 && ends || start > 0 && (raw || separates(text[start-1]))
		behind := end == len(text) && ends || end < len(text) && (raw || separates(text[end]))
		if before && behind && end-start >= tokenizer.Min {
			words = append(words, text[start:min(end, start+tokenizer.Max)])
		}
		start = end
	}
	return words
}

// separates reports whether a character that ends a word stands for itself in every JSON text.
func separates(c byte) bool { return strings.IndexByte(" -_.:,;/()[]{}|@!#$%^*?~", c) >= 0 }
