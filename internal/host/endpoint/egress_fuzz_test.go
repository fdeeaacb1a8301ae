package endpoint

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// FuzzEgress shows that whatever comes to the socket of an egress is answered with one line of HTTP or nothing, and
// that no request connects where it may not: the egress has no namespace, and one address of the host that is closed.
func FuzzEgress(f *testing.F) {
	for _, request := range []string{
		"CONNECT 10.0.1.4:443 HTTP/1.1\r\nHost: 10.0.1.4:443\r\nUser-Agent: konnectivity\r\n\r\n",
		"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\nearly",
		"CONNECT metrics.kube-system.svc:443 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", "CONNECT [::1]:443 HTTP/1.1\r\n\r\n", "CONNECT / HTTP/1.1\r\nHost: a:1\r\n\r\n",
		"CONNECT 10.0.1.4 HTTP/1.1\r\nHost: 10.0.1.4\r\n\r\n", "CONNECT a%0d%0a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "\x16\x03\x01", "",
	} {
		f.Add([]byte(request))
	}
	e, err := openEgress(
		Egress{Socket: filepath.Join(f.TempDir(), "e.sock"), Host: []string{"127.0.0.1:1"}},
		slog.New(slog.DiscardHandler),
	)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(e.close)
	f.Fuzz(func(t *testing.T, request []byte) {
		conn, err := net.Dial("unix", e.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(request) // which may not wait for all of it
		_ = conn.(*net.UnixConn).CloseWrite()
		answer, err := io.ReadAll(conn)
		if err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("%q: %v", request, err)
		}
		line, rest, _ := bytes.Cut(answer, []byte("\r\n"))
		if len(answer) > 0 &&
			(!bytes.HasPrefix(line, []byte("HTTP/1.1 503 ")) && !bytes.HasPrefix(line, []byte("HTTP/1.1 405 ")) || string(rest) != "Connection: close\r\nContent-Length: 0\r\n\r\n") {
			t.Fatalf("%q is answered with %q", request, answer)
		}
	})
}
