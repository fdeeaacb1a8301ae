package networkpolicy

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// resolved is what a policy comes to.
type resolved struct {
	ingress, egress []networkpolicy.EndpointInfo
	pods            []networkpolicy.PodEndpoint
}

// resolve returns what a policy comes to, and the PolicyEndpoints that there are for it. It ends with ctx.
func (v *view) resolve(ctx context.Context, of *networkingv1.NetworkPolicy) (
	out resolved, existing []*networkpolicy.PolicyEndpoint, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	at := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}
	p := v.policies[at]
	if p == nil {
		return out, nil, nil
	}
	r := newResolver(v, p.Namespace, ctx.Err)
	selected := r.podsOf(peer{pods: p.pods, cost: costOf(p.pods)}, true)
	if r.err != nil { // all that it may select
		selected = slices.DeleteFunc(slices.Clone(v.pods[p.Namespace]), func(p *pod) bool { return !p.hasNetwork() })
	}
	ingress, egress := r.gather(), r.gather()
	for _, rule := range p.ingress {
		r.resolveIngress(ingress, rule, selected)
	}
	for _, rule := range p.egress {
		r.resolveEgress(egress, rule)
	}
	out = resolved{ingress.sorted(), egress.sorted(), r.toEndpoints(selected)}
	return out, v.sortedEndpoints(at), together(p.wrong, r.err, r.leftOut)
}

// podsOf returns the pods of a peer that have an address, by namespace and name. Where that keeps them from passing,
// those with unknown labels are among them, also of namespaces, and no namespace is left out.
func (r *resolver) podsOf(x peer, withUnknown bool) (all []*pod) {
	for _, namespace := range r.namespacesOf(x, withUnknown) {
		if !withUnknown {
			r.enter(namespace)
		}
		for _, p := range r.pods[namespace] {
			if !r.step(x.cost) {
				break
			}
			if p.hasNetwork() && (x.pods.Matches(p.labels) && !p.unknown || p.unknown && withUnknown) {
				all = append(all, p)
			}
		}
	}
	r.enter(r.home)
	if r.err != nil {
		return nil
	}
	return all
}

// toEndpoints returns the pods for which a policy can hold.
func (*resolver) toEndpoints(pods []*pod) (all []networkpolicy.PodEndpoint) {
	for _, p := range pods {
		if !p.hostNetwork {
			all = append(all, networkpolicy.PodEndpoint{HostIP: p.host, PodIP: p.ip, Name: p.name, Namespace: p.namespace})
		}
	}
	return all
}

// namespacesOf returns the namespaces of a peer, by name.
func (r *resolver) namespacesOf(x peer, withUnknown bool) []string {
	if x.namespaces == nil {
		return []string{r.home}
	}
	var all []string
	for name, n := range r.namespaces {
		if !r.step(x.cost) {
			return nil
		}
		if n.matches(x.namespaces, withUnknown) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// everywhere are the addresses of a rule without peers.
var everywhere = []string{"0.0.0.0/0", "::/0"}

// resolveIngress adds a rule of ingress of a policy for the selected pods, whose names its named ports are.
func (r *resolver) resolveIngress(to *entries, of rule, selected []*pod) {
	r.denies = of.action == networkpolicy.Deny
	ports, named := numbered(of.ports), namedOf(of.ports)
	if len(named) > 0 {
		if len(selected) == 0 {
			return
		}
		ports = unite(ports, r.portsOfAll(selected, named))
	}
	if len(of.ports) > 0 && len(ports) == 0 {
		return // no selected pod has such a port
	}
	if len(of.peers) == 0 {
		addEverywhere(to, ports)
	}
	for _, x := range of.peers {
		if !r.step(1) {
			return
		}
		if x.block != nil {
			to.add(x.block.CIDR, x.block.Except, ports)
			continue
		}
		for _, from := range r.podsOf(x, r.denies) {
			to.add(from.ip, nil, ports)
		}
	}
}

func addEverywhere(to *entries, ports []networkpolicy.Port) {
	for _, block := range everywhere {
		to.add(block, nil, ports)
	}
}

// resolveEgress adds a rule of egress. Its named ports are those of each pod that it leads to; blocks of addresses have
// none.
func (r *resolver) resolveEgress(to *entries, of rule) {
	r.denies = of.action == networkpolicy.Deny
	ports, named := numbered(of.ports), namedOf(of.ports)
	noneOfBlocks := len(of.ports) > 0 && len(ports) == 0
	if len(of.peers) == 0 && !noneOfBlocks {
		addEverywhere(to, ports)
	}
	services := r.servicesFor(of.ports)
	for _, x := range of.peers {
		if !r.step(1) {
			return
		}
		if x.block != nil {
			if !noneOfBlocks {
				to.add(x.block.CIDR, x.block.Except, ports)
			}
			continue
		}
		for _, p := range r.podsOf(x, r.denies) {
			all := ports
			if len(named) > 0 {
				all = unite(ports, r.portsOfAll([]*pod{p}, named))
			}
			if len(all) > 0 || len(of.ports) == 0 {
				to.add(p.ip, nil, all)
			}
		}
		for _, namespace := range r.namespacesOf(x, r.denies) {
			if r.enter(namespace) {
				services.add(to, namespace, x)
			}
		}
		r.enter(r.home)
	}
}

func isNamed(p networkingv1.NetworkPolicyPort) bool {
	return p.Port != nil && p.Port.Type == intstr.String
}

func protocolOf(p networkingv1.NetworkPolicyPort) corev1.Protocol {
	if p.Protocol == nil {
		return corev1.ProtocolTCP
	}
	return *p.Protocol
}

// numbered returns the ports that need no pod to be known, in order.
func numbered(ports []networkingv1.NetworkPolicyPort) (all []networkpolicy.Port) {
	for _, p := range ports {
		if !isNamed(p) {
			all = append(all, toPort(p))
		}
	}
	return unique(all)
}

// namedOf returns the others.
func namedOf(ports []networkingv1.NetworkPolicyPort) (all []networkingv1.NetworkPolicyPort) {
	for _, p := range ports {
		if isNamed(p) {
			all = append(all, p)
		}
	}
	return all
}

// toPort returns a port that has no name.
func toPort(p networkingv1.NetworkPolicyPort) networkpolicy.Port {
	out := networkpolicy.Port{Protocol: new(protocolOf(p)), EndPort: p.EndPort}
	if p.Port != nil {
		out.Port = new(p.Port.IntVal)
	}
	return out
}

// portsOfAll returns the numbers that named ports have in pods, in order. A name that a pod does not have is none.
func (r *resolver) portsOfAll(pods []*pod, named []networkingv1.NetworkPolicyPort) (all []networkpolicy.Port) {
	type number struct {
		protocol corev1.Protocol
		port     int32
	}
	seen := map[number]bool{}
	defer r.enter(r.home)
	for _, p := range pods {
		r.enter(p.namespace)
		for _, port := range named {
			if !r.step(1 + len(p.ports)) {
				break
			}
			n, ok := p.namedPort(port.Port.StrVal, protocolOf(port))
			if key := (number{protocolOf(port), n}); ok && !seen[key] {
				seen[key] = true
				all = append(all, networkpolicy.Port{Protocol: new(key.protocol), Port: new(n)})
			}
		}
	}
	return unique(all)
}

// namedPort returns the number of the first port of a name.
func (p *pod) namedPort(name string, protocol corev1.Protocol) (int32, bool) {
	for _, port := range p.ports {
		if port.Name == name && port.Protocol == protocol {
			return port.ContainerPort, true
		}
	}
	return 0, false
}
