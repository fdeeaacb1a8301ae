package wire_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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
	answer := httptest.NewRecorder()
	if handler.ServeHTTP(answer, request("10.0.0.1:1", fields)); answer.Code != http.StatusOK {
		t.Errorf("after the others have ended: %d %s", answer.Code, answer.Body)
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
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for number, want := range map[int]int{2: http.StatusOK, 100: http.StatusBadRequest} {
		for _, h2 := range []bool{false, true} {
			roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: new(http.Protocols)}
			transport.Protocols.SetHTTP1(!h2)
			transport.Protocols.SetHTTP2(h2)
			defer transport.CloseIdleConnections()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, io.NopCloser(strings.NewReader("x")))
			if err != nil {
				t.Fatal(err)
			}
			r.Trailer = http.Header{}
			for i := range number {
				r.Trailer.Set(fmt.Sprintf("x%d", i), "")
			}
			answer, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || answer.StatusCode != want || (answer.ProtoMajor == 2) != h2 || h2 && want != 200 && len(text) > 0 {
				t.Errorf("%d names of trailers: %s %s %q, %v, want %d", number, answer.Proto, answer.Status, text, err, want)
			}
		}
	}
}

// TestHeadersCountUntilAnswersAreTaken has a source take nothing of answers on HTTP/2 that have been given.
func TestHeadersCountUntilAnswersAreTaken(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.Config = wire.Server("", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "there")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close) // after the connections have been closed
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	write := func(name, value string) {
		if err := encoder.WriteField(hpack.HeaderField{Name: name, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	// ask sends as many requests on a connection as there may be, and reports how many are carried out.
	ask := func() (n int) {
		c, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "example.com",
			NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		framer := http2.NewFramer(c, c)
		_, err = io.WriteString(c, http2.ClientPreface)
		err = errors.Join(err, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
		if err != nil {
			t.Fatal(err)
		}
		encoder = hpack.NewEncoder(&block)
		for i := range wire.MaxStreams {
			block.Reset()
			write(":method", "GET")
			write(":scheme", "https")
			write(":authority", "example.com")
			write(":path", "/")
			for range 600 {
				write("h", "")
			}
			if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(),
				EndStream: true, EndHeaders: true}); err != nil {
				t.Fatal(err)
			}
		}
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		for answers := 0; answers < wire.MaxStreams; {
			f, err := framer.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				if answers++; f.PseudoValue("status") == "200" {
					n++
				}
			case *http2.SettingsFrame:
				if !f.IsAck() {
					_ = framer.WriteSettingsAck()
				}
			}
		}
		return n
	}
	all := 0
	for {
		n := ask()
		if all += n; n < wire.MaxStreams {
			break
		}
		if all > 2000 {
			t.Fatal("a source may have any number of headers of requests that have been answered")
		}
	}
	if all < 100 {
		t.Errorf("a source may have only %d requests", all)
	}
}
