package networkpolicy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// resolve returns what a policy comes to, and the PolicyEndpoints that there are for it.
func (v *view) resolve(of *networkingv1.NetworkPolicy) (out resolved, existing []*networkpolicy.PolicyEndpoint) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	at := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}
	p := v.policies[at]
	if p == nil {
		return out, nil
	}
	selected := v.podsOf(p.Namespace, peer{pods: p.pods})
	for i, rule := range p.Spec.Ingress {
		out.ingress = append(out.ingress, v.resolveIngress(p.Namespace, rule.Ports, p.ingress[i], selected)...)
	}
	for i, rule := range p.Spec.Egress {
		out.egress = append(out.egress, v.resolveEgress(p.Namespace, rule.Ports, p.egress[i])...)
	}
	out.ingress, out.egress, out.pods = combine(out.ingress), combine(out.egress), toEndpoints(selected)
	return out, v.sortedEndpoints(at)
}

// podsOf returns the pods of a peer that have an address, by namespace and name.
func (v *view) podsOf(home string, x peer) (all []*pod) {
	for _, namespace := range v.namespacesOf(home, x) {
		for _, p := range v.podsIn(namespace) {
			if p.hasNetwork() && x.pods.Matches(p.labels) {
				all = append(all, p)
			}
		}
	}
	return all
}

// toEndpoints returns the pods for which a policy can hold.
func toEndpoints(pods []*pod) (all []networkpolicy.PodEndpoint) {
	for _, p := range pods {
		if !p.hostNetwork {
			all = append(all, networkpolicy.PodEndpoint{HostIP: p.host, PodIP: p.ip, Name: p.name, Namespace: p.namespace})
		}
	}
	return all
}

// podsIn returns the pods of a namespace, by name.
func (v *view) podsIn(namespace string) []*pod {
	return slices.SortedFunc(maps.Values(v.pods[namespace]), func(a, b *pod) int { return cmp.Compare(a.name, b.name) })
}

// namespacesOf returns the namespaces of a peer, by name. home is the namespace of the policy.
func (v *view) namespacesOf(home string, x peer) []string {
	if x.namespaces == nil {
		return []string{home}
	}
	var all []string
	for name, set := range v.namespaces {
		if x.namespaces.Matches(set) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// everywhere are the addresses of a rule without peers.
var everywhere = []string{"0.0.0.0/0", "::/0"}

func anywhere(ports []networkpolicy.Port) (all []networkpolicy.EndpointInfo) {
	for _, block := range everywhere {
		all = append(all, networkpolicy.EndpointInfo{CIDR: block, Ports: ports})
	}
	return all
}

func ofBlock(b *networkingv1.IPBlock, ports []networkpolicy.Port) networkpolicy.EndpointInfo {
	return networkpolicy.EndpointInfo{CIDR: b.CIDR, Except: slices.Clone(b.Except), Ports: ports}
}

// resolveIngress resolves a rule of ingress of a policy for the selected pods, whose names its named ports are.
func (v *view) resolveIngress(home string, of []networkingv1.NetworkPolicyPort, peers []peer, selected []*pod) (
	all []networkpolicy.EndpointInfo) {
	ports := numbered(of)
	if slices.ContainsFunc(of, isNamed) {
		ports = nil
		for _, p := range selected {
			ports = append(ports, p.resolvePorts(of)...)
		}
		ports = unique(ports)
	}
	if len(of) > 0 && len(ports) == 0 {
		return nil // no selected pod has such a port
	}
	if len(peers) == 0 {
		return anywhere(ports)
	}
	for _, x := range peers {
		if x.block != nil {
			all = append(all, ofBlock(x.block, ports))
			continue
		}
		for _, from := range v.podsOf(home, x) {
			all = append(all, networkpolicy.EndpointInfo{CIDR: from.ip, Ports: ports})
		}
	}
	return all
}

// resolveEgress resolves a rule of egress. Its named ports are those of each pod that it leads to; blocks of addresses
// have none.
func (v *view) resolveEgress(home string, of []networkingv1.NetworkPolicyPort, peers []peer) (
	all []networkpolicy.EndpointInfo) {
	ports := numbered(of)
	noneOfBlocks := len(of) > 0 && len(ports) == 0
	if len(peers) == 0 {
		if noneOfBlocks {
			return nil
		}
		return anywhere(ports)
	}
	for _, x := range peers {
		if x.block != nil {
			if !noneOfBlocks {
				all = append(all, ofBlock(x.block, ports))
			}
			continue
		}
		for _, to := range v.podsOf(home, x) {
			if ports := to.resolvePorts(of); len(ports) > 0 || len(of) == 0 {
				all = append(all, networkpolicy.EndpointInfo{CIDR: to.ip, Ports: ports})
			}
		}
		for _, namespace := range v.namespacesOf(home, x) {
			all = append(all, v.resolveServices(namespace, x.pods, of)...)
		}
	}
	return all
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

// numbered returns the ports that need no pod to be known.
func numbered(ports []networkingv1.NetworkPolicyPort) (all []networkpolicy.Port) {
	for _, p := range ports {
		if !isNamed(p) {
			all = append(all, toPort(p))
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

// resolvePorts returns the ports with the numbers that names have in the pod. A name that it does not have is none.
func (p *pod) resolvePorts(ports []networkingv1.NetworkPolicyPort) (all []networkpolicy.Port) {
	for _, port := range ports {
		if !isNamed(port) {
			all = append(all, toPort(port))
			continue
		}
		if number, ok := p.namedPort(port.Port.StrVal, protocolOf(port)); ok {
			all = append(all, networkpolicy.Port{Protocol: new(protocolOf(port)), Port: new(number)})
		}
	}
	return all
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

// keyOf identifies a port.
func keyOf(p networkpolicy.Port) string {
	text := string(corev1.ProtocolTCP)
	if p.Protocol != nil {
		text = string(*p.Protocol)
	}
	for _, n := range []*int32{p.Port, p.EndPort} {
		if n != nil {
			text += fmt.Sprintf("/%05d", *n)
		}
	}
	return text
}

// unique returns the ports in order, each once.
func unique(ports []networkpolicy.Port) []networkpolicy.Port {
	slices.SortFunc(ports, func(a, b networkpolicy.Port) int { return cmp.Compare(keyOf(a), keyOf(b)) })
	return slices.CompactFunc(ports, func(a, b networkpolicy.Port) bool { return keyOf(a) == keyOf(b) })
}

// combine returns one entry for each block with its exceptions, with the ports of all of them, in order.
func combine(all []networkpolicy.EndpointInfo) (out []networkpolicy.EndpointInfo) {
	at := map[string]int{}
	for _, e := range all {
		slices.Sort(e.Except)
		key := e.CIDR + "|" + strings.Join(e.Except, "|")
		i, there := at[key]
		if !there {
			at[key] = len(out)
			e.Ports = unique(slices.Clone(e.Ports))
			out = append(out, e)
			continue
		}
		if len(e.Ports) == 0 || len(out[i].Ports) == 0 {
			out[i].Ports = nil
			continue
		}
		out[i].Ports = unique(slices.Concat(out[i].Ports, e.Ports))
	}
	slices.SortFunc(out, func(a, b networkpolicy.EndpointInfo) int {
		return cmp.Or(cmp.Compare(a.CIDR, b.CIDR), slices.Compare(a.Except, b.Except))
	})
	return out
}
