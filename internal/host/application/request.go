package application

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/host/headerfields"
)

// ownHeaders are headers of requests that the load balancer sets, or takes away.
var ownHeaders = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Amzn-Trace-Id", headerTLS,
	headerCipher, headerAccessToken, headerIdentity, headerData}

// mostForwarded is the number of addresses that an X-Forwarded-For header may have.
const mostForwarded = 30

// validate returns the status with which a request is refused that no target gets; 0 if it is not.
func (e *exchange) validate() int {
	r := e.r
	switch {
	case r.Method == "PRI" || r.ProtoMajor == 2 && e.client.tls == nil:
		return http.StatusHTTPVersionNotSupported
	case strings.EqualFold(r.Method, http.MethodTrace) || strings.EqualFold(r.Method, http.MethodConnect):
		return http.StatusMethodNotAllowed
	case len(r.RequestURI) > maxLine:
		return http.StatusRequestURITooLong
	case headerfields.Count(r.Header, r.Trailer) > headerfields.Most, !validHost(r.Host):
		return http.StatusBadRequest
	case e.h2 && strings.ContainsFunc(r.RequestURI, isBlank): // HTTP/1 cannot have one
		return http.StatusBadRequest
	}
	for name, values := range r.Header {
		for _, value := range values {
			if len(name)+len(value) > maxLine || e.h2 && hasBlanksAround(value) {
				return http.StatusBadRequest
			}
		}
	}
	addresses := 0
	for _, value := range r.Header["X-Forwarded-For"] {
		addresses += 1 + strings.Count(value, ",")
	}
	if addresses > mostForwarded {
		return statusForwardedFor
	}
	return e.mitigateDesync()
}

// isBlank reports whether a character ends a word of the first line of a request, or may not be there.
func isBlank(c rune) bool { return c <= ' ' || c == 0x7f }

// hasBlanksAround reports whether a value has blanks at its begin or its end. No value of HTTP/1 has them, and a target
// of that would get another value than the one that was judged.
//
// https://www.rfc-editor.org/rfc/rfc9113#section-8.2.1
func hasBlanksAround(value string) bool {
	return value != "" && (isBlank(rune(value[0])) || isBlank(rune(value[len(value)-1])))
}

// mitigateDesync classifies the request by the risk that servers read it differently, and returns the status with which
// it is refused; 0 if it is not. What net/http cannot read it has refused already.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html
func (e *exchange) mitigateDesync() int {
	e.class, e.classReason = classify(e.r)
	switch mode := e.state.spec.Attributes.Desync; {
	case e.class == "" || mode == DesyncMonitor:
	case mode == DesyncStrictest:
		e.w.Header().Set("Connection", "close")
		return http.StatusBadRequest
	case e.class == classAmbiguous:
		// The connection takes no further request.
		e.w.Header().Set("Connection", "close")
	}
	return 0
}

// Classifications of requests that do not comply with RFC 7230.
const (
	classAcceptable = "Acceptable"
	classAmbiguous  = "Ambiguous"
)

// classify returns the classification of a request, and its reason; both are empty if it complies.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
func classify(r *http.Request) (class, reason string) {
	if r.ProtoMajor != 1 {
		return "", ""
	}
	switch bodyless := bodyless(r); {
	case bodyless && len(r.TransferEncoding) > 0:
		return classAmbiguous, "UndefinedTransferEncodingSemantics"
	case bodyless && r.ContentLength > 0:
		return classAmbiguous, "UndefinedContentLengthSemantics"
	case bodyless && r.Header.Get("Content-Length") != "":
		return classAcceptable, "GetHeadZeroContentLength"
	}
	for i := range len(r.RequestURI) {
		if c := r.RequestURI[i]; c <= ' ' || c >= 0x7f {
			return classAcceptable, "AmbiguousUri"
		}
	}
	for name, values := range r.Header {
		if !validHeaderName(name) {
			return classAcceptable, "NonCompliantHeader"
		}
		for _, value := range values {
			for i := range len(value) {
				if value[i] >= 0x7f {
					return classAcceptable, "NonCompliantHeader"
				}
			}
		}
	}
	return "", ""
}

