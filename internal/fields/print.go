package fields

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coracle-eks/coracle/internal/terminal"
)

// Style is the style in which a tree is printed.
type Style struct {
	// Width is that of the terminal; longer lines are cut. 0 cuts none.
	Width int
	Color bool
	// All prints status, what the API server keeps for itself, and long values whole.
	All bool
}

// Print writes the object of an answer as a tree with its owners in the margin, and what a plan makes of it.
func Print(w io.Writer, a Answer, s Style) error {
	p := printer{style: s}
	if a.Resource == "" {
		p.overview(a)
		return p.flushLines(w)
	}
	tree, object, err := buildTree(a, s.All)
	if err != nil {
		return err
	}
	p.heading(a, object)
	p.managers(object)
	p.addLine(line{})
	for _, f := range tree.Fields {
		p.addField(f, 0, "")
	}
	p.printLegend()
	if a.Plan != nil {
		if err := p.outcome(a); err != nil {
			return err
		}
	}
	return p.flushLines(w)
}

// buildTree returns the tree of an answer, and the object as it is, or as it would be made.
func buildTree(a Answer, all bool) (*Field, Object, error) {
	object, err := Read(a.Content)
	if err != nil {
		return nil, object, err
	}
	if a.Plan == nil {
		return object.Tree(all), object, nil
	}
	o, ok := a.planned()
	if !ok {
		return object.Tree(all), object, nil
	}
	tree, err := a.Plan.Tree(o, all)
	if err == nil && a.Content == nil {
		object, err = Read(o.Result)
		if o.Result == nil {
			object = Object{Content: o.Wanted}
		}
	}
	return tree, object, err
}

// planned returns what the plan does to the object of the answer.
func (a Answer) planned() (Planned, bool) {
	for _, o := range a.Plan.Objects {
		if o.Resource == a.Resource && o.Namespace == a.Namespace && o.Name == a.Name {
			return o, true
		}
	}
	return Planned{}, false
}

