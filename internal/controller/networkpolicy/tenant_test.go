package networkpolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/sourcegraph/conc"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// town is a cluster whose namespace shop has many pods, with a port of a name, and as many services.
func town(t *testing.T, pods, services int) *view {
	t.Helper()
	v := newView()
	must := func(_ []types.NamespacedName, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(v.setNamespace("shop", nil))
	for i := range pods {
		must(v.setPod(&pod{namespace: "shop", name: fmt.Sprint("p", i), ip: fmt.Sprintf("10.0.%d.%d", i/250, i%250),
			labels: map[string]string{"app": "web"}, ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80,
				Protocol: corev1.ProtocolTCP}}}))
	}
	for i := range services {
		must(v.setService(&service{namespace: "shop", name: fmt.Sprint("s", i), ip: fmt.Sprintf("172.20.%d.%d", i/250,
			i%250), selector: map[string]string{"app": "web"}, ports: []corev1.ServicePort{{Port: 8080,
			TargetPort: intstr.FromString("http"), Protocol: corev1.ProtocolTCP}}}))
	}
	return v
}

// peersOf returns peers that all select the pods of a town.
func peersOf(n int, key func(i int) string) (all []networkingv1.NetworkPolicyPeer) {
	for i := range n {
		all = append(all, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key(i), Operator: metav1.LabelSelectorOpDoesNotExist}}}})
	}
	return all
}

func portsOf(n int) (all []networkingv1.NetworkPolicyPort) {
	for i := range n {
		all = append(all, networkingv1.NetworkPolicyPort{Port: new(intstr.FromInt32(int32(i + 1)))})
	}
	return all
}

func policyWith(ingress []networkingv1.NetworkPolicyIngressRule, egress []networkingv1.NetworkPolicyEgressRule,
) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "large", UID: "1"},
		Spec: networkingv1.NetworkPolicySpec{Ingress: ingress, Egress: egress}}
}

