package audit

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/coracle-eks/coracle/internal/terminal"
)

// style is the style of text on a terminal (ECMA-48, "select graphic rendition").
type style string

const (
	plainText style = ""
	bold      style = "1"
	dim       style = "2"
	red       style = "31"
	green     style = "32"
	yellow    style = "33"
	cyan      style = "36"
	boldRed   style = "1;31"
)

// span is text of one style. A whole one goes to a line of its own rather than being broken.
type span struct {
	style style
	text  string
	whole bool
}

// page writes lines that are no wider than the terminal.
type page struct {
	w     io.Writer
	width int // 0 is no limit
	color bool
	space string // not written yet: no line ends with it
	err   error
}

// narrowest is the width below which lines are not wrapped any more, for they would be all indentation.
const narrowest = 40

func (p *page) writeText(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}

func (p *page) writeBlankLine() { p.writeText("\n") }

// writeSpans writes spans from column indent on; further lines of it start at column hang.
func (p *page) writeSpans(indent, hang int, spans ...span) {
	col, start := indent, true
	p.writeText(strings.Repeat(" ", indent))
	limit := p.width
	if limit > 0 {
		limit = max(limit, narrowest)
	}
	for _, s := range spans {
		rest := terminal.Visible(s.text)
		for rest != "" {
			n := utf8.RuneCountInString(rest)
			if limit == 0 || col+n <= limit {
				p.writeStyled(s.style, rest)
				col, start = col+n, false
				break
			}
			head, tail := breakAt(rest, limit-col, start)
			if s.whole && !start && hang+len(strings.TrimLeft(rest, " ")) <= limit {
				head, tail = "", strings.TrimLeft(rest, " ")
			}
			if head != "" {
				p.writeStyled(s.style, head)
			}
			p.newline()
			p.writeText(strings.Repeat(" ", hang))
			rest, col, start = tail, hang, true
		}
	}
	p.newline()
}

func (p *page) newline() {
	p.space = ""
	p.writeText("\n")
}

// writeStyled writes text, but holds spaces at its end back until something follows them.
func (p *page) writeStyled(st style, text string) {
	word := strings.TrimRight(text, " ")
	if word != "" {
		p.writeText(p.space)
		p.space = ""
		if p.color && st != plainText {
			p.writeText("\x1b[" + string(st) + "m" + word + "\x1b[0m")
		} else {
			p.writeText(word)
		}
	}
	p.space += text[len(word):]
}

// breakAt cuts text so that the head has at most width characters: at a space, else where a path or a
// name has a joint, else anywhere. The head is empty when the text had better start on a line of its own.
func breakAt(text string, width int, atStart bool) (head, tail string) {
	var space, dot, joint, last, depth int
	path := strings.HasPrefix(text, ".")
	// a sign, or the indentation of YAML, stands with what follows it
	sign := len(text) - len(strings.TrimLeft(text, " +-"))
	n := 0
	for i, r := range text {
		if n > width {
			break
		}
		last = i
		switch {
		case i == 0 || i <= sign && sign < len(text):
		case r == ' ':
			space = i
		case depth > 0:
		case path && r == '.':
			dot = i
		case strings.ContainsRune("/,:@?&", rune(text[i-1])), r == '[', !path && text[i-1] == '-':
			joint = i
		}
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		n++
	}
	switch {
	case space > 0:
		return text[:space], strings.TrimLeft(text[space:], " ")
	case !atStart && !path:
		return "", strings.TrimLeft(text, " ")
	case dot > width/3:
		return text[:dot], text[dot:]
	case joint > 0:
		return text[:joint], text[joint:]
	case !atStart:
		return "", text
	}
	return text[:last], text[last:]
}
