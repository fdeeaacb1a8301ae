package forward

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// isPrefix reports whether every endpoint reads a prefix of keys as the same. It may end within a segment: "logs/." is
// for the keys of hidden files.
func isPrefix(text string) bool { return isPlain(text) || isPlain(strings.TrimSuffix(text, ".")) }

// isPlain reports whether a text is a key, or the beginning of one, wherever an endpoint puts it: in a path, or behind
// a folder.
func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.HasPrefix(text, "/") && !strings.Contains(text, "//") &&
		!strings.ContainsAny(text, "\\\x00") && !strings.Contains(text, cacheMark) &&
		!slices.ContainsFunc(strings.Split(text, "/"), func(segment string) bool {
			return segment == "." || segment == ".." || reservedSegments[segment]
		})
}

const cacheMark = "[minio_cache"

// cacheEnd is what MinIO adds to a marker, where it is nothing but what it says.
var cacheEnd = regexp.MustCompile(`\[minio_cache:v2,(return:|id:[0-9a-f-]{36},p:[0-9]{1,3},s:[0-9]{1,4})\]$`)

// isMarker reports whether a list that goes on behind a key stays within its prefix, to which policies have agreed.
// Some endpoints list the folder of the key.
func isMarker(text, prefix, delimiter string) bool {
	if strings.Contains(delimiter, "[") { // with which such an end might be cut
		return false
	}
	within := func(text string) bool { return strings.HasPrefix(text, prefix) || !strings.Contains(text, "/") }
	key := cacheEnd.ReplaceAllString(text, "")
	if !isPlain(key) {
		return false
	}
	for _, one := range []string{text, key} {
		// Some leave the delimiter out, as a marker may be a folder.
		if !within(one) || !within(strings.TrimSuffix(one, delimiter)) {
			return false
		}
	}
	return true
}

var encodings = []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding,
	base64.RawURLEncoding}

// isToken does the same for a token, which is a key for some endpoints, base64 of a key for others, or without meaning.
func isToken(text, prefix, delimiter string) bool {
	fits, encoded := isMarker(text, prefix, delimiter), false
	for _, encoding := range encodings {
		decoded, err := encoding.DecodeString(strings.TrimLeft(text, "[]"))
		if err != nil {
			continue
		}
		encoded = true
		key := cacheEnd.ReplaceAllString(string(decoded), "")
		switch {
		case strings.Contains(key, cacheMark):
			return false
		case !utf8.ValidString(key):
		case !isMarker(string(decoded), prefix, delimiter):
			return false
		default:
			fits = true
		}
	}
	return fits || encoded && prefix == "" // without a prefix the whole bucket may be listed
}