// TestResolvingIsBounded has policies whose rules multiply with each other, with pods and with services. What comes to
// too much ends with a reason, within a bounded number of steps and entries.
func TestResolvingIsBounded(t *testing.T) {
	t.Parallel()
	type (
		in  = []networkingv1.NetworkPolicyIngressRule
		out = []networkingv1.NetworkPolicyEgressRule
	)
	same, different := func(int) string { return "none" }, func(i int) string { return fmt.Sprint("none-", i) }
	named := []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString("http"))}}
	var rules in
	for i := range 30 {
		rules = append(rules, networkingv1.NetworkPolicyIngressRule{From: peersOf(1, different), Ports: portsOf(i + 1)})
	}
	for name, c := range map[string]struct {
		pods, services int
		ingress        in
		egress         out
		problem        string
		entries, ports int
	}{
		"equal peers":           {5000, 10, in{{From: peersOf(21_000, same)}}, nil, "", 5000, 0},
		"equal peers of egress": {2000, 10, nil, out{{To: peersOf(21_000, same), Ports: named}}, "", 2010, 2010},
		"rules that add ports":  {500, 0, rules, nil, "", 500, 500 * 30},
		"peers":                 {5000, 10, in{{From: peersOf(21_000, different)}}, nil, "steps", 0, 0},
		"peers and services":    {10, 5000, nil, out{{To: peersOf(21_000, different)}}, "steps", 0, 0},
		"services and pods":     {8000, 8000, nil, out{{To: peersOf(1, same), Ports: named}}, "steps", 0, 0},
		"ports":                 {5000, 0, in{{From: peersOf(1, same), Ports: portsOf(100)}}, nil, "more than 100000", 0, 0},
	} {
		v := town(t, c.pods, c.services)
		p := policyWith(c.ingress, c.egress)
		if err := v.setPolicy(p); err != nil {
			t.Fatal(err)
		}
		got, _, err := v.resolve(t.Context(), p)
		if c.problem != "" {
			var wrong *impossible
			if !errors.As(err, &wrong) || !strings.Contains(wrong.text, c.problem) || outcomeOf(err) != unresolvable {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		all, ports := slices.Concat(got.ingress, got.egress), 0
		for _, e := range all {
			ports += len(e.Ports)
		}
		if err != nil || len(all) != c.entries || ports != c.ports {
			t.Errorf("%s: %d entries with %d ports, want %d with %d: %v", name, len(all), ports, c.entries, c.ports, err)
		}
	}
	v := town(t, 5000, 0)
	p := policyWith(in{{From: peersOf(1000, different)}}, nil)
	if err := v.setPolicy(p); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := v.resolve(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("a pass that ended goes on: %v", err)
	}
	r := newResolver(v, "shop", func() error { return nil })
	r.check = ctx.Err
	if all := r.podsOf(peer{pods: v.policies[ofShop("large")].pods, cost: 1}, true); all != nil || r.err == nil {
		t.Errorf("a pass that ends meanwhile finds %d pods: %v", len(all), r.err)
	}
}

func ofShop(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// TestWhatIsKeptIsCounted has objects with a text of 1 MiB in each field in turn, or with many empty values: they count
// with what they take, or it is not kept. When they are gone, nothing counts.
func TestWhatIsKeptIsCounted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1<<20)
	empty := strings.TrimSuffix(strings.Repeat("{},", 30_000), ",")
	const ref = `"policyRef": {"name": "test", "namespace": "shop"}`
	for _, spec := range []string{
		`{` + ref + `, "ingress": [{"cidr": "LONG"}]}`, `{` + ref + `, "egress": [{"except": ["", "LONG"]}]}`,
		`{` + ref + `, "egress": [{"domainName": "LONG"}]}`, `{` + ref + `, "egress": [{"ports": [{"protocol": "LONG"}]}]}`,
		`{` + ref + `, "podIsolation": ["LONG"]}`, `{` + ref + `, "podSelector": {"matchLabels": {"LONG": ""}}}`,
		`{` + ref + `, "podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["LONG"]}]}}`,
		`{` + ref + `, "podSelectorEndpoints": [{"hostIP": "", "podIP": "", "name": "LONG", "namespace": ""}]}`,
		`{"policyRef": {"name": "test", "namespace": "LONG"}}`,
		`{` + ref + `, "ingress": [EMPTY]}`, `{` + ref + `, "ingress": [{"ports": [EMPTY]}]}`,
	} {
		v := newView()
		text := strings.NewReplacer("LONG", long, "EMPTY", empty).Replace(spec)
		content := `{"metadata": {"namespace": "shop", "name": "a"}, "spec": ` + text + `}`
		var o unstructured.Unstructured
		if err := json.Unmarshal([]byte(content), &o.Object); err != nil {
			t.Fatal(err)
		}
		e := decodeEndpoint(&o)
		if err := v.setEndpoint(e); err != nil || v.size < 1<<20 {
			t.Errorf("%.120s: %d bytes: %v", spec, v.size, err)
		}
		v.removeEndpoint(ofShop("a"))
		var c unstructured.Unstructured
		if err := json.Unmarshal([]byte(content), &c.Object); err != nil {
			t.Fatal(err)
		}
		inCluster := !strings.Contains(spec, "podSelector\"") && !strings.Contains(spec, "podIsolation") &&
			!strings.Contains(spec, "except") && !strings.Contains(spec, `"namespace": "LONG"`)
		ce := decodeClusterEndpoint(&c)
		if err := v.setClusterEndpoint(ce); err != nil || inCluster && v.size < 1<<20 {
			t.Errorf("of the cluster: %.120s: %d bytes: %v", spec, v.size, err)
		}
		if v.removeEndpoint(ofCluster("a")); v.size != 0 || v.objects != 0 || len(v.endpoints)+len(v.clusterEndpoints) != 0 {
			t.Errorf("%.120s: %d bytes are left, of %d objects", spec, v.size, v.objects)
		}
	}

	noted := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"policyRef": map[string]any{"name": "test", "namespace": "shop"}}}}
	noted.SetName("a")
	noted.SetNamespace("shop")
	noted.SetLabels(map[string]string{"a": long})
	noted.SetAnnotations(map[string]string{"a": long, triggerTime: "2026"})
	noted.SetFinalizers([]string{long})
	if got := decodeEndpoint(noted); sizeOfEndpoint(got) > 4096 || got.Annotations[triggerTime] != "2026" ||
		len(got.Labels)+len(got.Finalizers) > 0 {
		t.Errorf("%d bytes are kept", sizeOfEndpoint(got))
	}
	for _, name := range []string{"", "a/b", "..", strings.Repeat("a", 254)} {
		_ = unstructured.SetNestedField(noted.Object, name, "spec", "policyRef", "name")
		if decodeEndpoint(noted) != nil || decodeClusterEndpoint(noted) != nil {
			t.Errorf("%.10q names a policy", name)
		}
	}

	v := newView()
	p := policyWith([]networkingv1.NetworkPolicyIngressRule{{From: peersOf(10_000, func(int) string { return "a" }),
		Ports: portsOf(1000)}}, nil)
	p.Labels = map[string]string{"a": long}
	if err := v.setPolicy(p); err != nil || v.size < 100_000 || v.size > 1<<20 || len(p.Spec.Ingress) > 0 {
		t.Errorf("a policy of one peer and a thousand ports has %d bytes: %v", v.size, err)
	}
	v.removePolicy(ofShop("large"))
	ports := []corev1.ContainerPort{{Name: long}}
	for _, large := range []*pod{{host: long}, {ports: ports}, {labels: map[string]string{"a": long}}} {
		if _, err := v.setPod(large); err != nil || v.size < 1<<20 {
			t.Errorf("a pod has %d bytes: %v", v.size, err)
		}
		v.removePod("", "")
	}
	_, err := v.setService(&service{ports: []corev1.ServicePort{{TargetPort: intstr.FromString(long)}}})
	if err != nil || v.size < 1<<20 {
		t.Errorf("a service has %d bytes: %v", v.size, err)
	}
	if v.removeService("", ""); v.size != 0 || v.objects != 0 {
		t.Errorf("%d bytes are left, of %d objects", v.size, v.objects)
	}
	announced := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{podIPs: long}}}
	if trimPod(&announced).ip != "" {
		t.Error("what is no address is kept as one")
	}
}

