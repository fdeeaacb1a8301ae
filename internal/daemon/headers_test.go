package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHeadersAreBoundedOnEveryPath has a header that is more than a source may hold, of a daemon without anything that
// could answer.
func TestHeadersAreBoundedOnEveryPath(t *testing.T) {
	t.Parallel()
	handler := (&daemon{host: &host{}, api: &apiLayer{}}).handler()
	for _, path := range []string{"/", "/healthz", "/id/x", credentialsPrefix + "x", registryPrefix + "app/manifests/x",
		"/clusters"} {
		r, answer := httptest.NewRequest(http.MethodPost, path, nil), httptest.NewRecorder()
		r.Header.Set("X-Large", strings.Repeat("x", 33<<20))
		handler.ServeHTTP(answer, r)
		if answer.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, answer.Code)
		}
	}
}
