// Package tokenizer cuts text into words, in one way for the log store and for its readers: the store of log events
// keeps a filter of words per block, and who reads asks the filter whether a block may hold the words
// that a query needs.
//
// A word is a maximal run of ASCII letters and digits, as written: case matters. Everything else,
// bytes above 127 included, only separates. `system:serviceaccount:kube-system` is the words system,
// serviceaccount, kube, system.
package tokenizer

import (
	"bytes"
	"strconv"
)

// The length of a word in bytes. A run shorter than Min is no word; of one longer than Max the first
// Max bytes are the word.
const (
	Min = 2
	Max = 64
)

// Each calls yield for every word of s in order, repeated ones too, until yield returns false. The
// words are parts of s and not copied.
func Each[S ~string | ~[]byte](s S, yield func(w S) bool) {
	for i := 0; i < len(s); {
		if !Is(s[i]) {
			i++
			continue
		}
		start := i
		for i < len(s) && Is(s[i]) {
			i++
		}
		if i-start < Min {
			continue
		}
		if !yield(s[start:min(i, start+Max)]) {
			return
		}
	}
}

// Is reports whether a byte belongs to a word.
func Is(c byte) bool { return inWord[c] }

var inWord = func() (table [256]bool) {
	for c := range table {
		table[c] = '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return table
}()

// Unescaped reads the \u escapes of ASCII characters in a JSON text: x\u003caws becomes x<aws. It is false, without a
// copy, when there are none. Other escapes stay: none of them is a letter or a digit.
//
// An encoder may write any character so. Whoever keeps words of messages keeps those of both forms, because whoever
// looks for the words of a JSON value knows only what the value is, not how the message writes it.
func Unescaped(text []byte) ([]byte, bool) {
	if !bytes.Contains(text, []byte(`\u00`)) {
		return nil, false
	}
	out := make([]byte, 0, len(text))
	found := false
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			if c, ok := decodeEscape(text[i+1:]); ok {
				out, found = append(out, c), true
				i += len("u0000")
				continue
			}
			out = append(out, text[i]) // and the character behind it, which may be a backslash, as it is
			i++
		}
		out = append(out, text[i])
	}
	return out, found
}

// decodeEscape reads u00XX.
func decodeEscape(text []byte) (byte, bool) {
	if len(text) < len("u0000") || text[0] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[1:5]), 16, 16)
	return byte(n), err == nil && n < 0x80
}
