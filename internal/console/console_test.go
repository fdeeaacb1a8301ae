package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/region"
)

const (
	account = "111122223333"
	address = "127.0.0.1:4566"
)

// newConsole returns a console whose clock is now, with what a test sets in its options.
func newConsole(set func(*Options)) *Console {
	o := Options{
		Region:      "eu-west-1",
		ServedUnder: ServedUnder(false, address),
		Credentials: func(_ context.Context, account string) (Credentials, error) {
			return Credentials{AccessKeyID: "ASIA" + account, SecretAccessKey: "secret", SessionToken: "token",
				Expiration: time.Unix(0, 0).UTC()}, nil
		},
		Log: slog.New(slog.DiscardHandler),
	}
	if set != nil {
		set(&o)
	}
	return New(o)
}

// ask sends a request with the headers "Name: value", from 127.0.0.1 or "From: ADDRESS", with "TLS: on" over TLS.
func ask(c *Console, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:50000"
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		switch name {
		case "Host":
			r.Host = value
		case "From":
			r.RemoteAddr = value
		case "TLS":
			r.TLS = &tls.ConnectionState{}
		default:
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func TestHosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		any     bool
		served  []string
		good    []string
		refused []string
	}{
		{name: "on loopback", served: []string{address},
			good: []string{"127.0.0.1:4566", "127.0.0.1", "127.9.9.9:1", "localhost:4566", "LOCALHOST", "localhost.:4566",
				"[::1]:4566", "[::1]"},
			refused: []string{"", "example.com", "example.com:4566", "localhost.example.com", "127.0.0.1.nip.io:4566",
				"192.0.2.1:4566", "[2001:db8::1]:4566", "127.0.0.1:4566:1", "[::1", "::1", "localhost:4566@example.com"}},
		{name: "on an address", served: []string{"192.0.2.1:4566"}, good: []string{"192.0.2.1:4566", "127.0.0.1"},
			refused: []string{"192.0.2.2:4566", "example.com"}},
		{name: "on a name", served: []string{"Coracle.internal:4566"}, good: []string{"coracle.internal:80",
			"CORACLE.internal"}, refused: []string{"other.internal:4566", "internal"}},
		{name: "on every address", served: []string{"0.0.0.0:4566"}, good: []string{"192.0.2.2:4566", "[2001:db8::1]:4566",
			"localhost"}, refused: []string{"example.com:4566", "192.0.2.2.example.com"}},
		{name: "on every address, by no host", served: []string{":4566"}, good: []string{"192.0.2.2:4566"},
			refused: []string{"example.com:4566", ":4566"}},
		{name: "wherever clients reach it", any: true, served: []string{address}, good: []string{"192.0.2.2:4566"},
			refused: []string{"example.com:4566"}},
		{name: "advertised", served: []string{address, "ci.example.com:80"}, good: []string{"ci.example.com"},
			refused: []string{"example.com"}},
	} {
		under := ServedUnder(test.any, test.served...)
		for _, host := range test.good {
			if !under(host) {
				t.Errorf("%s: %q is refused", test.name, host)
			}
		}
		for _, host := range test.refused {
			if under(host) {
				t.Errorf("%s: %q is served", test.name, host)
			}
		}
	}
}

