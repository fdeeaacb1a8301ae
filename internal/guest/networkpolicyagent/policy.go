package networkpolicyagent

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// rule matches packets by the other end, the protocol and the destination port.
type rule struct {
	addresses []span     // of the other end
	protocol  uint8      // 0: all
	ports     []portSpan // all when empty
}

// portSpan is a range of ports, with both ends.
type portSpan struct{ first, last uint16 }

// Numbers of protocols.
var protocols = map[corev1.Protocol]uint8{corev1.ProtocolTCP: 6, corev1.ProtocolUDP: 17, corev1.ProtocolSCTP: 132}

// compile returns rules that match what entries of PolicyEndpoints allow, for one family of addresses: one for each
// protocol of the entries with the same ports.
func compile(infos []networkpolicy.EndpointInfo, six bool) (rules []rule) {
	byPorts := map[string][]span{}
	ports := map[string][]networkpolicy.Port{}
	for _, info := range infos {
		block, ok := parseBlock(info.CIDR)
		if !ok || block.Addr().Is6() != six {
			continue // a name, or of the other family
		}
		var except []span
		for _, text := range info.Except {
			if b, ok := parseBlock(text); ok && b.Addr().Is6() == six {
				except = append(except, spanOf(b))
			}
		}
		key := formatPorts(info.Ports)
		byPorts[key] = append(byPorts[key], subtract(spanOf(block), except)...)
		ports[key] = info.Ports
	}
	for _, key := range slices.Sorted(maps.Keys(byPorts)) {
		addresses := mergeSpans(byPorts[key])
		if len(addresses) == 0 {
			continue // all of it is excepted
		}
		for _, r := range compilePorts(ports[key]) {
			r.addresses = addresses
			rules = append(rules, r)
		}
	}
	return rules
}

// compilePorts returns a rule for each protocol of a list of ports.
func compilePorts(ports []networkpolicy.Port) (rules []rule) {
	if len(ports) == 0 {
		return []rule{{}}
	}
	spans := map[uint8][]portSpan{}
	for _, p := range ports {
		protocol, ok := protocols[cmp.Or(valueOf(p.Protocol), corev1.ProtocolTCP)]
		if !ok {
			continue
		}
		s := portSpan{0, 65535}
		if p.Port != nil {
			s = portSpan{uint16(*p.Port), uint16(max(*p.Port, valueOf(p.EndPort)))}
		}
		spans[protocol] = append(spans[protocol], s)
	}
	for _, protocol := range slices.Sorted(maps.Keys(spans)) {
		r := rule{protocol: protocol, ports: mergePorts(spans[protocol])}
		if r.ports[0] == (portSpan{0, 65535}) {
			r.ports = nil
		}
		rules = append(rules, r)
	}
	return rules
}

func mergePorts(all []portSpan) (merged []portSpan) {
	slices.SortFunc(all, func(a, b portSpan) int { return cmp.Compare(a.first, b.first) })
	for _, s := range all {
		n := len(merged)
		if n == 0 || int(s.first) > int(merged[n-1].last)+1 {
			merged = append(merged, s)
			continue
		}
		merged[n-1].last = max(merged[n-1].last, s.last)
	}
	return merged
}

