package headerfields

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnswersAreCounted has answers that come byte by byte, and at once.
func TestAnswersAreCounted(t *testing.T) {
	t.Parallel()
	few, many := strings.Repeat("a:\r\n", Most), strings.Repeat("a:\n", Most+1)
	for _, c := range []struct {
		name, text string
		many       bool
	}{
		{"few", "HTTP/1.1 200 OK\r\n" + few + "\r\n", false},
		{"many", "HTTP/1.1 200 OK\r\n" + many, true},
		{"many in the body", "HTTP/1.1 200 OK\r\n" + few + "\r\n" + many, false},
		{"an answer before", "HTTP/1.1 103 Early Hints\r\n" + few + "\r\nHTTP/1.1 200 OK\r\n" + few + "\r\n" + many, false},
		{"many after an answer before", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + many, true},
		{"many in another protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\n" + many, false},
		{"few names of trailers", "HTTP/1.1 200 OK\r\nTrailer: a" + strings.Repeat(",a", Most-1) + "\r\n\r\n", false},
		{"many of them", "HTTP/1.1 200 OK\r\ntrAILER: a" + strings.Repeat(",a", Most+1), true},
		{"many of them in a folded line", "HTTP/1.1 200 OK\r\nTrailer: a\r\n " + strings.Repeat(",a", Most+1), true},
		{"many of another field", "HTTP/1.1 200 OK\r\nTrailers: a" + strings.Repeat(",a", Most+1) + "\r\n\r\n", false},
		{"many after spaces", "HTTP/1.1    100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + many, true},
	} {
		for _, size := range []int{1, len(c.text)} {
			counter := Counter{answers: true}
			counter.HeaderRead()
			counter.Begin()
			var err error
			for text := c.text; text != "" && err == nil; text = text[size:] {
				err = counter.Count([]byte(text[:size]))
			}
			if errors.Is(err, ErrMany) != c.many {
				t.Errorf("%s, %d bytes at a time: %v", c.name, size, err)
			}
		}
	}
}

// read returns the header that net/http reads of bytes after a request, as far as there is one.
func read(text []byte) (*http.Request, error) {
	blank := 0
	for blank < min(4, len(text)) && (text[blank] == '\r' || text[blank] == '\n') {
		blank++ // as net/http does
	}
	return http.ReadRequest(bufio.NewReader(bytes.NewReader(text[blank:])))
}

// TestRequestsAreCounted has requests after lines that net/http passes over.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	for _, blank := range []string{"", "\n", "\r\n", "\r\n\r\n", "\r\r\n\n", "\r\r\r\n"} {
		text := []byte(blank + "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("a:\r\n", Most+1) + "\r\n")
		if r, err := read(text); err != nil || len(r.Header["A"]) <= Most {
			t.Errorf("%q: %v", blank, err)
		}
		for _, size := range []int{1, len(text)} {
			var counter Counter
			var err error
			for left := text; len(left) > 0 && err == nil; left = left[size:] {
				err = counter.Count(left[:size])
			}
			if !errors.Is(err, ErrMany) {
				t.Errorf("%q, %d bytes at a time: %v", blank, size, err)
			}
		}
	}
}

// FuzzCounter compares what is counted with what net/http reads.
func FuzzCounter(f *testing.F) {
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n", "\r\nGET / HTTP/1.1\nHost: a\n\n",
		"\r\r\n\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTrailer: a,b,\r\n\tc\r\n\r\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var counter Counter
		if counter.Count(text) != nil {
			return
		}
		r, err := read(text)
		if err != nil {
			return
		}
		if n := Count(r.Header, r.Trailer); counter.lines < n+1 {
			t.Errorf("%q: %d fields are %d lines", text, n, counter.lines)
		}
	})
}

func TestShadowsAreDeleted(t *testing.T) {
	t.Parallel()
	h := http.Header{"X-One": nil, "X_one": nil, "X.One": nil, "x_ONE": nil, "X_two": nil, "X-One_": nil, "Xone": nil}
	DeleteShadows(h, "X-One")
	for name, want := range map[string]bool{"X-One": true, "X_one": false, "X.One": false, "x_ONE": false, "X_two": true,
		"X-One_": true, "Xone": true} {
		if _, got := h[name]; got != want {
			t.Errorf("%s is there: %v, want %v", name, got, want)
		}
	}
}

// TestClosingWaitsForNoServer closes a connection of TLS to a server that takes nothing. TLS would wait five seconds,
// or for good where it is about to answer the server.
func TestClosingWaitsForNoServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		go tls.Server(there, &tls.Config{Certificates: server.TLS.Certificates, SessionTicketsDisabled: true}).Handshake()
		secure := tls.Client(here, &tls.Config{InsecureSkipVerify: true})
		if err := secure.Handshake(); err != nil {
			t.Fatal(err)
		}
		conn, err := Dialer(func(context.Context, string, string) (net.Conn, error) { return secure, nil })(t.Context(),
			"tcp", "target")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		conn.Close()
		if took := time.Since(began); took != closeTime {
			t.Errorf("it takes %s, want %s", took, closeTime)
		}
	})
}
