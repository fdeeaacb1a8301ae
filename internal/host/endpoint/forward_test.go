package endpoint

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// A server with a socket is told the address of each client, and one without is reached at its port.
func TestForwardTellsTheAddressOfTheClient(t *testing.T) {
	t.Parallel()
	serve := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
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
				line, _ := bufio.NewReader(conn).ReadString('\n')
				fmt.Fprint(conn, network+" "+line)
				conn.Close()
			}
		}()
		return l
	}
	port := serve("tcp", "127.0.0.1:0").Addr().String()
	socket := filepath.Join(t.TempDir(), "server.sock")
	f, err := openForward(Forward{Listen: netip.MustParseAddrPort("127.0.0.1:0"), Target: port, Socket: socket},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.close()
		f.done.Wait()
	})
	ask := func() (client, answer string) {
		t.Helper()
		conn, err := net.Dial("tcp", f.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(conn, "hello")
		answer, err = bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return conn.LocalAddr().String(), answer
	}
	if _, got := ask(); got != "tcp hello\n" {
		t.Errorf("a server without a socket answers %q", got)
	}
	l := serve("unix", socket)
	if client, got := ask(); got != "unix "+client+"\n" {
		t.Errorf("a server with a socket answers %q to %s", got, client)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close() // it has left its socket behind
	if _, got := ask(); got != "tcp hello\n" {
		t.Errorf("a server that has left its socket behind answers %q", got)
	}
}
