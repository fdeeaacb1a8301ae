package terminal

import (
	"errors"
	"strings"
	"testing"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        "",
		"plain, äöü ┃ 日本":         "plain, äöü ┃ 日本",
		"\x1b]52;c;aGk=\a\x1b[2J": `\u001b]52;c;aGk=\u0007\u001b[2J`,
		"a\nb\tc\r":               `a\u000ab\u0009c\u000d`,
		"\u202egnp":               `\u202egnp`,
		"a\xffb":                  "a\ufffdb",
		"\u009b2J":                `\u009b2J`,
		"a\u2028b\u2029\u0085":    `a\u2028b\u2029\u0085`,
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	var b strings.Builder
	Fprintf(&b, "%s\t%d %v\n", "a\x1b", 7, errors.New("b\n"))
	if got := b.String(); got != "a\\u001b\t7 b\\u000a\n" {
		t.Errorf("%q", got)
	}
}
