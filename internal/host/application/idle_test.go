package application

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// TestIdleConnectionsEnd has each kind of connection on which nothing happens.
func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	upgrade := func(w http.ResponseWriter, _ *http.Request) {
		c, b, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(io.Discard, b)
	}
	half := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		request string
		want    string
	}{
		{"nothing is asked", half, "", ""},
		{"WebSocket", upgrade, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
			"HTTP/1.1 101 "},
		{"half an answer", half, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 "},
		{"between requests", func(http.ResponseWriter, *http.Request) {}, "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
			"HTTP/1.1 200 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := forwarding(groupOf("g", serveTarget(t, c.handler)))
			spec.Attributes.Idle = 1
			rig := newRig(t, spec)
			conn, err := net.Dial("tcp", rig.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, c.request)
			text, err := io.ReadAll(conn)
			if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
				t.Fatal("the connection goes on")
			}
			if !strings.HasPrefix(string(text), c.want) || c.want == "" && len(text) > 0 {
				t.Errorf("the client gets %q", text)
			}
		})
	}
}

// TestBodiesThatAreNotSent has a client that closes its half of the connection within a body.
func TestBodiesThatAreNotSent(t *testing.T) {
	t.Parallel()
	rig := newRig(t, forwarding(groupOf("g", serveTarget(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))))
	c, err := net.Dial("tcp", rig.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
	_ = c.(*net.TCPConn).CloseWrite()
	if text, _ := io.ReadAll(c); !strings.HasPrefix(string(text), "HTTP/1.1 400 ") {
		t.Errorf("the client gets %q", text)
	}
}

func TestConnectionsOfClientsEndAfterTheirTime(t *testing.T) {
	t.Parallel()
	spec := Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(fixed("x"))}}
	for h2, rig := range map[bool]*rig{false: newRig(t, spec), true: newRig(t, secure(t, spec, "a.example"))} {
		url := map[bool]string{false: "http://a.example/", true: "https://a.example/"}[h2]
		next := rig.spec
		next.Attributes.KeepAlive = 0 // for ever
		ports := map[string]bool{}
		c := rig.client(h2)
		ask := func() {
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
				ports[i.Conn.LocalAddr().String()] = true
			}})
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			do(t, c, r)
		}
		if err := rig.Update(next); err != nil {
			t.Fatal(err)
		}
		ask()
		ask()
		if len(ports) != 1 {
			t.Errorf("two requests take %d connections", len(ports))
		}
		rig.passed.Store(int64(time.Hour + time.Second))
		if err := rig.Update(rig.spec); err != nil {
			t.Fatal(err)
		}
		ask() // the last one of its connection
		ask()
		if len(ports) != 2 {
			t.Errorf("a request after the time of its connection takes one of %d", len(ports))
		}
	}
}

// TestClientsThatDoNotRead has a client that takes nothing of an answer without an end.
func TestClientsThatDoNotRead(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		ended := make(chan struct{})
		spec := forwarding(groupOf("g", serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		})))
		spec.Attributes.Idle = 1
		rig := newRig(t, secure(t, spec, "a.example"))
		answer, err := rig.client(h2).Get("https://a.example/")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		<-ended
	}
}

// TestClientsThatReadNoAnswersEnd has a client that asks for short answers, one after the other, and takes none.
func TestClientsThatReadNoAnswersEnd(t *testing.T) {
	t.Parallel()
	spec := Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(fixed(strings.Repeat("x", 1024)))}}
	spec.Attributes.Idle = 1
	c, err := net.Dial("tcp", newRig(t, spec).address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = io.WriteString(c, strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 100))
	}
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Error("the connection goes on")
	}
}

// TestClientsThatDoNotReadHoldUpNoOthers has clients that take nothing of answers without an end, which all come by one
// connection from the target.
func TestClientsThatDoNotReadHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	var written atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.URL.Path == "/large" {
			n, err := w.Write(make([]byte, 16<<10))
			if written.Add(int64(n)); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, "small")
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	group := groupOf("g", targetAt(s.Listener.Addr()))
	group.Version = HTTP2
	rig := newRig(t, secure(t, forwarding(group), "a.example"))
	for range 16 {
		c := rig.client(true)
		c.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
		answer, err := c.Get("https://a.example/large")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
	}
	last, same := int64(0), 0
	eventually.True(t, "nothing more is sent", func() bool {
		if now := written.Load(); now != last {
			last, same = now, 0
		}
		same++
		return same > 10
	})
	if _, text := get(t, rig.client(true), "https://a.example/small"); text != "small" {
		t.Errorf("another client gets %q", text)
	}
}

// TestIdleConnectionsMakePlace has a load balancer that may have one connection to a target.
func TestIdleConnectionsMakePlace(t *testing.T) {
	t.Parallel()
	spec := forwarding(groupOf("one", say(t, "one")))
	spec.Groups = append(spec.Groups, groupOf("two", say(t, "two")))
	spec.Rules = append([]Rule{{Priority: "1", Conditions: []Condition{{Field: FieldPath, Values: []string{"/two"}}},
		Actions: []Action{forwardTo("two")}}}, spec.Rules...)
	var open atomic.Int64
	rig := newRig(t, spec, func(o *Options) {
		o.Acquire = func(netip.Addr) (func(), bool) {
			if open.Add(1) > 1 {
				open.Add(-1)
				return nil, false
			}
			return func() { open.Add(-1) }, true
		}
	})
	c := rig.client(false)
	get(t, c, "http://a.example/one")
	eventually.True(t, "a connection for another target", func() bool {
		_, text := get(t, c, "http://a.example/two")
		return text == "two"
	})
}

// BenchmarkIdleListeners measures what a listener takes on which nothing happens.
func BenchmarkIdleListeners(b *testing.B) {
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := memory()
	spec := forwarding(groupOf("g", say(b, "a")))
	for b.Loop() {
		newRig(b, spec)
	}
	b.ReportMetric(float64(memory()-before)/float64(b.N)/1024, "KiB/listener")
}
