package application

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/host/headerfields"
)

// TestHeaderFieldsAreBounded has requests with as many header fields as there may be, and with more, which are not
// awaited to their end.
func TestHeaderFieldsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(fixed("x"))}})
	fields := func(number int) string {
		var all strings.Builder
		for i := range number {
			fmt.Fprintf(&all, "x%d:\r\n", i)
		}
		return all.String()
	}
	const begin = "GET / HTTP/1.1\r\nHost: a.example\r\n"
	if got := r.raw(begin + "Connection: close\r\n" + fields(headerfields.Most-2) + "\r\n"); !strings.HasPrefix(got,
		"HTTP/1.1 200 ") {
		t.Errorf("as many fields as may be: %q", got)
	}
	if got := r.raw(begin + fields(headerfields.Most+1)); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("a header with too many fields that has not ended: %q", got)
	}

	names := func(number int) string { return "Trailer: x" + strings.Repeat(",x", number-1) + "\r\n" }
	const chunked, last = "Transfer-Encoding: chunked\r\n", "\r\n0\r\n\r\n"
	const post = "POST / HTTP/1.1\r\nHost: a.example\r\n"
	if got := r.raw(post + "Connection: close\r\n" + chunked + names(headerfields.Most-4) + last); !strings.HasPrefix(got,
		"HTTP/1.1 200 ") {
		t.Errorf("as many names of trailers as may be: %q", got)
	}
	got := r.raw(post + chunked + strings.TrimSuffix(names(headerfields.Most+1), "\r\n"))
	if !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("too many names of trailers, in a line that has not ended: %q", got)
	}
	for _, blank := range []string{"\n", "\r\n", "\r\n\r\n", "\r\r\n\n"} {
		got := r.raw("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" + blank + begin + fields(3000))
		if strings.Count(got, "HTTP/1.1 200 ") != 1 || !strings.Contains(got, "HTTP/1.1 400 ") {
			t.Errorf("too many fields after %q: %q", blank, got)
		}
	}

	secured := newRig(t, secure(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(fixed("x"))}},
		"a.example"))
	client := secured.client(true)
	for number, want := range map[int]int{headerfields.Most / 2: http.StatusOK,
		headerfields.Most + 1: http.StatusBadRequest} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for i := range number {
			request.Header.Set(fmt.Sprintf("x%d", i), "")
		}
		if answer, _ := do(t, client, request); answer.StatusCode != want || answer.ProtoMajor != 2 {
			t.Errorf("%d fields: %s %s, want %d", number, answer.Proto, answer.Status, want)
		}
		request.Method, request.Header, request.Body = http.MethodPost, http.Header{}, io.NopCloser(strings.NewReader("x"))
		request.Trailer = http.Header{}
		for i := range number {
			request.Trailer.Set(fmt.Sprintf("x%d", i), "")
		}
		if answer, _ := do(t, client, request); answer.StatusCode != want || answer.ProtoMajor != 2 {
			t.Errorf("%d names of trailers: %s %s, want %d", number, answer.Proto, answer.Status, want)
		}
	}
}
