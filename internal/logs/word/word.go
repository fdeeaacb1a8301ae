// Package word cuts text into words, the same way for all who meet over them: the store of log events
// keeps a filter of words per block, and who reads asks the filter whether a block may hold the words
// that a query needs.
//
// A word is a maximal run of ASCII letters and digits, as written: case matters. Everything else,
// bytes above 127 included, only separates. `system:serviceaccount:kube-system` is the words system,
// serviceaccount, kube, system.
package word

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

// Is says whether a byte belongs to a word.
func Is(c byte) bool { return inWord[c] }

var inWord = func() (table [256]bool) {
	for c := range table {
		table[c] = '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return table
}()
