package daemon

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/forward"
	"github.com/coracle-eks/coracle/internal/originguard"
)

// consoleDaemon returns a daemon that serves the console and forwards Amazon S3, but has nothing that could answer.
func consoleDaemon(t *testing.T, settings datadir.Settings) *daemon {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	endpoints, err := forward.Parse([]string{"s3=http://127.0.0.1:9"})
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{log: log, settings: settings, host: &host{},
		api: &apiLayer{forwarder: forward.New(forward.Options{Endpoints: endpoints})}}
	d.console = d.newConsole()
	return d
}

// TestNothingElseActsForTheConsole asks for what others have written under the addresses of the console, as a browser
// does with a presigned URL. A bucket's name may be "console".
func TestNothingElseActsForTheConsole(t *testing.T) {
	t.Parallel()
	d := consoleDaemon(t, datadir.Settings{Listen: "127.0.0.1:4566", AdvertiseAddress: Auto})
	var reached string
	handler := d.outsideVPCs(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached = r.URL.Path
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Service-Worker-Allowed", "/")
		w.Header().Set("Set-Cookie", "a=b")
		fmt.Fprint(w, "<script>navigator.serviceWorker.register('/console/sw.js')</script>")
	}))
	const signature = "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-SignedHeaders=host&X-Amz-Signature=00&" +
		"X-Amz-Date=20261130T000000Z&X-Amz-Expires=60&X-Amz-Credential=AKIA%2F20261130%2Feu-west-1%2Fs3%2Faws4_request"
	const aws = "console.s3.eu-west-1.amazonaws.com"
	for _, test := range []struct {
		host, path string
		status     int
		forwarded  bool
		body       string
	}{
		{"127.0.0.1:4566", "/console/x.html" + signature, http.StatusBadRequest, false, "InvalidBucketName"},
		{"localhost:4566", "/console" + signature, http.StatusBadRequest, false, "InvalidBucketName"},
		{"127.0.0.1:4566", "/console/%2e%2e/x" + signature, http.StatusBadRequest, false, "InvalidBucketName"},
		{"127.0.0.1:4566", "/other/x.html" + signature, http.StatusOK, true, "<script>"},
		{"127.0.0.1:4566", "//console/x.html" + signature, http.StatusOK, true, "<script>"},
		{"127.0.0.1:4566", "/v2/app/blobs/x", http.StatusOK, true, "<script>"},
		// Names of AWS are origins of their own, and the console is not served there.
		{aws, "/console/x.html" + signature, http.StatusOK, true, "<script>"},
		{aws, "/console/x.html", http.StatusOK, true, "<script>"},
		{"example.com", "/console/", http.StatusMisdirectedRequest, false, "not served under the name"},
	} {
		reached = ""
		u, err := url.ParseRequestURI(test.path)
		if err != nil {
			t.Fatal(err)
		}
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.URL, r.Host, r.RemoteAddr = u, test.host, "127.0.0.1:50000"
		handler.ServeHTTP(w, r)
		name := test.host + test.path
		if w.Code != test.status || (reached != "") != test.forwarded || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s: %d %s, at %q", name, w.Code, w.Body, reached)
		}
		h := w.Header()
		if test.status == http.StatusMisdirectedRequest {
			continue // of the console
		}
		if !slices.Contains(h.Values("Content-Security-Policy"), originguard.Policy) || h.Get("Set-Cookie") != "" ||
			h.Get("Service-Worker-Allowed") != "" {
			t.Errorf("%s: %v", name, h)
		}
	}
}

// TestLinksToOtherHostsHaveTLS compares the links of daemons that listen and are reached elsewhere.
func TestLinksToOtherHostsHaveTLS(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ listen, advertised, want string }{
		{"127.0.0.1:4566", "", "http://127.0.0.1:4566/console/"},
		{"localhost:4566", "", "http://localhost:4566/console/"},
		{"[::1]:4566", "", "http://[::1]:4566/console/"},
		{"0.0.0.0:4566", "", "http://127.0.0.1:4566/console/"},
		{"0.0.0.0:4566", Auto, "http://127.0.0.1:4566/console/"},
		{"192.0.2.1:4566", "", "https://192.0.2.1:4566/console/"},
		{"0.0.0.0:4566", "ci.example.com:443", "https://ci.example.com:443/console/"},
	} {
		if got := consoleURL(datadir.Settings{Listen: test.listen, AdvertiseAddress: test.advertised}); got != test.want {
			t.Errorf("%s, %q: %s, want %s", test.listen, test.advertised, got, test.want)
		}
	}
}
