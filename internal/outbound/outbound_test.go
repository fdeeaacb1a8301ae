package outbound

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestPublic(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"52.1.2.3": true, "1.1.1.1": true, "172.32.0.1": true, "100.128.0.1": true, "198.20.0.1": true,
		"2600:1f18::1": true, "2a00:1450::1": true,
		"::ffff:52.1.2.3": true, "64:ff9b::3401:203": true, // 52.1.2.3 both

		"0.0.0.0": false, "0.1.2.3": false, "10.1.2.3": false, "100.64.0.1": false, "100.127.255.255": false,
		"127.0.0.1": false, "127.255.0.1": false,
		"168.63.129.15": true, "168.63.129.16": false, "169.254.169.254": false, "169.254.170.23": false,
		"172.16.0.1": false, "172.31.0.4": false, "192.0.0.8": false, "192.0.2.1": false, "192.88.99.1": false,
		"192.168.1.1": false, "198.18.0.3": false, "198.19.255.255": false, "198.51.100.7": false, "203.0.113.7": false,
		"224.0.0.1": false, "240.0.0.1": false,
		"255.255.255.255": false,

		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::7f00:1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false,
		"64:ff9b:1::a00:1": false, "100::1": false, "2001::1": false, "2001:2::1": false, "2001:db8::1": false,
		"2002:7f00:1::": false, "3fff::1": false,
		"5f00::1": false, "fc00::1": false, "fd00:ec2::254": false, "fe80::1": false, "fe80::1%lo": false,
		"fec0::1": false, "ff02::1": false,
	} {
		a := netip.MustParseAddr(address)
		if got := Public(a); got != want {
			t.Errorf("%s is public: %v, want %v", address, got, want)
		}
		var refused *RefusedError
		if err := (Policy{}).Check(a); (err == nil) != want || err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	p := Policy{Allow: prefixes("10.0.0.0/8", "127.0.0.1/32", "fd00::/8"), Deny: prefixes("52.0.0.0/8")}
	for address, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "127.0.0.1": true, "127.0.0.2": false, "fd00::1": true,
		"fd00::1%eth0": true, "52.1.2.3": false,
		"::ffff:52.1.2.3": false, "64:ff9b::3401:203": false, "53.1.2.3": true, "192.168.0.1": false,
	} {
		if err := p.Check(netip.MustParseAddr(address)); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range own {
		if block := hostPrefix(o); block.IsValid() && (Policy{}).Check(block.Addr()) == nil {
			t.Errorf("this host's own %s is admitted", o)
		}
	}
}

func TestParsePrefixes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "[]", "10.0.0.7/8": "[10.0.0.0/8]", "127.0.0.1, ::1": "[127.0.0.1/32 ::1/128]", "fd00::/8": "[fd00::/8]",
		"ten": "error", "10.0.0.0/33": "error", "fe80::1%eth0": "error", "::ffff:10.0.0.0/104": "error",
		"::ffff:10.0.0.1": "error",
	} {
		got, err := ParsePrefixes(text)
		if err != nil != (want == "error") || err == nil && fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
}

// server is an HTTPS server on this host's loopback.
type server struct {
	*httptest.Server
	asked atomic.Int32
}

