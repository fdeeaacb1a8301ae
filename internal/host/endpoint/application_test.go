//go:build linux

package endpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/handshake"
	"github.com/coracle-eks/coracle/internal/host/application"
	"github.com/coracle-eks/coracle/internal/host/headerfields"
)

// server serves HTTP in the load balancer's namespace, with TLS or without.
func (b balancerRig) server(secure bool, handler http.HandlerFunc) (
	address string, certificate application.Certificate) {
	b.t.Helper()
	l, err := Listen(b.t.Context(), b.lb, "tcp4", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handler)
	s.Listener.Close()
	s.Listener = l
	if secure {
		s.StartTLS()
		pair := s.TLS.Certificates[0]
		key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
		if err != nil {
			b.t.Fatal(err)
		}
		certificate = application.Certificate{ARN: "arn",
			Chain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
			Key:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))}
	} else {
		s.Start()
	}
	b.t.Cleanup(s.Close)
	return l.Addr().String(), certificate
}

// browser returns an HTTP client whose connections all lead to the load balancer.
func (b balancerRig) browser() *http.Client {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return dial(b.t, b.client, net.Dialer{}, balancerAddress)
		},
	}
	b.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: eventually.Limit}
}

func (b balancerRig) get(c *http.Client, url string) string {
	b.t.Helper()
	answer, err := c.Get(url)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprintf("%s %d %s", answer.Proto, answer.StatusCode, text)
}

func TestApplicationLoadBalancer(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	_, certificate := b.server(true, nil)
	target, _ := b.server(false, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-For"), " ", r.Header.Get("X-Forwarded-Proto"))
	})
	listener := application.Listener{Port: 80, Secret: bytes.Repeat([]byte{1}, 32),
		Attributes: application.DefaultAttributes(),
		Groups: []application.TargetGroup{{ID: "g", Protocol: "HTTP", Version: application.HTTP1,
			Targets: []application.Target{{Address: netip.MustParseAddrPort(target)}}}},
		Rules: []application.Rule{{Priority: "default", Actions: []application.Action{{Forward: &application.Forward{
			Groups: []application.WeightedGroup{{ID: "g", Weight: 1}}}}}}}}
	spec := b.spec()
	spec.Application = &listener
	b.apply(spec)
	c := b.browser()
	if got := b.get(c, "http://a.example/"); got != "HTTP/1.1 200 10.0.0.10 http" {
		t.Errorf("the answer is %q", got)
	}
	// It becomes one of HTTPS, and a connection that is open stays.
	secure := listener
	secure.Port, secure.TLS = 443, &application.TLS{Certificates: []application.Certificate{certificate}}
	spec.Application = &secure
	b.apply(spec)
	if got := b.get(c, "https://a.example/"); got != "HTTP/2.0 200 10.0.0.10 https" {
		t.Errorf("the answer is %q", got)
	}
	if got := b.get(c, "http://a.example/"); got != "HTTP/1.1 200 10.0.0.10 https" {
		t.Errorf("on the connection that was open, the answer is %q", got)
	}
	// What the process reads has private keys.
	info, err := os.Stat(configFile(b.dir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the configuration is %v: %v", info.Mode(), err)
	}
}

func TestTLSListeners(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	secure, certificate := b.server(true, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "secure ", r.Header.Get("X-Forwarded-Proto"))
	})
	plain, _ := b.server(false, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "plain ", r.Header.Get("X-Forwarded-Proto"))
	})
	for _, c := range []struct {
		http, targetTLS bool
		want            string
	}{
		{false, false, "HTTP/1.1 200 plain "}, {false, true, "HTTP/1.1 200 secure "},
		{true, false, "HTTP/1.1 200 plain https"}, {true, true, "HTTP/1.1 200 secure https"},
	} {
		spec := b.spec(plain)
		if c.targetTLS {
			spec = b.spec(secure)
		}
		spec.HTTP, spec.TargetTLS = c.http, c.targetTLS
		spec.TLS = &application.TLS{Certificates: []application.Certificate{certificate}}
		b.apply(spec)
		if got := b.get(b.browser(), "https://a.example/"); got != c.want {
			t.Errorf("HTTP %v, TLS to targets %v: the answer is %q, want %q", c.http, c.targetTLS, got, c.want)
		}
	}
	// A client that says nothing, or no TLS, ends, and takes nothing from others.
	conn, err := dial(t, b.client, net.Dialer{}, balancerAddress)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(eventually.Limit))
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if text, _ := io.ReadAll(conn); bytes.Contains(text, []byte("200")) {
		t.Errorf("without TLS a client gets %q", text)
	}
}

