package admin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// lasting is a daemon that may be stopped often.
type lasting struct{ daemon }

func (lasting) Stop() {}

// FuzzRequest shows that every command that is not one is refused, with an answer that the command line can read: it
// begins with requests as they travel.
func FuzzRequest(f *testing.F) {
	for _, request := range []string{
		"GET /status HTTP/1.1\r\nHost: coracle\r\n\r\n", "GET /ping HTTP/1.1\r\nHost: coracle\r\n\r\n",
		"POST /stop HTTP/1.1\r\nHost: coracle\r\n\r\n", "GET /backup HTTP/1.1\r\nHost: coracle\r\n\r\n",
		"POST /accounts HTTP/1.1\r\nHost: coracle\r\nContent-Length: 26\r\n\r\n{\"account\":\"444455556666\"}",
		"POST /interruptions HTTP/1.1\r\nHost: coracle\r\nContent-Length: 21\r\n\r\n{\"instance\":\"i-spot\"}",
		"POST /images HTTP/1.1\r\nHost: coracle\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"POST /fields HTTP/1.1\r\nHost: coracle\r\nContent-Length: 14\r\n\r\n{\"name\":\"a/b\"}",
	} {
		f.Add([]byte(request))
	}
	h := handler(
		lasting{daemon{backup: func(w io.Writer) error { return errors.New("no") }}},
		slog.New(slog.DiscardHandler),
	)
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s\nis answered with\n%s", raw, w.Body)
		}
	})
}

func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	h := handler(lasting{}, slog.New(slog.DiscardHandler))
	for _, path := range []string{"/accounts", "/interruptions", "/fields"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(
			w,
			httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"account":"`+strings.Repeat("x", maxRequest)+
				`"}`)),
		)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "request body too large") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
