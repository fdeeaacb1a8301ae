//go:build linux

package endpoint

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// scarceEnv makes the test below a process of its own, with few file descriptors.
const scarceEnv = "CORACLE_TEST_SCARCE_DESCRIPTORS"

// TestAClusterLeavesConnectionsToOthers opens more connections to the endpoint of one cluster, and to the proxy of its
// API server, than the process has file descriptors for. Those of another cluster work all the same.
func TestAClusterLeavesConnectionsToOthers(t *testing.T) {
	t.Parallel()
	if os.Getenv(scarceEnv) == "" {
		// A process without descriptors may hang.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		command := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		command.Env = append(os.Environ(), scarceEnv+"=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		return
	}
	// This process has the other ends of all connections, too.
	const files, flood = 2048, 600
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	server := echo(t, "", "127.0.0.1:0", "one")
	open := func(address string) *forwarder {
		f, err := openForward(Forward{Listen: netip.MustParseAddrPort(address), Target: server}, log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.close(); f.done.Wait() })
		return f
	}
	connect := func(network, address, say string) (net.Conn, bool) {
		conn, err := net.DialTimeout(network, address, eventually.Limit)
		if err != nil {
			return nil, false
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(say))
		n, err := conn.Read(make([]byte, 1))
		return conn, n == 1 && err == nil
	}
	count := func(network, address, say string) (n int) {
		for range flood {
			if _, ok := connect(network, address, say); !ok {
				return n
			}
			n++
		}
		t.Errorf("%s at %s takes %d connections: it has no bound", network, address, n)
		return n
	}
	t.Logf("a forward takes %d connections", count("tcp", open("127.0.0.77:0").listener.Addr().String(), ""))
	socket := filepath.Join(t.TempDir(), "e.sock")
	e, err := openEgress(Egress{Socket: socket, Host: []string{server}}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.close(); e.done.Wait() })
	ask := strings.ReplaceAll("CONNECT host HTTP/1.1\r\nHost: host\r\n\r\n", "host", server)
	t.Logf("an egress takes %d connections", count("unix", socket, ask))
	if _, ok := connect("tcp", open("127.0.0.78:0").listener.Addr().String(), ""); !ok {
		t.Error("one cluster has all connections, and another none")
	}
}
