package eviction

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestForcedEvictions has API servers and webhooks that refuse to evict a pod.
func TestForcedEvictions(t *testing.T) {
	t.Parallel()
	const webhook = `admission webhook "keep.example.com" denied the request: stay`
	for name, test := range map[string]struct {
		code    int32
		reason  metav1.StatusReason
		message string
		deleted bool
	}{
		"a webhook":                      {http.StatusForbidden, metav1.StatusReasonForbidden, webhook, true},
		"a webhook that says it is busy": {http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, webhook, true},
		"a webhook that says it is not up": {http.StatusServiceUnavailable,
			metav1.StatusReasonServiceUnavailable, webhook, true},
		"a busy API server": {http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
			"too many requests", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deleted := 0
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}
				code := http.StatusOK
				if strings.HasSuffix(r.URL.Path, "/eviction") {
					code = int(test.code)
					status = metav1.Status{TypeMeta: status.TypeMeta, Status: metav1.StatusFailure, Code: test.code,
						Reason: test.reason, Message: test.message}
				} else if r.Method == http.MethodDelete {
					deleted++
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_ = json.NewEncoder(w).Encode(status)
			}))
			t.Cleanup(api.Close)
			kube, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			pod := Pod{Namespace: "a", Name: "a", UID: "1"}
			if _, refused, err := Evict(t.Context(), kube, pod, false); err != nil || refused == "" || deleted != 0 {
				t.Errorf("refused: %q, %d deletions, %v", refused, deleted, err)
			}
			_, refused, err := Evict(t.Context(), kube, pod, true)
			if err != nil || (refused == "") != test.deleted || (deleted == 1) != test.deleted {
				t.Errorf("by force: %q, %d deletions, %v", refused, deleted, err)
			}
			if _, refused, err := Delete(t.Context(), kube, pod); err != nil || refused != "" {
				t.Errorf("deleted: %q, %v", refused, err)
			}
		})
	}
}
