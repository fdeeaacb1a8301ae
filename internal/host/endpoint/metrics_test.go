package endpoint

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/pki"
)

// TestConnectionsToMetricsAreBounded has a user who opens connections to the metrics of a control plane, and says
// nothing.
func TestConnectionsToMetricsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority, err := pki.NewAuthority(pki.Cluster, pki.Leaf{CommonName: "ca"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.crt", "front-proxy-ca.crt"} {
		if err := os.WriteFile(filepath.Join(dir, name), authority.PEM, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{extensionmetrics.ServingCertificate, extensionmetrics.ClientCertificate} {
		if _, _, err := authority.Ensure(dir, name, pki.Leaf{CommonName: name, Server: true}); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(t.TempDir(), "e.sock")
	e, err := openEgress(Egress{Socket: socket, Metrics: &extensionmetrics.Config{Dir: dir}},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.close(); e.done.Wait() })
	connect := func() (net.Conn, int) {
		t.Helper()
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", extensionmetrics.Address)
		answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
		if err != nil {
			t.Fatal(err)
		}
		return conn, answer.StatusCode
	}
	var last net.Conn
	for n := range maxMetrics {
		conn, status := connect()
		if status != http.StatusOK {
			t.Fatalf("connection %d is answered %d", n, status)
		}
		last = conn
	}
	if _, status := connect(); status != http.StatusServiceUnavailable {
		t.Errorf("one too many is answered %d", status)
	}
	last.Close()
	eventually.True(t, "there is room for another", func() bool {
		_, status := connect()
		return status == http.StatusOK
	})
}
