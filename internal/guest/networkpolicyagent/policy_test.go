package networkpolicyagent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

const (
	tcp  = corev1.ProtocolTCP
	udp  = corev1.ProtocolUDP
	sctp = corev1.ProtocolSCTP
)

func port(protocol corev1.Protocol, numbers ...int32) networkpolicy.Port {
	p := networkpolicy.Port{Protocol: new(protocol)}
	if len(numbers) > 0 {
		p.Port = new(numbers[0])
	}
	if len(numbers) > 1 {
		p.EndPort = new(numbers[1])
	}
	return p
}

func TestRules(t *testing.T) {
	t.Parallel()
	type packet struct {
		other    string
		protocol corev1.Protocol
		port     uint16
	}
	for name, c := range map[string]struct {
		infos        []networkpolicy.EndpointInfo
		allows, does []packet // and does not
	}{
		"nothing": {nil, nil, []packet{{"10.0.0.1", tcp, 80}}},
		"an address": {
			[]networkpolicy.EndpointInfo{{CIDR: "10.0.0.1"}},
			[]packet{{"10.0.0.1", tcp, 80}, {"10.0.0.1", udp, 53}, {"10.0.0.1", sctp, 1}},
			[]packet{{"10.0.0.2", tcp, 80}},
		},
		"a port": {
			[]networkpolicy.EndpointInfo{{CIDR: "10.0.0.1", Ports: []networkpolicy.Port{port(tcp, 80)}}},
			[]packet{{"10.0.0.1", tcp, 80}},
			[]packet{{"10.0.0.1", udp, 80}, {"10.0.0.1", tcp, 81}},
		},
		"a port without a protocol is of TCP": {
			[]networkpolicy.EndpointInfo{{CIDR: "10.0.0.1", Ports: []networkpolicy.Port{{Port: new(int32(80))}}}},
			[]packet{{"10.0.0.1", tcp, 80}}, []packet{{"10.0.0.1", udp, 80}},
		},
		"a protocol": {
			[]networkpolicy.EndpointInfo{{CIDR: "10.0.0.0/24", Ports: []networkpolicy.Port{port(sctp)}}},
			[]packet{{"10.0.0.9", sctp, 80}, {"10.0.0.9", sctp, 65535}}, []packet{{"10.0.0.9", tcp, 80}},
		},
		"a range of ports": {
			[]networkpolicy.EndpointInfo{{CIDR: "0.0.0.0/0", Ports: []networkpolicy.Port{port(udp, 100, 200)}}},
			[]packet{{"1.2.3.4", udp, 100}, {"1.2.3.4", udp, 200}, {"255.255.255.255", udp, 150}},
			[]packet{{"1.2.3.4", udp, 99}, {"1.2.3.4", udp, 201}},
		},
		"an exception": {
			[]networkpolicy.EndpointInfo{{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16", "10.2.3.4/32"}}},
			[]packet{{"10.0.255.255", tcp, 1}, {"10.2.0.0", tcp, 1}, {"10.2.3.5", tcp, 1}, {"10.255.255.255", tcp, 1}},
			[]packet{{"10.1.0.0", tcp, 1}, {"10.1.255.255", tcp, 1}, {"10.2.3.4", tcp, 1}, {"11.0.0.0", tcp, 1}},
		},
		"what one rule excepts another allows": {
			[]networkpolicy.EndpointInfo{{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}},
				{CIDR: "10.1.2.3", Ports: []networkpolicy.Port{port(tcp, 443)}}},
			[]packet{{"10.1.2.3", tcp, 443}, {"10.9.9.9", tcp, 1}}, []packet{{"10.1.2.3", tcp, 80}, {"10.1.2.4", tcp, 443}},
		},
		"all of it is excepted": {
			[]networkpolicy.EndpointInfo{{CIDR: "10.0.0.0/24", Except: []string{"10.0.0.0/24"}}},
			nil, []packet{{"10.0.0.1", tcp, 80}},
		},
		"neighbors and overlaps": {
			[]networkpolicy.EndpointInfo{{CIDR: "10.0.0.1"}, {CIDR: "10.0.0.2"}, {CIDR: "10.0.0.0/30"}},
			[]packet{{"10.0.0.0", tcp, 1}, {"10.0.0.3", tcp, 1}}, []packet{{"10.0.0.4", tcp, 1}},
		},
		"names and the other family are left out": {
			[]networkpolicy.EndpointInfo{{CIDR: "::/0"}, {DomainName: "example.com"}, {CIDR: "not a block"}},
			nil, []packet{{"10.0.0.1", tcp, 80}},
		},
	} {
		rules := compile(c.infos, false)
		allows := func(p packet) bool {
			for _, r := range rules {
				if r.matches(netip.MustParseAddr(p.other), protocols[p.protocol], p.port) {
					return true
				}
			}
			return false
		}
		for _, p := range c.allows {
			if !allows(p) {
				t.Errorf("%s: %v is not allowed", name, p)
			}
		}
		for _, p := range c.does {
			if allows(p) {
				t.Errorf("%s: %v is allowed", name, p)
			}
		}
	}
	six := compile([]networkpolicy.EndpointInfo{{CIDR: "0.0.0.0/0"}, {CIDR: "2001:db8::/32",
		Except: []string{"2001:db8:1::/48"}}}, true)
	for text, want := range map[string]bool{"2001:db8::1": true, "2001:db8:1::1": false, "2001:db9::1": false} {
		if got := len(six) == 1 && six[0].matches(netip.MustParseAddr(text), 6, 80); got != want {
			t.Errorf("IPv6, from %s: %v, want %v", text, got, want)
		}
	}
}

// endpoint makes a PolicyEndpoint of a policy for pods of the node 10.0.0.1, or of the host that their address is of.
func endpoint(name, policy string, isolation []networkingv1.PolicyType, pods ...string) *networkpolicy.PolicyEndpoint {
	e := &networkpolicy.PolicyEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	e.Spec.PolicyRef = networkpolicy.PolicyReference{Name: policy, Namespace: "shop"}
	e.Spec.PodIsolation = isolation
	for _, pod := range pods {
		e.Spec.PodSelectorEndpoints = append(e.Spec.PodSelectorEndpoints, networkpolicy.PodEndpoint{HostIP: "10.0.0.1",
			PodIP: "10.0.0.9", Name: pod, Namespace: "shop"})
	}
	return e
}

func TestPoliciesOfPods(t *testing.T) {
	t.Parallel()
	ingress, both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, []networkingv1.PolicyType{
		networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	node := netip.MustParseAddr("10.0.0.1")
	ref := func(name string) podRef { return podRef{Namespace: "shop", Name: name} }

	// The rules of a policy are those of all its objects, for the pods of all of them.
	first, second := endpoint("web-1", "web", ingress, "web-x-1"), endpoint("web-2", "web", ingress, "web-x-2")
	second.Spec.Ingress = []networkpolicy.EndpointInfo{{CIDR: "10.0.0.7"}}
	elsewhere := endpoint("web-3", "web", ingress, "web-x-3")
	elsewhere.Spec.PodSelectorEndpoints[0].HostIP = "10.0.0.2"
	hosts := endpoint("web-4", "web", ingress, "host")
	hosts.Spec.PodSelectorEndpoints[0].PodIP = "10.0.0.1"
	got := policiesOfPods([]*networkpolicy.PolicyEndpoint{first, second, elsewhere, hosts}, nil, node, nil)
	if len(got) != 2 {
		t.Fatalf("pods with policies are %v", got)
	}
	for _, name := range []string{"web-x-1", "web-x-2"} {
		p := got[ref(name)]
		if !p.ingress.isolated || len(p.ingress.allow) != 1 || p.egress.isolated {
			t.Errorf("%s has %+v", name, p)
		}
	}

	// A pod has the sum of its policies.
	all := endpoint("all", "all", both, "web-x-1")
	got = policiesOfPods([]*networkpolicy.PolicyEndpoint{first, second, all}, nil, node, nil)
	if p := got[ref("web-x-1")]; !p.egress.isolated || len(p.egress.allow) != 0 || len(p.ingress.allow) != 1 {
		t.Errorf("with two policies, the pod has %+v", p)
	}

	// Young pods begin with the policies of their workload; older ones that the controller does not name have none.
	got = policiesOfPods([]*networkpolicy.PolicyEndpoint{elsewhere}, nil, node, []knownPod{
		{podRef: ref("web-x-9"), young: true}, {podRef: ref("web-x-8")}, {podRef: ref("web-x-7"), Strict: true},
		{podRef: ref("other-x-1"), young: true},
	})
	if len(got) != 2 || !got[ref("web-x-9")].ingress.isolated || got[ref("web-x-9")].egress.decides() {
		t.Errorf("young pods have %+v", got)
	}
	if p := got[ref("web-x-7")]; !p.ingress.deny || !p.egress.deny {
		t.Errorf("in strict mode, a pod without policies has %+v", p)
	}

	// In strict mode, one policy is enough for the other direction, as upstream has it.
	got = policiesOfPods([]*networkpolicy.PolicyEndpoint{first}, nil, node,
		[]knownPod{{podRef: ref("web-x-1"), Strict: true}})
	if p := got[ref("web-x-1")]; !p.ingress.isolated || p.egress.decides() {
		t.Errorf("in strict mode, a pod with a policy has %+v", p)
	}
}

func TestLinksOfPods(t *testing.T) {
	t.Parallel()
	// As the CNI plugin has it: the first 11 digits of SHA-1 of "default.web".
	names := linksOf(podRef{Namespace: "default", Name: "web"})
	if len(names) != 2 || len(names[0]) != 14 || names[0][:3] != "eni" || names[1][:4] != "vlan" ||
		names[0][3:] != names[1][4:] {
		t.Errorf("the links of a pod are %q", names)
	}
}

// TestClusterRules orders the rules of ClusterNetworkPolicies, before and after those of NetworkPolicies.
func TestClusterRules(t *testing.T) {
	t.Parallel()
	node := netip.MustParseAddr("10.0.0.1")
	of := func(name string, tier networkpolicy.Tier, priority int32, rules ...networkpolicy.ClusterEndpointInfo) (
		e *networkpolicy.ClusterPolicyEndpoint) {
		e = &networkpolicy.ClusterPolicyEndpoint{ObjectMeta: metav1.ObjectMeta{Name: name + "-1"}}
		e.Spec = networkpolicy.ClusterPolicyEndpointSpec{PolicyRef: networkpolicy.ClusterPolicyReference{Name: name},
			Tier: tier, Priority: priority, Ingress: rules}
		for _, pod := range []string{"web-x-1", "db-x-1"} {
			e.Spec.PodSelectorEndpoints = append(e.Spec.PodSelectorEndpoints, networkpolicy.PodEndpoint{
				HostIP: "10.0.0.1", PodIP: "10.0.0.9", Name: pod, Namespace: "shop"})
		}
		return e
	}
	on := func(action networkpolicy.Action, cidr string) networkpolicy.ClusterEndpointInfo {
		return networkpolicy.ClusterEndpointInfo{CIDR: cidr, Action: action}
	}
	got := policiesOfPods(
		[]*networkpolicy.PolicyEndpoint{endpoint("web-1", "web", []networkingv1.PolicyType{
			networkingv1.PolicyTypeIngress}, "web-x-1")},
		[]*networkpolicy.ClusterPolicyEndpoint{
			of("second", networkpolicy.Admin, 20, on(networkpolicy.Pass, "10.0.0.7"), on(networkpolicy.Accept, "10.0.0.8"),
				on(networkpolicy.Deny, "10.0.0.9")),
			of("first", networkpolicy.Admin, 10, on(networkpolicy.Accept, "10.0.0.6")),
			of("last", networkpolicy.Baseline, 0, on(networkpolicy.Deny, "0.0.0.0/0")),
		}, node, nil)
	web, db := got[podRef{Namespace: "shop", Name: "web-x-1"}], got[podRef{Namespace: "shop", Name: "db-x-1"}]
	var order []string
	for _, r := range web.ingress.admin {
		order = append(order, string(r.action)+" "+r.addresses[0].first.String())
	}
	if want := []string{"Accept 10.0.0.6", "Deny 10.0.0.9", "Accept 10.0.0.8", "Pass 10.0.0.7"}; !slices.Equal(order,
		want) {
		t.Errorf("the admin tier is %q, want %q", order, want)
	}
	if !web.ingress.isolated || len(web.ingress.baseline) != 0 || len(web.egress.admin) != 0 {
		t.Errorf("a pod with a NetworkPolicy has %+v", web)
	}
	if db.ingress.isolated || len(db.ingress.admin) != 4 || len(db.ingress.baseline) != 1 {
		t.Errorf("a pod without one has %+v", db)
	}
}

// TestPoliciesOfAPodAreBounded has pods with policies that are too large, and more of them than a node has room for:
// nothing passes to and from these pods, and all others have their rules. What pods share is compiled once.
func TestPoliciesOfAPodAreBounded(t *testing.T) {
	t.Parallel()
	node := netip.MustParseAddr("10.0.0.1")
	ingress := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	withPorts := func(name string, ports int, pods ...string) *networkpolicy.PolicyEndpoint {
		e := endpoint(name, name, ingress, pods...)
		info := networkpolicy.EndpointInfo{CIDR: "10.0.0.9"}
		for i := range ports {
			info.Ports = append(info.Ports, port(tcp, int32(i%65536)))
		}
		e.Spec.Ingress = []networkpolicy.EndpointInfo{info}
		return e
	}
	all := []*networkpolicy.PolicyEndpoint{withPorts("small", 5, "web-x-1", "web-x-2"),
		withPorts("large", maxOfPod, "large-x-1")}
	for i := range maxOfNode/maxOfPod + 1 {
		name := fmt.Sprint("many-", i)
		all = append(all, withPorts(name, maxOfPod-100, name+"-1"))
	}
	got := policiesOfPods(all, nil, node, nil)
	of := func(name string) policies { return got[podRef{Namespace: "shop", Name: name}] }
	a, b := of("web-x-1"), of("web-x-2")
	if a.tooLarge || len(a.ingress.allow) != 1 || &a.ingress.allow[0] != &b.ingress.allow[0] || a.egress.isolated {
		t.Errorf("small policies are %+v and %+v", a, b)
	}
	if large := of("large-x-1"); !large.tooLarge || !large.ingress.isolated || !large.egress.isolated ||
		len(large.ingress.allow) > 0 {
		t.Errorf("large policies are %+v", large.ingress)
	}
	enforced := 0
	for i := range maxOfNode/maxOfPod + 1 {
		if p := of(fmt.Sprintf("many-%d-1", i)); !p.tooLarge {
			enforced++
		}
	}
	if enforced != maxOfNode/maxOfPod {
		t.Errorf("%d of the large policies are enforced", enforced)
	}
	r := design(node, got, false)
	if r.ingress[linksOf(podRef{Namespace: "shop", Name: "web-x-1"})[0]] !=
		r.ingress[linksOf(podRef{Namespace: "shop", Name: "web-x-2"})[1]] {
		t.Error("pods with the same policies have chains of their own")
	}
}

// TestSubtract has exceptions in any order, also such that leave nothing at an end.
func TestSubtract(t *testing.T) {
	t.Parallel()
	of := func(text string) span { b, _ := parseBlock(text); return spanOf(b) }
	for _, c := range []struct{ from, without, want string }{
		{"10.0.0.0/30", "", "10.0.0.0-10.0.0.3"},
		{"10.0.0.0/30", "10.0.0.0", "10.0.0.1-10.0.0.3"},
		{"10.0.0.0/30", "10.0.0.3 10.0.0.1", "10.0.0.0-10.0.0.0 10.0.0.2-10.0.0.2"},
		{"10.0.0.0/30", "10.0.0.2/31 9.0.0.0/8 11.0.0.0/8 10.0.0.2", "10.0.0.0-10.0.0.1"},
		{"10.0.0.0/30", "0.0.0.0/0", ""},
		{"0.0.0.0/0", "128.0.0.0/1", "0.0.0.0-127.255.255.255"},
	} {
		var without []span
		for _, text := range strings.Fields(c.without) {
			without = append(without, of(text))
		}
		var got []string
		for _, s := range subtract(of(c.from), without) {
			got = append(got, s.first.String()+"-"+s.last.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s without %q is %s, want %s", c.from, c.without, got, c.want)
		}
	}
}
