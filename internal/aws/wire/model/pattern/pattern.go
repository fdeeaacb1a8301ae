// Package pattern compiles the regular expressions in AWS's models, which are Java's.
package pattern

import (
	"regexp"
	"strings"
)

var escape = regexp.MustCompile(`\\u(10FFFF|10000|[0-9A-Fa-f]{4})`)

// Compile returns an expression that matches a whole string as the pattern does in Java. What Go's syntax lacks
// (look-ahead, back-references) is an error.
func Compile(java string) (*regexp.Regexp, error) {
	// Java sees the characters beyond U+FFFF as pairs of surrogates, and some models spell them so.
	text := strings.ReplaceAll(java, `\uD800\uDC00-\uDBFF\uDFFF`, `\x{10000}-\x{10FFFF}`)
	return regexp.Compile(`^(?:` + escape.ReplaceAllString(text, `\x{$1}`) + `)$`)
}
