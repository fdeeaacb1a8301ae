package drain_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup/drain"
	"github.com/coracle-eks/coracle/internal/kube/client"
)

// TestStepsAreBounded runs against an API server that names more pods than a node can have, and refuses at length to
// evict them.
func TestStepsAreBounded(t *testing.T) {
	t.Parallel()
	const pods = 1500
	var evictions atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			evictions.Add(1)
			w.WriteHeader(http.StatusTooManyRequests)
			cause := `{"message":"` + strings.Repeat("a", 1000) + `"}`
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"message":"no",`+
				`"details":{"causes":[`+cause+strings.Repeat(","+cause, 20)+`]}}`)
			return
		}
		var items []string
		for i := range pods {
			items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"default","name":"pod-%d"},`+
				`"spec":{"nodeName":"a"}}`, i))
		}
		_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","items":[%s]}`, strings.Join(items, ","))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: -1}
	connections, err := client.HTTP(config, "demo")
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfigAndClient(config, connections)
	if err != nil {
		t.Fatal(err)
	}
	p, err := drain.Step(t.Context(), kube, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, drain.Options{})
	if err != nil || p.Done() || len(p.Left) != 1000 || evictions.Load() != 1000 {
		t.Fatalf("%d evictions, %d pods left, %v", evictions.Load(), len(p.Left), err)
	}
	if n := len(p.Left[0].Refused); n > client.MaxText+16 {
		t.Errorf("the reason has %d bytes", n)
	}
}
