package fargate

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestMappingsAreReadOnceForEachVersion has an aws-auth whose text and version do not go together.
func TestMappingsAreReadOnceForEachVersion(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	m := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-auth"}}
	api := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		answer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(answer).Encode(m)
	}))
	t.Cleanup(api.Close)
	manager, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{manager: manager}
	const pods, others = "arn:aws:iam::111122223333:role/pods", "arn:aws:iam::111122223333:role/others"
	for _, step := range []struct {
		version, text, role string
		want                bool
	}{
		{"1", "- rolearn: " + pods, pods, true},
		{"1", "- rolearn: " + others, pods, true},   // as it was
		{"1", "- rolearn: " + others, others, true}, // not asked for before
		{"2", "- rolearn: " + others, pods, false},
		{"3", "- rolearn: [", others, false},
		{"4", "- rolearn: " + pods, pods, true},
	} {
		mu.Lock()
		m.ResourceVersion, m.Data = step.version, map[string]string{"mapRoles": step.text + "\n"}
		mu.Unlock()
		got, err := s.mapsRole(t.Context(), step.role)
		if err != nil || got != step.want {
			t.Errorf("version %s with %q: %s is let in: %t (%v), want %t", step.version, step.text, step.role, got, err,
				step.want)
		}
	}
}
