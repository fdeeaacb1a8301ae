package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// TestRequestsThatAreNoCallsReadLittle makes the requests that no account is charged for while the store has clusters
// with many tags: none of them reads what it is not about.
func TestRequestsThatAreNoCallsReadLittle(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	d := w.daemon
	tags := map[string]string{}
	for i := range 50 {
		tags[fmt.Sprintf("%03d", i)] = strings.Repeat("x", 800)
	}
	for i := range 100 {
		c := record.Cluster{Account: walkAccount, Region: walkRegion, Name: fmt.Sprintf("large-%d", i),
			ID: fmt.Sprintf("%032d", i), Tags: tags}
		w.must(d.store.Txn(t.Context(), record.Clusters(d.store).CreateOp(c.Key(), c),
			record.Issuers(d.store).CreateOp(store.Key(c.ID),
				record.Issuer{Account: c.Account, Region: c.Region, Cluster: c.Name})))
	}
	one, err := d.clusterByID(t.Context(), walkCluster)
	w.must(err)
	token, err := d.credentialsToken(one)
	w.must(err)
	handler := d.handler()
	for path, want := range map[string]int{
		"/healthz":                     http.StatusOK,
		"/credentials/x":               http.StatusUnauthorized,
		"/credentials/":                http.StatusUnauthorized,
		"/credentials/" + walkCluster:  http.StatusOK,
		"/id/x/keys":                   http.StatusNotFound,
		"/id/" + walkCluster + "/keys": http.StatusOK,
		"/v2/":                         http.StatusUnauthorized,
		"/v2/" + walkRegistry + "/app/manifests/v1":  http.StatusUnauthorized,
		"/cloudformation-waitcondition/x?Signature=": http.StatusForbidden,
	} {
		var read atomic.Int64
		ctx := store.Metered(t.Context(), func(bytes int64) error {
			read.Add(bytes)
			return nil
		})
		method := http.MethodGet
		if strings.HasPrefix(path, revision.WaitConditionPrefix) {
			method = http.MethodPut
		}
		r := httptest.NewRequestWithContext(ctx, method, path, nil)
		if strings.HasSuffix(path, walkCluster) {
			r.Header.Set("Authorization", token)
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if answer.Code != want {
			t.Errorf("%s: %d %s, want %d", path, answer.Code, answer.Body, want)
		}
		if n := read.Load(); n > 64<<10 {
			t.Errorf("%s reads %d bytes of the store", path, n)
		}
	}
}
