package image

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ask sends a request to a registry without a network, and wants the answer in the form of the protocol.
func ask(t *testing.T, r *Registry, path, ns string) (status int, code, message string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:4566/", nil)
	request.URL.Path = path
	if ns != "" {
		request.URL.RawQuery = "ns=" + url.QueryEscape(ns)
	}
	w := httptest.NewRecorder()
	r.Handler(nobody{}).ServeHTTP(w, request)
	var answer struct {
		Errors []struct{ Code, Message string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Errors) != 1 ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		t.Errorf("%s of %q is answered with %d %v %s", path, ns, w.Code, w.Header(), w.Body)
		return w.Code, "", ""
	}
	return w.Code, answer.Errors[0].Code, answer.Errors[0].Message
}

// TestNamesThatAreNone sends invalid names of registries and repositories, tags and digests, in all requests alike.
func TestNamesThatAreNone(t *testing.T) {
	t.Parallel()
	n := newInternet()
	n.cut.Store(true)
	r := open(t, Options{Transport: n})
	long := strings.Repeat("a/", 120) + "a" // not too long for a repository, but as it is stored
	for _, test := range []struct {
		ns, repository, reference string // of a tag or a digest
		status                    int
		code                      string
	}{
		{".", "library/nginx", "v1", 400, "NAME_INVALID"},
		{"..", "library/nginx", "v1", 400, "NAME_INVALID"},
		{"docker.io.", "library/nginx", "v1", 400, "NAME_INVALID"},
		{"docker.io..", "library/nginx", "v1", 400, "NAME_INVALID"},
		{".docker.io", "library/nginx", "v1", 400, "NAME_INVALID"},
		{"docker..io", "library/nginx", "v1", 400, "NAME_INVALID"},
		{"docker.io:", "library/nginx", "v1", 400, "NAME_INVALID"},
		{"docker.io/library", "nginx", "v1", 400, "NAME_INVALID"},
		{"[::1]", "library/nginx", "v1", 400, "NAME_INVALID"},
		{"[::1]:5000", "library/nginx", "v1", 400, "NAME_INVALID"},
		{"docker.io", ".", "v1", 400, "NAME_INVALID"},
		{"docker.io", "..", "v1", 400, "NAME_INVALID"},
		{"docker.io", "library/..", "v1", 400, "NAME_INVALID"},
		{"docker.io", "./nginx", "v1", 400, "NAME_INVALID"},
		{"docker.io", "library//nginx", "v1", 400, "NAME_INVALID"},
		{"docker.io", "library/nginx.", "v1", 400, "NAME_INVALID"},
		{"docker.io", "library./nginx", "v1", 400, "NAME_INVALID"},
		{"docker.io", "library/_manifests", "v1", 400, "NAME_INVALID"},
		{"docker.io", "Library/nginx", "v1", 400, "NAME_INVALID"},
		{"localhost:5000", long, "v1", 400, "NAME_INVALID"},
		{"", "library/nginx", "v1", 404, "NAME_UNKNOWN"},
		{"", "docker.io./nginx", "v1", 400, "NAME_INVALID"},
		{"", "./nginx", "v1", 400, "NAME_INVALID"},
		{"docker.io", "library/nginx", "sha256:" + strings.Repeat("a", 32), 400, "DIGEST_INVALID"},
		{"docker.io", "library/nginx", "sha512:" + strings.Repeat("a", 64), 400, "DIGEST_INVALID"},
		{"docker.io", "library/nginx", "md5:" + strings.Repeat("a", 32), 400, "DIGEST_INVALID"},
	} {
		paths := []string{"/v2/" + test.repository + "/manifests/" + test.reference}
		if strings.Contains(test.reference, ":") {
			paths = append(paths, "/v2/"+test.repository+"/blobs/"+test.reference)
		} else {
			paths = append(paths, "/v2/"+test.repository+"/tags/list", "/v2/"+test.repository+"/blobs/sha256:"+
				strings.Repeat("a", 64))
		}
		for _, path := range paths {
			if status, code, message := ask(t, r, path, test.ns); status != test.status || code != test.code ||
				message == "" {
				t.Errorf("%s of %q: %d %s %q, want %d %s", path, test.ns, status, code, message, test.status, test.code)
			}
		}
	}
	for _, path := range []string{"/v2/library/nginx/manifests/.", "/v2/library/nginx/manifests/..",
		"/v2/library/nginx/manifests/.v1", "/v2/library/nginx/x"} {
		if status, code, message := ask(t, r, path, "docker.io"); status != 404 || code != "UNSUPPORTED" ||
			message == "" {
			t.Errorf("%s: %d %s %q", path, status, code, message)
		}
	}
	if n.asked.Load() > 0 {
		t.Errorf("other registries were asked %d times", n.asked.Load())
	}
}

// TestInternalErrorsAreOfTheProtocol breaks the storage.
func TestInternalErrorsAreOfTheProtocol(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	tags := filepath.Join(
		r.options.Dir,
		"registry/docker/registry/v2/repositories/docker.io/library/nginx/_manifests/tags/v1/current",
	)
	if err := os.MkdirAll(filepath.Join(tags, "link"), 0o700); err != nil {
		t.Fatal(err)
	}
	status, code, message := ask(t, r, "/v2/library/nginx/manifests/v1", "docker.io")
	if status != http.StatusInternalServerError || code != "UNKNOWN" || message == "" ||
		strings.Contains(message, r.options.Dir) ||
		strings.Contains(message, "link") {
		t.Errorf("a broken storage is answered with %d %s %q", status, code, message)
	}
}
