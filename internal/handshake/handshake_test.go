package handshake

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// TestWhatHandshakesReadIsBounded has each side send much after it, and too much for it.
func TestWhatHandshakesReadIsBounded(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.StartTLS()
	t.Cleanup(s.Close)
	pair := s.TLS.Certificates[0]
	long := tls.Certificate{Certificate: [][]byte{pair.Certificate[0], make([]byte, MostOfServer)},
		PrivateKey: pair.PrivateKey}
	var names []string
	for range MostOfClient / 200 {
		names = append(names, string(make([]byte, 200)))
	}
	for _, c := range []struct {
		name        string
		certificate tls.Certificate
		protocols   []string
		long        bool // of the client, else of the server
		fails       bool
	}{
		{"usual", pair, nil, false, false},
		{"a long chain", long, nil, false, true},
		{"a long hello", pair, append(names, "x"), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			served := make(chan error, 1)
			go func() {
				served <- func() error {
					conn, err := l.Accept()
					if err != nil {
						return err
					}
					secure, err := Server(t.Context(), conn, &tls.Config{Certificates: []tls.Certificate{c.certificate},
						NextProtos: []string{"x"}}, eventually.Limit)
					if err != nil {
						return err
					}
					defer secure.Close()
					_, err = io.Copy(secure, io.LimitReader(secure, 2*MostOfServer))
					return err
				}()
			}()
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			secure, err := Client(t.Context(), conn, &tls.Config{InsecureSkipVerify: true, NextProtos: c.protocols},
				eventually.Limit)
			if c.fails {
				if c.long {
					err = <-served
				}
				if !errors.Is(err, ErrLong) {
					t.Errorf("the handshake ends with %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer secure.Close()
			go secure.Write(make([]byte, 2*MostOfServer))
			if n, err := io.Copy(io.Discard, secure); n != 2*MostOfServer || err != nil {
				t.Errorf("after the handshake %d bytes come back: %v", n, err)
			}
		})
	}
}

func TestHandshakesEnd(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	go io.Copy(io.Discard, there)
	var timeout net.Error
	_, err := Client(t.Context(), here, &tls.Config{InsecureSkipVerify: true}, time.Millisecond)
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a server that says nothing: %v", err)
	}
	if _, err := here.Write([]byte{0}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("its connection is not closed: %v", err)
	}
}
