package record

import "strings"

// MaxReason is the maximum length of a text in a record that says why something failed, in bytes.
const MaxReason = 8 << 10

// Reason returns such a text, or its beginning. Who writes a record whose text comes from a library, an API server, a
// machine or a service calls it, as tenants decide what those quote; the test of internal/importrules finds texts of
// errors that are not cut. It is called before the record is compared with the one that is stored.
func Reason(text string) string {
	if len(text) <= MaxReason {
		return text
	}
	const more = " ..."
	return strings.ToValidUTF8(text[:MaxReason-len(more)], "") + more
}
