package fields

import (
	"strings"
	"testing"
)

// TestValuesOfATenantAreNotExpanded has values of fields that are small, and very large once they are decoded as YAML.
func TestValuesOfATenantAreNotExpanded(t *testing.T) {
	const tags = 2000
	for name, lineBreak := range map[string]string{
		"carriage returns": "\r", "next lines": "\u0085", "line separators": "\u2028", "paragraph separators": "\u2029",
	} {
		text := strings.ReplaceAll("%TAG !a! tag:example.com,"+strings.Repeat("x", 1000)+"\n---\n["+
			strings.Repeat("!a!b c, ", tags)+"]", "\n", lineBreak)
		allocations := testing.AllocsPerRun(1, func() {
			if got := formatScalar(text); got != quoteString(text) {
				t.Errorf("%s: %.100q", name, got)
			}
		})
		if allocations > tags/10 {
			t.Errorf("%s: %.0f allocations for %d tags", name, allocations, tags)
		}
	}
	for text, want := range map[string]string{
		"plain": "plain", "true": `"true"`, "1": `"1"`, "a: b": `"a: b"`, "[&a [x], *a]": `"[&a [x], *a]"`, "": `""`,
		"a\rb": `"a\rb"`, "a & b * c": "a & b * c", "&a": `"&a"`,
	} {
		if got := formatScalar(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}
