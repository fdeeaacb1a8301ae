package application

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
)

func TestRulesAreTriedInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{
		{Priority: "1", Conditions: []Condition{{Field: FieldHost, Values: []string{"a.example"}},
			{Field: FieldPath, Values: []string{"/x/*"}}}, Actions: []Action{fixed("one")}},
		{Priority: "2", Conditions: []Condition{{Field: FieldPath, Values: []string{"/x/*"}}},
			Actions: []Action{forwardTo("g")}},
		defaultRule(fixed("default")),
	}, Groups: []TargetGroup{groupOf("g", say(t, "two"))}})
	c := r.client(false)
	for url, want := range map[string]string{
		"http://a.example/x/y": "one", "http://b.example/x/y": "two", "http://a.example/": "default",
	} {
		if _, text := get(t, c, url); text != want {
			t.Errorf("%s: %q, want %q", url, text, want)
		}
	}
}

func TestTargetsSeeTheClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		change  func(*Listener)
		headers []string
		want    map[string]string // by header; "^" begins an expression
	}{
		{"plain", nil, nil, map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http",
			"X-Forwarded-Port": "80", "X-Amzn-Trace-Id": `^Root=1-[0-9a-f]{8}-[0-9a-f]{24}$`, "Host": "a.example"}},
		{"with earlier addresses", nil, []string{"X-Forwarded-For", "192.0.2.1, 192.0.2.2", "X-Forwarded-Host", "h"},
			map[string]string{"X-Forwarded-For": "192.0.2.1, 192.0.2.2, 127.0.0.1", "X-Forwarded-Host": "h"}},
		{"with the port of the client", func(l *Listener) { l.Attributes.XFFPort = true }, nil,
			map[string]string{"X-Forwarded-For": `^127\.0\.0\.1:[0-9]+$`}},
		{"preserved", func(l *Listener) { l.Attributes.XFF = XFFPreserve }, []string{"X-Forwarded-For", "192.0.2.1"},
			map[string]string{"X-Forwarded-For": "192.0.2.1"}},
		{"removed", func(l *Listener) { l.Attributes.XFF = XFFRemove }, []string{"X-Forwarded-For", "192.0.2.1"},
			map[string]string{"X-Forwarded-For": ""}},
		{"traced", nil, []string{"X-Amzn-Trace-Id", "Root=1-67891233-abcdef012345678912345678;CalledFrom=app"},
			map[string]string{"X-Amzn-Trace-Id": `^Self=1-[0-9a-f]{8}-[0-9a-f]{24};` +
				`Root=1-67891233-abcdef012345678912345678;CalledFrom=app$`}},
		{"traced twice", nil, []string{"X-Amzn-Trace-Id", "Self=1-1-1;Root=1-2-2"},
			map[string]string{"X-Amzn-Trace-Id": `^Self=1-[0-9a-f]{8}-[0-9a-f]{24};Root=1-2-2$`}},
		{"with strange headers", nil, []string{"X_Y", "1"}, map[string]string{"X_Y": "1"}},
		{"without strange headers", func(l *Listener) { l.Attributes.DropInvalid = true }, []string{"X_Y", "1", "X-Z", "2"},
			map[string]string{"X_Y": "", "X-Z": "2"}},
		{"on another port", func(l *Listener) { l.Port = 8080 }, nil,
			map[string]string{"Host": "a.example:8080", "X-Forwarded-Port": "8080"}},
		{"with the Host as it is", func(l *Listener) { l.Port, l.Attributes.PreserveHost = 8080, true }, nil,
			map[string]string{"Host": "a.example"}},
		{"with another Host", func(l *Listener) {
			l.Rules[0].HostRewrite = &Rewrite{Regex: `^(\w+)\.example$`, Replace: "internal.$1.dev"}
		}, nil, map[string]string{"Host": "internal.a.dev"}},
		{"with another URL", func(l *Listener) {
			l.Rules[0].URLRewrite = &Rewrite{Regex: `^/api/(.*)$`, Replace: "/v2/$1&more"}
		}, nil, map[string]string{"URI": "/v2/a%20b?q=1;2&more"}},
		{"with its URL", nil, nil, map[string]string{"URI": "/api/a%20b?q=1;2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Pointer[http.Request]
			spec := forwarding(groupOf("g", serveTarget(t, func(_ http.ResponseWriter, r *http.Request) {
				r.Header.Set("Host", r.Host)
				r.Header.Set("URI", r.RequestURI)
				seen.Store(r)
			})))
			if c.change != nil {
				c.change(&spec)
			}
			get(t, newRig(t, spec).client(false), "http://a.example/api/a%20b?q=1;2", c.headers...)
			for name, want := range c.want {
				got := strings.Join(seen.Load().Header[http.CanonicalHeaderKey(name)], "|")
				if name == "URI" {
					got = seen.Load().Header.Get("URI")
				}
				if strings.HasPrefix(want, "^") && regexp.MustCompile(want).MatchString(got) {
					continue
				}
				if got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	empty, query := "", "a=#{path}&#{query}"
	for _, c := range []struct {
		redirect  Redirect
		url, want string
	}{
		{Redirect{Protocol: "HTTPS", Port: "443", Host: "#{host}", Path: "/#{path}", Status: 301}, "http://a.example/b?c=d",
			"https://a.example:443/b?c=d"},
		{Redirect{Protocol: "#{protocol}", Port: "#{port}", Path: "/new/#{path}", Status: 302}, "http://a.example:80/b/c",
			"http://a.example:80/new/b/c"},
		{Redirect{Host: "www.#{host}", Query: &empty, Status: 302}, "http://a.example/b?c", "http://www.a.example:80/b"},
		{Redirect{Host: "b", Query: &query, Status: 302}, "http://a.example/p?q=r", "http://b:80/p?a=p&q=r"},
	} {
		rig := newRig(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(Action{Redirect: &c.redirect})}})
		answer, text := get(t, rig.client(false), c.url)
		if got := answer.Header.Get("Location"); got != c.want || answer.StatusCode != c.redirect.Status {
			t.Errorf("%v: %d to %s, want to %s", c.redirect, answer.StatusCode, got, c.want)
		}
		if !strings.Contains(text, fmt.Sprint("<h1>", c.redirect.Status, " ")) || answer.Header.Get("Server") != serverName {
			t.Errorf("the answer is %q of %q", text, answer.Header.Get("Server"))
		}
	}
}

