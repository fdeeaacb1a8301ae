//go:build linux

package endpoint

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// running is the endpoint process, in this one, and how it is told what to do.
type running struct {
	t   *testing.T
	dir string
}

func startProcess(t *testing.T) running {
	t.Helper()
	dir, err := os.MkdirTemp("", "endpoint") // unix sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, dir, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		os.RemoveAll(dir)
	})
	return running{t, dir}
}

func (p running) tell(c Config) map[string]string {
	p.t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := writeConfig(p.dir, text); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), eventually.Limit)
	defer cancel()
	r, err := (&Process{Dir: p.dir}).notify(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	return r.Problems
}

func (p running) done(c Config) {
	p.t.Helper()
	if problems := p.tell(c); len(problems) > 0 {
		p.t.Fatal(problems)
	}
}

// echo starts a server that sends its name and then echoes what it receives. It returns the server's address.
func echo(t *testing.T, namespace, address, name string) string {
	t.Helper()
	l, err := Listen(t.Context(), namespace, "tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprintln(conn, name)
				io.Copy(conn, conn) //nolint:errcheck
			}()
		}
	}()
	return l.Addr().String()
}

// says reads a line that must come.
func says(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(eventually.Limit))
	line := make([]byte, len(want)+1)
	if _, err := io.ReadFull(conn, line); err != nil || string(line) != want+"\n" {
		t.Fatalf("read %q, %v; want %q", line, err, want)
	}
}

func TestForwards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	internet, client := newNamespace(t, filepath.Join(dir, "internet")), newNamespace(t, filepath.Join(dir, "client"))
	wire(t, internet, client, "198.18.8.16/24", "198.18.8.1/24")
	one, two := echo(t, "", "127.0.0.1:0", "one"), echo(t, "", "127.0.0.1:0", "two")
	p := startProcess(t)
	forward := func(target string, allow ...string) Config {
		f := Forward{Namespace: internet, Listen: netip.MustParseAddrPort("198.18.8.16:443"), Target: target}
		for _, a := range allow {
			f.Allow = append(f.Allow, netip.MustParsePrefix(a))
		}
		return Config{Forwards: []Forward{f}}
	}
	connects := func(want string) net.Conn {
		t.Helper()
		conn, err := dial(t, client, net.Dialer{Timeout: eventually.Limit}, "198.18.8.16:443")
		if err != nil {
			t.Fatal(err)
		}
		says(t, conn, want)
		return conn
	}
	alive := func(conn net.Conn) {
		t.Helper()
		fmt.Fprintln(conn, "still there")
		says(t, conn, "still there")
	}
	p.done(forward(one))
	first := connects("one")
	alive(first)

	// Another target is for new connections; those there are stay.
	p.done(forward(two))
	second := connects("two")
	alive(first)

	// What still may connect is not disturbed by another list, what may not is ended, and new connections find nobody.
	p.done(forward(two, "203.0.113.0/24", "198.18.8.1/32"))
	alive(first)
	alive(second)
	connects("two")
	p.done(forward(two, "203.0.113.0/24", "198.18.8.2/31", "0.0.0.0/8"))
	first.SetReadDeadline(time.Now().Add(eventually.Limit))
	if n, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that is no longer allowed lives on: %d bytes, %v", n, err)
	}
	var timeout net.Error
	if _, err := dial(t, client, net.Dialer{Timeout: 300 * time.Millisecond}, "198.18.8.16:443"); !errors.As(err,
		&timeout) || !timeout.Timeout() {
		t.Errorf("a source that is not allowed: %v; want no answer at all", err)
	}
	p.done(forward(two, "0.0.0.0/0"))
	third := connects("two")
	p.done(forward(two))
	alive(third)

	// The end of what one side says reaches the other, and it can still answer.
	if err := third.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(third); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}

	// A server that is not there is waited for, and another one takes its place. A connection does not wait for ever.
	eventually.Nil(t, "a connection finds the server that comes after it", func() error {
		p.done(forward("127.0.0.1:1"))
		early, err := dial(t, client, net.Dialer{Timeout: eventually.Limit}, "198.18.8.16:443")
		if err != nil {
			return err
		}
		defer early.Close()
		p.done(forward(one))
		early.SetReadDeadline(time.Now().Add(eventually.Limit))
		// fails on a machine that takes longer to get here than connections wait
		_, err = io.ReadFull(early, make([]byte, len("one\n")))
		return err
	})
	p.done(forward("127.0.0.1:1"))
	lost, err := dial(t, client, net.Dialer{Timeout: eventually.Limit}, "198.18.8.16:443")
	if err != nil {
		t.Fatal(err)
	}
	lost.SetReadDeadline(time.Now().Add(eventually.Limit))
	if _, err = lost.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without a server: %v", err)
	}

	// What is no longer wanted is closed, and the address is free.
	p.done(Config{})
	if _, err := dial(t, client, net.Dialer{Timeout: eventually.Limit}, "198.18.8.16:443"); err == nil ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("after the forward is gone: %v", err)
	}
}

