package application

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Statuses that only load balancers have.
const (
	statusClientClosed   = 460
	statusForwardedFor   = 463
	statusIncompatible   = 464
	statusAuthentication = 561
)

// serverName is the Server of answers that the load balancer gives itself.
const serverName = "awselb/2.0"

// phrases are the titles of AWS's error pages.
var phrases = map[int]string{
	301: "Moved Permanently", 302: "Found",
	400: "Bad Request", 401: "Authorization Required", 403: "Forbidden", 404: "Not Found", 405: "Not Allowed",
	408: "Request Time-out", 413: "Request Entity Too Large", 414: "Request-URI Too Large",
	500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Temporarily Unavailable",
	504: "Gateway Time-out", 505: "HTTP Version Not Supported", 561: "Authentication Error",
}

// page returns the body of an answer that the load balancer gives itself; it is empty for statuses without one.
func page(status int) string {
	phrase, ok := phrases[status]
	if !ok {
		return ""
	}
	title := strconv.Itoa(status) + " " + phrase
	return "<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" + title +
		"</h1></center>\r\n</body>\r\n</html>\r\n"
}

// answerError answers with an error. If the answer has begun, it breaks it off.
func (e *exchange) answerError(status int) {
	if e.status != 0 {
		panic(http.ErrAbortHandler)
	}
	e.answerPage(status, "text/html", page(status))
}

// refuse answers with an error to a request that nothing has judged. With HTTP/2 that has no body: it would wait for
// the client to take it, with the request, which may be larger than what it counts for.
func (e *exchange) refuse(status int) {
	if e.h2 {
		e.answerPage(status, "", "")
		return
	}
	e.answerError(status)
}

// answerPage answers by the load balancer itself.
func (e *exchange) answerPage(status int, contentType, text string) {
	h := e.w.Header()
	h.Set("Server", serverName)
	if text != "" {
		h.Set("Content-Type", contentType)
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	e.w.WriteHeader(status)
	if text != "" && e.r.Method != http.MethodHead {
		_, _ = e.w.Write([]byte(text)) // the client may have gone
	}
}

// rawAnswer returns an answer to a request that could not be read, after which the connection ends.
func rawAnswer(status int, c *client) []byte {
	server := ""
	if c.server.state.Load().spec.Attributes.ServerHeader {
		server = "Server: " + serverName + "\r\n"
	}
	text := page(status)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n%sDate: %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n"+
		"Connection: close\r\n\r\n%s", status, phrases[status], server, time.Now().UTC().Format(http.TimeFormat), len(text),
		text)
}

// answerFixed performs an action fixed-response.
func (e *exchange) answerFixed(f FixedResponse) {
	contentType := f.ContentType
	if contentType == "" {
		contentType = "text/plain"
	}
	if strings.HasPrefix(contentType, "text/") {
		contentType += "; charset=utf-8"
	}
	e.answerPage(f.Status, contentType, f.Body)
}

// redirect performs an action redirect.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-action-types.html#redirect-actions
func (e *exchange) redirect(r Redirect) {
	to, ok := e.redirectURL(r)
	if !ok {
		e.answerError(http.StatusInternalServerError)
		return
	}
	e.location = to
	e.w.Header().Set("Location", e.location)
	e.answerPage(r.Status, "text/html", page(r.Status))
}

// redirectURL returns where a Redirect leads, unless a part of that becomes longer than a line of a request may be: a
// keyword may be in there many times.
func (e *exchange) redirectURL(r Redirect) (to string, ok bool) {
	protocol, host, port := e.state.protocol(), hostOf(e.r.Host), e.state.port
	path := strings.TrimPrefix(e.r.URL.EscapedPath(), "/")
	words := []string{"#{protocol}", protocol, "#{host}", host, "#{port}", port, "#{path}", path, "#{query}",
		e.r.URL.RawQuery}
	keywords, ok := strings.NewReplacer(words...), true
	replace := func(text string) string {
		length := len(text)
		for i := 0; i < len(words); i += 2 {
			length += strings.Count(text, words[i]) * len(words[i+1])
		}
		if length > maxLine+len(text) {
			ok = false
			return ""
		}
		return keywords.Replace(text)
	}
	part := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return replace(text)
	}
	query := e.r.URL.RawQuery
	if r.Query != nil {
		query = replace(*r.Query)
	}
	to = part(strings.ToLower(r.Protocol), protocol) + "://" + part(r.Host, host) + ":" + part(r.Port, port) +
		part(r.Path, "/"+path)
	if query != "" {
		to += "?" + query
	}
	return headerValue(to), ok
}

// headerValue returns a text without what may not be in a header.
func headerValue(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
}

// hostOf returns the host of a Host header without its port.
func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		if strings.Contains(h, ":") {
			return "[" + h + "]"
		}
		return h
	}
	return host
}