// TestRebinding asks for everything there is by a name that somebody has pointed at this host.
func TestRebinding(t *testing.T) {
	t.Parallel()
	c := newConsole(nil)
	code, _ := c.CreateCode(account)
	for _, path := range []string{"/console", "/console/", "/console/icon.svg", "/console/session",
		"/console/kubernetes/eu-west-1/web/api"} {
		w := ask(c, http.MethodPost, path, `{"code":"`+code+`"}`, "Host: example.com:4566",
			"Content-Type: application/json", "Origin: http://example.com:4566")
		if w.Code != http.StatusMisdirectedRequest || !strings.Contains(w.Body.String(), "--advertise-address") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := redeem(c, code); w.Code != http.StatusOK {
		t.Errorf("the code is lost: %d %s", w.Code, w.Body)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	c := newConsole(nil)
	for _, path := range []string{"/console", "/console/", "/console/clusters/web", "/console/icon.svg",
		"/console/assets/none.js", "/console/session"} {
		h := ask(c, http.MethodGet, path, "").Header()
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		directives := strings.Split(h.Get("Content-Security-Policy"), "; ")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'",
			"img-src 'self' data:", "font-src 'self'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'",
			"frame-ancestors 'none'"} {
			if !slices.Contains(directives, want) {
				t.Errorf("%s: the policy %q lacks %q", path, directives, want)
			}
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	c := newConsole(nil)
	script := regexp.MustCompile(`src="(/console/assets/[^"]+\.js)"`)
	page := ask(c, http.MethodGet, "/console/", "")
	found := script.FindStringSubmatch(page.Body.String())
	if page.Code != http.StatusOK || found == nil {
		t.Fatalf("the page is %d %s", page.Code, page.Body)
	}
	if strings.Contains(page.Body.String(), "<style") || regexp.MustCompile(`<script[^>]*>[^<]`).Match(page.Body.Bytes()) {
		t.Errorf("the page has a script or style of its own: %s", page.Body)
	}
	if want := `name="coracle-region" content="eu-west-1"`; !strings.Contains(page.Body.String(), want) {
		t.Errorf("the page lacks %s", want)
	}

	packed := ask(c, http.MethodGet, found[1], "", "Accept-Encoding: br, gzip;q=0.9")
	plain := ask(c, http.MethodGet, found[1], "", "Accept-Encoding: gzip;q=0")
	if packed.Header().Get("Content-Encoding") != "gzip" || plain.Header().Get("Content-Encoding") != "" {
		t.Errorf("the encodings are %q and %q", packed.Header().Get("Content-Encoding"),
			plain.Header().Get("Content-Encoding"))
	}
	reader, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := io.ReadAll(reader); err != nil || !bytes.Equal(content, plain.Body.Bytes()) {
		t.Errorf("unpacked it differs (%v)", err)
	}

	for _, test := range []struct {
		method, path string
		status       int
		kind, cache  string
	}{
		{http.MethodGet, "/console", http.StatusPermanentRedirect, "", ""},
		{http.MethodGet, "/console/clusters/web/compute", http.StatusOK, "text/html", "no-store"},
		{http.MethodGet, "/console/index.html", http.StatusOK, "text/html", "no-store"},
		{http.MethodHead, found[1], http.StatusOK, "text/javascript", "public, max-age=31536000, immutable"},
		{http.MethodGet, "/console/icon.svg", http.StatusOK, "image/svg+xml", "no-cache"},
		{http.MethodGet, "/console/licenses.txt", http.StatusOK, "text/plain", "no-cache"},
		{http.MethodGet, "/console/assets/none.js", http.StatusNotFound, "", ""},
		{http.MethodGet, "/console/assets/../../console.go", http.StatusNotFound, "", ""},
		{http.MethodGet, "/console/SHA256SUMS", http.StatusOK, "text/html", "no-store"}, // no file for browsers
		{http.MethodPost, "/console/", http.StatusMethodNotAllowed, "", ""},
	} {
		w := ask(c, test.method, test.path, "", "Accept-Encoding: gzip")
		if w.Code != test.status || !strings.HasPrefix(w.Header().Get("Content-Type"), test.kind) ||
			test.cache != "" && w.Header().Get("Cache-Control") != test.cache {
			t.Errorf("%s %s: %d %v", test.method, test.path, w.Code, w.Header())
		}
	}
}

func TestUnchangedFilesAreNotSentAgain(t *testing.T) {
	t.Parallel()
	c := newConsole(nil)
	first := ask(c, http.MethodGet, "/console/icon.svg", "", "Accept-Encoding: gzip")
	again := ask(c, http.MethodGet, "/console/icon.svg", "", "Accept-Encoding: gzip",
		"If-None-Match: "+first.Header().Get("Etag"))
	if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("%d, %d bytes", again.Code, again.Body.Len())
	}
}

// TestSums compares the files that are checked in with the sums that were written when they were built.
func TestSums(t *testing.T) {
	t.Parallel()
	sums, err := dist.ReadFile("dist/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[name] = sum
	}
	err = fs.WalkDir(dist, "dist", func(path string, entry fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, "dist/")
		if err != nil || entry.IsDir() || name == "SHA256SUMS" {
			return err
		}
		content, err := dist.ReadFile(path)
		sum := sha256.Sum256(content)
		if got := hex.EncodeToString(sum[:]); got != want[name] {
			t.Errorf("%s has the sum %s, want %q: run \"make console\"", path, got, want[name])
		}
		delete(want, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		t.Errorf("%s is missing: run \"make console\"", name)
	}
}

// TestRegions compares the regions of the page with those that are served.
func TestRegions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../console/src/aws/regions.ts")
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, match := range regexp.MustCompile(`code: "([^"]+)"`).FindAllSubmatch(text, -1) {
		codes = append(codes, string(match[1]))
	}
	if want := region.Codes(); !slices.Equal(codes, want) {
		t.Errorf("the page has the regions %v, want %v", codes, want)
	}
}

// redeem asks for the credentials of a code, as the page does.
func redeem(c *Console, code string) *httptest.ResponseRecorder {
	return ask(c, http.MethodPost, "/console/session", `{"code":"`+code+`"}`, "Content-Type: application/json",
		"Origin: http://"+address, "Sec-Fetch-Site: same-origin")
}

func TestCodes(t *testing.T) {
	t.Parallel()
	c := newConsole(nil)
	now := time.Now()
	c.codes.now = func() time.Time { return now }
	first, expires := c.CreateCode(account)
	second, _ := c.CreateCode("444455556666")
	if len(first) != 43 || first == second || !expires.Equal(now.Add(time.Minute)) {
		t.Errorf("codes %q and %q, until %s", first, second, expires)
	}
	w := redeem(c, first)
	var answer map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	for name, want := range map[string]string{"accessKeyId": "ASIA" + account, "secretAccessKey": "secret",
		"sessionToken": "token", "account": account, "arn": "arn:aws:iam::" + account + ":root", "region": "eu-west-1",
		"expiration": "1970-01-01T00:00:00Z"} {
		if answer[name] != want {
			t.Errorf("%s is %q, want %q", name, answer[name], want)
		}
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("credentials may be kept: %q", got)
	}
	if w := redeem(c, first); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "has been used") {
		t.Errorf("the second time: %d %s", w.Code, w.Body)
	}
	if w := redeem(c, second); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "444455556666") {
		t.Errorf("the code of another account: %d %s", w.Code, w.Body)
	}
	for _, wrong := range []string{"", "x", strings.Repeat("A", 43), first[:42]} {
		if w := redeem(c, wrong); w.Code != http.StatusForbidden {
			t.Errorf("the code %q: %d %s", wrong, w.Code, w.Body)
		}
	}

	third, _ := c.CreateCode(account)
	now = now.Add(time.Minute)
	if w := redeem(c, third); w.Code != http.StatusForbidden {
		t.Errorf("after a minute: %d %s", w.Code, w.Body)
	}
}