func TestFixedResponse(t *testing.T) {
	t.Parallel()
	rig := newRig(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{
		{Priority: "1", Conditions: []Condition{{Field: FieldPath, Values: []string{"/json"}}}, Actions: []Action{
			{FixedResponse: &FixedResponse{Status: 418, ContentType: "application/json", Body: "{}"}}}},
		defaultRule(Action{FixedResponse: &FixedResponse{Status: 503}}),
	}})
	c := rig.client(false)
	answer, text := get(t, c, "http://a/json")
	if answer.StatusCode != 418 || text != "{}" || answer.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the answer is %d %q %v", answer.StatusCode, text, answer.Header)
	}
	if answer, text := get(t, c, "http://a/"); answer.StatusCode != 503 || text != "" {
		t.Errorf("the answer is %d %q", answer.StatusCode, text)
	}
}

// TestErrors has AWS's errors under AWS's conditions.
func TestErrors(t *testing.T) {
	t.Parallel()
	reset := func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		c.(*net.TCPConn).SetLinger(0) //nolint:errcheck // it is closed
		c.Close()
	}
	answering := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer c.Close()
			_, _ = io.WriteString(c, text)
		}
	}
	reads := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	timeout := func(context.Context, netip.AddrPort) (net.Conn, error) { return nil, context.DeadlineExceeded }
	group := func(target func(testing.TB) Target, change ...func(*Listener)) func(testing.TB) Listener {
		return func(t testing.TB) Listener {
			g := groupOf("g")
			if target != nil {
				g.Targets = []Target{target(t)}
			}
			spec := forwarding(g)
			for _, f := range change {
				f(&spec)
			}
			return spec
		}
	}
	handled := func(h http.HandlerFunc) func(testing.TB) Target {
		return func(t testing.TB) Target { return serveTarget(t, h) }
	}
	ok := handled(func(http.ResponseWriter, *http.Request) {})
	const simple = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	version := func(v string) func(*Listener) { return func(l *Listener) { l.Groups[0].Version = v } }
	brief := func(l *Listener) { l.Attributes.Idle = 1 }
	strictest := func(l *Listener) { l.Attributes.Desync = DesyncStrictest }
	for _, c := range []struct {
		name    string
		spec    func(testing.TB) Listener
		request string
		want    string
		options []func(*Options)
	}{
		{"malformed", group(ok), "GET / HTTP/1.1\r\nHost: a\r\nbad\r\n\r\n", "400 Bad Request", nil},
		{"no Host", group(ok), "GET / HTTP/1.1\r\n\r\n", "400 Bad Request", nil},
		{"long header", group(ok), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: " + strings.Repeat("x", 16<<10) +
			"\r\n\r\n", "400 Bad Request", nil},
		{"long headers", group(ok), "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: "+strings.Repeat("x", 8<<10)+"\r\n",
			9) + "\r\n", "400 Bad Request", nil},
		{"long URL", group(ok), "GET /" + strings.Repeat("x", 16<<10) + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
			"414 Request-URI Too Large", nil},
		{"TRACE", group(ok), "TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "405 Not Allowed", nil},
		{"30 addresses", group(ok), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: 192.0.2.1" +
			strings.Repeat(", 192.0.2.1", 29) + "\r\n\r\n", "200", nil},
		{"31 addresses", group(ok), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: 192.0.2.1" +
			strings.Repeat(", 192.0.2.1", 30) + "\r\n\r\n", "463", nil},
		{"transfer encoding", group(ok), "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
			"501 Not Implemented", nil},
		{"HTTP/2 without TLS", group(ok), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505 HTTP Version Not Supported", nil},
		{"HTTP/1.1 for HTTP/2", group(ok, version(HTTP2)), simple, "464", nil},
		{"HTTP/1.1 for gRPC", group(ok, version(GRPC)), simple, "464", nil},
		{"GET with a body, strictest", group(ok, strictest), "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
			"400 Bad Request", nil},
		{"GET with a body", group(ok), "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", "200", nil},
		{"no target", group(nil), simple, "503 Service Temporarily Unavailable", nil},
		{"refused", group(deadTarget), simple, "502 Bad Gateway", nil},
		{"reset", group(handled(reset)), simple, "502 Bad Gateway", nil},
		{"no HTTP", group(handled(answering("220 mail ready\r\n"))), simple, "502 Bad Gateway", nil},
		{"long headers of a target", group(handled(answering("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 33<<10) +
			"\r\n\r\n"))), simple, "502 Bad Gateway", nil},
		{"no connection", group(ok), simple, "504 Gateway Time-out", []func(*Options){func(o *Options) { o.Dial = timeout }}},
		{"a silent target", group(handled(silent), brief), simple, "504 Gateway Time-out", nil},
		{"a silent client", group(handled(reads), brief), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx",
			"408 Request Time-out", nil},
		{"half a request", group(ok, brief), "GET / HTTP/1.1\r\nHos", "408 Request Time-out", nil},
		{"no connection left", group(ok), simple, "503 Service Temporarily Unavailable", []func(*Options){func(o *Options) {
			o.Acquire = func(netip.Addr) (func(), bool) { return nil, false }
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := newRig(t, c.spec(t), c.options...).raw(c.request)
			if !strings.HasPrefix(text, "HTTP/1.1 "+c.want[:3]) {
				t.Fatalf("the answer is %.200q, want %s", text, c.want)
			}
			if c.want == "200" {
				return
			}
			if !strings.Contains(text, "Server: awselb/2.0\r\n") {
				t.Errorf("the answer is not AWS's: %.200q", text)
			}
			if len(c.want) > 3 && !strings.Contains(text, "<center><h1>"+c.want+"</h1></center>") {
				t.Errorf("the answer is %q, want %s", text, c.want)
			}
		})
	}
}

func TestTargetsThatAcceptNothingArePassedOver(t *testing.T) {
	t.Parallel()
	rig := newRig(t, forwarding(groupOf("g", deadTarget(t), deadTarget(t), serveTarget(t, func(w http.ResponseWriter,
		r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))))
	c := rig.client(false)
	for range 6 {
		r, err := http.NewRequest(http.MethodPost, "http://a/", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		if answer, text := do(t, c, r); answer.StatusCode != 200 || text != "body" {
			t.Errorf("the answer is %d %q", answer.StatusCode, text)
		}
	}
}

func TestRequestsToATargetThatFailsAreNotRepeated(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	broken := func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
		panic(http.ErrAbortHandler)
	}
	rig := newRig(t, forwarding(groupOf("g", serveTarget(t, broken), serveTarget(t, broken))))
	r, err := http.NewRequest(http.MethodPost, "http://a/", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if answer, _ := do(t, rig.client(false), r); answer.StatusCode != 502 || requests.Load() != 1 {
		t.Errorf("the answer is %d after %d requests", answer.StatusCode, requests.Load())
	}
}

// TestUpdateLosesNoRequest changes targets, rules and the idle timeout while clients send requests.
func TestUpdateLosesNoRequest(t *testing.T) {
	t.Parallel()
	spec := forwarding(groupOf("g", say(t, "a")))
	rig := newRig(t, spec)
	spec.Secret, spec.Port = rig.spec.Secret, 80
	targets := []Target{say(t, "a"), say(t, "b"), say(t, "c")}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var sent atomic.Int64
	for i := range 8 {
		c := rig.client(false)
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := http.NewRequest(http.MethodPost, "http://a/", strings.NewReader("x"))
				if err != nil {
					t.Error(err)
					return
				}
				r.Close = i%2 == 0
				answer, err := c.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				text, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if answer.StatusCode != 200 || err != nil || len(text) != 1 {
					t.Errorf("the answer is %d %q %v", answer.StatusCode, text, err)
					return
				}
				sent.Add(1)
			}
		})
	}
	for i := range 200 {
		next := spec
		next.Attributes.Idle = 60 + i%3
		g := groupOf("g", targets[i%3], targets[(i+1)%3])
		g.Keeping = []netip.AddrPort{targets[(i+2)%3].Address, spec.Groups[0].Targets[0].Address}
		next.Groups = []TargetGroup{g}
		if i%5 == 0 {
			next.Rules = []Rule{defaultRule(fixed("x"))}
		}
		if err := rig.Update(next); err != nil {
			t.Fatal(err)
		}
		before := sent.Load()
		eventually.True(t, "requests go on", func() bool { return sent.Load() > before+8 || t.Failed() })
	}
	close(stop)
	clients.Wait()
}

