package sigv4

import (
	"slices"
	"strconv"
	"strings"
)

// canonicalRequest returns the text whose hash is signed.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html#create-canonical-request
func (s *Signature) canonicalRequest(payloadHash string) []byte {
	b := make([]byte, 0, 1024)
	b = append(b, s.method...)
	b = append(b, '\n')
	b = s.appendPath(b)
	b = append(b, '\n')
	b = s.appendQuery(b)
	b = append(b, '\n')
	for _, name := range s.SignedHeaders {
		b = append(b, name...)
		b = append(b, ':')
		b = s.appendHeader(b, name)
		b = append(b, '\n')
	}
	b = append(b, '\n')
	for i, name := range s.SignedHeaders {
		if i > 0 {
			b = append(b, ';')
		}
		b = append(b, name...)
	}
	b = append(b, '\n')
	return append(b, payloadHash...)
}

// appendPath writes the canonical URI: for most services the path as sent, normalised as in RFC 3986 section 6 and
// encoded once more; for Amazon S3, whose object keys may hold "..", the path with each segment encoded once.
func (s *Signature) appendPath(b []byte) []byte {
	if s.path == "" {
		return append(b, '/')
	}
	if s.Service != "s3" {
		return appendEncoded(b, normalise(s.path), '/')
	}
	for i, segment := range strings.Split(s.path, "/") {
		if i > 0 {
			b = append(b, '/')
		}
		b = appendEncoded(b, decodePercent(segment, false), 0)
	}
	return b
}

// normalise removes empty, "." and ".." segments. A trailing slash stays.
func normalise(path string) string {
	if !strings.Contains(path, "//") && !strings.Contains(path, "/.") {
		return path
	}
	var kept []string
	segments := strings.Split(path, "/")
	for _, segment := range segments {
		switch segment {
		case "", ".":
		case "..":
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
		default:
			kept = append(kept, segment)
		}
	}
	clean := "/" + strings.Join(kept, "/")
	if last := segments[len(segments)-1]; len(kept) > 0 && (last == "" || last == "." || last == "..") {
		clean += "/"
	}
	return clean
}

// appendQuery writes the canonical query string: every parameter but the signature, encoded, sorted after encoding.
func (s *Signature) appendQuery(b []byte) []byte {
	if s.query == "" {
		return b
	}
	type parameter struct{ key, value string }
	var parameters []parameter
	for pair := range strings.SplitSeq(s.query, "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		key = decodePercent(key, true)
		if s.Presigned && key == "X-Amz-Signature" {
			continue
		}
		parameters = append(parameters, parameter{
			string(appendEncoded(nil, key, 0)), string(appendEncoded(nil, decodePercent(value, true), 0)),
		})
	}
	slices.SortFunc(parameters, func(a, b parameter) int {
		if c := strings.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	for i, p := range parameters {
		if i > 0 {
			b = append(b, '&')
		}
		b = append(b, p.key...)
		b = append(b, '=')
		b = append(b, p.value...)
	}
	return b
}

// queryValue returns the first value of a query parameter; empty when there is none.
func (s *Signature) queryValue(name string) string {
	for pair := range strings.SplitSeq(s.query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if decodePercent(key, true) == name {
			return decodePercent(value, true)
		}
	}
	return ""
}

// appendHeader writes the values of one header, each trimmed and with runs of spaces made one, joined by commas.
func (s *Signature) appendHeader(b []byte, name string) []byte {
	values := s.headerValues(name)
	for i, value := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTrimmed(b, value)
	}
	return b
}

// headerValues finds a header where net/http keeps it: some are lifted out of the map.
func (s *Signature) headerValues(name string) []string {
	switch name {
	case "host", ":authority":
		return []string{s.host}
	}
	if values := s.header.Values(name); len(values) > 0 {
		return values
	}
	// A detached header set may have been filled without canonical names.
	for key, values := range s.header {
		if strings.EqualFold(key, name) {
			return values
		}
	}
	switch {
	case name == "content-length" && s.contentLength >= 0:
		return []string{strconv.FormatInt(s.contentLength, 10)}
	case name == "transfer-encoding":
		return s.transferEncoding
	}
	return nil
}

func appendTrimmed(b []byte, value string) []byte {
	value = strings.Trim(value, " \t\r\n")
	space := false
	for i := range len(value) {
		if c := value[i]; c != ' ' {
			b, space = append(b, c), false
		} else if !space {
			b, space = append(b, c), true
		}
	}
	return b
}

const upperHex = "0123456789ABCDEF"

// appendEncoded percent-encodes all but the unreserved characters of RFC 3986 and the one given.
func appendEncoded(b []byte, s string, keep byte) []byte {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			c == '-' || c == '_' || c == '.' || c == '~' || (keep != 0 && c == keep) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return b
}

// decodePercent undoes percent-encoding, leaving a malformed escape as it is: it then cannot match what a signer
// computed unless the signer treated it as literal text too. In a query, plus is a space, because that is how the
// service behind us will read it.
func decodePercent(s string, query bool) string {
	if !strings.Contains(s, "%") && !(query && strings.Contains(s, "+")) {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%' && i+2 < len(s) && isHexDigit(s[i+1]) && isHexDigit(s[i+2]):
			b = append(b, hexValue(s[i+1])<<4|hexValue(s[i+2]))
			i += 2
		case c == '+' && query:
			b = append(b, ' ')
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

func isHexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func hexValue(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}