// TestPartsAreDividedByBytes has entries that are too large for 200 of them to be in one object, and one that is too
// large for any.
func TestPartsAreDividedByBytes(t *testing.T) {
	t.Parallel()
	p := parse(t, `{podSelector: {}, policyTypes: [Ingress]}`)
	ports := func(n int) []networkpolicy.Port { return numbered(portsOf(n)) }
	var wanted resolved
	for i := range 300 {
		wanted.ingress = append(wanted.ingress, networkpolicy.EndpointInfo{CIDR: fmt.Sprint("10.0.0.", i), Ports: ports(100)})
	}
	made, err := plan(p, wanted, nil)
	if err != nil || len(made.create) < 4 {
		t.Fatalf("%d objects: %v", len(made.create), err)
	}
	entries := 0
	for i, e := range made.create {
		if entries += len(e.Spec.Ingress); len(identify(e.Spec.Ingress)) > maxChunk+chunkSize+1 {
			t.Errorf("%d bytes in one object", len(identify(e.Spec.Ingress)))
		}
		e.Name = fmt.Sprint("test-", i)
	}
	again, err := plan(p, wanted, made.create)
	if err != nil || entries != 300 || len(again.create)+len(again.update)+len(again.remove) > 0 {
		t.Errorf("%d entries, and once more %+v: %v", entries, again, err)
	}
	wanted.ingress = []networkpolicy.EndpointInfo{{CIDR: "10.0.0.1", Ports: ports(10_000)}}
	if _, err := plan(p, wanted, nil); outcomeOf(err) != unresolvable {
		t.Errorf("a large entry: %v", err)
	}
	p.Spec.PodSelector.MatchLabels = map[string]string{"a": strings.Repeat("a", maxChunk)}
	if made, err := plan(p, resolved{}, nil); err != nil || made.create[0].Spec.PodSelector != nil {
		t.Errorf("a large selector: %v", err)
	}
}