func TestRequestsToDeregisteredTargetsEnd(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}, 2), make(chan struct{})
	slow := serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-goOn:
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})
	rig := newRig(t, forwarding(groupOf("g", slow)))
	answers := make(chan string, 2)
	ask := func() {
		answer, err := rig.client(false).Get("http://a/")
		if err != nil {
			answers <- err.Error()
			return
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		answers <- fmt.Sprintf("%d %.4s", answer.StatusCode, text)
	}
	update := func(keeping ...netip.AddrPort) {
		next := rig.spec
		g := groupOf("g", say(t, "other"))
		g.Keeping = keeping
		next.Groups = []TargetGroup{g}
		if err := rig.Update(next); err != nil {
			t.Fatal(err)
		}
	}
	go ask()
	<-arrived
	update(slow.Address) // it is draining: others get new requests
	if _, text := get(t, rig.client(false), "http://a/"); text != "other" {
		t.Errorf("a request leads to %q", text)
	}
	close(goOn)
	if text := <-answers; text != "200 done" {
		t.Errorf("the request to a draining target ends with %q", text)
	}

	goOn = make(chan struct{})
	if err := rig.Update(rig.spec); err != nil {
		t.Fatal(err)
	}
	go ask()
	<-arrived
	update() // its time of draining is over
	if text := <-answers; !strings.HasPrefix(text, "502 ") {
		t.Errorf("the request to a deregistered target ends with %q", text)
	}
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	target := serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
			t.Errorf("the target is asked for %v", r.Header)
		}
		c, b, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, b)
	})
	rig := newRig(t, forwarding(groupOf("g", target)))
	c, err := net.Dial("tcp", rig.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	b := bufio.NewReader(c)
	answer, err := http.ReadResponse(b, nil)
	if err != nil || answer.StatusCode != 101 {
		t.Fatalf("the answer is %v: %v", answer, err)
	}
	for _, word := range []string{"one\n", "two\n"} {
		_, _ = io.WriteString(c, word)
		if line, err := b.ReadString('\n'); line != word {
			t.Fatalf("got %q: %v", line, err)
		}
	}
	// The idle timeout and the end of the server end it, too.
	rig.Close()
	if _, err := b.ReadByte(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the connection goes on: %v", err)
	}
}

