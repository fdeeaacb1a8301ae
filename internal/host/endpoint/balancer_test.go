//go:build linux

package endpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/headerfields"
)

// balancerRig is a load balancer between a client and targets in its own namespace.
type balancerRig struct {
	running
	lb, client string
}

const balancerAddress = "10.0.0.20:80"

func newBalancerRig(t *testing.T) balancerRig {
	t.Helper()
	dir := t.TempDir()
	b := balancerRig{lb: newNamespace(t, filepath.Join(dir, "lb")), client: newNamespace(t, filepath.Join(dir, "client"))}
	wire(t, b.lb, b.client, "10.0.0.20/24", "10.0.0.10/24")
	b.running = startProcess(t)
	return b
}

func (b balancerRig) spec(targets ...string) Balancer {
	spec := Balancer{Namespace: b.lb, Listen: netip.MustParseAddrPort(balancerAddress), Share: "x", Idle: 60, Ends: true}
	for _, target := range targets {
		spec.Targets = append(spec.Targets, netip.MustParseAddrPort(target))
	}
	return spec
}

func (b balancerRig) apply(spec Balancer) {
	b.t.Helper()
	b.done(Config{Balancers: []Balancer{spec}})
}

// connect connects to the load balancer, and returns the name of the target.
func (b balancerRig) connect() (net.Conn, string) {
	b.t.Helper()
	conn, err := dial(b.t, b.client, net.Dialer{Timeout: eventually.Limit}, balancerAddress)
	if err != nil {
		b.t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(eventually.Limit))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		b.t.Fatal(err)
	}
	return conn, strings.TrimSpace(line)
}

func TestBalancedConnections(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	one, two := echo(t, b.lb, "127.0.0.1:0", "one"), echo(t, b.lb, "127.0.0.1:0", "two")
	b.apply(b.spec(one, two))
	conns := map[string]net.Conn{}
	for range 4 {
		conn, name := b.connect()
		conns[name] = conn
	}
	if len(conns) != 2 {
		t.Fatalf("connections lead to %v, want to both targets in turn", conns)
	}
	ended := func(conn net.Conn) bool {
		conn.SetReadDeadline(time.Now().Add(eventually.Limit))
		_, err := conn.Read(make([]byte, 1))
		return err != nil && !strings.Contains(err.Error(), "timeout")
	}
	// A target that is kept has its connections and gets none; another's end.
	spec := b.spec(two)
	spec.Keeping = []netip.AddrPort{netip.MustParseAddrPort(one)}
	b.apply(spec)
	for range 3 {
		if _, name := b.connect(); name != "two" {
			t.Errorf("a connection leads to %s", name)
		}
	}
	fmt.Fprintln(conns["one"], "still there")
	says(t, conns["one"], "still there")
	b.apply(b.spec(two))
	if !ended(conns["one"]) {
		t.Error("a connection to a target that is not kept goes on")
	}
	fmt.Fprintln(conns["two"], "still there")
	says(t, conns["two"], "still there")

	// A target that accepts nothing is passed over, and without any a client is refused.
	b.apply(b.spec("127.0.0.1:1", two))
	for range 4 {
		if _, name := b.connect(); name != "two" {
			t.Errorf("a connection leads to %s", name)
		}
	}
	b.apply(b.spec())
	conn, err := dial(t, b.client, net.Dialer{Timeout: eventually.Limit}, balancerAddress)
	if err == nil && !ended(conn) {
		t.Error("a connection without a target goes on")
	}
}

// TestWeightedConnections has a listener of a Network Load Balancer that leads to several target groups.
func TestWeightedConnections(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	share := func(weight uint32, name string) BalancerShare {
		return BalancerShare{Weight: weight,
			Targets: []netip.AddrPort{netip.MustParseAddrPort(echo(t, b.lb, "127.0.0.1:0", name))}}
	}
	one, two, none := share(3, "one"), share(1, "two"), share(0, "none")
	spec := b.spec()
	spec.Ends = false
	spec.Shares = []BalancerShare{none, one, two}
	names := func() map[string]int {
		t.Helper()
		b.apply(spec)
		seen := map[string]int{}
		for range 64 {
			conn, name := b.connect()
			conn.Close()
			seen[name]++
		}
		return seen
	}
	if seen := names(); len(seen) != 2 || seen["one"] == 0 || seen["two"] == 0 {
		t.Errorf("connections lead to %v", seen)
	}
	spec.Sticky = true
	if seen := names(); len(seen) != 1 {
		t.Errorf("connections of one client lead to %v", seen)
	}
	spec.Shares, spec.Sticky = []BalancerShare{none, {Weight: 1}}, false
	b.apply(spec)
	conn, err := dial(t, b.client, net.Dialer{Timeout: eventually.Limit}, balancerAddress)
	if err == nil {
		conn.SetReadDeadline(time.Now().Add(eventually.Limit))
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a connection without a target goes on")
		}
	}
}

