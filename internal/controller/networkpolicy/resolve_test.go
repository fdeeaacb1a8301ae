package networkpolicy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// shop is a cluster: the namespaces shop (team: shop) and other (team: other), with pods and services.
func shop(t *testing.T) *view {
	t.Helper()
	v := newView()
	for _, name := range []string{"shop", "other"} {
		if _, err := v.setNamespace(name, map[string]string{"team": name}); err != nil {
			t.Fatal(err)
		}
	}
	pods := []struct {
		namespace, name, app, ip string
		change                   func(*corev1.Pod)
	}{
		{"shop", "web-1", "web", "10.0.0.1", named("http", 8080)},
		{"shop", "web-2", "web", "10.0.0.2", named("http", 9090)},
		{"shop", "db-1", "db", "10.0.0.3", nil},
		{"shop", "pending-1", "web", "", nil},
		{"shop", "done-1", "web", "10.0.0.4", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
		{"shop", "host-1", "web", "192.168.0.1", func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
		{"other", "web-1", "web", "10.0.1.1", named("http", 80)},
		{"other", "db-1", "db", "10.0.1.3", nil},
	}
	for _, p := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name,
			Labels: map[string]string{"app": p.app}}, Status: corev1.PodStatus{PodIP: p.ip, HostIP: "192.168.0.1"}}
		if p.change != nil {
			p.change(pod)
		}
		if _, err := v.setPod(trimPod(pod)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*service{
		{namespace: "shop", name: "web", selector: map[string]string{"app": "web"}, ip: "172.20.0.1",
			ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http"), Protocol: corev1.ProtocolTCP}}},
		{namespace: "shop", name: "db", selector: map[string]string{"app": "db"}, ip: "172.20.0.2",
			ports: []corev1.ServicePort{{Port: 5432, TargetPort: intstr.FromInt32(5433), Protocol: corev1.ProtocolTCP}}},
		{namespace: "shop", name: "headless", selector: map[string]string{"app": "db"}, ip: corev1.ClusterIPNone},
	} {
		if _, err := v.setService(s); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func named(name string, number int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: name, ContainerPort: number}}}}
	}
}

// parse reads the spec of a policy of the namespace shop, with the defaults of the API server.
func parse(t *testing.T, spec string) *networkingv1.NetworkPolicy {
	t.Helper()
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "test", UID: "1"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return p
}

