package wire_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// TestHeadersOfASourceAreBounded has a source send large headers in requests that do not end.
func TestHeadersOfASourceAreBounded(t *testing.T) {
	t.Parallel()
	held, end := context.WithCancel(t.Context())
	started := make(chan struct{})
	handler := wire.Server("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		<-held.Done()
	})).Handler
	request := func(source string, fields int) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = source
		for i := range fields {
			r.Header.Set(fmt.Sprintf("h%d", i), "~~~~~~~~~~")
		}
		return r
	}
	var running sync.WaitGroup
	// send reports whether a request is carried out; it is then under way until the end of the test.
	send := func(source string, fields int) bool {
		answer, refused := httptest.NewRecorder(), make(chan struct{})
		running.Go(func() {
			handler.ServeHTTP(answer, request(source, fields))
			close(refused)
		})
		select {
		case <-started:
			return true
		case <-refused:
		}
		if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "try again") {
			t.Errorf("refused with %d %s", answer.Code, answer.Body)
		}
		return false
	}
	const fields = 2000 // some 300 KiB each
	n := 0
	for send("10.0.0.1:1", fields) {
		if n++; n > 200 {
			t.Fatal("one source may have any number of headers")
		}
	}
	if n < 50 {
		t.Errorf("a source may have only %d requests with large headers at a time", n)
	}
	if send("10.0.0.1:2", fields) {
		t.Error("another connection of the source may have more")
	}
	if !send("10.0.0.2:1", fields) {
		t.Error("the headers of one source are in the way of another's")
	}
	end()
	running.Wait()
	go func() { <-started }()
	answer, last := httptest.NewRecorder(), request("10.0.0.1:1", fields)
	if handler.ServeHTTP(answer, last); answer.Code != http.StatusOK {
		t.Errorf("after the others have ended: %d %s", answer.Code, answer.Body)
	}
	if last.Header != nil {
		t.Error("a request that has been carried out keeps its header")
	}
}

// TestTrailersOfRequestsAreBounded has requests that announce trailers, of which net/http makes a map that is in no
// header.
func TestTrailersOfRequestsAreBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.Config = wire.Server("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Trailer != nil {
			t.Errorf("names of trailers are kept: %v", r.Trailer)
		}
		fmt.Fprint(w, "there")
	}))
	server.Start()
	defer server.Close()
	for number, want := range map[int]int{2: http.StatusOK, 100: http.StatusBadRequest} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, io.NopCloser(strings.NewReader("x")))
		if err != nil {
			t.Fatal(err)
		}
		r.Trailer = http.Header{}
		for i := range number {
			r.Trailer.Set(fmt.Sprintf("x%d", i), "")
		}
		answer, err := server.Client().Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%d names of trailers: %s, want %d", number, answer.Status, want)
		}
	}
}