func newServer(t *testing.T, handler http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// trusting returns options with the certificates of the servers.
func trusting(allow string, servers ...*server) Options {
	pool := x509.NewCertPool()
	for _, s := range servers {
		pool.AddCert(s.Certificate())
	}
	blocks, _ := ParsePrefixes(allow)
	return Options{Policy: Policy{Allow: blocks}, TLS: &tls.Config{RootCAs: pool}, MaxBody: 1 << 10,
		Timeout: time.Minute, Proxy: noProxy}
}

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

func read(c *http.Client, url string) (string, error) {
	response, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestClient(t *testing.T) {
	t.Parallel()
	secret := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a secret of this host") }
	https := newServer(t, secret)
	var plainAsked atomic.Int32
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plainAsked.Add(1)
		secret(w, r)
	}))
	t.Cleanup(plain.Close)
	byName := strings.Replace(https.URL, "127.0.0.1", "localhost", 1)
	mapped := strings.Replace(https.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1)
	for _, url := range []string{https.URL, byName, mapped, plain.URL, "https://169.254.169.254/latest/meta-data/",
		"https://198.18.0.3:4566/", "https://10.0.0.1/"} {
		body, err := read(Client(trusting("", https)), url)
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %q, %v", url, body, err)
		} else if reason := Reason(err); reason != refused.Error() {
			t.Errorf("%s: the reason %q", url, reason)
		}
	}
	if n := https.asked.Load() + plainAsked.Load(); n > 0 {
		t.Errorf("this host was asked %d times", n)
	}
	for _, url := range []string{https.URL, plain.URL} {
		if body, err := read(Client(trusting("127.0.0.1", https)), url); body != "a secret of this host" {
			t.Errorf("%s, which the operator allowed: %q, %v", url, body, err)
		}
	}
	for _, url := range []string{"ftp://127.0.0.1/", "file:///etc/passwd", "https://user:password@" +
		strings.TrimPrefix(https.URL, "https://")} {
		if body, err := read(Client(trusting("127.0.0.1", https)), url); err == nil {
			t.Errorf("%s answered %q", url, body)
		} else if strings.Contains(err.Error(), "password@") {
			t.Errorf("%v has the password", err)
		}
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	inside := newServer(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a secret of this host") })
	within := httptest.NewUnstartedServer(inside.Config.Handler) // another address of this host
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("this host's loopback has one address:", err)
	}
	within.Listener.Close()
	within.Listener = l
	within.Start()
	t.Cleanup(within.Close)
	var s *server
	s = newServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/out":
			http.Redirect(w, r, within.URL, http.StatusFound)
		case "/3", "/2", "/1":
			http.Redirect(w, r, s.URL+map[string]string{"/3": "/2", "/2": "/1", "/1": "/end"}[r.URL.Path],
				http.StatusFound)
		case "/4":
			http.Redirect(w, r, s.URL+"/3", http.StatusFound)
		case "/end":
			fmt.Fprint(w, "here")
		}
	})
	client := Client(trusting("127.0.0.1", s))
	var refused *RefusedError
	if body, err := read(client, s.URL+"/out"); !errors.As(err, &refused) {
		t.Errorf("led to %s: %q, %v", within.URL, body, err)
	}
	if body, err := read(client, s.URL+"/3"); body != "here" {
		t.Errorf("three redirects: %q, %v", body, err)
	}
	if body, err := read(client, s.URL+"/4"); err == nil || !strings.Contains(err.Error(), "more than 3 times") {
		t.Errorf("four redirects: %q, %v", body, err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 1<<20)) //nolint:errcheck // a buffer takes everything
	z.Close()                    //nolint:errcheck
	hang := make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			w.Write(make([]byte, 4<<10)) //nolint:errcheck // the client has enough
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb.Bytes()[:512]) //nolint:errcheck
		case "/header":
			w.Header().Set("X", strings.Repeat("x", 2*maxHeader))
		case "/hang":
			w.(http.Flusher).Flush()
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}
	})
	t.Cleanup(func() { close(hang) })
	o := trusting("127.0.0.1", s)
	if _, err := read(Client(o), s.URL+"/large"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large answer: %v", err)
	}
	if body, err := read(Client(o), s.URL+"/bomb"); len(body) != 512 {
		t.Errorf("a compressed answer has %d bytes: %v", len(body), err)
	}
	if _, err := read(Client(o), s.URL+"/header"); err == nil {
		t.Error("a large header was taken")
	}
	o.Timeout = 50 * time.Millisecond
	if _, err := read(Client(o), s.URL+"/hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an answer that does not end: %v", err)
	}
}