// format writes entries as "CIDR-except:ports".
func format(all []networkpolicy.EndpointInfo) string {
	var out []string
	for _, e := range all {
		text := e.CIDR
		for _, except := range e.Except {
			text += "-" + except
		}
		for _, p := range e.Ports {
			text += ":" + string(*p.Protocol)
			for _, n := range []*int32{p.Port, p.EndPort} {
				if n != nil {
					text += fmt.Sprint("/", *n)
				}
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestResolve(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec                  string
		ingress, egress, pods string
	}{
		"default deny": {`{podSelector: {}, policyTypes: [Ingress, Egress]}`, "", "",
			"10.0.0.1 10.0.0.2 10.0.0.3"},
		"allow all": {`{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}`,
			"0.0.0.0/0 ::/0", "0.0.0.0/0 ::/0", "10.0.0.1 10.0.0.2"},
		"pods of the namespace": {
			`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}`,
			"10.0.0.1 10.0.0.2 192.168.0.1", "", "10.0.0.3"},
		"namespaces": {
			`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: other}}}]}]}`,
			"10.0.1.1 10.0.1.3", "", "10.0.0.3"},
		"pods of namespaces": {
			`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchExpressions:
			[{key: app, operator: NotIn, values: [web]}]}}]}]}`,
			"10.0.0.3 10.0.1.3", "", "10.0.0.3"},
		"ports": {
			`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}], ports: [
			{protocol: UDP, port: 53}, {port: 8000, endPort: 8010}, {protocol: SCTP}]}]}`,
			"10.0.0.3:SCTP:TCP/8000/8010:UDP/53", "", "10.0.0.3"},
		"named ports of ingress are those of the selected pods": {
			`{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}],
			ports: [{port: http}]}]}`,
			"10.0.0.0/8-10.1.0.0/16:TCP/8080:TCP/9090", "", "10.0.0.1 10.0.0.2"},
		"a name that no selected pod has": {
			`{podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: http}]}]}`, "", "", "10.0.0.3"},
		"named ports of egress are those of each pod, and services are there for pods": {
			`{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels:
			{app: web}}}, {ipBlock: {cidr: 1.2.3.0/24}}], ports: [{port: http}]}]}`,
			"", "10.0.0.1:TCP/8080 10.0.0.2:TCP/9090 172.20.0.1:TCP/80", "10.0.0.3"},
		"a port of a service": {
			`{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels:
			{app: db}}}], ports: [{port: 5433}]}]}`,
			"", "10.0.0.3:TCP/5433 172.20.0.2:TCP/5432", "10.0.0.1 10.0.0.2"},
		"a service that leads to a port that is not allowed": {
			`{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels:
			{app: web}}}], ports: [{port: 8080}]}]}`,
			"", "10.0.0.1:TCP/8080 10.0.0.2:TCP/8080 192.168.0.1:TCP/8080", "10.0.0.3"},
		"DNS anywhere": {
			`{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{protocol: UDP, port: 53}, {port: 53}]}]}`,
			"", "0.0.0.0/0:TCP/53:UDP/53 ::/0:TCP/53:UDP/53", "10.0.0.1 10.0.0.2 10.0.0.3"},
		"rules add up": {
			`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{ipBlock: {cidr: 1.0.0.0/8}}], ports: [{port: 1}]},
			{from: [{ipBlock: {cidr: 1.0.0.0/8}}], ports: [{port: 2}]},
			{from: [{ipBlock: {cidr: 2.0.0.0/8}}], ports: [{port: 1}]}, {from: [{ipBlock: {cidr: 2.0.0.0/8}}]}]}`,
			"1.0.0.0/8:TCP/1:TCP/2 2.0.0.0/8", "", "10.0.0.3"},
	} {
		v := shop(t)
		p := parse(t, c.spec)
		if err := v.setPolicy(p); err != nil {
			t.Fatal(err)
		}
		got, existing, err := v.resolve(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		var pods []string
		for _, pod := range got.pods {
			pods = append(pods, pod.PodIP)
		}
		slices.Sort(pods)
		if len(existing) != 0 || format(got.ingress) != c.ingress || format(got.egress) != c.egress ||
			strings.Join(pods, " ") != c.pods {
			t.Errorf("%s:\n ingress %q, want %q\n egress %q, want %q\n pods %q, want %q", name, format(got.ingress),
				c.ingress, format(got.egress), c.egress, pods, c.pods)
		}
	}
}

// TestConcerned changes what policies are about, and asks which are told.
func TestConcerned(t *testing.T) {
	t.Parallel()
	v := shop(t)
	for name, spec := range map[string]string{
		"db":  `{podSelector: {matchLabels: {app: db}}}`,
		"web": `{podSelector: {matchLabels: {app: web}}}`,
		"teams": `{podSelector: {matchLabels: {app: none}}, ingress: [{from: [{namespaceSelector: {matchLabels:
			{team: other}}}]}]}`,
		"to-db": `{podSelector: {matchLabels: {app: none}}, egress: [{to: [{podSelector: {matchLabels: {app: db}}}]}]}`,
		"block": `{podSelector: {matchLabels: {app: none}}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}`,
	} {
		p := parse(t, spec)
		p.Name = name
		if err := v.setPolicy(p); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, got []types.NamespacedName, want ...string) {
		t.Helper()
		var names []string
		for _, at := range got {
			names = append(names, at.Name)
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("%s concerns %q, want %q", what, names, want)
		}
	}
	must := func(all []types.NamespacedName, err error) []types.NamespacedName {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	with := func(namespace, app, ip string) *pod {
		return &pod{namespace: namespace, name: "new-1", labels: map[string]string{"app": app}, ip: ip}
	}
	expect("a pod without an address", must(v.setPod(with("shop", "db", ""))))
	expect("its address", must(v.setPod(with("shop", "db", "10.0.0.9"))), "db", "to-db")
	expect("the same again", must(v.setPod(with("shop", "db", "10.0.0.9"))))
	expect("other labels", must(v.setPod(with("shop", "web", "10.0.0.9"))), "db", "to-db", "web")
	expect("its end", v.removePod("shop", "new-1"), "web")
	expect("a pod of another namespace", must(v.setPod(with("other", "db", "10.0.1.9"))), "teams")
	expect("labels of a namespace", must(v.setNamespace("other", nil)), "teams")
	expect("the same labels", must(v.setNamespace("other", nil)))
	expect("a service", must(v.setService(&service{namespace: "shop", name: "new", ip: "172.20.0.9"})), "to-db")
	expect("its end", v.removeService("shop", "new"), "to-db")
}

// TestPlan goes from one state of a policy to the next, and counts the requests.
func TestPlan(t *testing.T) {
	t.Parallel()
	p := parse(t, `{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}`)
	var existing []*networkpolicy.PolicyEndpoint
	names := 0
	become := func(what string, wanted resolved, create, change, remove int) {
		t.Helper()
		c, err := plan(p, wanted, existing)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.create) != create || len(c.update) != change || len(c.remove) != remove {
			t.Fatalf("%s: %d are created, %d changed and %d removed; want %d, %d and %d", what, len(c.create), len(c.update),
				len(c.remove), create, change, remove)
		}
		for _, e := range c.create {
			names++
			e.Name = fmt.Sprintf("test-%02d", names)
			existing = append(existing, e)
		}
		for _, u := range c.update {
			existing[slices.Index(existing, u.from)] = u.to
		}
		existing = slices.DeleteFunc(existing, func(e *networkpolicy.PolicyEndpoint) bool {
			return slices.Contains(c.remove, e)
		})
		found := map[string]int{}
		for _, e := range existing {
			if len(e.Spec.PodSelectorEndpoints) > chunkSize || len(e.Spec.Ingress) > chunkSize {
				t.Errorf("%s: %s is too large", what, e.Name)
			}
			for _, pod := range e.Spec.PodSelectorEndpoints {
				found[pod.PodIP]++
			}
		}
		for _, pod := range wanted.pods {
			if found[pod.PodIP] != 1 {
				t.Errorf("%s: pod %s is there %d times", what, pod.PodIP, found[pod.PodIP])
			}
		}
		if len(found) != len(wanted.pods) || len(existing) == 0 {
			t.Errorf("%s: %d pods in %d objects, want %d", what, len(found), len(existing), len(wanted.pods))
		}
		again, err := plan(p, wanted, existing)
		if err != nil || len(again.create)+len(again.update)+len(again.remove) > 0 {
			t.Errorf("%s: once more, %+v: %v", what, again, err)
		}
	}
	pods := func(from, to int) (all []networkpolicy.PodEndpoint) {
		for i := from; i < to; i++ {
			all = append(all, networkpolicy.PodEndpoint{PodIP: fmt.Sprint("10.0.0.", i), Name: fmt.Sprint("web-", i)})
		}
		return all
	}
	become("a policy without pods", resolved{}, 1, 0, 0)
	become("pods", resolved{pods: pods(0, 150)}, 0, 1, 0)
	become("more than there is room for", resolved{pods: pods(0, 450)}, 2, 1, 0)
	become("one less, of the first object", resolved{pods: pods(1, 450)}, 0, 1, 0)
	become("one more", resolved{pods: pods(1, 451)}, 0, 1, 0)
	become("half of them", resolved{pods: pods(250, 451)}, 0, 2, 0)
	become("none", resolved{}, 0, 1, 2)
	p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	become("another direction", resolved{}, 0, 1, 0)
	if e := existing[0]; e.GenerateName != "test-" || len(e.OwnerReferences) != 1 || e.OwnerReferences[0].UID != "1" ||
		!slices.Equal(e.Spec.PodIsolation, p.Spec.PolicyTypes) || e.Spec.PolicyRef.Namespace != "shop" {
		t.Errorf("the object is %+v", e)
	}
}
