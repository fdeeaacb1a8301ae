package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

// simple are strings that can stand without quotation marks.
var simple = regexp.MustCompile(`^[A-Za-z0-9_./:@%+*{}$-][^\s"'\\,{}\[\]]*$`)

// formatValue writes a value on one line. A string that might be taken for something else is quoted.
func formatValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		if !simple.MatchString(v) || v == "true" || v == "false" || v == "null" {
			return quoteJSON(v)
		}
		if _, err := strconv.ParseFloat(v, 64); err == nil {
			return quoteJSON(v)
		}
		return v
	case map[string]any:
		var parts []string
		for _, k := range sortedKeys(v) {
			parts = append(parts, k+": "+formatValue(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, formatValue(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v)
}

func quoteJSON(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(raw))
}

// quotes are those of a key in a path that can do without.
var quotes = regexp.MustCompile(`="([A-Za-z0-9_./:-]+)"`)

// display returns a path as a person reads it: [name=web] for [name="web"].
func display(path string) string { return quotes.ReplaceAllString(path, "=$1") }

// displayPath sets names with dots in them, as labels have, apart as well.
func displayPath(path fieldpath.Path) string {
	var b strings.Builder
	for _, e := range path {
		if e.FieldName != nil && strings.ContainsAny(*e.FieldName, "./") {
			b.WriteString("[" + *e.FieldName + "]")
		} else {
			b.WriteString(display(e.String()))
		}
	}
	return b.String()
}

func (c Conflict) display() string {
	if c.path != nil {
		return displayPath(c.path)
	}
	return display(c.Path)
}

func (c Change) display() string {
	if c.path != nil {
		return displayPath(c.path)
	}
	return display(c.Path)
}

// withoutKey returns the value of a list's element without the fields that are in its path already.
func (c Change) withoutKey(v any) any {
	m, ok := v.(map[string]any)
	if !ok || len(c.path) == 0 || c.path[len(c.path)-1].Key == nil {
		return v
	}
	m = maps.Clone(m)
	for _, f := range *c.path[len(c.path)-1].Key {
		delete(m, f.Name)
	}
	return m
}

func (p *Printer) changes(indent int, all []Change) {
	for i, c := range all {
		p.printChange(indent, c)
		owner := ownerLine(c)
		if i+1 < len(all) && slices.Equal(owner, ownerLine(all[i+1])) {
			continue
		}
		if owner != nil {
			p.page.writeSpans(indent+2, indent+4, owner...)
		}
	}
}

// ownerLine returns a line with the owners of a field, and those before the change.
func ownerLine(c Change) []span {
	var spans []span
	say := func(st style, what string, who []string) {
		if len(who) > 0 {
			if spans != nil {
				spans = append(spans, span{style: dim, text: ", "})
			}
			spans = append(spans, span{style: st, text: what + strings.Join(who, ", ")})
		}
	}
	if c.Op == "remove" {
		say(dim, "was owned by ", c.Lost)
		return spans
	}
	say(dim, "owned by ", c.Owners)
	say(yellow, "no longer by ", c.Lost)
	return spans
}

// block is the number of lines that a value may take before it is cut, unless everything is wanted.
const block = 12

func (p *Printer) printChange(indent int, c Change) {
	glyph := map[string]span{"add": {style: green, text: "+ "}, "remove": {style: red, text: "- "}}[c.Op]
	if glyph.text == "" {
		glyph = span{style: yellow, text: "~ "}
	}
	path := span{style: plainText, text: c.display()}
	c.From, c.To = c.withoutKey(c.From), c.withoutKey(c.To)
	fits := func(value string) bool {
		return p.page.width == 0 || indent+2+len([]rune(path.text))+2+len([]rune(value)) <= max(p.page.width, narrowest)
	}
	inner := indent + 2
	switch {
	case c.Op == "remove":
		if v := formatValue(c.From); c.From != nil && fits(v) {
			p.page.writeSpans(indent, inner, glyph, path, span{style: dim, text: ": "}, span{style: red, text: v})
		} else {
			p.page.writeSpans(indent, inner, glyph, path)
		}
	case c.Op == "add" || c.unknown || c.From == nil:
		if v := formatValue(c.To); fits(v) {
			p.page.writeSpans(indent, inner, glyph, path, span{style: dim, text: ": "}, span{style: green, text: v})
		} else if lines := blockLines(c.To); len(lines) > 1 {
			p.page.writeSpans(indent, inner, glyph, path, span{style: dim, text: ":"})
			p.printLines(inner, lines, green, "")
		} else {
			p.page.writeSpans(indent, inner, glyph, path, span{style: dim, text: ":"})
			p.page.writeSpans(inner, inner, span{style: green, text: v})
		}
	default:
		from, to := formatValue(c.From), formatValue(c.To)
		if multiline(c.From) || multiline(c.To) || !isScalar(c.From) && !isScalar(c.To) && !fits(from+" -> "+to) {
			p.page.writeSpans(indent, inner, glyph, path, span{style: dim, text: ":"})
			p.printEdits(inner, blockLines(c.From), blockLines(c.To))
			return
		}
		arrow := []span{{style: red, text: from}, {style: dim, text: " -> "}, {style: green, text: to}}
		if fits(from + " -> " + to) {
			p.page.writeSpans(indent, inner, append([]span{glyph, path, {style: dim, text: ": "}}, arrow...)...)
			return
		}
		p.page.writeSpans(indent, inner, glyph, path, span{style: dim, text: ":"})
		if w := max(p.page.width, narrowest); inner+len([]rune(from+" -> "+to)) <= w {
			p.page.writeSpans(inner, inner, arrow...)
			return
		}
		if prefix := commonPrefix(from, to); prefix != "" {
			p.page.writeSpans(inner, inner, span{style: dim, text: prefix})
			p.page.writeSpans(inner, inner+2, span{style: red, text: from[len(prefix):]}, arrow[1],
				span{style: green, text: to[len(prefix):]})
			return
		}
		p.page.writeSpans(inner, inner+2, span{style: red, text: "- " + from})
		p.page.writeSpans(inner, inner+2, span{style: green, text: "+ " + to})
	}
}

// commonPrefix returns what two long values have in common up to a joint, such as an image up to its tag.
func commonPrefix(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	n = strings.LastIndexAny(a[:n], "/:,= ") + 1
	if n < 20 {
		return ""
	}
	return a[:n]
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func multiline(v any) bool {
	s, ok := v.(string)
	return ok && strings.Contains(s, "\n")
}

// blockLines writes a value on several lines: text as it is, everything else as YAML.
func blockLines(v any) []string {
	s, ok := v.(string)
	if !ok {
		raw, err := yaml.Marshal(v)
		if err != nil {
			return []string{formatValue(v)}
		}
		s = string(raw)
	}
	return strings.Split(strings.TrimRight(s, "\n"), "\n")
}

func (p *Printer) printLines(indent int, all []string, st style, prefix string) {
	shown := all
	if !p.Wide && len(all) > block+1 {
		shown = all[:block]
	}
	for _, l := range shown {
		p.page.writeSpans(indent, indent+2+len(prefix),
			span{style: st, text: prefix + strings.ReplaceAll(l, "\t", "    ")})
	}
	if n := len(all) - len(shown); n > 0 {
		p.page.writeSpans(indent, indent, span{style: dim, text: fmt.Sprintf("and %d more lines (-o wide shows them)",
			n)})
	}
}

// printEdits shows which lines of a text came and went.
func (p *Printer) printEdits(indent int, from, to []string) {
	type edit struct {
		st   style
		text string
	}
	var all []edit
	for _, e := range lineEdits(from, to) {
		switch e.op {
		case '-':
			all = append(all, edit{red, "- " + e.text})
		case '+':
			all = append(all, edit{green, "+ " + e.text})
		}
	}
	shown := all
	if !p.Wide && len(all) > 2*block+1 {
		shown = all[:2*block]
	}
	for _, e := range shown {
		p.page.writeSpans(indent, indent+4, span{style: e.st, text: strings.ReplaceAll(e.text, "\t", "    ")})
	}
	if n := len(all) - len(shown); n > 0 {
		p.page.writeSpans(indent, indent, span{style: dim, text: fmt.Sprintf("and %d more lines (-o wide shows them)",
			n)})
	}
}
