package wire_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// counter counts what is read of it.
type counter struct {
	io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// The library takes bodies from the connection before the handler reads them, by HTTP/2 of each request.
func TestBodiesThatNobodyReadsAreNotKept(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}, 8), make(chan struct{})
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			begun <- struct{}{}
			<-end
		}
	})
	server := httptest.NewUnstartedServer(handler)
	server.Config = wire.Server("", handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	defer close(end)
	client := server.Client()
	body := &counter{Reader: bytes.NewReader(make([]byte, 8<<20))}
	go func() {
		if answer, err := client.Post(server.URL, "", body); err == nil {
			answer.Body.Close()
		}
	}()
	<-begun
	for range 100 { // each waits for what was sent before it on the same connection
		answer, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.ProtoMajor != 2 {
			t.Fatalf("it is %s", answer.Proto)
		}
	}
	// The client has one frame in its hand.
	if n := body.n.Load(); n > 64<<10+512<<10 {
		t.Errorf("the library has taken %d bytes of a body that nobody reads", n)
	}
}
