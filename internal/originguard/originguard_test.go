package originguard

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
)

// hostile has each header with which an answer changes what a browser keeps.
func hostile(h http.Header) {
	for _, name := range []string{"Accept-CH", "Activate-Storage-Access", "Alt-Svc", "Clear-Site-Data", "Critical-CH",
		"NEL", "Refresh", "Report-To", "Reporting-Endpoints", "Secure-Session-Challenge", "Secure-Session-Registration",
		"Service-Worker-Allowed", "Set-Cookie", "Set-Login", "Speculation-Rules", "Strict-Transport-Security",
		"Use-As-Dictionary"} {
		h.Add(name, "first")
		h.Add(name, "second")
	}
	h.Set("Content-Security-Policy", "default-src *")
	h.Set("X-Amz-Request-Id", "kept")
}

// TestAnswers has handlers answer in each way that there is: nobody gets a header by.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"nothing": func(w http.ResponseWriter, _ *http.Request) { hostile(w.Header()) },
		"a status": func(w http.ResponseWriter, _ *http.Request) {
			hostile(w.Header())
			w.WriteHeader(http.StatusNotModified)
			hostile(w.Header())
		},
		"content": func(w http.ResponseWriter, _ *http.Request) {
			hostile(w.Header())
			fmt.Fprint(w, "<script>")
			fmt.Fprint(w, "more")
		},
		"a file": func(w http.ResponseWriter, _ *http.Request) {
			hostile(w.Header())
			io.Copy(w, strings.NewReader("<script>")) //nolint:errcheck // a test
		},
		"a stream": func(w http.ResponseWriter, _ *http.Request) {
			hostile(w.Header())
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "event")
		},
		"a stream, by its controller": func(w http.ResponseWriter, _ *http.Request) {
			hostile(w.Header())
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		},
		"an invitation first": func(w http.ResponseWriter, _ *http.Request) {
			hostile(w.Header())
			w.WriteHeader(http.StatusContinue)
			w.WriteHeader(http.StatusOK)
		},
		"hints first": func(w http.ResponseWriter, _ *http.Request) {
			hostile(w.Header())
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusProcessing)
			clear(w.Header()) // as httputil.ReverseProxy does
			hostile(w.Header())
			w.WriteHeader(http.StatusOK)
		},
	} {
		server := httptest.NewServer(Handler(answer))
		defer server.Close()
		trace := &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			if status == http.StatusContinue && len(h) == 0 {
				return nil
			}
			t.Errorf("%s: the interim answer %d", name, status)
			return nil
		}}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		checkHeader(t, name, response.Header)
	}
}

func checkHeader(t *testing.T, name string, h http.Header) {
	t.Helper()
	if got := h.Values("Content-Security-Policy"); !slices.Equal(got, []string{"default-src *", Policy}) {
		t.Errorf("%s: the policies %q", name, got)
	}
	for key, values := range h {
		if slices.Contains(values, "first") || slices.Contains(values, "second") {
			t.Errorf("%s: %s passes", name, key)
		}
	}
	if h.Get("X-Amz-Request-Id") != "kept" {
		t.Errorf("%s: the header is %v", name, h)
	}
}

// TestUpgrades takes a connection over, after the client was invited to send a body.
func TestUpgrades(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusContinue)
		hostile(w.Header())
		conn, both, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		answer := http.Response{StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1,
			Header: w.Header()}
		if err := answer.Write(both); err != nil {
			t.Error(err)
		}
		fmt.Fprint(both, "hello")
		both.Flush()
	})))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q (%v)", line, err)
	}
	in.ReadString('\n') //nolint:errcheck // the next read has the error
	response, err := http.ReadResponse(in, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v (%v)", response, err)
	}
	checkHeader(t, "101", response.Header)
	if got, err := io.ReadAll(in); err != nil || string(got) != "hello" {
		t.Errorf("%q (%v)", got, err)
	}
}

// TestPagesOfTheOriginRunNothing asks as browsers do for a page.
func TestPagesOfTheOriginRunNothing(t *testing.T) {
	t.Parallel()
	handler := Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "alert(1)") }))
	for _, test := range []struct {
		headers string
		status  int
	}{
		{"", http.StatusOK}, // aws
		{"Sec-Fetch-Site: same-origin, Sec-Fetch-Dest: empty", http.StatusOK},
		{"Sec-Fetch-Site: none, Sec-Fetch-Dest: document", http.StatusOK},
		{"Sec-Fetch-Site: cross-site, Sec-Fetch-Dest: script", http.StatusOK}, // a web application, from its bucket
		{"Sec-Fetch-Site: same-origin, Sec-Fetch-Dest: script", http.StatusForbidden},
		{"Sec-Fetch-Site: same-origin, Sec-Fetch-Dest: worker", http.StatusForbidden},
		{"Sec-Fetch-Site: same-origin, Sec-Fetch-Dest: style", http.StatusForbidden},
		{"Sec-Fetch-Site: same-origin, Sec-Fetch-Dest: iframe", http.StatusForbidden},
		{"Service-Worker: script", http.StatusForbidden},
	} {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		for header := range strings.SplitSeq(test.headers, ", ") {
			name, value, _ := strings.Cut(header, ": ")
			r.Header.Set(name, value)
		}
		handler.ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%s: %d", test.headers, w.Code)
		}
	}
}

// BenchmarkHandler compares an answer that is guarded with one that is not.
func BenchmarkHandler(b *testing.B) {
	plain := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }) //nolint:errcheck
	for name, handler := range map[string]http.Handler{"guarded": Handler(plain), "plain": plain} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			for b.Loop() {
				handler.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}
