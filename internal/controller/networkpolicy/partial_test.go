package networkpolicy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sourcegraph/conc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/eventually"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// closed is a namespace shop that nobody reaches, and from which nobody reaches the namespace db: by a policy of each
// kind.
func closed(t *testing.T, v *view) {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(`
metadata: {name: admin, uid: "1"}
spec:
  tier: Admin
  priority: 10
  subject: {namespaces: {matchLabels: {team: shop}}}
  ingress:
  - {action: Deny, from: [{pods: {namespaceSelector: {matchLabels: {team: db}}, podSelector: {matchLabels: {app: x}}}}]}
  egress:
  - {action: Deny, ports: [{portNumber: {protocol: TCP, port: 5432}}], to: [
     {pods: {namespaceSelector: {matchLabels: {team: db}}, podSelector: {matchLabels: {app: x}}}}]}
`), &content); err != nil {
		t.Fatal(err)
	}
	if err := v.setClusterPolicy(parseClusterPolicy(&unstructured.Unstructured{Object: content})); err != nil {
		t.Fatal(err)
	}
	if err := v.setPolicy(parse(t, `{podSelector: {}, policyTypes: [Ingress, Egress]}`)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop", "db"} {
		if _, err := v.setNamespace(name, labels.Set{"team": name}); err != nil {
			t.Fatal(err)
		}
	}
}

// isolated returns the addresses that the policies of closed are for, and those from and to which they deny.
func isolated(t *testing.T, v *view) (pods, denied string) {
	t.Helper()
	got, _, err := v.resolve(t.Context(), v.policy(ofShop("test")))
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := v.resolveCluster(t.Context(), "admin")
	if err != nil {
		t.Fatal(err)
	}
	addresses := func(pods []networkpolicy.PodEndpoint) string {
		var all []string
		for _, p := range pods {
			all = append(all, string(p.PodIP))
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	denies := func(all []networkpolicy.ClusterEndpointInfo) string {
		var plain []networkpolicy.EndpointInfo
		for _, e := range all {
			plain = append(plain, networkpolicy.EndpointInfo{CIDR: e.CIDR, Ports: e.Ports})
		}
		return format(plain)
	}
	return addresses(got.pods) + "; " + addresses(all.pods), denies(all.ingress) + "; " + denies(all.egress)
}

// TestLabelsTakeNoPodOut has pods that become too large to be read, in each way that whoever may change a pod has, in a
// list and in events: policies select them as before, and deny what they denied.
func TestLabelsTakeNoPodOut(t *testing.T) {
	t.Parallel()
	each := func(format string, n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, ",")
	}
	const n = 70_000
	for name, metadata := range map[string]string{
		"values":          `"labels":{"app":"x"},"annotations":{` + each(`"a%d":""`, n) + `}`,
		"labels":          `"labels":{` + each(`"a%d":""`, n) + `}`,
		"finalizers":      `"finalizers":[` + each(`"a/%d"`, n) + `]`,
		"ownerReferences": `"ownerReferences":[` + each(`{"name":"a%d"}`, n) + `]`,
		"managedFields":   `"managedFields":[` + each(`{"fieldsV1":{"f:a%d":{}}}`, n) + `]`,
		"everything": `"labels":{` + each(`"a%d":""`, n) + `},"finalizers":[` + each(`"a/%d"`, n) + `],"managedFields":[` +
			each(`{"manager":"a%d"}`, n) + `]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := func(namespace, address, metadata string) string {
				return `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"` + namespace + `","name":"a","uid":"` +
					namespace + `","resourceVersion":"2",` + metadata + `},"spec":{"nodeName":"n","containers":[{"name":"c"}]},` +
					`"status":{"phase":"Running","podIP":"` + address + `","hostIP":"192.168.0.1"}}`
			}
			large := []string{pod("shop", "10.0.0.1", metadata), pod("db", "10.0.0.2", metadata)}
			small := []string{pod("shop", "10.0.0.1", `"labels":{"app":"x"}`), pod("db", "10.0.0.2", `"labels":{"app":"x"}`)}
			for way, c := range map[string]struct{ listed, changed []string }{
				"a list": {large, nil}, "events": {small, large}, "new pods": {nil, large},
			} {
				end := make(chan struct{})
				k := tenant(t, func(w http.ResponseWriter, r *http.Request) {
					if r.FormValue("watch") == "" {
						_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"1"},"items":[%s]}`,
							strings.Join(c.listed, ","))
						return
					}
					last := `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"end","name":"a","resourceVersion":"3"}}`
					for _, p := range append(c.changed, last) {
						_, _ = fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`, p)
					}
					w.(http.Flusher).Flush()
					select {
					case <-end:
					case <-r.Context().Done():
					}
				})
				closed(t, k.view)
				var running conc.WaitGroup
				running.Go(func() {
					_ = k.followPods(kubeclient.WithPartial(t.Context()), func() {})
				})
				eventually.True(t, "all pods are known", func() bool {
					k.view.mu.RLock()
					defer k.view.mu.RUnlock()
					return len(k.view.pods["end"]) == 1
				})
				pods, denied := isolated(t, k.view)
				if pods != "10.0.0.1; 10.0.0.1" || denied != "10.0.0.2; 10.0.0.2:TCP/5432" {
					t.Errorf("%s: policies are for %s, and deny %s", way, pods, denied)
				}
				close(end)
				running.Wait()
			}
		})
	}
}