// TestSilentTargets has many connections wait for a target that does not answer. They take no threads.
func TestSilentTargets(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	// Nobody has this address of the client's link, which is asked for in vain.
	b.apply(b.spec("10.0.0.99:80"))
	before := pprof.Lookup("threadcreate").Count()
	var conns []net.Conn
	for range 256 {
		conn, err := dial(t, b.client, net.Dialer{Timeout: eventually.Limit}, balancerAddress)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	if made := pprof.Lookup("threadcreate").Count() - before; made > 100 {
		t.Errorf("%d connections have made %d threads", len(conns), made)
	}
	b.apply(b.spec(echo(t, b.lb, "127.0.0.1:0", "one")))
	if _, name := b.connect(); name != "one" {
		t.Errorf("a connection leads to %s", name)
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	spec := b.spec(echo(t, b.lb, "127.0.0.1:0", "one"))
	spec.Idle = 1
	b.apply(spec)
	conn, _ := b.connect()
	conn.SetReadDeadline(time.Now().Add(eventually.Limit))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !strings.Contains(fmt.Sprint(err), "reset") {
		t.Errorf("an idle connection: %v, want its end", err)
	}
}

func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	l, err := Listen(t.Context(), b.lb, "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	spec := b.spec(l.Addr().String())
	spec.ProxyProtocol = 1
	b.apply(spec)
	if _, err := dial(t, b.client, net.Dialer{Timeout: eventually.Limit}, balancerAddress); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(eventually.Limit))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "PROXY TCP4 10.0.0.10 10.0.0.20 ") {
		t.Errorf("the connection begins with %q, %v", line, err)
	}
}

func TestBalancedRequests(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	target := b.serveRequests(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, strings.Join([]string{r.Host, r.URL.RequestURI(), r.Header.Get("X-Forwarded-For"),
			r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-Port"), string(body)}, " "))
	})
	spec := b.spec("127.0.0.1:1", target) // of which the first accepts nothing
	spec.HTTP = true
	b.apply(spec)
	client := http.Client{Timeout: eventually.Limit, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return dial(t, b.client, net.Dialer{}, balancerAddress)
		}}}
	for range 4 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://web.example/a%2fb?q=;",
			strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Forwarded-For", "192.0.2.1")
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		want := "web.example /a%2fb?q=; 192.0.2.1, 10.0.0.10 http 80 body"
		if err != nil || string(text) != want {
			t.Errorf("%s: got %q, %v, want %q", answer.Status, text, err, want)
		}
	}
	spec.Targets = nil
	b.apply(spec)
	answer, err := client.Get("http://web.example/")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without a target: %s, want 503", answer.Status)
	}
}