// How lines look (ECMA-48, "select graphic rendition").
const (
	plain  = ""
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// line is one of the output. One with a margin has the owners of a field in it.
type line struct {
	margin bool
	owners []string // with a + for who gets the field, a - for who loses it
	bar    Managed
	mark   byte // ' ', '+', '-', '!', '='
	indent int
	text   string
	style  string
}

type printer struct {
	style Style
	lines []line
}

func (p *printer) addLine(l line) { p.lines = append(p.lines, l) }

func (p *printer) printText(style, format string, args ...any) {
	p.addLine(line{text: terminal.Visible(fmt.Sprintf(format, args...)), style: style})
}

func (p *printer) heading(a Answer, o Object) {
	where := ""
	if a.Namespace != "" {
		where = " in namespace " + a.Namespace
	}
	version, _ := o.Content["apiVersion"].(string)
	p.printText(bold, "%s/%s%s of cluster %s (%s)", a.Resource, a.Name, where, a.Cluster, version)
	switch {
	case a.Content == nil:
		p.printText(plain, "It does not exist yet.")
	case a.Addon != nil:
		p.printText(plain, "It belongs to the add-on %s %s.", a.Addon.Name, a.Addon.Version)
	default:
		p.printText(plain, "It belongs to no add-on of the cluster.")
	}
}

// managers prints a table of the managers and how much each owns.
func (p *printer) managers(o Object) {
	if len(o.Managers) == 0 {
		return
	}
	p.addLine(line{})
	wide := len("MANAGER")
	for _, m := range o.Managers {
		wide = max(wide, utf8.RuneCountInString(m.entryName()))
	}
	p.printText(dim, "%-*s  OPERATION  FIELDS  LAST CHANGE (UTC)", wide, "MANAGER")
	for _, m := range o.Managers {
		at := "-"
		if !m.Time.IsZero() {
			at = m.Time.Format(time.DateTime)
		}
		style := plain
		if m.Name == EKS {
			style = yellow
		}
		p.printText(style, "%-*s  %-9s  %6d  %s", wide, m.entryName(), m.Operation, m.Fields, at)
	}
}

func (m Manager) entryName() string {
	if m.Subresource != "" {
		return m.Name + "/" + m.Subresource
	}
	return m.Name
}

// printLegend explains the marks that were used.
func (p *printer) printLegend() {
	var full, part, none bool
	for _, l := range p.lines {
		if !l.margin {
			continue
		}
		full, part = full || l.bar == Fully, part || l.bar == Partly
		none = none || len(l.owners) == 0
	}
	p.addLine(line{})
	if full || part {
		p.printText(dim,
			"┃ eks manages all of it: to change it conflicts   ┆ eks manages a part of it: the rest is yours")
	} else {
		p.printText(dim, "eks manages nothing of it.")
	}
	if none {
		p.printText(dim, "A line without a name is nobody's: a default, or there for what is in it.")
	}
}

// flushLines writes the lines: the margin as wide as the longest owners, within reason.
func (p *printer) flushLines(w io.Writer) error {
	widest := len("OWNER")
	for i, l := range p.lines {
		l.owners = slices.Clone(l.owners)
		for j, owner := range l.owners {
			l.owners[j] = terminal.Visible(owner)
		}
		p.lines[i].owners = l.owners
		widest = max(widest, utf8.RuneCountInString(strings.Join(l.owners, ", ")))
	}
	limit := 36
	if p.style.Width > 0 {
		limit = min(limit, max(12, p.style.Width/3))
	}
	widest = min(widest, limit)
	changes := slices.ContainsFunc(p.lines, func(l line) bool { return l.margin && l.mark != ' ' })
	var b strings.Builder
	for _, l := range p.lines {
		p.renderLine(&b, l, widest, changes)
		if b.Len() > 1<<16 {
			if _, err := io.WriteString(w, b.String()); err != nil {
				return err
			}
			b.Reset()
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *printer) renderLine(b *strings.Builder, l line, widest int, changes bool) {
	if !l.margin {
		p.writeStyled(b, l.style, truncate(l.text, p.style.Width))
		b.WriteByte('\n')
		return
	}
	owners := joinOwners(l.owners, widest)
	style := plain
	if len(l.owners) > 0 && strings.TrimLeft(l.owners[0], "+") == EKS {
		style = yellow
	} else if len(l.owners) > 0 {
		style = cyan
	}
	var rest strings.Builder
	switch l.bar {
	case Fully:
		rest.WriteString(" ┃")
	case Partly:
		rest.WriteString(" ┆")
	default:
		rest.WriteString("  ")
	}
	if changes {
		rest.WriteByte(' ')
		rest.WriteByte(l.mark)
	}
	body := terminal.Visible(strings.ReplaceAll(l.text, "\t", "    "))
	if p.style.Width > 0 {
		body = truncate(body, max(p.style.Width-widest-utf8.RuneCountInString(rest.String())-1-l.indent, 8))
	}
	body = strings.TrimRight(body, " ")
	margin := strings.Repeat(" ", l.indent+1)
	p.writeStyled(b, style, owners)
	pad := strings.Repeat(" ", widest-utf8.RuneCountInString(owners))
	if body == "" && strings.TrimSpace(rest.String()) == "" {
		b.WriteByte('\n')
		return
	}
	b.WriteString(pad)
	bar := yellow
	if l.mark != ' ' {
		bar = l.style
	}
	p.writeStyled(b, bar, rest.String())
	b.WriteString(margin)
	textStyle := l.style
	if textStyle == plain && len(l.owners) == 0 && l.bar == Not {
		textStyle = dim
	}
	p.writeStyled(b, textStyle, body)
	b.WriteByte('\n')
}

// joinOwners joins owners, in at most width columns.
func joinOwners(owners []string, width int) string {
	all := strings.Join(owners, ", ")
	if utf8.RuneCountInString(all) <= width {
		return all
	}
	for n := len(owners) - 1; n > 0; n-- {
		s := fmt.Sprintf("%s, %d more", strings.Join(owners[:n], ", "), len(owners)-n)
		if utf8.RuneCountInString(s) <= width {
			return s
		}
	}
	return truncate(all, width)
}

// truncate shortens text to so many columns; 0 is no limit.
func truncate(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

func (p *printer) writeStyled(b *strings.Builder, style, s string) {
	if !p.style.Color || style == plain || strings.TrimSpace(s) == "" {
		b.WriteString(s)
		return
	}
	b.WriteString("\x1b[" + style + "m" + s + "\x1b[0m")
}
