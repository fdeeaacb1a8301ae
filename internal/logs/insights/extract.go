package insights

import (
	"fmt"
	"strings"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// compileParse compiles the parse command: it takes texts out of a field and makes fields of them. Where the pattern
// doesn't match, they are absent.
func (c *planner) compileParse(at statement, e parseCommand) {
	from := nameExpression{at.span, "@message"}
	if e.from != nil {
		from = *e.from
	}
	source := c.compileName(from)
	var names []string
	var find func(dst []value.Value, s string, done <-chan struct{}) ([]value.Value, bool)
	switch pattern := e.pattern.(type) {
	case stringExpression:
		pieces := strings.Split(pattern.text, "*")
		stars := len(pieces) - 1
		switch {
		case stars == 0:
			c.panicAt(pattern, "the pattern of parse has no *\x00write a * for each text to take out")
		case len(e.as) == 0:
			c.panicAt(pattern, "parse gives no names to what it takes out\x00write as and %s behind the pattern",
				formatCount(stars, "name"))
		case len(e.as) != stars:
			c.panicAt(e.as[min(len(e.as)-1, stars)], "parse has %s for %d *\x00write as many as there are *",
				formatCount(len(e.as), "name"), stars)
		}
		for _, as := range e.as {
			names = append(names, as.text)
		}
		find = globExtractor(pieces)
	case regexExpression:
		regex := c.compileRegex(pattern, pattern.pattern)
		names = regex.Groups()
		switch {
		case len(names) == 0:
			c.panicAt(pattern,
				"the regular expression of parse has no groups\x00write (?<name>...) for each text to take out")
		case len(e.as) > 0 && len(e.as) != len(names):
			c.panicAt(e.as[0], "parse has %s for %s\x00write as many as there are", formatCount(len(e.as), "name"),
				formatCount(len(names), "group"))
		}
		named := false
		for i := range names {
			if len(e.as) > 0 {
				names[i] = e.as[i].text
			}
			named = named || names[i] != ""
		}
		if !named {
			c.panicAt(pattern,
				"no group of the regular expression has a name\x00write (?<name>...), or as and the names behind it")
		}
		find = regex.Find
	}
	s := c.segment
	first := len(s.variables)
	compute := func(f *frame) {
		var found []value.Value
		ok := false
		if v := source.eval(f); !f.stopped() && !v.IsNull() {
			found, ok = find(f.found[:0], v.String(), f.env.Done)
			f.found = found
		}
		for i := range names {
			v := value.Value{}
			if ok {
				v = found[i]
			}
			f.setVariable(first+i, v)
		}
	}
	if c.columns == nil && !c.rowsAreEvents() {
		c.columns = c.defaults()
	}
	for i, name := range names {
		s.variables = append(s.variables, compute)
		if name == "" {
			continue
		}
		of := variableCode(first+i, source)
		s.names[name] = of
		c.setColumn(name, of)
	}
}

func formatCount(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// globExtractor takes out what the stars between pieces stand for. As on AWS a star takes as little as it can, the last
// one, with nothing behind it, all the rest; and the text may go on before the first piece and behind the last.
func globExtractor(pieces []string) func([]value.Value, string, <-chan struct{}) ([]value.Value, bool) {
	return func(dst []value.Value, s string, _ <-chan struct{}) ([]value.Value, bool) {
		at := strings.Index(s, pieces[0])
		if at < 0 {
			return dst, false
		}
		s = s[at+len(pieces[0]):]
		for i, piece := range pieces[1:] {
			end := strings.Index(s, piece)
			if piece == "" && i == len(pieces)-2 {
				end = len(s)
			}
			if end < 0 {
				return dst, false
			}
			dst = append(dst, value.String(s[:end]))
			s = s[end+len(piece):]
		}
		return dst, true
	}
}
