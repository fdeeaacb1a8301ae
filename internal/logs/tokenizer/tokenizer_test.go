package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

func TestEach(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":               {"", nil},
		"only separators":       {` "{},:. `, nil},
		"one":                   {"get", []string{"get"}},
		"case is kept":          {"DaemonSet daemonset", []string{"DaemonSet", "daemonset"}},
		"a single byte is none": {"a bb c 9 10", []string{"bb", "10"}},
		"dashes and colons separate": {"system:serviceaccount:kube-system", []string{"system", "serviceaccount",
			"kube", "system"}},
		"underscores separate":        {"a_b aa_bb", []string{"aa", "bb"}},
		"other alphabets separate":    {"naïve größe", []string{"na", "ve", "gr"}},
		"at both ends":                {"first last", []string{"first", "last"}},
		"JSON":                        {`{"verb":"patch","code":200}`, []string{"verb", "patch", "code", "200"}},
		"escapes are read as written": {`a\nbb`, []string{"nbb"}},
		"the longest":                 {strings.Repeat("x", Max), []string{strings.Repeat("x", Max)}},
		"longer is cut":               {strings.Repeat("x", Max+5) + " y1", []string{strings.Repeat("x", Max), "y1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var texts, bytes []string
			Each(c.text, func(w string) bool { texts = append(texts, w); return true })
			Each([]byte(c.text), func(w []byte) bool { bytes = append(bytes, string(w)); return true })
			if !slices.Equal(texts, c.want) || !slices.Equal(bytes, c.want) {
				t.Errorf("words of %q are %q, as bytes %q; want %q", c.text, texts, bytes, c.want)
			}
		})
	}
}

func TestEachStops(t *testing.T) {
	t.Parallel()
	var got []string
	Each("one two three", func(w string) bool { got = append(got, w); return len(got) < 2 })
	if want := []string{"one", "two"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnescaped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":"x\u003caws"}`:    `{"a":"x<aws"}`,
		`\u0061\u0062`:          `ab`,
		`\u0061\n\u006A\u006a"`: `a\njj"`,
		`\\u0061\u0062`:         `\\u0061b`,
		`\u0061\`:               `a\`,
		`\u0061\u`:              `a\u`,
		`\u0061\u00`:            `a\u00`,
		`\u0061\u00zz\u00e9`:    `a\u00zz\u00e9`,
	} {
		if got, ok := Unescaped([]byte(text)); !ok || string(got) != want {
			t.Errorf("%s becomes %s, %v; want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{``, `\n`, `\u00e9`, `\\u0061`, `\u00`} {
		if got, ok := Unescaped([]byte(text)); ok {
			t.Errorf("%s becomes %s", text, got)
		}
	}
}
