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

// serve returns a client of an API server that has these pods on node a, and evicts none.
func serve(t *testing.T, evictions *atomic.Int32, items ...string) kubernetes.Interface {
	t.Helper()
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
		_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","items":[%s]}`, strings.Join(items, ","))
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, QPS: -1}
	connections, err := client.HTTP(config, "demo")
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfigAndClient(config, connections)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// TestStepsAreBounded runs against an API server that names more pods than a node can have, and refuses at length to
// evict them.
func TestStepsAreBounded(t *testing.T) {
	t.Parallel()
	const pods = 1500
	var evictions atomic.Int32
	var items []string
	for i := range pods {
		items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"default","name":"pod-%d"},"spec":{"nodeName":"a"}}`, i))
	}
	kube := serve(t, &evictions, items...)
	p, err := drain.Step(t.Context(), kube, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, drain.Options{})
	if err != nil || p.Done() || len(p.Left) != 1000 || evictions.Load() != 1000 {
		t.Fatalf("%d evictions, %d pods left, %v", evictions.Load(), len(p.Left), err)
	}
	if n := len(p.Left[0].Refused); n > client.MaxText+16 {
		t.Errorf("the reason has %d bytes", n)
	}
}

// TestLargePodsAreDrained has pods that became too large to be read: a node is not empty while they are there, whoever
// has made them so. Those of DaemonSets and of the node itself end with it, as far as their owner can be read.
func TestLargePodsAreDrained(t *testing.T) {
	t.Parallel()
	var labels, args []string
	for i := range 70_000 {
		labels, args = append(labels, fmt.Sprintf(`"a%d":""`, i)), append(args, `""`)
	}
	pod := func(name, metadata string) string {
		return `{"metadata":{"namespace":"default","name":"` + name + `",` + metadata + `},"spec":{"nodeName":"a",` +
			`"containers":[{"args":[` + strings.Join(args, ",") + `]}]},"status":{"phase":"Running"}}`
	}
	owner := func(version, kind string) string {
		return `"ownerReferences":[{"apiVersion":"` + version + `","kind":"` + kind + `","name":"x","controller":true}]`
	}
	var evictions atomic.Int32
	kube := serve(t, &evictions, pod("labels", `"labels":{`+strings.Join(labels, ",")+`}`),
		pod("values", owner("apps/v1", "ReplicaSet")), pod("agent", owner("apps/v1", "DaemonSet")),
		pod("static", owner("v1", "Node")))
	p, err := drain.Step(t.Context(), kube, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, drain.Options{})
	if err != nil || names(p.Left) != "default/labels default/values" || evictions.Load() != 2 {
		t.Errorf("%s are left, %d were to be evicted: %v", names(p.Left), evictions.Load(), err)
	}
	if n, err := drain.Load(t.Context(), kube, "a"); err != nil || n != 2 {
		t.Errorf("%d pods would have to leave: %v", n, err)
	}
}
