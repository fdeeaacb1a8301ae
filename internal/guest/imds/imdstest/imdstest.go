// Package imdstest is a metadata service for tests.
package imdstest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/guest/imds"
)

// Fake starts a metadata service for a test, with answers by their paths below latest/ ("meta-data/mac"). It requires
// tokens.
func Fake(t testing.TB, answers map[string]string) *imds.Client {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/latest/")
		answer, ok := answers[path]
		switch {
		case r.Method == http.MethodPut && path == "api/token" &&
			r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "":
			fmt.Fprint(w, "the token")
		case r.Header.Get("X-aws-ec2-metadata-token") != "the token":
			w.WriteHeader(http.StatusUnauthorized)
		case !ok:
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, answer)
		}
	}))
	t.Cleanup(s.Close)
	return &imds.Client{Endpoint: s.URL}
}
