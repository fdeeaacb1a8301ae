package fields

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/document"
	"github.com/coracle-eks/coracle/internal/terminal"
)

// long is the number of lines that a value, or a part of the tree with one owner, may have before it is shortened.
const long = 24

// addField adds the lines of a field. dash goes before the first of them: "- " of an item's first field.
func (p *printer) addField(f *Field, indent int, dash string) {
	head := dash
	if f.Name != "" {
		head += formatScalar(f.Name) + ":"
	}
	switch {
	case len(f.Fields) > 0 && f.Name == "":
		p.addItem(f, indent, dash)
	case len(f.Fields) > 0:
		p.addLine(f.newLine(indent, head))
		if n := f.countLines(); n > long && f.atomic && !p.style.All && f.uniform(f.Owners) {
			p.addLine(line{margin: true, owners: f.Owners, bar: f.Managed, mark: ' ', indent: indent + len(dash) + 2,
				text: fmt.Sprintf("… %d lines (-o wide)", n), style: dim})
			return
		}
		for _, child := range f.Fields {
			p.addChild(f, child, indent+len(dash)+2)
		}
	default:
		p.addValue(f, indent, head)
	}
}

func (p *printer) addChild(f, child *Field, indent int) {
	if f.List {
		p.addField(child, indent, "- ")
		return
	}
	p.addField(child, indent, "")
}

// addItem adds a list's item that has fields: its first one stands behind the dash, with what becomes of the item.
func (p *printer) addItem(f *Field, indent int, dash string) {
	if f.List { // a list in a list
		p.addLine(f.newLine(indent, strings.TrimSpace(dash)))
		for _, child := range f.Fields {
			p.addChild(f, child, indent+2)
		}
		return
	}
	fields := slices.Clone(f.Fields)
	slices.SortStableFunc(fields, func(a, b *Field) int {
		return nameRank(f.Keys, a.Name) - nameRank(f.Keys, b.Name)
	})
	for i, child := range fields {
		if i > 0 {
			p.addField(child, indent+2, "")
			continue
		}
		at := len(p.lines)
		p.addField(child, indent, dash)
		if len(child.Fields) == 0 && len(p.lines) == at+1 {
			p.lines[at].bar = f.Managed // of all that the item is
		}
	}
}

// nameRank returns the rank of a name among an item's fields: the keys first.
func nameRank(keys []string, name string) int {
	if i := slices.Index(keys, name); i >= 0 {
		return i
	}
	return len(keys)
}

// newLine returns a line for a field.
func (f *Field) newLine(indent int, text string) line {
	l := line{margin: true, owners: f.Owners, bar: f.Managed, mark: ' ', indent: indent, text: text}
	switch f.Change {
	case Added:
		l.mark, l.style = '+', green
	case Removed:
		l.mark, l.style, l.owners = '-', red, f.Before
	default:
		l.owners = handover(f.Before, f.Owners)
	}
	return l
}

// handover names owners, with a sign those that were or will be.
func handover(before, after []string) []string {
	var all []string
	for _, o := range after {
		if !slices.Contains(before, o) {
			o = "+" + o
		}
		all = append(all, o)
	}
	for _, o := range before {
		if !slices.Contains(after, o) {
			all = append(all, "-"+o)
		}
	}
	return all
}

// addValue adds the lines of a field that has no fields.
func (p *printer) addValue(f *Field, indent int, head string) {
	if f.Name != "" {
		head += " "
	}
	switch {
	case f.Change == Replaced:
		was, is := f.newLine(indent, head), f.newLine(indent, head)
		was.mark, was.style, was.owners = '-', red, f.Before
		is.mark, is.style, is.owners = '+', green, f.Owners
		p.replaced(was, is, f.From, f.Value)
	case f.Change == Removed:
		p.writeValue(f.newLine(indent, head), f.From)
	case f.Conflict || f.Kept && f.Wanted != nil && compactJSON(f.Wanted) != compactJSON(f.Value):
		l := f.newLine(indent, head)
		l.mark, l.style = '!', red
		if f.Kept {
			l.mark, l.style = '=', cyan
		}
		p.writeValue(l, f.Value)
		l.owners, l.style = []string{"eks wants"}, dim
		p.writeValue(l, f.Wanted)
	default:
		p.writeValue(f.newLine(indent, head), f.Value)
	}
}

// writeValue adds a value behind what is in the line already; text of several lines below it.
func (p *printer) writeValue(l line, v any) {
	if s, ok := v.(string); ok && strings.Contains(s, "\n") {
		p.addBlock(l, strings.Split(strings.TrimSuffix(s, "\n"), "\n"))
		return
	}
	l.text += formatScalar(v)
	p.addLine(l)
}

func (p *printer) addBlock(l line, lines []string) {
	head := l
	head.text += "|"
	p.addLine(head)
	for i, s := range lines {
		l.text, l.indent = s, head.indent+2
		if i == long/2 && len(lines) > long && !p.style.All {
			l.text, l.style = fmt.Sprintf("… %d more lines (-o wide)", len(lines)-i), dim
			p.addLine(l)
			return
		}
		p.addLine(l)
	}
}

// replaced adds a value before and after: of text of several lines, those that are not the same.
func (p *printer) replaced(was, is line, from, to any) {
	a, b := fmt.Sprint(from), fmt.Sprint(to)
	_, one := from.(string)
	_, two := to.(string)
	if !one || !two || !strings.Contains(a, "\n") && !strings.Contains(b, "\n") {
		p.writeValue(was, from)
		p.writeValue(is, to)
		return
	}
	older, newer := strings.Split(strings.TrimSuffix(a, "\n"), "\n"), strings.Split(strings.TrimSuffix(b, "\n"), "\n")
	head := 0
	for head < min(len(older), len(newer)) && older[head] == newer[head] {
		head++
	}
	tail := 0
	for tail < min(len(older), len(newer))-head && older[len(older)-1-tail] == newer[len(newer)-1-tail] {
		tail++
	}
	same := is
	same.mark, same.style, same.owners = ' ', plain, handover(was.owners, is.owners)
	title := same
	title.text += "|"
	p.addLine(title)
	each := func(l line, lines []string) {
		for _, s := range lines {
			l.text, l.indent = s, title.indent+2
			p.addLine(l)
		}
	}
	each(same, older[:head])
	each(was, older[head:len(older)-tail])
	each(is, newer[head:len(newer)-tail])
	each(same, older[len(older)-tail:])
}

// countLines returns the number of lines that the fields of f take.
func (f *Field) countLines() int {
	n := 0
	f.forEachField(func(f *Field) {
		if s, ok := f.Value.(string); ok {
			n += strings.Count(s, "\n")
		}
		n++
	})
	return n - 1
}

// uniform reports whether everything in f has those owners, and does not change.
func (f *Field) uniform(owners []string) bool {
	same := true
	f.forEachField(func(f *Field) {
		same = same && f.Change == Same && !f.Conflict && !f.Kept && slices.Equal(f.Owners, owners) &&
			slices.Equal(f.Before, f.Owners)
	})
	return same
}

// formatScalar returns a value as YAML has it on one line. The text is that of whoever wrote the object: it is read
// only if it is one line, and no larger than it looks.
func formatScalar(v any) string {
	s, ok := v.(string)
	if !ok {
		return compactJSON(v)
	}
	if terminal.Visible(s) != s || document.CheckYAML([]byte(s)) != nil {
		return quoteString(s)
	}
	var read any
	if err := yaml.Unmarshal([]byte(s), &read); err == nil && read == any(s) {
		return s
	}
	return quoteString(s)
}

func quoteString(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