// tenant returns a client of a program that a cluster's administrator runs in the place of the API server.
func tenant(t *testing.T, answer http.HandlerFunc) *client {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	connections, err := kubeclient.HTTP(config, "demo")
	if err != nil {
		t.Fatal(err)
	}
	k, err := newClient(&apiserver.Connection{Key: "1/r/demo", Config: config, HTTP: connections})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestPoliciesThatCannotBeWrittenAreNoFailure has an API server that refuses objects, and policies that come to too
// much: events say so, and the passes succeed, so that they hold no room of other policies.
func TestPoliciesThatCannotBeWrittenAreNoFailure(t *testing.T) {
	t.Parallel()
	c := New(Options{Store: storetest.New(t)})
	for name, test := range map[string]struct {
		code     int
		ports    int
		full     bool // of what others come to
		event    string
		retried  bool
		failures bool
	}{
		"refused":     {http.StatusForbidden, 1, false, "exceeded quota", true, false},
		"invalid":     {http.StatusUnprocessableEntity, 1, false, "exceeded quota", true, false},
		"too large":   {http.StatusCreated, 200, false, "more than 100000 addresses", false, false},
		"no room":     {http.StatusCreated, 1, true, "too large together", true, false},
		"gone":        {http.StatusNotFound, 1, false, "", false, false},
		"unavailable": {http.StatusServiceUnavailable, 1, false, "", false, true},
	} {
		var mu sync.Mutex
		var events []corev1.Event
		k := tenant(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/namespaces/shop/events") {
				body, _ := io.ReadAll(r.Body)
				var e corev1.Event
				_ = json.Unmarshal(body, &e)
				mu.Lock()
				events = append(events, e)
				mu.Unlock()
				_, _ = w.Write(body)
				return
			}
			w.WriteHeader(test.code)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status: "Failure", Message: "exceeded quota", Code: int32(test.code)})
		})
		k.enabled, k.view = true, town(t, 1000, 0)
		p := policyWith([]networkingv1.NetworkPolicyIngressRule{{From: peersOf(1, func(int) string { return "a" }),
			Ports: portsOf(test.ports)}}, nil)
		p.Finalizers = []string{finalizer}
		if err := k.view.setPolicy(p); err != nil {
			t.Fatal(err)
		}
		if test.full {
			k.view.size += maxSize / 4 * 3
		}
		err := c.reconcile(t.Context(), k, ofShop("large"))
		mu.Lock()
		said := ""
		for _, e := range events {
			said += e.Message
			if e.InvolvedObject.Kind != "NetworkPolicy" || e.InvolvedObject.UID != "1" || e.Reason != eventReason {
				t.Errorf("%s: the event is about %+v", name, e.InvolvedObject)
			}
		}
		mu.Unlock()
		if (err != nil) != test.failures || !strings.Contains(said, test.event) || (said == "") != (test.event == "") ||
			k.untold.refused[ofShop("large")] != test.retried {
			t.Errorf("%s: %v, and the event %q; %v are tried again", name, err, said, k.untold.refused)
		}
	}
	if outcomeOf(failures{tooLarge("a"), errors.New("b")}) != failed || outcomeOf(kubeclient.ErrTooLarge) != refused {
		t.Error("the worst of several errors does not count")
	}
}

// TestPoliciesThatCannotBeRead has a policy of the whole cluster with a selector that is none, which its resource
// allows.
func TestPoliciesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var said string
	k := tenant(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "/namespaces/default/events") {
			said += string(body)
		}
		_, _ = w.Write(body)
	})
	k.enabled = true
	p := parseClusterPolicy(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "admin", "finalizers": []any{clusterFinalizer}},
		"spec": map[string]any{"tier": "Admin", "priority": int64(1), "subject": map[string]any{"namespaces": map[string]any{
			"matchExpressions": []any{map[string]any{"key": "a", "operator": "Like"}}}}}}})
	if err := k.view.setClusterPolicy(p); err != nil {
		t.Fatal(err)
	}
	if err := New(Options{Store: storetest.New(t)}).reconcile(t.Context(), k, ofCluster("admin")); err != nil {
		t.Error(err)
	}
	if !strings.Contains(said, "it cannot be read") || !strings.Contains(said, "ClusterNetworkPolicy") {
		t.Errorf("the event is %q", said)
	}
}

