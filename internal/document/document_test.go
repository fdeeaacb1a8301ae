package document

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"
)

// laughs returns a document of a few hundred bytes whose last value is 10^levels times its first.
func laughs(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%[1]d [%s]\n", i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10),
			", "))
	}
	return b.String()
}

func TestCheckYAML(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, refused string }{
		"empty":                  {"", ""},
		"no alias":               {"a: [1, 2]\nb: 'x & y * z'\n", ""},
		"large without aliases":  {"a: " + strings.Repeat("x", 2*maxExpanded), ""},
		"anchors and merge keys": {"base: &base {groups: [a, b]}\nroles:\n- <<: *base\n  rolearn: x\n- *base\n", ""},
		"a billion laughs": {laughs(9),
			"line 6: the document is larger than 4 MiB once its aliases are replaced: write fewer of them"},
		"a long text, repeated": {"a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a, ", 100) +
			"]\n", "larger than 4 MiB"},
		"in keys": {"a: &a " + strings.Repeat("x", 100_000) + "\nb:\n" + strings.Repeat("- {*a : 1}\n",
			100), "larger than 4 MiB"},
		"itself":                  {"a: &a [1, *a]\n", `line 1: the anchor "a" contains itself`},
		"itself, further below":   {"a: &a {b: [{c: *a}]}\n", `the anchor "a" contains itself`},
		"an anchor that is not":   {"a: &b 1\nc: *d\n", "unknown anchor 'd' referenced"},
		"an anchor, given anew":   {"a: &a 1\nb: &a [*a]\n", "contains itself"},
		"an anchor, given again":  {"a: &a 1\nb: &a [2]\nc: *a\n", ""},
		"nested but not repeated": {"a: &a 1\nb: *a\nc: " + strings.Repeat("[", 900) + strings.Repeat("]", 900), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckYAML([]byte(test.text))
			switch {
			case test.refused == "" && err != nil:
				t.Error(err)
			case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
				t.Errorf("got %v, want %s", err, test.refused)
			}
		})
	}
}

// TestErrorsOfDocumentsAreShort has documents whose errors name what is as long as the document.
func TestErrorsOfDocumentsAreShort(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("é", 1<<19)
	for what, text := range map[string]string{
		"an anchor that is not": "a: &b 1\nc: *" + strings.Repeat("d", 1<<20) + "\n",
		"itself":                "a: &" + strings.Repeat("d", 1<<20) + " [*" + strings.Repeat("d", 1<<20) + "]\n",
		"a tag":                 "a: &b !" + name + " *b\n",
	} {
		_, parsed := ParseYAML([]byte(text))
		checked := CheckYAML([]byte(text))
		if parsed == nil && checked == nil {
			t.Errorf("%s: it is no error", what)
		}
		for _, err := range []error{parsed, checked} {
			if err != nil && len(err.Error()) > 2*maxMessage {
				t.Errorf("%s: an error of %d bytes: %.100q", what, len(err.Error()), err)
			}
		}
	}
	if got := cut(name); !utf8.ValidString(got) || !strings.HasSuffix(got, "é ...") {
		t.Errorf("it ends with %q", got[len(got)-10:])
	}
}

func TestCheckTOML(t *testing.T) {
	t.Parallel()
	dots := strings.Repeat("a.", 200) + "a"
	for name, test := range map[string]struct{ text, refused string }{
		"empty": {"", ""},
		"settings": {
			"[settings.kubernetes]\napi-server = \"https://x\"\nmax-pods = " +
				"1.5\n[settings.kubernetes.node-labels]\n\"a.b/c\" = 'd'\n", ""},
		"many dots, not in one key": {strings.Repeat("a.b = [1.5, 2.5]\n", 500), ""},
		"dots in a string":          {"motd = \"" + dots + "\"\n", ""},
		"dots in a literal":         {"motd = '" + dots + "'\n", ""},
		"dots in lines": {"motd = \"\"\"\n" + dots + "\n\\\"\\\"\\\" \n" + dots + "\"\"\"\"\"\na.b = 1\n",
			""},
		"dots in literal lines": {"motd = '''\n" + dots + "\n'''''\na.b = 1\n", ""},
		"dots in a comment":     {"# " + dots + "\na = 1 # " + dots, ""},
		"a deep key": {"x = 1\n" + dots + " = 1\n",
			"line 2: tables, arrays and dotted keys are nested too deeply: at most 100 levels are read"},
		"a deep key, quoted": {strings.Repeat(`"a b" . `, 200) + "a = 1", "line 1: "},
		"a deep table":       {"[" + dots + "]\n", "nested too deeply"},
		"deep arrays": {"a = " + strings.Repeat("[", 200) + strings.Repeat("]", 200),
			"nested too deeply"},
		"deep tables": {"a = " + strings.Repeat("{a.b = ", 200) + "1" + strings.Repeat("}", 200),
			"nested too deeply"},
		"deep after a string":     {"a = [\"\"\"x\"\"\"\"\", " + strings.Repeat("[", 200), "nested too deeply"},
		"a string without an end": {"a = \"x\n" + dots + " = 1", "line 2: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckTOML([]byte(test.text))
			switch {
			case test.refused == "" && err != nil:
				t.Error(err)
			case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
				t.Errorf("got %v, want %s", err, test.refused)
			}
		})
	}
}

// FuzzYAML shows that a document that passes is not much larger decoded than it may be.
func FuzzYAML(f *testing.F) {
	f.Add([]byte(laughs(3)))
	f.Add([]byte(laughs(9)))
	f.Add([]byte("base: &base {groups: [a, b]}\nroles:\n- <<: *base\n  rolearn: x\n- *base\n"))
	f.Add([]byte("&a [*a, &b {<<: [*b, *a]}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if CheckYAML(text) != nil {
			return
		}
		asJSON, err := yaml.YAMLToJSON(text)
		// A byte is six at most in JSON, and a node, of eight bytes here, has at most quotes, a separator and a short
		// word.
		if most := 6 * (maxExpanded + 8*len(text)); err == nil && len(asJSON) > most {
			t.Fatalf("%d bytes have become %d", len(text), len(asJSON))
		}
	})
}

// FuzzTOML shows that a document that passes is as flat as is promised.
func FuzzTOML(f *testing.F) {
	for _, text := range []string{
		"[settings.kubernetes]\napi-server = \"https://x\"\n[settings.kubernetes.node-labels]\n\"a.b/c\" = 'd'\n",
		"a.b.c = [[1], {d.e = 2}]", "[[a]]\nb = \"\"\"\"\"x\\\"\"\"\"\"\"\n",
		"a = ['''''x''''', [\"\\\"\", [[", "a = 'x\nb.c.d = 1", "a=1979-05-27T07:32:00Z #[[[\n",
		"a = \"\"\"\\\n  x\"\"\"\r\n[b . \"c\".'d']",
	} {
		f.Add([]byte(text))
	}
	const limit = 3
	f.Fuzz(func(t *testing.T, text []byte) {
		if checkTOML(text, limit) != nil {
			return
		}
		var v map[string]any
		if err := toml.Unmarshal(text, &v); err != nil {
			return
		}
		// A header of up to limit keys, a key of limit+1, and values that are each one level deeper with a key of fewer
		// parts.
		if most := limit + (limit + 1) + limit*(limit+1); depth(v) > most {
			t.Fatalf("%q is nested %d deep, %d are promised", text, depth(v), most)
		}
	})
}

func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			deepest = max(deepest, depth(inner))
		}
	case []any:
		for _, inner := range v {
			deepest = max(deepest, depth(inner))
		}
	default:
		return 0
	}
	return deepest + 1
}