// TestTheBodyOfASlowTargetComesAtOnce has an answer of which a part is written.
func TestTheBodyOfASlowTargetComesAtOnce(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	rig := newRig(t, forwarding(groupOf("g", serveTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, "second\n")
	}))))
	answer, err := rig.client(false).Get("http://a/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b := bufio.NewReader(answer.Body)
	if line, err := b.ReadString('\n'); line != "first\n" {
		t.Fatalf("got %q: %v", line, err)
	}
	close(goOn)
	if line, err := b.ReadString('\n'); line != "second\n" {
		t.Fatalf("got %q: %v", line, err)
	}
}

func TestAttributesOfListeners(t *testing.T) {
	t.Parallel()
	spec := forwarding(groupOf("g", serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "target")
		w.Header().Set("X-Frame-Options", "ALLOW")
		_, _ = io.WriteString(w, r.Header.Get("X-Version"))
	})))
	spec.Rules = append([]Rule{{Priority: "1", Conditions: []Condition{{Field: FieldPath, Values: []string{"/fixed"}}},
		Actions: []Action{fixed("x")}}}, spec.Rules...)
	spec.Attributes.TLSHeaders = true
	spec.Attributes.RequestNames = map[string]string{"X-Amzn-Tls-Version": "X-Version"}
	spec.Attributes.ResponseHeaders = map[string]string{"X-Frame-Options": "DENY"}
	c := newRig(t, secure(t, spec, "a.example")).client(false)
	answer, text := get(t, c, "https://a.example/")
	if text != "TLSv1.3" || answer.Header.Get("Server") != "target" || len(answer.Header["X-Frame-Options"]) != 1 ||
		answer.Header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("the answer is %q with %v", text, answer.Header)
	}
	if answer, _ := get(t, c, "https://a.example/fixed"); answer.Header.Get("Server") != serverName ||
		answer.Header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("the answer has %v", answer.Header)
	}
	spec.Attributes.ServerHeader = false
	c = newRig(t, secure(t, spec, "a.example")).client(false)
	if answer, _ := get(t, c, "https://a.example/fixed"); answer.Header.Get("Server") != "" {
		t.Errorf("the answer has %v", answer.Header)
	}
}