// TestTheMirrorWaitsForNobody has an API server that tells of ever new policies while there is no room for the keys of
// any: the mirror goes on, and policies that are gone are not told.
func TestTheMirrorWaitsForNobody(t *testing.T) {
	t.Parallel()
	const policies, room = 30, 5
	events, end := make(chan any), make(chan struct{})
	k := tenant(t, func(w http.ResponseWriter, r *http.Request) {
		watches := r.FormValue("watch") != ""
		switch {
		case strings.Contains(r.URL.Path, "clusternetworkpolicies"):
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
		case !watches:
			_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "List",
				"metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}})
		case strings.Contains(r.URL.Path, "networkpolicies"):
			for e := range events {
				_ = json.NewEncoder(w).Encode(e)
				w.(http.Flusher).Flush()
			}
		default:
			w.(http.Flusher).Flush()
			<-end
		}
	})
	var running conc.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer close(end)
	known, full := make(chan struct{}), make(chan []types.NamespacedName, 1)
	running.Go(func() {
		var told []types.NamespacedName
		_ = k.follow(ctx, func(ctx context.Context, at types.NamespacedName) error { // it ends with ctx
			if told = append(told, at); len(told) < room {
				return nil
			}
			full <- told
			<-ctx.Done()
			return ctx.Err()
		}, func() { close(known) })
	})
	<-known
	event := func(what string, i int) {
		events <- map[string]any{"type": what, "object": networkingv1.NetworkPolicy{
			TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("p", i),
				ResourceVersion: fmt.Sprint(i + 2)}}}
	}
	for i := range policies {
		event("ADDED", i)
	}
	if told := <-full; len(told) != room {
		t.Errorf("%v are told", told)
	}
	for i := range policies - 1 {
		event("DELETED", i)
	}
	close(events)
	eventually.True(t, "the mirror goes on", func() bool {
		k.untold.mu.Lock()
		waiting := len(k.untold.all)
		k.untold.mu.Unlock()
		return len(k.view.allPolicies()) == 1 && waiting <= 1
	})
}

// TestRefusedPoliciesAreToldAgain tells policies that an API server has refused.
func TestRefusedPoliciesAreToldAgain(t *testing.T) {
	t.Parallel()
	u := newUntold()
	u.add(ofShop("a"))
	u.retry(ofShop("b"))
	u.retry(ofShop("c"))
	u.remove(ofShop("c"))
	if at, ok := u.next(); !ok || at != ofShop("a") {
		t.Errorf("%v is told", at)
	}
	if at, ok := u.next(); ok {
		t.Errorf("%v is told too early", at)
	}
	u.addRefused()
	if at, ok := u.next(); !ok || at != ofShop("b") || len(u.refused)+len(u.all) > 0 {
		t.Errorf("%v is told, and %v are left", at, u.refused)
	}
}

// TestEndpointsChangeTheirPolicy has somebody give an endpoint to another policy, and to one that cannot be: it is one
// of its last policy alone, and both policies are told.
func TestEndpointsChangeTheirPolicy(t *testing.T) {
	t.Parallel()
	k := &client{view: newView(), untold: newUntold()}
	for _, name := range []string{"a", "b"} {
		p := policyWith(nil, nil)
		p.Name = name
		if err := k.view.setPolicy(p); err != nil {
			t.Fatal(err)
		}
	}
	size := k.view.size
	set := func(of string) func() error {
		e := &networkpolicy.PolicyEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"},
			Spec: networkpolicy.PolicyEndpointSpec{PolicyRef: networkpolicy.PolicyReference{Name: of}}}
		return func() error { return k.view.setEndpoint(e) }
	}
	for _, step := range []struct {
		set  func() error
		told int
		of   string
	}{{set("a"), 1, "a"}, {set("b"), 2, "b"}, {set("unknown"), 1, "unknown"}, {set("b"), 1, "b"}, {nil, 1, ""}} {
		if err := k.endpointChanged(ofShop("e"), step.set); err != nil {
			t.Fatal(err)
		}
		told := 0
		if _, ok := k.untold.next(); ok {
			t.Error("what is written again and again is told at once")
		}
		k.untold.addWaiting()
		for _, ok := k.untold.next(); ok; _, ok = k.untold.next() {
			told++
		}
		if is, _ := k.view.ownerOf(ofShop("e")); is.Name != step.of || told != step.told || len(k.view.endpoints) > 1 {
			t.Errorf("of %q: it is one of %q, and %d policies are told", step.of, is.Name, told)
		}
	}
	if k.view.size != size || k.view.objects != 2 {
		t.Errorf("%d bytes of %d objects are left, want %d", k.view.size, k.view.objects, size)
	}
}
