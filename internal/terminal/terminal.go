// Package terminal writes text of others for people's terminals.
package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible writes out what would move the cursor, hide text or command the terminal: names, values and messages come
// from whoever made the request or wrote the object.
func Visible(s string) string {
	if strings.IndexFunc(s, isHidden) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isHidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isHidden reports whether a character is a control or format character, or separates lines or paragraphs.
func isHidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Fprintf is like [fmt.Fprintf], with the text of the arguments made [Visible]; the format may have tabs and
// newlines.
func Fprintf(w io.Writer, format string, args ...any) {
	visible := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			visible[i] = Visible(arg)
		case error:
			visible[i] = Visible(arg.Error())
		case fmt.Stringer:
			visible[i] = Visible(arg.String())
		default:
			visible[i] = arg
		}
	}
	fmt.Fprintf(w, format, visible...)
}