func TestCodesAreBounded(t *testing.T) {
	t.Parallel()
	c := newConsole(nil)
	now := time.Now()
	c.codes.now = func() time.Time { return now }
	var made []string
	for range maxCodes + 1 {
		code, _ := c.CreateCode(account)
		made = append(made, code)
		now = now.Add(time.Millisecond)
	}
	if got := len(c.codes.waiting); got != maxCodes {
		t.Errorf("%d codes wait, want %d", got, maxCodes)
	}
	if w := redeem(c, made[0]); w.Code != http.StatusForbidden {
		t.Errorf("the oldest: %d", w.Code)
	}
	if w := redeem(c, made[maxCodes]); w.Code != http.StatusOK {
		t.Errorf("the newest: %d %s", w.Code, w.Body)
	}
	now = now.Add(time.Hour)
	c.CreateCode(account)
	if got := len(c.codes.waiting); got != 1 {
		t.Errorf("%d codes wait after an hour, want 1", got)
	}
}

// TestOnlyThePageSignsIn sends requests that pages of other origins can make. They do not use up the code either.
func TestOnlyThePageSignsIn(t *testing.T) {
	t.Parallel()
	c := newConsole(nil)
	code, _ := c.CreateCode(account)
	const good, kind = "Origin: http://" + address, "Content-Type: application/json"
	body := `{"code":"` + code + `"}`
	for _, test := range []struct {
		name, method, body string
		headers            []string
		status             int
	}{
		{"read", http.MethodGet, "", []string{kind, good}, http.StatusMethodNotAllowed},
		{"a form", http.MethodPost, body, []string{"Content-Type: text/plain", good}, http.StatusUnsupportedMediaType},
		{"nothing", http.MethodPost, body, []string{good}, http.StatusUnsupportedMediaType},
		{"no origin", http.MethodPost, body, []string{kind}, http.StatusForbidden},
		{"another origin", http.MethodPost, body, []string{kind, "Origin: http://example.com"}, http.StatusForbidden},
		{"another port", http.MethodPost, body, []string{kind, "Origin: http://127.0.0.1:8080"}, http.StatusForbidden},
		{"no origin to speak of", http.MethodPost, body, []string{kind, "Origin: null"}, http.StatusForbidden},
		{"an extension", http.MethodPost, body, []string{kind, "Origin: chrome-extension://" + address},
			http.StatusForbidden},
		{"another site", http.MethodPost, body, []string{kind, good, "Sec-Fetch-Site: same-site"}, http.StatusForbidden},
		{"no JSON", http.MethodPost, "code=" + code, []string{kind, good}, http.StatusBadRequest},
		{"too much", http.MethodPost, `{"x":"` + strings.Repeat("x", 2000) + `",` + body[1:], []string{kind, good},
			http.StatusBadRequest},
	} {
		w := ask(c, test.method, "/console/session", test.body, test.headers...)
		if w.Code != test.status || !strings.Contains(w.Body.String(), `{"message":"`) ||
			strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %s, want %d", test.name, w.Code, w.Body, test.status)
		}
	}
	if w := redeem(c, code); w.Code != http.StatusOK {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

func TestCredentialsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	c := newConsole(func(o *Options) {
		o.Credentials = func(context.Context, string) (Credentials, error) {
			return Credentials{}, errors.New("the key of session tokens is gone")
		}
	})
	code, _ := c.CreateCode(account)
	if w := redeem(c, code); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "is gone") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestAwaitCode waits for a code that is redeemed, one that a newer one displaces, and one that nobody redeems.
