package clusterproxy

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// proxyTo returns a connection to a proxy of an API server that gives each request to a function, with its connection.
func proxyTo(t *testing.T, answer func(*http.Request, *bufio.ReadWriter)) net.Conn {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		answer(r, both)
	}))
	t.Cleanup(server.Close)
	s := storetest.New(t)
	cluster := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "c", ID: clusterID,
		EndpointPublicAccess: true}
	create(t, record.Clusters(s), cluster.Key(), cluster)
	create(t, record.ControlPlanes(s), cluster.Key(), record.ControlPlane{ClusterID: clusterID, Ready: true,
		Endpoint: server.URL, CertificateAuthority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: server.Certificate().Raw})})
	create(t, record.Issuers(s), store.Key(clusterID),
		record.Issuer{Account: cluster.Account, Region: cluster.Region, Cluster: cluster.Name})
	front := httptest.NewServer(New(s, slog.New(slog.DiscardHandler)))
	t.Cleanup(front.Close)
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// upgrade asks for a stream of SPDY, as "kubectl exec" does, and returns the status of the answer.
func upgrade(t *testing.T, conn net.Conn) (int, *bufio.Reader) {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "POST %s%s/api/v1/namespaces/default/pods/p/exec?command=%%3B&tty HTTP/1.1\r\n"+
		"Host: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Forwarded-For: 192.0.2.1\r\n"+
		"Authorization: Bearer token\r\nContent-Length: 0\r\n\r\n", Prefix, clusterID); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, reader
}

func TestUpgrades(t *testing.T) {
	t.Parallel()
	conn := proxyTo(t, func(r *http.Request, both *bufio.ReadWriter) {
		if got := r.URL.RequestURI(); got != "/api/v1/namespaces/default/pods/p/exec?command=%3B&tty" {
			t.Errorf("the API server is asked for %s", got)
		}
		if got := r.Header["X-Forwarded-For"]; len(got) != 1 || got[0] != "127.0.0.1" {
			t.Errorf("the API server hears of the client %q", got)
		}
		if got := r.Header.Get("Authorization"); got != "Bearer token" {
			t.Errorf("the API server gets the credentials %q", got)
		}
		fmt.Fprint(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nhello ")
		if err := both.Flush(); err != nil {
			t.Error(err)
		}
		line, err := both.ReadString('\n')
		if err != nil {
			t.Error(err)
		}
		fmt.Fprint(both, line)
		if err := both.Flush(); err != nil {
			t.Error(err)
		}
	})
	status, reader := upgrade(t, conn)
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("the answer has the status %d", status)
	}
	if _, err := fmt.Fprintln(conn, "world"); err != nil {
		t.Fatal(err)
	}
	if got, err := reader.ReadString('\n'); err != nil || got != "hello world\n" {
		t.Errorf("the streams carry %q, %v", got, err)
	}
}

// A program of the cluster's users answers upgrades: an aggregated API, or root of a node in place of its kubelet.
func TestHeadersOfUpgradesAreBounded(t *testing.T) {
	t.Parallel()
	const much = 64 << 20
	written := make(chan int64, 1)
	conn := proxyTo(t, func(_ *http.Request, both *bufio.ReadWriter) {
		fmt.Fprint(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n")
		line, n := "X: "+strings.Repeat("x", 1000)+"\r\n", int64(0)
		for n < much {
			wrote, err := io.WriteString(both, line)
			if n += int64(wrote); err != nil {
				break
			}
		}
		fmt.Fprint(both, "\r\n")
		_ = both.Flush() // nobody may listen
		written <- n
	})
	if status, _ := upgrade(t, conn); status != http.StatusBadGateway {
		t.Errorf("the answer has the status %d", status)
	}
	if n := <-written; n >= much {
		t.Errorf("the proxy has read a header of %d MiB", n>>20)
	}
}
