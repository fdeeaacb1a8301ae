package clusterproxy

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// What an API server sends that its client does not read is in the kernel's memory, on both connections.
func TestBuffersOfForwardedConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	transport := new(upstream).newTransport(nil, true)
	if receive, send := testenv.DialedBuffers(t, transport.DialContext); max(receive, send) > 2*connlimit.Buffer {
		t.Errorf("the buffers of a connection to an API server have %d and %d bytes", receive, send)
	}
}

// What an API server sends by HTTP/2 that its client does not read is in this process' memory: without a bound, 4 MiB
// of each answer.
func TestAnswersThatNobodyReadsAreNotKept(t *testing.T) {
	t.Parallel()
	sent := make(chan int, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all := 0
		defer func() { sent <- all }()
		for part := make([]byte, 32<<10); r.Context().Err() == nil; {
			n, err := w.Write(part)
			if all += n; err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	transport := new(upstream).newTransport(server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, true)
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	full, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if full.ProtoMajor != 2 {
		t.Fatalf("it is %s", full.Proto)
	}
	// An answer on the same connection that is read has passed all that came before it.
	second, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(second.Body).Discard(8 << 20); err != nil {
		t.Fatal(err)
	}
	second.Body.Close()
	<-sent
	full.Body.Close()
	if got := <-sent; got > 2*maxUnread {
		t.Errorf("%d bytes of an answer were sent that nobody reads", got)
	}
}

// Clients that do not read their answers take no more than a part of what all clusters share.
func TestRequestsOfAClusterAreBounded(t *testing.T) { //nolint:paralleltest // it takes what others of the process need
	conn := proxyTo(t, func(_ *http.Request, both *bufio.ReadWriter) {
		fmt.Fprint(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
		both.Flush()
	})
	var releases []func()
	defer func() {
		for _, release := range releases {
			release()
		}
	}()
	for n := 1 << 20; n > 0; {
		release, ok := connlimit.Acquire("API server of "+clusterID, n)
		if !ok {
			n /= 2
			continue
		}
		releases = append(releases, release)
	}
	if status, _ := upgrade(t, conn); status != http.StatusTooManyRequests {
		t.Errorf("with all that a cluster may have in use, a request gets %d", status)
	}
}
