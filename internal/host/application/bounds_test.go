package application

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/handshake"
	"github.com/coracle-eks/coracle/internal/host/headerfields"
)

// answerWith serves a target that answers each request with a text, and ends when the load balancer does.
func answerWith(t *testing.T, config *tls.Config, text string) Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if config != nil {
				c = tls.Server(c, config)
			}
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					if _, err := http.ReadRequest(in); err != nil {
						return
					}
					_, _ = io.WriteString(c, text)
				}
			}()
		}
	}()
	return targetAt(l.Addr())
}

// TestAnswersOfTargetsAreBounded has answers with as many header fields as there may be, and with more, which are not
// awaited to their end; with statuses that there are not; and with certificates that are too long.
func TestAnswersOfTargetsAreBounded(t *testing.T) {
	t.Parallel()
	certificate := newCertificate(t, "target")
	pair, err := tls.X509KeyPair([]byte(certificate.Chain), []byte(certificate.Key))
	if err != nil {
		t.Fatal(err)
	}
	long := tls.Certificate{PrivateKey: pair.PrivateKey,
		Certificate: [][]byte{pair.Certificate[0], make([]byte, handshake.MostOfServer)}}
	fields := func(number int) string {
		var all strings.Builder
		for i := range number {
			fmt.Fprintf(&all, "x%d:\r\n", i)
		}
		return all.String()
	}
	const begin, end = "HTTP/1.1 200 OK\r\n", "Content-Length: 0\r\n\r\n"
	for _, c := range []struct {
		name, text  string
		certificate *tls.Certificate
		want        int
	}{
		{"as many fields as may be", begin + fields(headerfields.Most-1) + end, nil, 200},
		{"more of them", begin + fields(headerfields.Most+1), nil, 502},
		{"more after an answer before", "HTTP/1.1 103 Early Hints\r\n\r\n" + begin + fields(headerfields.Most+1), nil, 502},
		{"more names of trailers", begin + "Transfer-Encoding: chunked\r\nTrailer: x" +
			strings.Repeat(",x", headerfields.Most+1), nil, 502},
		{"as many with TLS", begin + fields(headerfields.Most-1) + end, &pair, 200},
		{"more with TLS", begin + fields(headerfields.Most+1), &pair, 502},
		{"a long certificate", begin + end, &long, 502},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" + end, nil, 502},
		{"a status that there is not", "HTTP/1.1 042 OK\r\n" + end, nil, 502},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var config *tls.Config
			if c.certificate != nil {
				config = &tls.Config{Certificates: []tls.Certificate{*c.certificate}}
			}
			group := groupOf("g", answerWith(t, config, c.text))
			if config != nil {
				group.Protocol = "HTTPS"
			}
			client := newRig(t, forwarding(group)).client(false)
			client.Transport.(*http.Transport).MaxResponseHeaderBytes = 1 << 20
			for range 2 { // on the same connection, if it stays
				if answer, _ := get(t, client, "http://a.example/"); answer.StatusCode != c.want {
					t.Errorf("the client gets %d, want %d", answer.StatusCode, c.want)
				}
			}
		})
	}
}

// TestHandshakesOfClientsAreBounded has a client whose first message is too long.
func TestHandshakesOfClientsAreBounded(t *testing.T) {
	t.Parallel()
	rig := newRig(t, secure(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(fixed("x"))}},
		"a.example"))
	protocols := []string{"http/1.1"}
	for len(protocols) < handshake.MostOfClient/200 {
		protocols = append(protocols, strings.Repeat("x", 200))
	}
	for number, want := range map[int]bool{len(protocols) / 2: true, len(protocols): false} {
		c, err := tls.Dial("tcp", rig.address, &tls.Config{RootCAs: rig.roots, ServerName: "a.example",
			NextProtos: protocols[:number]})
		if (err == nil) != want {
			t.Errorf("a client with %d protocols: %v", number, err)
		}
		if err == nil {
			c.Close()
		}
	}
}

// TestAnswersOfHTTP2AreBounded has answers of HTTP/2 that announce few trailers and many.
func TestAnswersOfHTTP2AreBounded(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number, _ := strconv.Atoi(r.URL.Query().Get("trailers"))
		for i := range number {
			w.Header().Add("Trailer", fmt.Sprintf("X%d", i))
		}
		_, _ = io.WriteString(w, "x")
		w.Header().Set("X0", "there")
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	group := groupOf("g", targetAt(s.Listener.Addr()))
	group.Version = HTTP2
	client := newRig(t, secure(t, forwarding(group), "a.example")).client(true)
	for number, want := range map[int]int{2: 200, headerfields.Most + 1: 502} {
		answer, _ := get(t, client, fmt.Sprint("https://a.example/?trailers=", number))
		if answer.StatusCode != want || want == 200 && answer.Trailer.Get("X0") != "there" {
			t.Errorf("%d trailers: %s with %v, want %d", number, answer.Status, answer.Trailer, want)
		}
	}
}

// TestInformationalAnswersTakeNothing has a target that answers 103 first, and a request that is the last one of its
// connection.
func TestInformationalAnswersTakeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, forwarding(groupOf("g", serveTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "early")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Link", "late")
		_, _ = io.WriteString(w, "x")
	}))))
	got := r.raw("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	hints, answer, _ := strings.Cut(got, "\r\n\r\n")
	if !strings.Contains(hints, "Link: early") || strings.Contains(hints, "Connection") ||
		!strings.Contains(answer, "Connection: close") || !strings.Contains(answer, "Link: late") {
		t.Errorf("the answer is %q", got)
	}
}