// serveRequests serves HTTP at an address in a namespace until the test ends, and returns the address.
func (b balancerRig) serveRequests(handler http.HandlerFunc) string {
	b.t.Helper()
	l, err := Listen(b.t.Context(), b.lb, "tcp4", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	target := &http.Server{Handler: handler}
	go target.Serve(l) //nolint:errcheck // ends with the listener
	b.t.Cleanup(func() { target.Close() })
	return l.Addr().String()
}

// TestHeaderFieldsAreBounded has requests with more header fields than the process decodes, which are not awaited to
// their end either, and requests whose bodies have more lines than that.
func TestHeaderFieldsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	spec := b.spec(b.serveRequests(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, len(r.Header), " ", len(body))
	}))
	spec.HTTP = true
	b.apply(spec)
	connect := func() (net.Conn, *bufio.Reader) {
		conn, err := dial(t, b.client, net.Dialer{Timeout: eventually.Limit}, balancerAddress)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(eventually.Limit))
		return conn, bufio.NewReader(conn)
	}
	fields := func(number int, newline string) string {
		var header strings.Builder
		for i := range number {
			fmt.Fprintf(&header, "%x:%s", i, newline)
		}
		return header.String()
	}
	const begin = "POST / HTTP/1.1\r\nHost: a\r\n"
	for _, newline := range []string{"\r\n", "\n"} {
		for _, text := range []string{begin + fields(headerfields.Most, newline), begin + "Content-Length: 0\r\n" +
			fields(headerfields.Most+1, newline) + "\r\n"} {
			conn, reader := connect()
			io.WriteString(conn, text) //nolint:errcheck // it may have been closed
			answer, err := http.ReadResponse(reader, nil)
			if err == nil && answer.StatusCode != http.StatusBadRequest {
				t.Errorf("a request with too many header fields: %s, want 400", answer.Status)
			} else if err != nil && !strings.Contains(err.Error(), "reset") && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("a request with too many header fields: %v", err)
			}
		}
	}
	names := "Transfer-Encoding: chunked\r\nTrailer: x" + strings.Repeat(",x", headerfields.Most+1)
	conn, reader := connect()
	io.WriteString(conn, begin+names) //nolint:errcheck // it may have been closed
	if answer, err := http.ReadResponse(reader, nil); err == nil && answer.StatusCode != http.StatusBadRequest {
		t.Errorf("a request that announces too many trailers: %s, want 400", answer.Status)
	}
	for _, blank := range []string{"\n", "\r\n", "\r\n\r\n", "\r\r\n\n"} { // net/http passes over them after a POST
		conn, reader := connect()
		io.WriteString(conn, begin+"Content-Length: 0\r\n\r\n") //nolint:errcheck // the answer tells
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, blank+begin+fields(headerfields.Most+1, "\r\n")) //nolint:errcheck // it may have been closed
		if answer, err := http.ReadResponse(reader, nil); err == nil && answer.StatusCode != http.StatusBadRequest {
			t.Errorf("a request with too many header fields after %q: %s, want 400", blank, answer.Status)
		} else if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("a request with too many header fields after %q is awaited to its end", blank)
		}
	}
	conn, reader = connect()
	const some, lines = headerfields.Most - 10, 4 * headerfields.Most
	for range 3 { // a connection has many requests
		if _, err := io.WriteString(conn, begin+fmt.Sprintf("Content-Length: %d\r\n", lines)+fields(some, "\r\n")+"\r\n"+
			strings.Repeat("\n", lines)); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if want := fmt.Sprintf(" %d", lines); err != nil || !strings.HasSuffix(string(text), want) {
			t.Errorf("a request with a long body: %s, %q, %v", answer.Status, text, err)
		}
	}
}

// TestClientsMayGoOn has clients of Classic Load Balancers that ask whether they are to send a body. Nobody asks the
// target, which says something else first.
func TestClientsMayGoOn(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	spec := b.spec(b.serveRequests(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %q", body, r.Header["Expect"])
	}))
	spec.HTTP = true
	b.apply(spec)
	for request, want := range map[string]string{"POST / HTTP/1.1": "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 ",
		"POST / HTTP/1.0": "HTTP/1.0 103 ", "PRI * HTTP/2.0": "HTTP/1.1 505 "} {
		conn, err := dial(t, b.client, net.Dialer{Timeout: eventually.Limit}, balancerAddress)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(eventually.Limit))
		io.WriteString(conn, request+ //nolint:errcheck // the answer tells
			"\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx")
		got, err := io.ReadAll(conn)
		if err != nil && !errors.Is(err, syscall.ECONNRESET) || !strings.HasPrefix(string(got), want) ||
			!strings.HasPrefix(request, "PRI") && !strings.HasSuffix(string(got), "x []") {
			t.Errorf("%s: %q, %v", request, got, err)
		}
	}
}

// TestConnectionsToTargetsAreCounted has a share with two places for connections to targets, which stay open for
// further requests.
func TestConnectionsToTargetsAreCounted(t *testing.T) {
	t.Parallel()
	b := newBalancerRig(t)
	spec := b.spec()
	for range 5 {
		spec.Targets = append(spec.Targets, netip.MustParseAddrPort(b.serveRequests(
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "there") })))
	}
	spec.HTTP = true
	opened, err := openBalancer(spec, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	places := make(chan struct{}, 2)
	opened.acquire = func(share string, descriptors int) (func(), bool) {
		if share != spec.Share || descriptors != 1 {
			t.Errorf("%d places of %q are taken", descriptors, share)
		}
		select {
		case places <- struct{}{}:
			return func() { <-places }, true
		default:
			return nil, false
		}
	}
	client := http.Client{Timeout: eventually.Limit, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return dial(t, b.client, net.Dialer{}, balancerAddress)
		}}}
	get := func() int {
		answer, err := client.Get("http://web.example/")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	for range 2 * len(spec.Targets) {
		if status := get(); status != http.StatusOK {
			t.Errorf("a request is answered with %d", status)
		}
	}
	opened.requests.CloseIdleConnections()
	eventually.Nil(t, "connections that are closed give their places back", func() error {
		if len(places) > 0 {
			return fmt.Errorf("%d are left", len(places))
		}
		return nil
	})
	places <- struct{}{}
	places <- struct{}{}
	if status := get(); status != http.StatusServiceUnavailable {
		t.Errorf("without a place a request is answered with %d, want 503", status)
	}
	opened.close()
	opened.done.Wait()
}
