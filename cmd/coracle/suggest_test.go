package main

import "testing"

func TestQuote(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"a/b+c=": "a/b+c=", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'",
	} {
		if got := shellQuote(word); got != want {
			t.Errorf("%q is quoted as %s, want %s", word, got, want)
		}
	}
}