func TestAwaitCode(t *testing.T) {
	t.Parallel()
	c := newConsole(nil)
	wait := func(ctx context.Context, code string) chan error {
		ended := make(chan error, 1)
		go func() { ended <- c.AwaitCode(ctx, code) }()
		return ended
	}
	redeemed, _ := c.CreateCode(account)
	waiting := wait(t.Context(), redeemed)
	if w := redeem(c, redeemed); w.Code != http.StatusOK {
		t.Fatal(w.Code)
	}
	if err := <-waiting; err != nil {
		t.Errorf("a code that is redeemed: %v", err)
	}
	if err := c.AwaitCode(t.Context(), redeemed); err != nil {
		t.Errorf("a code that was: %v", err)
	}
	displaced, _ := c.CreateCode(account)
	waiting = wait(t.Context(), displaced)
	for range maxCodes {
		c.CreateCode(account)
	}
	if err := <-waiting; err != nil {
		t.Errorf("a code that is displaced: %v", err)
	}
	kept, _ := c.CreateCode(account)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.AwaitCode(over, kept); !errors.Is(err, context.Canceled) {
		t.Errorf("a code that nobody redeems: %v", err)
	}
}

// TestNobodyReadsAlong asks from other hosts, with and without TLS. A request that is refused does not use up the code.
func TestNobodyReadsAlong(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, host, from string
		tls, published   bool
		status           int
	}{
		{"on the host", address, "127.0.0.1:1", false, false, http.StatusOK},
		{"on the host, by IPv6", "[::1]:4566", "[::1]:1", false, false, http.StatusOK},
		{"on the host, by a socket of both", address, "[::ffff:127.0.0.1]:1", false, false, http.StatusOK},
		{"behind a proxy on the host", "192.0.2.1:4566", "127.0.0.1:1", false, false, http.StatusOK},
		{"on another host", "192.0.2.1:4566", "192.0.2.9:1", false, false, http.StatusForbidden},
		{"on another host, with TLS", "192.0.2.1:4566", "192.0.2.9:1", true, false, http.StatusOK},
		{"on another host, by a name of this one", "localhost:4566", "192.0.2.9:1", false, false, http.StatusForbidden},
		{"by the host's own address", "192.0.2.1:4566", "192.0.2.1:1", false, false, http.StatusForbidden},
		{"by a published port", "localhost:4566", "172.17.0.1:1", false, true, http.StatusOK},
		{"by a published port, on another host", "192.0.2.1:4566", "172.17.0.1:1", false, true, http.StatusForbidden},
		{"from nowhere", "192.0.2.1:4566", "@", false, false, http.StatusForbidden},
	} {
		c := newConsole(func(o *Options) {
			o.ServedUnder, o.PublishedPort = ServedUnder(true), test.published
		})
		code, _ := c.CreateCode(account)
		scheme, headers := "http", []string{"Host: " + test.host, "From: " + test.from}
		if test.tls {
			scheme, headers = "https", append(headers, "TLS: on")
		}
		headers = append(headers, "Content-Type: application/json", "Origin: "+scheme+"://"+test.host)
		if w := ask(c, http.MethodGet, "/console/", "", headers...); w.Code != test.status {
			t.Errorf("%s: the page: %d %s", test.name, w.Code, w.Body)
		}
		w := ask(c, http.MethodPost, "/console/session", `{"code":"`+code+`"}`, headers...)
		if w.Code != test.status || strings.Contains(w.Body.String(), "secret") != (test.status == http.StatusOK) {
			t.Errorf("%s: %d %s, want %d", test.name, w.Code, w.Body, test.status)
		}
		if test.status == http.StatusOK {
			continue
		}
		if !strings.Contains(w.Body.String(), "https://"+test.host+Prefix) {
			t.Errorf("%s: %s", test.name, w.Body)
		}
		if w := redeem(c, code); w.Code != http.StatusOK {
			t.Errorf("%s: the code is lost: %d %s", test.name, w.Code, w.Body)
		}
	}
	// A page that was loaded without TLS is of another origin than what is served with it.
	c := newConsole(nil)
	code, _ := c.CreateCode(account)
	if w := ask(c, http.MethodPost, "/console/session", `{"code":"`+code+`"}`, "TLS: on", "Content-Type: application/json",
		"Origin: http://"+address); w.Code != http.StatusForbidden {
		t.Errorf("a page without TLS: %d %s", w.Code, w.Body)
	}
}

// TestNoCookies asks for each path: browsers send cookies by themselves, also for pages of others.
func TestNoCookies(t *testing.T) {
	t.Parallel()
	c := newConsole(nil)
	code, _ := c.CreateCode(account)
	answers := []*httptest.ResponseRecorder{redeem(c, code), redeem(c, code)}
	for _, path := range []string{"/console", "/console/", "/console/clusters/web", "/console/icon.svg",
		"/console/assets/none.js", "/console/session"} {
		answers = append(answers, ask(c, http.MethodGet, path, ""))
	}
	for _, w := range answers {
		if got := w.Header().Values("Set-Cookie"); len(got) > 0 {
			t.Errorf("cookies %q", got)
		}
	}
	// Nor does a cookie let anybody do anything.
	code, _ = c.CreateCode(account)
	if w := ask(c, http.MethodPost, "/console/session", `{}`, "Content-Type: application/json", "Origin: http://"+address,
		"Cookie: code="+code); w.Code != http.StatusForbidden {
		t.Errorf("by a cookie: %d %s", w.Code, w.Body)
	}
}