func valueOf[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

func formatPorts(ports []networkpolicy.Port) string {
	var all []string
	for _, p := range ports {
		all = append(all, fmt.Sprint(valueOf(p.Protocol), "/", valueOf(p.Port), "-", valueOf(p.EndPort)))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// matches reports whether the rule matches a packet.
func (r rule) matches(other netip.Addr, protocol uint8, port uint16) bool {
	return slices.ContainsFunc(r.addresses, func(s span) bool { return !other.Less(s.first) && !s.last.Less(other) }) &&
		(r.protocol == 0 || r.protocol == protocol) &&
		(len(r.ports) == 0 ||
			slices.ContainsFunc(r.ports, func(s portSpan) bool { return s.first <= port && port <= s.last }))
}

// A podRef names a pod.
type podRef = types.NamespacedName

// direction is what there is about the packets from or to a pod.
type direction struct {
	// admin are the rules of ClusterNetworkPolicies that come before all others, in their order.
	admin []clusterRule
	// isolated is set where NetworkPolicies say what is allowed.
	isolated bool
	allow    []rule
	// baseline are the rules of ClusterNetworkPolicies for pods that no NetworkPolicy selects, in their order.
	baseline []clusterRule
	// deny is set for a pod without NetworkPolicies in strict mode.
	deny bool
}

// clusterRule is a rule of a ClusterNetworkPolicy.
type clusterRule struct {
	rule
	action   networkpolicy.Action
	priority int32
}

// decides reports whether the direction differs from that of a pod without policies.
func (d direction) decides() bool {
	return d.isolated || d.deny || len(d.admin)+len(d.baseline) > 0
}

// policies is what there is about a pod.
type policies struct {
	ingress, egress direction
	// key is the same for pods with the same policies; empty where nobody knows.
	key string
	// tooLarge is set where nothing passes, as the policies of the pod are too large.
	tooLarge bool
}

// knownPod is a pod of this node that the CNI plugin has told of.
type knownPod struct {
	podRef
	// Strict is set for a pod that is not to send or receive anything before a policy allows it.
	Strict bool
	// young is set for a pod that the controller may not know yet.
	young bool
}

// What the agent enforces is bounded for each pod, and for all pods of the node together, as tenants share it: in
// addresses, exceptions and ports of entries. Pods with the same policies count once. Pods with more have no
// connections but those to and from the node.
const (
	maxOfPod  = 1 << 17
	maxOfNode = 1 << 20
)

// policyGroup is a policy, put together from its PolicyEndpoints.
type policyGroup struct {
	name            string
	pods            []networkpolicy.PodEndpoint
	isolation       []networkingv1.PolicyType
	ingress, egress []networkpolicy.EndpointInfo
	size            int
}

// clusterGroup is a policy of the whole cluster, put together from its ClusterPolicyEndpoints.
type clusterGroup struct {
	name            string
	tier            networkpolicy.Tier
	pods            []networkpolicy.PodEndpoint
	endpoints       []*networkpolicy.ClusterPolicyEndpoint
	compiled        bool
	ingress, egress []clusterRule
	size            int
}

// groupsOfPod are the policies that select a pod.
type groupsOfPod struct {
	policies []*policyGroup
	cluster  []*clusterGroup
}

// key identifies the policies.
func (g *groupsOfPod) key() string {
	var b strings.Builder
	for _, p := range g.policies {
		b.WriteString(p.name + ",")
	}
	b.WriteString("|")
	for _, p := range g.cluster {
		b.WriteString(p.name + ",")
	}
	return b.String()
}

// size returns the number of addresses, exceptions and ports.
func (g *groupsOfPod) size() (n int) {
	for _, p := range g.policies {
		n += p.size
	}
	for _, p := range g.cluster {
		n += p.size
	}
	return n
}

// policiesOfPods returns what PolicyEndpoints and ClusterPolicyEndpoints say of the pods of a node.
func policiesOfPods(all []*networkpolicy.PolicyEndpoint, cluster []*networkpolicy.ClusterPolicyEndpoint,
	node netip.Addr, known []knownPod) map[podRef]policies {
	young := map[string][]podRef{}
	for _, k := range known {
		if k.young {
			young[workloadOf(k.podRef)] = append(young[workloadOf(k.podRef)], k.podRef)
		}
	}
	byPod := map[podRef]*groupsOfPod{}
	of := func(pod podRef) *groupsOfPod {
		if byPod[pod] == nil {
			byPod[pod] = &groupsOfPod{}
		}
		return byPod[pod]
	}
	for _, p := range groupPolicies(all) {
		for pod := range selects(p.pods, node, young) {
			of(pod).policies = append(of(pod).policies, p)
		}
	}
	for _, p := range groupClusterPolicies(cluster) {
		for pod := range selects(p.pods, node, young) {
			of(pod).cluster = append(of(pod).cluster, p)
		}
	}
	byKey := map[string]*groupsOfPod{}
	for _, g := range byPod {
		byKey[g.key()] = g
	}
	compiled, total := map[string]policies{}, 0
	for _, key := range slices.SortedFunc(maps.Keys(byKey), func(a, b string) int { // the smallest first
		return cmp.Or(cmp.Compare(byKey[a].size(), byKey[b].size()), cmp.Compare(a, b))
	}) {
		size := byKey[key].size()
		if total += size; size > maxOfPod || total > maxOfNode {
			compiled[key] = policies{ingress: direction{isolated: true}, egress: direction{isolated: true}, key: key,
				tooLarge: true}
			continue
		}
		compiled[key] = byKey[key].compile(key, node.Is6())
	}
	out := map[podRef]policies{}
	for pod, g := range byPod {
		out[pod] = compiled[g.key()]
	}
	for _, k := range known {
		if p := out[k.podRef]; k.Strict && (byPod[k.podRef] == nil || len(byPod[k.podRef].policies) == 0) {
			p.ingress.deny, p.egress.deny = true, true
			p.key += "|strict"
			out[k.podRef] = p
		}
	}
	return out
}

// groupPolicies returns the policies by their names.
func groupPolicies(all []*networkpolicy.PolicyEndpoint) []*policyGroup {
	groups := map[types.NamespacedName]*policyGroup{}
	for _, e := range all {
		at := types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.PolicyRef.Name}
		g := groups[at]
		if g == nil {
			g = &policyGroup{name: at.String()}
			groups[at] = g
		}
		g.pods = append(g.pods, e.Spec.PodSelectorEndpoints...)
		g.isolation = append(g.isolation, e.Spec.PodIsolation...)
		g.ingress = append(g.ingress, e.Spec.Ingress...)
		g.egress = append(g.egress, e.Spec.Egress...)
	}
	for _, g := range groups {
		for _, infos := range [][]networkpolicy.EndpointInfo{g.ingress, g.egress} {
			for _, info := range infos {
				g.size += 1 + len(info.Except) + len(info.Ports)
			}
		}
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *policyGroup) int { return cmp.Compare(a.name, b.name) })
}

// groupClusterPolicies returns the policies by their names.
func groupClusterPolicies(all []*networkpolicy.ClusterPolicyEndpoint) []*clusterGroup {
	groups := map[string]*clusterGroup{}
	for _, e := range all {
		g := groups[e.Spec.PolicyRef.Name]
		if g == nil {
			g = &clusterGroup{name: e.Spec.PolicyRef.Name, tier: e.Spec.Tier}
			groups[g.name] = g
		}
		g.endpoints = append(g.endpoints, e)
		g.pods = append(g.pods, e.Spec.PodSelectorEndpoints...)
		for _, infos := range [][]networkpolicy.ClusterEndpointInfo{e.Spec.Ingress, e.Spec.Egress} {
			for _, info := range infos {
				g.size += 1 + len(info.Ports)
			}
		}
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *clusterGroup) int { return cmp.Compare(a.name, b.name) })
}