// bodyless reports whether a request has a method whose bodies servers may ignore.
func bodyless(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// validHeaderName reports whether a name is of alphanumeric characters and hyphens.
func validHeaderName(name string) bool {
	for i := range len(name) {
		if !isAlphanumeric(name[i]) && name[i] != '-' {
			return false
		}
	}
	return name != ""
}

// traceID returns the X-Amzn-Trace-Id for a target, by that of the client.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-request-tracing.html
func traceID(have string, s *Server) string {
	var random [12]byte
	for i := 0; i < len(random); i += 4 {
		n := uint32(s.random() >> 32)
		random[i], random[i+1], random[i+2], random[i+3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	}
	id := fmt.Sprintf("1-%08x-%s", time.Now().Unix(), hex.EncodeToString(random[:]))
	var others []string
	root := false
	for field := range strings.SplitSeq(have, ";") {
		field = strings.TrimSpace(field)
		name, _, _ := strings.Cut(field, "=")
		switch name {
		case "", "Self":
			continue
		case "Root":
			root = true
		}
		others = append(others, field)
	}
	if len(have) > 7<<10 || len(others) == 0 {
		return "Root=" + id
	}
	if !root {
		return "Root=" + id + ";" + strings.Join(others, ";")
	}
	return "Self=" + id + ";" + strings.Join(others, ";")
}

// rewriteRequest makes the request to the target of that of the client.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/x-forwarded-headers.html
func rewriteRequest(p *httputil.ProxyRequest) {
	e := exchangeOf(p.Out.Context())
	a := &e.state.spec.Attributes
	in, h := p.In, p.Out.Header
	// It goes on as it came, also with what Go cannot parse or takes for its own.
	p.Out.URL.RawQuery = in.URL.RawQuery
	p.Out.Trailer = nil // they come after the headers have been judged
	for _, name := range []string{"Forwarded", "X-Forwarded-Host"} {
		if values, ok := in.Header[name]; ok {
			h[name] = values
		}
	}
	if upgrade := h["Upgrade"]; upgrade != nil &&
		(in.Method != http.MethodGet || !strings.EqualFold(strings.Join(upgrade, ","), "websocket")) {
		// Rules, logins and headers are for requests. Of what else a target may speak, such as h2c, they see nothing.
		delete(h, "Upgrade")
		delete(h, "Connection")
	}
	if a.DropInvalid {
		for name := range h {
			if !validHeaderName(name) {
				delete(h, name)
			}
		}
	}
	if forwarded := forwardedFor(in.Header["X-Forwarded-For"], e.client.address, a); len(forwarded) > 0 {
		h["X-Forwarded-For"] = forwarded
	}
	headerfields.DeleteShadows(h, ownHeaders...)
	h["X-Forwarded-Proto"] = []string{e.state.protocol()}
	h["X-Forwarded-Port"] = []string{e.state.port}
	h["X-Amzn-Trace-Id"] = []string{e.trace}
	e.addTLSHeaders(h)
	e.addUser(h)
	// As that of the client, where it has HTTP/1.1. Of HTTP/2, requests are as ambiguous for targets of HTTP/1.1.
	p.Out.Close = a.Desync != DesyncMonitor && (e.class == classAmbiguous ||
		in.ProtoMajor == 2 && e.group.spec.Version == HTTP1 && bodyless(in) && in.ContentLength != 0)
	p.Out.Host = targetHost(in.Host, e.state, a)
	e.transform(p.Out)
}

// forwardedFor returns the X-Forwarded-For for a target.
func forwardedFor(have []string, address netip.AddrPort, a *Attributes) []string {
	switch a.XFF {
	case XFFPreserve:
		return have
	case XFFRemove:
		return nil
	}
	mine := address.Addr().String()
	if a.XFFPort {
		mine = address.String()
	} else if address.Addr().Is6() && len(have) > 0 {
		mine = "[" + mine + "]"
	}
	return []string{strings.Join(append(have[:len(have):len(have)], mine), ", ")}
}

// targetHost returns the Host for a target: without a default port, and with another one.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html
func targetHost(host string, st *state, a *Attributes) string {
	if a.PreserveHost || host == "" {
		return host
	}
	if st.port == "80" || st.port == "443" {
		return hostOf(host)
	}
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return host + ":" + st.port
}

// rewrite is a Rewrite in the form in which requests need it.
type rewrite struct {
	regex   *regexp.Regexp
	size    int
	replace string
	length  int   // of what replaces a match whose groups are empty
	uses    []int // how often each group is in there
}

var group1to9 = regexp.MustCompile(`\$([0-9])`)

func newRewrite(spec *Rewrite) (*rewrite, error) {
	if spec == nil {
		return nil, nil
	}
	re, size, err := expression(spec.Regex, "")
	if err != nil {
		return nil, err
	}
	// "$1x" is the first group and an x, not a group named so.
	r := &rewrite{regex: re, size: size, replace: group1to9.ReplaceAllString(spec.Replace, "$${${1}}"),
		uses: make([]int, re.NumSubexp()+1)}
	at := slices.Repeat([]int{-1}, 2*len(r.uses))
	r.length = len(re.ExpandString(nil, r.replace, "x", at))
	for group := range r.uses {
		at[2*group], at[2*group+1] = 0, 1
		r.uses[group] = len(re.ExpandString(nil, r.replace, "x", at)) - r.length
		at[2*group], at[2*group+1] = -1, -1
	}
	return r, nil
}

// apply returns a text with the first match replaced, unless it becomes longer than a line of a request may be: a group
// may be in there hundreds of times.
func (r *rewrite) apply(text string) (rewritten string, ok bool) {
	at := r.regex.FindStringSubmatchIndex(text)
	if at == nil {
		return text, true
	}
	length := len(text) - (at[1] - at[0]) + r.length
	for group, times := range r.uses {
		length += times * (at[2*group+1] - at[2*group])
	}
	if length > maxLine {
		return "", false
	}
	return text[:at[0]] + string(r.regex.ExpandString(nil, r.replace, text, at)) + text[at[1]:], true
}

// Statuses of transforms in access logs.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
const (
	transformSuccess     = "TransformSuccess"
	transformTooLong     = "TransformBufferTooSmall"
	transformInvalidHost = "TransformInvalidHost"
)

// errTransform ends a request whose transform failed.
var errTransform = errors.New("a transform of the rule failed")

// transform applies the transforms of the rule to a request to a target, which does not go on if one fails.
func (e *exchange) transform(out *http.Request) {
	steps := 0
	for _, r := range []*rewrite{e.rule.hostRegex, e.rule.urlRegex} {
		if r != nil {
			steps += r.size * (len(out.Host) + len(e.path) + len(out.URL.RawQuery))
		}
	}
	release, ok := e.takeTurn(steps)
	if !ok {
		return // nor does it go on to a target
	}
	defer release()
	if r := e.rule.hostRegex; r != nil {
		to, ok := r.apply(out.Host)
		switch {
		case !ok:
			e.transformed = transformTooLong
			return
		case to == out.Host:
		case !validHost(to): // net/http would send another one
			e.transformed = transformInvalidHost
			return
		default:
			out.Host, e.newHost, e.transformed = to, to, transformSuccess
		}
	}
	if r := e.rule.urlRegex; r != nil {
		uri := out.URL.EscapedPath()
		if out.URL.RawQuery != "" {
			uri += "?" + out.URL.RawQuery
		}
		text, ok := r.apply(uri)
		if !ok {
			e.transformed = transformTooLong
			return
		}
		if to, err := url.ParseRequestURI(text); err == nil && text != uri {
			e.newURI, e.transformed = text, transformSuccess
			out.URL.Path, out.URL.RawPath, out.URL.RawQuery = to.Path, to.RawPath, to.RawQuery
		}
	}
}
