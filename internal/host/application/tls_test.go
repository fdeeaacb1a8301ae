package application

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func TestCertificatesByName(t *testing.T) {
	t.Parallel()
	spec := secure(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(fixed("x"))}}, "first.example",
		"second.example", "*.third.example")
	rig := newRig(t, spec)
	for name, want := range map[string]string{
		"first.example": "first.example", "second.example": "second.example", "SECOND.example": "second.example",
		"a.third.example": "*.third.example", "a.b.third.example": "first.example", "other.example": "first.example",
		"": "first.example",
	} {
		c, err := tls.Dial("tcp", rig.address, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().PeerCertificates[0].DNSNames[0]; got != want {
			t.Errorf("%q gets the certificate of %s, want %s", name, got, want)
		}
		c.Close()
	}
	// A connection stays when certificates change, and new ones get the new certificate.
	client := rig.client(false)
	get(t, client, "https://first.example/")
	next := rig.spec
	next.TLS = &TLS{Certificates: []Certificate{newCertificate(t, "fourth.example")}}
	if err := rig.Update(next); err != nil {
		t.Fatal(err)
	}
	if _, text := get(t, client, "https://first.example/"); text != "x" {
		t.Errorf("the connection answers %q", text)
	}
	c, err := tls.Dial("tcp", rig.address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.ConnectionState().PeerCertificates[0].DNSNames[0]; got != "fourth.example" {
		t.Errorf("a new connection gets the certificate of %s", got)
	}
}

func TestBrokenCertificatesAreLeftOut(t *testing.T) {
	t.Parallel()
	good, other := newCertificate(t, "a.example"), newCertificate(t, "b.example")
	other.Key = good.Key
	certs, err := parseCertificates([]Certificate{other, good})
	if err == nil || !strings.Contains(err.Error(), other.ARN) {
		t.Errorf("the error is %v", err)
	}
	if len(certs.all) != 1 || certs.all[0].arn != good.ARN {
		t.Errorf("%d certificates are left", len(certs.all))
	}
}

func TestSecurityPolicies(t *testing.T) {
	t.Parallel()
	spec := secure(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(fixed("x"))}}, "a.example")
	spec.TLS.Policy = SecurityPolicy{Protocols: []string{"TLSv1.2"},
		Ciphers: []string{"ECDHE-ECDSA-AES256-GCM-SHA384", "UNKNOWN"}}
	rig := newRig(t, spec)
	c, err := tls.Dial("tcp", rig.address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if s := c.ConnectionState(); s.Version != tls.VersionTLS12 ||
		s.CipherSuite != tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 {
		t.Errorf("the client gets %s with %s", versionName(s.Version), cipherName(s.CipherSuite))
	}
	for _, config := range []*tls.Config{{MinVersion: tls.VersionTLS13}, {MaxVersion: tls.VersionTLS12,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}} {
		config.InsecureSkipVerify = true
		if c, err := tls.Dial("tcp", rig.address, config); err == nil {
			c.Close()
			t.Error("a client connects by what the policy excludes")
		}
	}
}

func TestPlainRequestsToHTTPS(t *testing.T) {
	t.Parallel()
	spec := secure(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(fixed("x"))}}, "a.example")
	if text := newRig(t, spec).raw("GET / HTTP/1.1\r\nHost: a\r\n\r\n"); !strings.HasPrefix(text, "HTTP/1.1 400 ") {
		t.Errorf("the answer is %q", text)
	}
}

// TestProtocols has requests of each protocol to targets of each protocol version.
func TestProtocols(t *testing.T) {
	t.Parallel()
	proto := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", r.Header.Get("X-Forwarded-Proto")+" "+r.Header.Get("X-Amzn-Tls-Version"))
		_, _ = io.WriteString(w, r.Proto)
	})
	for _, h2 := range []bool{false, true} {
		for _, version := range []string{HTTP1, HTTP2} {
			for _, protocol := range []string{"HTTP", "HTTPS"} {
				t.Run(fmt.Sprint(h2, version, protocol), func(t *testing.T) {
					t.Parallel()
					target := httptest.NewUnstartedServer(proto)
					target.Config.Protocols = new(http.Protocols)
					target.Config.Protocols.SetHTTP1(true)
					target.Config.Protocols.SetHTTP2(true)
					target.Config.Protocols.SetUnencryptedHTTP2(true)
					if target.EnableHTTP2 = true; protocol == "HTTPS" {
						target.StartTLS()
					} else {
						target.Start()
					}
					t.Cleanup(target.Close)
					g := groupOf("g", targetAt(target.Listener.Addr()))
					g.Version, g.Protocol = version, protocol
					spec := secure(t, forwarding(g), "a.example")
					spec.Attributes.TLSHeaders = true
					rig := newRig(t, spec)
					answer, text := get(t, rig.client(h2), "https://a.example/")
					if !h2 && version == HTTP2 {
						if answer.StatusCode != statusIncompatible {
							t.Errorf("the answer is %d", answer.StatusCode)
						}
						return
					}
					want := map[string]string{HTTP1: "HTTP/1.1", HTTP2: "HTTP/2.0"}[version]
					if text != want || answer.ProtoMajor != map[bool]int{false: 1, true: 2}[h2] {
						t.Errorf("the target sees %q, the client %s", text, answer.Proto)
					}
					if seen := answer.Header.Get("X-Seen"); seen != "https TLSv1.3" {
						t.Errorf("the target is told %q", seen)
					}
				})
			}
		}
	}
}

