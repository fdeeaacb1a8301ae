package application

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// normalizePath sets the path that conditions are about: the normal form, in which letters, digits, "-", ".", "_" and
// "~" are not encoded and no segment is "." or "..". AWS evaluates rules after that, too. A path with such segments
// goes on without them: a target that removes them would otherwise serve another path than the one that was judged.
// It reports whether the request has a path.
//
// https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2
func (e *exchange) normalizePath() bool {
	u := e.r.URL
	if u.Opaque != "" { // "x:http://a/b" has no path for us, and "/b" for the target
		return false
	}
	if u.Path == "" { // "http://a"
		u.Path = "/"
	}
	e.path = u.EscapedPath()
	if e.path[0] != '/' {
		return e.path == "*" && e.r.Method == http.MethodOptions
	}
	if strings.Contains(e.path, "%") {
		e.path = decodeUnreserved(e.path)
	}
	if !strings.Contains(e.path, "/.") {
		return true
	}
	without := removeDotSegments(e.path)
	if without == e.path {
		return true
	}
	parsed, err := url.ParseRequestURI(without)
	if err != nil {
		return false
	}
	e.path, u.Path, u.RawPath = without, parsed.Path, parsed.RawPath
	return true
}

// decodeUnreserved decodes those characters of an encoded path that need not be encoded, and writes the codes of others
// in upper case.
func decodeUnreserved(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+2 >= len(path) {
			b.WriteByte(path[i])
			continue
		}
		code := strings.ToUpper(path[i+1 : i+3])
		if c := unhex(code[0])<<4 | unhex(code[1]); isUnreserved(c) {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + code)
		}
		i += 2
	}
	return b.String()
}

// unhex returns the value of a hexadecimal digit in upper case.
func unhex(c byte) byte {
	if c >= 'A' {
		return c - 'A' + 10
	}
	return c - '0'
}

func isUnreserved(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("-._~", c) >= 0 }

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// removeDotSegments returns a path without the segments "." and "..".
// https://www.rfc-editor.org/rfc/rfc3986#section-5.2.4
func removeDotSegments(path string) string {
	var kept []string
	segments := strings.Split(path, "/")[1:]
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case ".", "..":
			if s == ".." && len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, s)
		}
	}
	return "/" + strings.Join(kept, "/")
}

// The longest name of a host, and the longest port.
const (
	maxHost = 255
	maxPort = len("65535")
)

// validHost reports whether a host with its port, or none at all, is one that a target gets as it is judged. Of others,
// net/http sends the Punycode of a name in Unicode, and nothing in place of what it takes for no host.
func validHost(host string) bool {
	name, port := host, ""
	if end := strings.LastIndexByte(host, ':'); end >= 0 && !strings.HasSuffix(host, "]") {
		name, port = host[:end], host[end+1:]
	}
	if len(name) > maxHost || len(port) > maxPort || name == "" && host != "" {
		return false
	}
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	if address, ok := strings.CutPrefix(name, "["); ok {
		address, ok = strings.CutSuffix(address, "]")
		parsed, err := netip.ParseAddr(address)
		return ok && err == nil && parsed.Is6() && parsed.Zone() == ""
	}
	for i := range len(name) {
		if !isUnreserved(name[i]) || name[i] == '.' && (i == 0 || name[i-1] == '.') { // nor labels without a character
			return false
		}
	}
	return true
}
