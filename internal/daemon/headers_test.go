package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/console"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/kube/clusterproxy"
)

// TestHeadersAreBoundedOnEveryPath has a header that is more than a source may hold, of a daemon without anything that
// could answer.
func TestHeadersAreBoundedOnEveryPath(t *testing.T) {
	t.Parallel()
	d := &daemon{host: &host{}, api: &apiLayer{}, settings: datadir.Settings{AdvertiseAddress: Auto}}
	handler := wire.Server("", d.outsideVPCs(d.handler())).Handler
	for _, path := range []string{"/", "/healthz", "/id/x", credentialsPrefix + "x", registryPrefix + "app/manifests/x",
		"/clusters", clusterproxy.Prefix + "x/api", console.Prefix} {
		r, answer := httptest.NewRequest(http.MethodPost, path, nil), httptest.NewRecorder()
		r.Header.Set("X-Large", strings.Repeat("x", 33<<20))
		handler.ServeHTTP(answer, r)
		if answer.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, answer.Code)
		}
	}
}