func TestHTTP2CanBeDisabled(t *testing.T) {
	t.Parallel()
	spec := secure(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(fixed("x"))}}, "a.example")
	spec.Attributes.HTTP2 = false
	if _, err := newRig(t, spec).client(true).Get("https://a.example/"); err == nil {
		t.Error("a client speaks HTTP/2")
	}
}

// TestGRPC has messages both ways at once, and a status in trailers.
func TestGRPC(t *testing.T) {
	t.Parallel()
	frame := func(text string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...)
	}
	read := func(r io.Reader) (string, error) {
		head := make([]byte, 5)
		if _, err := io.ReadFull(r, head); err != nil {
			return "", err
		}
		text := make([]byte, binary.BigEndian.Uint32(head[1:]))
		_, err := io.ReadFull(r, text)
		return string(text), err
	}
	target := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		if r.URL.Path == "/p.S/Fail" { // the status alone
			w.Header().Set("Grpc-Status", "5")
			return
		}
		if r.Header.Get("Te") != "trailers" {
			t.Errorf("the target is sent %v", r.Header)
		}
		w.WriteHeader(http.StatusOK)
		control := http.NewResponseController(w)
		_ = control.Flush()
		for {
			text, err := read(r.Body)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = w.Write(frame("echo " + text))
			_ = control.Flush()
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", "fine")
	}))
	target.Config.Protocols = new(http.Protocols)
	target.Config.Protocols.SetUnencryptedHTTP2(true)
	target.Start()
	t.Cleanup(target.Close)
	g := groupOf("g", targetAt(target.Listener.Addr()))
	g.Version = GRPC
	plain := groupOf("plain", say(t, "x"))
	spec := forwarding(g)
	spec.Groups = append(spec.Groups, plain)
	spec.Rules = append([]Rule{{Priority: "1", Conditions: []Condition{{Field: FieldPath, Values: []string{"/plain"}}},
		Actions: []Action{forwardTo("plain")}}}, spec.Rules...)
	rig := newRig(t, secure(t, spec, "a.example"))
	client := rig.client(true)
	call := func(path string, body io.Reader) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://a.example"+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Te", "trailers")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	in, out := io.Pipe()
	answer := call("/p.S/Echo", in)
	for _, word := range []string{"one", "two"} {
		if _, err := out.Write(frame(word)); err != nil {
			t.Fatal(err)
		}
		if text, err := read(answer.Body); text != "echo "+word {
			t.Fatalf("the answer is %q: %v", text, err)
		}
	}
	out.Close()
	if rest, err := io.ReadAll(answer.Body); len(rest) > 0 || err != nil {
		t.Errorf("then comes %q: %v", rest, err)
	}
	if want := (http.Header{"Grpc-Status": {"0"}, "Grpc-Message": {"fine"}}); !reflect.DeepEqual(answer.Trailer, want) {
		t.Errorf("the trailers are %v, want %v", answer.Trailer, want)
	}
	if answer := call("/p.S/Fail", nil); answer.Header.Get("Grpc-Status") != "5" {
		t.Errorf("the answer is %v", answer.Header)
	}
	if answer := call("/plain", nil); answer.StatusCode != statusIncompatible {
		t.Errorf("gRPC to a target of HTTP1 gets %d", answer.StatusCode)
	}
	if answer, _ := get(t, client, "https://a.example/"); answer.StatusCode != statusIncompatible {
		t.Errorf("GET to a target of gRPC gets %d", answer.StatusCode)
	}
}

// TestRequestsOfAConnectionCount has more requests under way than the load balancer may have.
func TestRequestsOfAConnectionCount(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}, 16), make(chan struct{})
	target := serveTarget(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-goOn
	})
	var mu sync.Mutex
	used := 0
	rig := newRig(t, secure(t, forwarding(groupOf("g", target)), "a.example"), func(o *Options) {
		o.Acquire = func(netip.Addr) (func(), bool) {
			mu.Lock()
			defer mu.Unlock()
			if used >= 4 { // a request and its connection to the target, each
				return nil, false
			}
			used++
			return func() { mu.Lock(); used--; mu.Unlock() }, true
		}
	})
	client := rig.client(true)
	var requests sync.WaitGroup
	for range 2 {
		requests.Go(func() { get(t, client, "https://a.example/") })
		<-arrived
	}
	if answer, _ := get(t, client, "https://a.example/"); answer.StatusCode != 503 {
		t.Errorf("one request too many gets %d", answer.StatusCode)
	}
	close(goOn)
	requests.Wait()
	rig.Close()
	mu.Lock()
	defer mu.Unlock()
	if used != 0 {
		t.Errorf("%d count at the end", used)
	}
}

func TestTerminator(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{
		ALPNHTTP1Only: "http/1.1", ALPNHTTP2Optional: "http/1.1", ALPNHTTP2Preferred: "h2", ALPNHTTP2Only: "h2", "": "",
	} {
		term, err := NewTerminator(TLS{Certificates: []Certificate{newCertificate(t, "a.example")}, ALPN: policy})
		if err != nil {
			t.Fatal(err)
		}
		a, b := net.Pipe()
		go func() {
			c := tls.Client(b, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
			_ = c.HandshakeContext(t.Context())
		}()
		secure, err := term.Handshake(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if got := secure.ConnectionState().NegotiatedProtocol; got != want {
			t.Errorf("%s negotiates %q, want %q", policy, got, want)
		}
		a.Close()
		b.Close()
	}
}