// TestAnswersOfTargetsAreBounded has answers with few header fields and with many, and requests for what a Classic Load
// Balancer does not forward.
func TestAnswersOfTargetsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	for _, secure := range []bool{false, true} {
		target, _ := b.server(secure, func(w http.ResponseWriter, r *http.Request) {
			number, _ := strconv.Atoi(r.URL.Query().Get("fields"))
			for i := range number {
				w.Header().Set(fmt.Sprintf("A%d", i), "")
			}
			if r.URL.Query().Has("trailers") {
				w.Header().Set("Trailer", "x"+strings.Repeat(",x", headerfields.Most+1))
				w.(http.Flusher).Flush()
			}
			fmt.Fprint(w, r.Header.Get("Upgrade"), r.Header["X_forwarded_for"])
		})
		spec := b.spec(target)
		spec.HTTP, spec.TargetTLS = true, secure
		b.apply(spec)
		c := b.browser()
		for number, want := range map[int]int{headerfields.Most / 2: 200, headerfields.Most + 1: 502} {
			if answer := b.get(c, fmt.Sprint("http://a.example/?fields=", number)); !strings.HasPrefix(answer,
				fmt.Sprint("HTTP/1.1 ", want)) {
				t.Errorf("an answer with %d fields, TLS %v: %s, want %d", number, secure, answer, want)
			}
		}
		if answer := b.get(c, "http://a.example/?trailers"); !strings.HasPrefix(answer, "HTTP/1.1 502") {
			t.Errorf("an answer that announces too many trailers, TLS %v: %s, want 502", secure, answer)
		}
		conn, err := dial(t, b.client, net.Dialer{Timeout: eventually.Limit}, balancerAddress)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(eventually.Limit))
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n"+
			"X_Forwarded_For: 1\r\n\r\n")
		if text, _ := io.ReadAll(conn); !bytes.HasSuffix(text, []byte("\r\n\r\n[]")) {
			t.Errorf("the target is asked for another protocol, or told another client: %s", text)
		}
	}
}

// TestIdleRequestsEnd has a Classic Load Balancer whose clients and targets stop in the middle.
func TestIdleRequestsEnd(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	ended := make(chan struct{}, 1)
	target, _ := b.server(false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/half":
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "half")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/large":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					break
				}
			}
			ended <- struct{}{}
		default:
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
	})
	spec := b.spec(target)
	spec.HTTP, spec.Idle = true, 1
	b.apply(spec)
	send := func(request string) net.Conn {
		conn, err := dial(t, b.client, net.Dialer{Timeout: eventually.Limit}, balancerAddress)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(eventually.Limit))
		fmt.Fprint(conn, request)
		return conn
	}
	for request, want := range map[string]string{
		"GET /half HTTP/1.1\r\nHost: a\r\n\r\n":                    "HTTP/1.1 200 ",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx": "HTTP/1.1 408 ",
	} {
		text, err := io.ReadAll(send(request))
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%q: the connection goes on", request)
		}
		if !bytes.HasPrefix(text, []byte(want)) {
			t.Errorf("%q: %q, want %s", request, text, want)
		}
	}
	defer send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n").Close()
	<-ended // the client takes nothing of it
}

// TestHandshakesOfClientsAreBounded has clients of each kind of listener with TLS whose first message is too long.
func TestHandshakesOfClientsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	target, _ := b.server(false, func(http.ResponseWriter, *http.Request) {})
	_, certificate := b.server(true, nil)
	protocols := make([]string, handshake.MostOfClient/200)
	for i := range protocols {
		protocols[i] = strings.Repeat("x", 200)
	}
	for _, http := range []bool{false, true} {
		spec := b.spec(target)
		spec.HTTP, spec.TLS = http, &application.TLS{Certificates: []application.Certificate{certificate}}
		b.apply(spec)
		for number, want := range map[int]bool{len(protocols) / 2: true, len(protocols): false} {
			conn, err := dial(t, b.client, net.Dialer{Timeout: eventually.Limit}, balancerAddress)
			if err != nil {
				t.Fatal(err)
			}
			secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols[:number]})
			if err := secure.HandshakeContext(t.Context()); (err == nil) != want {
				t.Errorf("HTTP %v, %d protocols: %v", http, number, err)
			}
			conn.Close()
		}
	}
}

func TestTheConfigurationOfListenersIsJSON(t *testing.T) {
	t.Parallel()
	before := Balancer{Application: &application.Listener{Port: 1, Secret: []byte{1},
		Attributes: application.DefaultAttributes(), TLS: &application.TLS{ALPN: "x"},
		Groups: []application.TargetGroup{{ID: "g", Targets: []application.Target{{
			Address: netip.MustParseAddrPort("10.0.0.1:80"), Since: time.Unix(1, 0).UTC()}},
			Keeping: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:80")}}}}}
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	var after Balancer
	if err := json.Unmarshal(text, &after); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(after)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("%s becomes %s: %v", text, again, err)
	}
}