// TestClientsMayGoOn has clients that ask whether they are to send a body. Nobody asks the target, which says something
// else first.
func TestClientsMayGoOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, forwarding(groupOf("g", serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %q", body, r.Header["Expect"])
	}))))
	const request = "POST / HTTP/1.%d\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n" +
		"Content-Length: %d\r\n\r\n%s"
	for _, c := range []struct {
		version   int
		body      string
		continues bool
	}{{1, "x", true}, {1, "", false}, {0, "x", false}} {
		got := r.raw(fmt.Sprintf(request, c.version, len(c.body), c.body))
		if continues := strings.HasPrefix(got, "HTTP/1.1 100 Continue\r\n\r\n"); continues != c.continues ||
			strings.Count(got, " 100 ") > 1 || !strings.HasSuffix(got, c.body+" []") {
			t.Errorf("HTTP/1.%d with the body %q: %q", c.version, c.body, got)
		}
	}
}

// headerAtWrite is an answer that keeps what its header has when it is written.
type headerAtWrite struct {
	http.ResponseWriter
	had []http.Header
}

func (h *headerAtWrite) WriteHeader(status int) {
	h.had = append(h.had, h.Header().Clone())
	h.ResponseWriter.WriteHeader(status)
}

// TestInformationalAnswersAreCopied writes 103 on HTTP/2 with the field without which net/http would not copy the
// header, and reads it while httputil changes it.
func TestInformationalAnswersAreCopied(t *testing.T) {
	t.Parallel()
	for h2, want := range map[bool]bool{true: true, false: false} {
		inner := &headerAtWrite{ResponseWriter: httptest.NewRecorder()}
		w := &writer{ResponseWriter: inner, e: &exchange{h2: h2}}
		w.Header().Set("Link", "early")
		w.WriteHeader(http.StatusEarlyHints)
		_, copied := inner.had[0]["Content-Length"]
		if _, left := w.Header()["Content-Length"]; copied != want || left || inner.had[0].Get("Link") != "early" {
			t.Errorf("with HTTP/2 %v the header is %v, and %v then", h2, inner.had[0], w.Header())
		}
	}
	r := newRig(t, secure(t, forwarding(groupOf("g", serveTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "early")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "x")
	}))), "a.example"))
	early := ""
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { early = fmt.Sprint(h); return nil }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://a.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := r.client(true).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if early != "map[Link:[early]]" || string(text) != "x" || answer.ProtoMajor != 2 {
		t.Errorf("the answer is %s, then %q, %v", early, text, err)
	}
}

// TestRewritesAreBounded has transforms and a redirect that repeat a part of the request hundreds of times.
func TestRewritesAreBounded(t *testing.T) {
	t.Parallel()
	many := &Rewrite{Regex: "^/(.*)$", Replace: "/" + strings.Repeat("$1", 511)}
	paths := func(values ...string) []Condition { return []Condition{{Field: FieldPath, Values: values}} }
	target := groupOf("g", serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host, len(r.RequestURI))
	}))
	r := newRig(t, Listener{AccessLog: true, Attributes: DefaultAttributes(), Groups: []TargetGroup{target}, Rules: []Rule{
		{Priority: "1", Conditions: paths("/redirect*"), Actions: []Action{{Redirect: &Redirect{Status: 302,
			Path: "/" + strings.Repeat("#{path}", 18)}}}},
		{Priority: "2", Conditions: paths("/host*"), Actions: []Action{forwardTo("g")},
			HostRewrite: &Rewrite{Regex: "^(.*)$", Replace: strings.Repeat("$1", 511)}},
		{Priority: "3", Conditions: paths("/bad*"), HostRewrite: &Rewrite{Regex: "^(.*)$", Replace: "$1 b"},
			Actions: []Action{forwardTo("g")}},
		{Priority: "default", URLRewrite: many, Actions: []Action{forwardTo("g")}},
	}})
	client := r.client(false)
	for i, c := range []struct{ url, want, status string }{
		{"http://a.example/0123456789", "200 a.example5111", "TransformSuccess"},
		{"http://a.example/" + strings.Repeat("x", 15<<10), "500 ", "TransformBufferTooSmall"},
		{"http://" + strings.Repeat("a", 200) + "/host", "500 ", "TransformBufferTooSmall"},
		{"http://a.example/bad", "500 ", "TransformInvalidHost"},
		{"http://a.example/redirect", "302 ", "-"},
		{"http://a.example/redirect" + strings.Repeat("x", 15<<10), "500 ", "-"},
	} {
		answer, text := get(t, client, c.url)
		if got := fmt.Sprint(answer.StatusCode, " ", text); !strings.HasPrefix(got, c.want) {
			t.Errorf("%.40s: %.200q, want %s", c.url, got, c.want)
		}
		entry := strings.Fields(r.logged(i))
		if got := entry[len(entry)-1]; got != c.status {
			t.Errorf("%.40s: the transform is logged as %s, want %s", c.url, got, c.status)
		}
	}
}