// TestWhatWasKnownStays has pods, services and namespaces of which less is read than before.
func TestWhatWasKnownStays(t *testing.T) {
	t.Parallel()
	v := newView()
	closed(t, v)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(what, err)
		}
	}
	setPod := func(p *corev1.Pod) { _, err := v.setPod(trimPod(p)); must("pod", err) }
	setService := func(s *corev1.Service) { _, err := v.setService(trimService(s)); must("service", err) }
	check := func(what, wantPods, wantDenied string) {
		t.Helper()
		if pods, denied := isolated(t, v); pods != wantPods || denied != wantDenied {
			t.Errorf("%s: policies are for %s, want %s, and deny %s, want %s", what, pods, wantPods, denied, wantDenied)
		}
	}
	whole := metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "1", Labels: map[string]string{"app": "x"}}
	bare := metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "1", SelfLink: "bare"}
	status := corev1.PodStatus{PodIP: "10.0.0.1", HostIP: "192.168.0.1"}
	setPod(&corev1.Pod{ObjectMeta: whole, Status: status})
	setPod(&corev1.Pod{ObjectMeta: bare})
	check("a pod without an address", "10.0.0.1; 10.0.0.1", "; ")
	bare.UID = "2"
	setPod(&corev1.Pod{ObjectMeta: bare})
	check("another pod", "; ", "; ")

	// A service may have any selector and any ports.
	spec := corev1.ServiceSpec{ClusterIP: "172.20.0.1", Selector: map[string]string{"app": "x"},
		Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(5432)}}}
	whole.Namespace, bare.Namespace, bare.UID = "db", "db", "1"
	setService(&corev1.Service{ObjectMeta: whole, Spec: spec})
	check("a service", "; ", "; 172.20.0.1:TCP/80")
	setService(&corev1.Service{ObjectMeta: bare})
	check("a service without an address", "; ", "; 172.20.0.1")
	setService(&corev1.Service{ObjectMeta: bare, Spec: corev1.ServiceSpec{ClusterIP: "172.20.0.2"}})
	check("a service with an address", "; ", "; 172.20.0.2")
	allowing := parse(t, `{podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}]}]}`)
	must("policy", v.setPolicy(allowing))
	if got, _, err := v.resolve(t.Context(), allowing); err != nil || len(got.egress) != 0 {
		t.Errorf("what is not known is allowed: %v, %v", got.egress, err)
	}

	// A namespace may have any labels.
	setPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}, Status: status})
	for _, name := range []string{"shop", "db"} {
		_, err := v.putNamespace(name, trimNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{SelfLink: "bare"}}))
		must("namespace", err)
	}
	check("namespaces without labels", "10.0.0.1; 10.0.0.1", "; 172.20.0.2")
	allowing = parse(t, `{podSelector: {}, policyTypes: [Egress], egress: [
		{to: [{namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}]}]}`)
	must("policy", v.setPolicy(allowing))
	if got, _, err := v.resolve(t.Context(), allowing); err != nil || len(got.egress) != 0 {
		t.Errorf("a namespace without labels is allowed: %v, %v", got.egress, err)
	}
}

// TestServicesBeyondTheRoomStayDenied has a service for which there is no room.
func TestServicesBeyondTheRoomStayDenied(t *testing.T) {
	t.Parallel()
	v := newView()
	closed(t, v)
	s := trimService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "a"}, Spec: corev1.ServiceSpec{
		ClusterIP: "172.20.0.1", Selector: map[string]string{"app": strings.Repeat("x", maxOfNamespace)}}})
	if _, err := v.setService(s); err != nil {
		t.Fatal(err)
	}
	if _, denied := isolated(t, v); denied != "; 172.20.0.1" {
		t.Errorf("policies deny %s", denied)
	}
}