func TestNamespacesMayComeLateAndBeMadeAnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ns")
	server := echo(t, "", "127.0.0.1:0", "here")
	p := startProcess(t)
	f := Forward{Namespace: path, Listen: netip.MustParseAddrPort("127.0.0.1:443"), Target: server}
	problems := p.tell(Config{Forwards: []Forward{f}})
	if why := problems[f.listenerKey()]; !strings.Contains(why, "does not exist") {
		t.Fatalf("without a namespace: %v", problems)
	}
	for range 2 {
		newNamespace(t, path)
		eventually.True(t, "the forward", func() bool {
			conn, err := dial(t, path, net.Dialer{}, "127.0.0.1:443")
			if err == nil {
				says(t, conn, "here")
			}
			return err == nil
		})
		dropNamespace(path)
	}
	p.done(Config{})
}

func TestEgress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leg, node := newNamespace(t, filepath.Join(dir, "leg")), newNamespace(t, filepath.Join(dir, "node"))
	wire(t, leg, node, "10.0.1.4/24", "10.0.1.5/24")
	echo(t, node, "10.0.1.5:10250", "kubelet")
	p := startProcess(t)
	e := Egress{Socket: filepath.Join(p.dir, "c.sock"), Namespace: leg, DNS: netip.MustParseAddrPort("10.0.1.2:53")}
	// In the VPC there is a resolver as well.
	r := Resolver{Namespace: leg, Addresses: []netip.Addr{netip.MustParseAddr("10.0.1.2")}, Region: "eu-west-1",
		CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}}
	inside(t, leg, func() error { return addAddress("lo", "10.0.1.2/32") })
	p.done(Config{Egresses: []Egress{e}, Resolvers: []Resolver{r}})
	ask := func(address string) (*http.Response, *bufio.Reader, net.Conn) {
		t.Helper()
		conn, err := net.Dial("unix", e.Socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, "127.0.0.1")
		conn.SetReadDeadline(time.Now().Add(eventually.Limit))
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
		if err != nil {
			t.Fatal(err)
		}
		return response, reader, conn
	}
	for _, address := range []string{"10.0.1.5:10250", "ip-10-0-1-5.eu-west-1.compute.internal:10250"} {
		response, reader, conn := ask(address)
		if response.StatusCode != 200 {
			t.Fatalf("%s: %s", address, response.Status)
		}
		if line, err := reader.ReadString('\n'); line != "kubelet\n" {
			t.Fatalf("%q, %v", line, err)
		}
		fmt.Fprintln(conn, "exec")
		if line, err := reader.ReadString('\n'); line != "exec\n" {
			t.Fatalf("%q, %v", line, err)
		}
		p.done(Config{Egresses: []Egress{e}, Resolvers: []Resolver{r}})
		fmt.Fprintln(conn, "attach")
		if line, err := reader.ReadString('\n'); line != "attach\n" {
			t.Fatalf("after the configuration was read again: %q, %v", line, err)
		}
	}
	for address, want := range map[string]string{
		"10.0.1.5:1":     "refused",
		"127.0.0.1:1":    "refused", // the namespace's own
		"10.0.9.9:10250": "unreachable",
		"ip-10-9-1-5.eu-west-1.compute.internal:1": "no such host",
		"nonsense": "missing port",
	} {
		if response, _, _ := ask(address); response.StatusCode != http.StatusServiceUnavailable ||
			!strings.Contains(response.Status, want) {
			t.Errorf("%s: %s; want %q", address, response.Status, want)
		}
	}

	// On this host it reaches what it is told, and nothing else.
	own, other := echo(t, "", "127.0.0.1:0", "ours"), echo(t, "", "127.0.0.1:0", "somebody else's")
	e.Socket, e.DNS, e.Host = filepath.Join(p.dir, "m.sock"), netip.AddrPort{}, []string{own}
	p.done(Config{Egresses: []Egress{e}})
	if response, reader, _ := ask(own); response.StatusCode != 200 {
		t.Errorf("what it may reach on this host: %s", response.Status)
	} else if line, err := reader.ReadString('\n'); line != "ours\n" {
		t.Errorf("%q, %v", line, err)
	}
	_, port, _ := net.SplitHostPort(other)
	for _, address := range []string{other, "localhost:" + port, "[::ffff:127.0.0.1]:" + port, "0.0.0.0:" + port} {
		if response, _, _ := ask(address); response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %s", address, response.Status)
		}
	}
}
