package authenticator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// TestAWSAuthIsParsedOnceASecond has aws-auth that changes all the time: its last content counts soon.
func TestAWSAuthIsParsedOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		latest := make(chan map[string]string, 1)
		parsed := 0
		var last map[string]string
		go func() {
			_ = takeLatest(ctx, latest, func(data map[string]string) { parsed, last = parsed+1, data }) // it ends with ctx
		}()
		const seconds, each = 20, 100
		for range seconds * each {
			select {
			case <-latest:
			default:
			}
			latest <- map[string]string{"mapRoles": "[]"}
			time.Sleep(time.Second / each)
		}
		latest <- nil
		time.Sleep(parseInterval)
		synctest.Wait()
		if parsed > seconds+parseBurst+2 || last != nil {
			t.Errorf("it is parsed %d times, last %v", parsed, last)
		}
		end()
	})
}

// TestWatchesThatEndAtOnce has an API server that ends each watch as soon as it has begun: it is asked less and less
// often.
func TestWatchesThatEndAtOnce(t *testing.T) {
	t.Parallel()
	const lists = 6
	began, ended := time.Now(), make(chan time.Duration, 1)
	asked := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.RawQuery, "watch=") {
			return
		}
		if asked++; asked == lists { // one client asks one by one
			ended <- time.Since(began)
		}
		_, _ = w.Write([]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
	}))
	t.Cleanup(api.Close)
	newFixtureFor(t, both, &rest.Config{Host: api.URL})
	if took := <-ended; took < 31*retry.Duration { // 1+2+4+8+16
		t.Errorf("it is asked %d times within %s", lists, took)
	}
}
