package document_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/coracle-eks/coracle/internal/document"
)

// TestTagsDoNotMultiply has a directive whose prefix decoders copy into each value.
func TestTagsDoNotMultiply(t *testing.T) {
	t.Parallel()
	directive := "%TAG !a! tag:example.com," + strings.Repeat("x", 1000) + "\n---\n- !a!b\n- !a!b\n"
	for name, c := range map[string]struct {
		text    string
		refused bool
	}{
		"first":                    {directive, true},
		"after a byte order mark":  {"\ufeff" + directive, true},
		"after another directive":  {"%YAML 1.1\n" + directive, true},
		"after a comment":          {"# a\r" + directive, true},
		"after a next line":        {"# a\u0085" + directive, true},
		"after a line separator":   {"# a\u2028" + directive, true},
		"of the second document":   {"a: 1\n...\n" + directive, true},
		"of UTF-16":                {"\xff\xfe%\x00T\x00A\x00G\x00", true},
		"in a text":                {"a: the %TAG directive\nb: 100%TAG\n", false},
		"in an indented text":      {"a: |\n  %TAG ! x\n", false},
		"tags without a directive": {"a: !Ref b\nc: !<tag:example.com,2000:d> e\n", false},
	} {
		if err := document.CheckYAML([]byte(c.text)); (err != nil) != c.refused {
			t.Errorf("%s: CheckYAML: %v", name, err)
		}
		root, err := document.ParseYAML([]byte(c.text))
		if (err != nil) != c.refused {
			t.Errorf("%s: ParseYAML: %v", name, err)
		}
		if err == nil && size(root) > 2*len(c.text) {
			t.Errorf("%s: %d bytes become %d", name, len(c.text), size(root))
		}
	}
}

func size(n *yaml.Node) int {
	total := len(n.Value) + len(n.Tag)
	for _, child := range n.Content {
		total += size(child)
	}
	return total
}
