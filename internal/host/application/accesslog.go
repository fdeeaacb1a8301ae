package application

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/logs/vended"
)

// logTime is the form of times in access logs.
const logTime = "2006-01-02T15:04:05.000000Z"

// maxUserAgent is the length at which a User-Agent is cut off in access logs.
const maxUserAgent = 8 << 10

// logs reports whether access logs are enabled.
func (s *Server) logs(st *state) bool { return s.o.AccessLog != nil && st.spec.AccessLog }

// entry is an entry of the access log, with its fields in order.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
type entry struct{ strings.Builder }

// add adds a field; "-" where it is empty.
func (b *entry) add(field string) {
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if field == "" {
		field = "-"
	}
	b.WriteString(field)
}

// quote adds a field in quotes.
func (b *entry) quote(field string) {
	if field == "" {
		field = "-"
	}
	b.add(`"` + vended.Escape(field) + `"`)
}

// logUnread logs a request that could not be read.
func (s *Server) logUnread(c *client, status int) {
	st := s.state.Load()
	if !s.logs(st) {
		return
	}
	now := time.Now().UTC().Format(logTime)
	kind := st.protocol()
	b := new(entry)
	for _, field := range []string{kind, now, st.spec.Log, c.address.String(), "-", "-1", "-1", "-1",
		strconv.Itoa(status), "-", strconv.FormatInt(c.read.Load(), 10), strconv.FormatInt(c.written.Load(), 10),
		`"- ` + kind + `://` + c.address.Addr().String() + `:` + st.port + `- -"`, `"-"`} {
		b.add(field)
	}
	b.addTLS(c)
	b.add("-")
	b.quote("")
	b.addCertificate(c)
	for _, field := range []string{"-", now, `"-"`, `"-"`, `"-"`, `"-"`, `"-"`, `"-"`, `"-"`, c.trace(), `"-"`, `"-"`,
		"-"} {
		b.add(field)
	}
	s.o.AccessLog(b.String())
}

// addTLS adds the cipher and the protocol.
func (b *entry) addTLS(c *client) {
	if c.tls == nil {
		b.add("-")
		b.add("-")
		return
	}
	b.add(cipherName(c.tls.CipherSuite))
	b.add(versionName(c.tls.Version))
}

// addCertificate adds the name that the client asked for, and the certificate that it was shown.
func (b *entry) addCertificate(c *client) {
	name, arn := "", ""
	if c.tls != nil {
		if c.named {
			name = c.tls.ServerName
		}
		if arn = c.certificate; c.tls.DidResume {
			arn = "session-reused"
		}
	}
	b.quote(name)
	b.quote(arn)
}

// trace returns the identifier of the connection in logs.
func (c *client) trace() string { return fmt.Sprintf("TID_%016x%016x", c.id[0], c.id[1]) }

// kind returns the type of the request.
func (e *exchange) kind() string {
	kind := "http"
	switch {
	case e.isGRPC():
		return "grpcs"
	case e.r.ProtoMajor == 2:
		return "h2"
	case e.upgraded.Load():
		kind = "ws"
	}
	if e.state.https {
		kind += "s"
	}
	return kind
}

// priority returns the priority of the rule that the request matched.
func (e *exchange) priority() string {
	switch {
	case e.rule == nil:
		return ""
	case e.rule.spec.Priority == "default":
		return "0"
	}
	return e.rule.spec.Priority
}

// log logs the exchange.
func (e *exchange) log() {
	if !e.server.logs(e.state) {
		return
	}
	now, r := time.Now(), e.r
	b := new(entry)
	b.add(e.kind())
	b.add(now.UTC().Format(logTime))
	b.add(e.state.spec.Log)
	b.add(e.client.address.String())
	at, code := "", ""
	if e.target != nil {
		at = e.target.host
	}
	if e.targetStatus != 0 {
		code = strconv.Itoa(e.targetStatus)
	}
	b.add(at)
	b.add(seconds(e.sent.Sub(e.began), e.reached))
	b.add(seconds(e.headed.Sub(e.sent), e.reached))
	b.add(seconds(now.Sub(e.headed), e.reached))
	b.add(strconv.Itoa(e.status))
	b.add(code)
	received, sent := headerSize(r.Header)+len(r.Method)+len(r.RequestURI)+len(r.Host)+20, headerSize(e.w.Header())+20
	if e.upgraded.Load() {
		received, sent = int(e.client.read.Load()), int(e.client.written.Load())
	}
	b.add(strconv.FormatInt(int64(received)+e.received.Load(), 10))
	b.add(strconv.FormatInt(int64(sent)+e.written, 10))
	b.quote(r.Method + " " + e.state.protocol() + "://" + hostOf(r.Host) + ":" + e.state.port + r.URL.RequestURI() +
		" " + r.Proto)
	agent := r.UserAgent()
	b.quote(agent[:min(len(agent), maxUserAgent)])
	b.addTLS(e.client)
	arn := ""
	if e.group != nil {
		arn = e.group.spec.ARN
	}
	b.add(arn)
	b.quote(e.trace)
	b.addCertificate(e.client)
	b.add(e.priority())
	b.add(e.began.UTC().Format(logTime))
	b.quote(strings.Join(e.actions, ","))
	b.quote(e.location)
	b.quote(e.reason)
	b.quote(at)
	b.quote(code)
	b.quote(e.class)
	b.quote(e.classReason)
	b.add(e.client.trace())
	b.quote(e.newHost)
	b.quote(e.newURI)
	b.add(e.transformed)
	e.server.o.AccessLog(b.String())
}

// headerSize returns the size of headers in bytes.
func headerSize(h http.Header) (n int) {
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(value) + 4
		}
	}
	return n
}

// seconds returns a time as access logs have it; -1 for none.
func seconds(d time.Duration, ok bool) string {
	if !ok {
		return "-1"
	}
	return strconv.FormatFloat(max(d, 0).Seconds(), 'f', 3, 64)
}