// TestProxy has the operator's proxy on this host, where the proxy may be and what it is asked for may not.
// A server cannot have the daemon read and keep certificates without end: crypto/tls takes 256 KiB of them.
func TestCertificatesOfServersAreBounded(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.StartTLS()
	t.Cleanup(s.Close)
	o := trusting("127.0.0.1", &server{Server: s})
	if _, err := read(Client(o), s.URL); err != nil {
		t.Fatal(err)
	}
	chain := &s.TLS.Certificates[0].Certificate
	for range 40 {
		*chain = append(*chain, make([]byte, 1<<10))
	}
	if _, err := read(Client(o), s.URL); err == nil || !strings.Contains(err.Error(), "too much for a TLS handshake") {
		t.Errorf("a long chain: %v", err)
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a public server") })
	var asked, credentials atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.Host)
		credentials.Store(r.Header.Get("Proxy-Authorization"))
		if r.Host != "52.1.2.3:443" {
			http.Error(w, "closed", http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(here, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() {
			io.Copy(there, here) //nolint:errcheck // the client has gone
			there.Close()
		}()
		io.Copy(here, there) //nolint:errcheck
		here.Close()
	}))
	t.Cleanup(proxy.Close)
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("operator", "password")
	o := trusting("", server)
	o.TLS.ServerName = "example.com" // httptest's certificate is for that
	o.Proxy = http.ProxyURL(at)
	names := map[string]string{ // what this host resolves names to
		"oidc.example.com": "52.1.2.3", "both.example.com": "10.0.0.1 52.1.2.3", "router": "192.168.1.1",
		"inside.example.com":   "10.0.0.1",
		"metadata.example.com": "169.254.169.254", "mapped.example.com": "::ffff:127.0.0.1",
		"closed.example.com": "52.1.2.4", "localhost": "127.0.0.1",
		"x.localhost.": "127.0.0.1",
	}
	o.Resolve = func(_ context.Context, _, host string) (addresses []netip.Addr, err error) {
		if a, err := netip.ParseAddr(host); err == nil {
			return []netip.Addr{a}, nil
		}
		for _, a := range strings.Fields(names[host]) {
			addresses = append(addresses, netip.MustParseAddr(a))
		}
		if addresses == nil {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return addresses, nil
	}
	for _, url := range []string{"https://127.0.0.1/", "https://[::1]/", "https://[::ffff:10.0.0.1]/",
		"https://localhost/", "https://x.localhost./", "https://router/",
		"https://inside.example.com/", "https://metadata.example.com/", "https://mapped.example.com/"} {
		var refused *RefusedError
		if _, err := read(Client(o), url); !errors.As(err, &refused) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := read(Client(o), "https://nowhere.example.com/"); err == nil ||
		Reason(err) != "lookup nowhere.example.com: no such host" {
		t.Errorf("a name that does not resolve here: %v", err)
	}
	if _, err := read(Client(o), "http://oidc.example.com/"); err == nil || asked.Load() != nil {
		t.Errorf("without TLS: %v, the proxy was asked for %v", err, asked.Load())
	}
	for _, url := range []string{"https://oidc.example.com/", "https://both.example.com/",
		"https://[64:ff9b::3401:203]/"} {
		asked.Store("")
		if body, err := read(Client(o), url); body != "a public server" || asked.Load() != "CONNECT 52.1.2.3:443" {
			t.Errorf("%s: %q, %v, the proxy was asked for %v", url, body, err, asked.Load())
		}
	}
	if got := credentials.Load(); got != "Basic b3BlcmF0b3I6cGFzc3dvcmQ=" {
		t.Errorf("the proxy got the credentials %v", got)
	}
	if _, err := read(Client(o), "https://closed.example.com/"); err == nil || !strings.Contains(err.Error(),
		"ask the proxy to connect: it answers 403 Forbidden") {
		t.Errorf("what the proxy refuses: %v", err)
	}
	o.Proxy = http.ProxyURL(&url.URL{Scheme: "ftp", Host: "127.0.0.1:1"})
	if _, err := read(Client(o), "https://oidc.example.com/"); err == nil || !strings.Contains(err.Error(),
		"the scheme \"ftp\" of the proxy") {
		t.Errorf("a proxy that is none: %v", err)
	}
}

func TestReasonTellsNothingOfTheHost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string
	}{
		{&url.Error{Op: "Get", URL: "https://x", Err: &net.OpError{Op: "dial", Net: "tcp",
			Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, Err: &RefusedError{netip.MustParseAddr("10.0.0.1")}}},
			"it is not an address of the public internet"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x.example", Server: "192.168.1.1:53",
			IsNotFound: true}}, "lookup x.example: no such host"},
		{&net.OpError{Op: "dial", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(192, 168, 1, 7)},
			Addr: &net.TCPAddr{IP: net.IPv4(52, 1, 2, 3)}, Err: syscall.ECONNREFUSED}, "dial: connection refused"},
		{&net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(192, 168, 1, 7)},
			Err: errors.New("broken")}, "read: failed"},
		{errors.New("something else"), "something else"},
	} {
		if got := Reason(test.err); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}
