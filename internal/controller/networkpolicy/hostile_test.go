package networkpolicy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sourcegraph/conc"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/coracle-eks/coracle/internal/eventually"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// TestOneObjectDoesNotEndTheMirror has a policy and a pod that are too large to be read, in the lists and in events of
// all kinds: the others are known, and the two keep their namespace closed.
func TestOneObjectDoesNotEndTheMirror(t *testing.T) {
	t.Parallel()
	values := `[""` + strings.Repeat(`,""`, 300_000) + `]`
	policy := func(name, selector string) string {
		return `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"shop","name":"` + name +
			`","resourceVersion":"2"},"spec":{"policyTypes":["Ingress"],"podSelector":` + selector + `}}`
	}
	pod := func(name, args string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"` + name +
			`","resourceVersion":"2","labels":{"app":"web"}},"spec":{"containers":[{"args":` + args +
			`}]},"status":{"podIP":"10.0.0.1","hostIP":"192.168.0.1"}}`
	}
	hostile := `{"matchExpressions":[{"key":"a","operator":"In","values":` + values + `}]}`
	end := make(chan struct{})
	k := tenant(t, func(w http.ResponseWriter, r *http.Request) {
		of := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		item := map[string]string{"networkpolicies": policy("large", hostile) + "," + policy("small", "{}"),
			"pods": pod("large", values) + "," + pod("small", "[]"),
			"configmaps": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"amazon-vpc-cni","namespace":` +
				`"kube-system","resourceVersion":"1"},"data":{"enable-network-policy-controller":"true"}}`}[of]
		if r.FormValue("watch") == "" {
			kind := map[string]string{"networkpolicies": `"networking.k8s.io/v1","kind":"NetworkPolicyList"`,
				"pods": `"v1","kind":"PodList"`, "configmaps": `"v1","kind":"ConfigMapList"`}[of]
			_, _ = fmt.Fprintf(w, `{"apiVersion":%s,"metadata":{"resourceVersion":"1"},"items":[%s]}`,
				cmp.Or(kind, `"v1","kind":"List"`), item)
			return
		}
		switch of {
		case "networkpolicies":
			_, _ = fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}{"type":"ADDED","object":%s}`, policy("large", hostile),
				policy("later", "{}"))
		case "pods":
			_, _ = fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}{"type":"ADDED","object":%s}`, pod("large", values),
				pod("later", "[]"))
		}
		w.(http.Flusher).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	var running conc.WaitGroup
	defer running.Wait()
	defer close(end)
	running.Go(func() {
		_ = k.follow(t.Context(), func(context.Context, types.NamespacedName) error { return nil }, func() {})
	})
	eventually.True(t, "all objects are known", func() bool {
		k.view.mu.RLock()
		defer k.view.mu.RUnlock()
		return len(k.view.policies) == 3 && len(k.view.pods["shop"]) == 3
	})
	large := k.view.policy(ofShop("large"))
	got, _, err := k.view.resolve(t.Context(), large)
	if outcomeOf(err) != unresolvable || len(got.pods) != 3 || len(large.Spec.PolicyTypes) != 1 {
		t.Errorf("the large policy comes to %+v: %v", got, err)
	}
}

// TestOthersDoNotMakeAPolicyUnresolvable has pods and services of one namespace that cost more to compare than others
// have: a policy of another namespace that is about them, and about more, isolates its pods and has its other peers.
func TestOthersDoNotMakeAPolicyUnresolvable(t *testing.T) {
	t.Parallel()
	v := shop(t)
	must := func(_ []types.NamespacedName, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(v.setNamespace("evil", nil))
	var ports []corev1.ContainerPort
	for i := range maxPorts {
		ports = append(ports, corev1.ContainerPort{ContainerPort: int32(i + 1000), Protocol: corev1.ProtocolTCP})
	}
	for i := range 100 {
		must(v.setPod(&pod{namespace: "evil", name: fmt.Sprint("p", i), ip: fmt.Sprint("10.9.0.", i), ports: ports,
			labels: labels.Set{"app": "web"}}))
		must(v.setService(&service{namespace: "evil", name: fmt.Sprint("s", i), ip: fmt.Sprint("172.20.9.", i),
			selector: labels.Set{"app": "web"}, ports: []corev1.ServicePort{{Port: 1, TargetPort: intstr.FromInt32(1),
				Protocol: corev1.ProtocolTCP}}}))
	}
	p := parse(t, `{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [
		{to: [{namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}], ports: [{port: http, protocol: TCP}]},
		{to: [{podSelector: {matchLabels: {app: db}}}]}]}`)
	if err := v.setPolicy(p); err != nil {
		t.Fatal(err)
	}
	got, _, err := v.resolve(t.Context(), p)
	text := format(got.egress)
	if len(got.pods) != 2 || !strings.Contains(text, "10.0.0.3") || !strings.Contains(text, "172.20.0.1") ||
		outcomeOf(err) != unresolvable || !strings.Contains(err.Error(), `"evil"`) {
		t.Errorf("%d pods, %s: %v", len(got.pods), text, err)
	}
	must(v.setPod(&pod{namespace: "shop", name: "web-3", ip: "10.0.0.9", labels: labels.Set{"app": "web"}}))
	got, existing, err := v.resolve(t.Context(), p)
	if err == nil {
		t.Error("what is left out is not told")
	}
	if all, err := plan(p, got, existing); err != nil || len(all.create) != 1 ||
		len(all.create[0].Spec.PodSelectorEndpoints) != 3 {
		t.Errorf("a new pod is not isolated: %+v, %v", all, err)
	}
}

// TestWhatPodsSayIsBounded has pods whose authors write more than others have room for, or what is somebody else's.
func TestWhatPodsSayIsBounded(t *testing.T) {
	t.Parallel()
	announced := func(host, text string) *pod {
		return trimPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{podIPs: text}},
			Spec: corev1.PodSpec{NodeName: "node"}, Status: corev1.PodStatus{HostIP: host}})
	}
	for text, want := range map[string]string{"10.0.0.1": "10.0.0.1", "2001:DB8::1": "2001:db8::1", "": "",
		"fe80::1%" + strings.Repeat("<", 44_000): "", "::ffff:10.0.0.1": "", "10.0.0.0/8": ""} {
		if got := announced("192.168.0.1", text).ip; got != want {
			t.Errorf("%.40q is the address %.40q, want %q", text, got, want)
		}
	}
	if announced("", "10.0.0.1").ip != "" {
		t.Error("a pod that no kubelet has names an address")
	}
	with := func(ports int, same bool) *pod {
		var all []corev1.ContainerPort
		for i := range ports {
			if same {
				i = 0
			}
			all = append(all, corev1.ContainerPort{ContainerPort: int32(i)})
		}
		return trimPod(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: all}}}})
	}
	if a, b, c := with(20_000, true), with(20_000, false), with(10, false); len(a.ports) != 1 || len(b.ports) != 0 ||
		len(c.ports) != 10 {
		t.Errorf("pods have %d, %d and %d ports", len(a.ports), len(b.ports), len(c.ports))
	}
	many := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": strings.Repeat("a", maxLabels)}}}
	if p := trimPod(many); !p.unknown || p.labels != nil || !p.isSelected(labels.Nothing()) {
		t.Errorf("of large labels, %+v is kept", p)
	}
}

// TestANamespaceHasAShareOfTheView has a namespace that would fill what is kept of the cluster: another one has room,
// and what the namespace has more is closed.
func TestANamespaceHasAShareOfTheView(t *testing.T) {
	t.Parallel()
	v := newView()
	large := strings.Repeat("a", 1<<20)
	for i := range 2 * maxOfNamespace >> 20 {
		if _, err := v.setPod(&pod{namespace: "evil", name: fmt.Sprint("p", i), ip: "10.0.0.1",
			labels: labels.Set{"a": large}}); err != nil {
			t.Fatal(err)
		}
		p := policyWith(nil, nil)
		p.Namespace, p.Name = "evil", fmt.Sprint("p", i)
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: large}}}}}
		if err := v.setPolicy(p); err != nil {
			t.Fatal(err)
		}
	}
	if v.size > maxOfNamespace+1<<20 || v.sizes["evil"] != v.size {
		t.Errorf("a namespace has %d bytes", v.sizes["evil"])
	}
	last := types.NamespacedName{Namespace: "evil", Name: fmt.Sprint("p", 2*maxOfNamespace>>20-1)}
	got, _, err := v.resolve(t.Context(), v.policy(last))
	if outcomeOf(err) != unresolvable || len(got.pods) != 2*maxOfNamespace>>20 || len(got.ingress) > 0 {
		t.Errorf("a policy without room has %d pods and %v: %v", len(got.pods), got.ingress, err)
	}
	if _, err := v.setPod(&pod{namespace: "shop", name: "a", labels: labels.Set{"a": large}}); err != nil ||
		v.pods["shop"][0].unknown {
		t.Errorf("another namespace has no room: %v", err)
	}
}

// TestPoliciesOfTheClusterKeepTheirRules has policies of the whole cluster that can be resolved no more: what they had
// stays, for all pods that they select now.
func TestPoliciesOfTheClusterKeepTheirRules(t *testing.T) {
	t.Parallel()
	var patches []string
	k := tenant(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			var content json.RawMessage
			_ = json.NewDecoder(r.Body).Decode(&content)
			patches = append(patches, string(content))
		}
		_, _ = w.Write([]byte(`{"apiVersion":"networking.k8s.aws/v1alpha1","kind":"ClusterPolicyEndpoint"}`))
	})
	k.enabled, k.view = true, town(t, 2, 0)
	var rules []any
	for i := range 10_000 {
		rules = append(rules, map[string]any{"portNumber": map[string]any{"protocol": "TCP", "port": int64(i + 1)}})
	}
	p := parseClusterPolicy(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "admin", "finalizers": []any{clusterFinalizer}},
		"spec": map[string]any{"tier": "Admin", "priority": int64(1),
			"subject": map[string]any{"namespaces": map[string]any{}}, "ingress": []any{map[string]any{
				"action": "Deny", "ports": rules, "from": []any{map[string]any{"namespaces": map[string]any{}}}}}}}})
	if err := k.view.setClusterPolicy(p); err != nil {
		t.Fatal(err)
	}
	had := &networkpolicy.ClusterPolicyEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "admin-1"}}
	had.Spec.PolicyRef.Name = "admin"
	had.Spec.Ingress = []networkpolicy.ClusterEndpointInfo{{CIDR: "10.9.9.9", Action: networkpolicy.Deny}}
	if err := k.view.setClusterEndpoint(had); err != nil {
		t.Fatal(err)
	}
	err := k.reconcileCluster(t.Context(), "admin")
	if outcomeOf(err) != unresolvable || len(patches) != 1 || !strings.Contains(patches[0], `"p1"`) ||
		strings.Contains(patches[0], `"ingress"`) {
		t.Errorf("%.300q: %v", patches, err)
	}
}

// TestObjectsOfOthersAreRemoved has more PolicyEndpoints with the name of a policy than it may come to.
func TestObjectsOfOthersAreRemoved(t *testing.T) {
	t.Parallel()
	p := parse(t, `{podSelector: {}, policyTypes: [Ingress]}`)
	var existing []*networkpolicy.PolicyEndpoint
	for i := range 3 * maxPolicy >> 20 {
		e := &networkpolicy.PolicyEndpoint{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("e", i)}}
		e.Spec.Ingress = []networkpolicy.EndpointInfo{{CIDR: strings.Repeat("a", 1<<20)}}
		existing = append(existing, e)
	}
	within, beyond := withinBounds(existing, sizeOfEndpoint)
	all, err := plan(p, resolved{}, existing)
	if err != nil || len(within) == 0 || len(beyond) == 0 || len(all.remove)+len(all.update) != len(existing) ||
		len(all.update) != 1 {
		t.Errorf("%d are within, %d removed and %d updated: %v", len(within), len(all.remove), len(all.update),
			err)
	}
}

// TestFinalizersThatWereNotReadStay has policies with so many finalizers that only some of them were read: no list of
// those is written.
func TestFinalizersThatWereNotReadStay(t *testing.T) {
	t.Parallel()
	var wrote atomic.Int32
	k := tenant(t, func(w http.ResponseWriter, _ *http.Request) {
		wrote.Add(1)
		_, _ = io.WriteString(w, `{"kind":"NetworkPolicy","apiVersion":"networking.k8s.io/v1","metadata":{"name":"web"}}`)
	})
	for n, want := range map[int]int32{kubeclient.MaxFinalizers - 1: 2, kubeclient.MaxFinalizers: 0} {
		wrote.Store(0)
		o := metav1.ObjectMeta{Name: "web", Namespace: "shop", Finalizers: slices.Repeat([]string{"a/b"}, n)}
		err := k.patchFinalizers(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: o}, o.Finalizers)
		ofCluster := &clusterPolicy{ClusterNetworkPolicy: &networkpolicy.ClusterNetworkPolicy{ObjectMeta: o}}
		if err := errors.Join(err, k.patchClusterFinalizers(t.Context(), ofCluster, o.Finalizers)); err != nil {
			t.Error(err)
		}
		if got := wrote.Load(); got != want {
			t.Errorf("of policies with %d finalizers, %d are written, want %d", n, got, want)
		}
	}
}