// compile returns the rules of the policies. Of policies of the whole cluster, those of the lower priority come first,
// and of one priority what denies before what accepts, as upstream has it.
func (g *groupsOfPod) compile(key string, six bool) policies {
	p := policies{key: key}
	var ingress, egress []networkpolicy.EndpointInfo
	for _, of := range g.policies {
		p.ingress.isolated = p.ingress.isolated || slices.Contains(of.isolation, networkingv1.PolicyTypeIngress) ||
			len(of.ingress) > 0
		p.egress.isolated = p.egress.isolated || slices.Contains(of.isolation, networkingv1.PolicyTypeEgress) ||
			len(of.egress) > 0
		ingress, egress = append(ingress, of.ingress...), append(egress, of.egress...)
	}
	p.ingress.allow, p.egress.allow = compile(ingress, six), compile(egress, six)
	for _, of := range g.cluster {
		of.compile(six)
		switch {
		case of.tier == networkpolicy.Admin:
			p.ingress.admin = append(p.ingress.admin, of.ingress...)
			p.egress.admin = append(p.egress.admin, of.egress...)
		case len(g.policies) == 0:
			p.ingress.baseline = append(p.ingress.baseline, of.ingress...)
			p.egress.baseline = append(p.egress.baseline, of.egress...)
		}
	}
	order := func(a, b clusterRule) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(precedence[a.action], precedence[b.action]))
	}
	for _, rules := range [][]clusterRule{p.ingress.admin, p.egress.admin, p.ingress.baseline, p.egress.baseline} {
		slices.SortStableFunc(rules, order)
	}
	return p
}

// compile compiles the rules of a policy of the whole cluster, once for all pods.
func (g *clusterGroup) compile(six bool) {
	if g.compiled {
		return
	}
	g.compiled = true
	for _, e := range g.endpoints {
		g.ingress = append(g.ingress, compileCluster(e.Spec.Ingress, e.Spec.Priority, six)...)
		g.egress = append(g.egress, compileCluster(e.Spec.Egress, e.Spec.Priority, six)...)
	}
}

// precedence orders the actions of rules of one priority.
var precedence = map[networkpolicy.Action]int{networkpolicy.Deny: 0, networkpolicy.Accept: 1, networkpolicy.Pass: 2}

func compileCluster(infos []networkpolicy.ClusterEndpointInfo, priority int32, six bool) (rules []clusterRule) {
	byAction := map[networkpolicy.Action][]networkpolicy.EndpointInfo{}
	for _, info := range infos {
		byAction[info.Action] = append(byAction[info.Action], networkpolicy.EndpointInfo{CIDR: info.CIDR,
			Ports: info.Ports})
	}
	for _, action := range slices.Sorted(maps.Keys(byAction)) {
		for _, r := range compile(byAction[action], six) {
			rules = append(rules, clusterRule{r, action, priority})
		}
	}
	return rules
}

// selects returns the pods of a node that a policy selects, and young ones of a workload of which it selects another
// pod.
func selects(all []networkpolicy.PodEndpoint, node netip.Addr, young map[string][]podRef) map[podRef]bool {
	pods := map[podRef]bool{}
	for _, p := range all {
		ref := podRef{Namespace: p.Namespace, Name: p.Name}
		host, err := netip.ParseAddr(p.HostIP)
		if err == nil && host == node && p.PodIP != p.HostIP {
			pods[ref] = true
		}
		for _, same := range young[workloadOf(ref)] {
			pods[same] = true
		}
	}
	return pods
}

// workloadOf returns what the pods of one ReplicaSet, StatefulSet or DaemonSet have in common: their name up to its
// last part. Policies that hold for one of them hold for a new one, before the controller has seen it.
func workloadOf(pod podRef) string {
	name := pod.Name
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name = name[:i]
	}
	return pod.Namespace + "/" + name
}
