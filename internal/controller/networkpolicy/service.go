package networkpolicy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// services resolves the services of one rule: which of their ports its ports mean is the same for all of its peers.
type services struct {
	r     *resolver
	ports []networkingv1.NetworkPolicyPort
	known map[*service][]networkpolicy.Port
}

func (r *resolver) servicesFor(ports []networkingv1.NetworkPolicyPort) *services {
	return &services{r, ports, map[*service][]networkpolicy.Port{}}
}

// add adds the cluster IPs of the services of a namespace that stand for the pods of a peer. Agents see what pods send
// before kube-proxy has chosen one of the service's pods.
func (all *services) add(to *entries, namespace string, x peer) {
	for _, s := range all.r.services[namespace] {
		if !all.r.step(x.cost) {
			return
		}
		if s.ip == "" || s.ip == corev1.ClusterIPNone || s.unknown && !all.r.denies || !s.unknown &&
			!x.pods.Matches(s.selector) {
			continue
		}
		if len(all.ports) == 0 || s.unknown {
			to.add(s.ip, nil, nil)
		} else if ports := all.portsOf(s); len(ports) > 0 {
			to.add(s.ip, nil, ports)
		}
	}
}

// portsOf returns the ports of a service that the ports of the rule mean, in order.
func (all *services) portsOf(s *service) []networkpolicy.Port {
	if ports, ok := all.known[s]; ok {
		return ports
	}
	behind := all.r.podsBehind(s)
	var ports []networkpolicy.Port
	for _, port := range all.ports {
		if !all.r.step(1 + len(s.ports)) {
			return nil
		}
		if port.Port == nil {
			ports = append(ports, toPort(port))
			continue
		}
		number, ok := all.r.listenPort(s, *port.Port, protocolOf(port), behind)
		if !ok || port.Port.Type == intstr.Int && all.r.leadsElsewhere(s, number, protocolOf(port), all.ports, behind) {
			continue
		}
		ports = append(ports, networkpolicy.Port{Protocol: new(protocolOf(port)), Port: new(number), EndPort: port.EndPort})
	}
	ports = unique(ports)
	if all.r.keep(1 + len(ports)) {
		all.known[s] = ports
	}
	return ports
}

// podsBehind returns the pods that a service selects, by name.
func (r *resolver) podsBehind(s *service) []*pod {
	if len(s.selector) == 0 {
		return nil
	}
	if behind, ok := r.behind[s]; ok {
		return behind
	}
	var behind []*pod
	for _, p := range r.pods[s.namespace] {
		if !r.step(len(s.selector)) {
			return nil
		}
		if isSubset(s.selector, p.labels) {
			behind = append(behind, p)
		}
	}
	if r.keep(1 + len(behind)) {
		r.behind[s] = behind
	}
	return behind
}

func isSubset(part, of labels.Set) bool {
	for k, v := range part {
		if is, there := of[k]; !there || is != v {
			return false
		}
	}
	return true
}

// listenPort returns the port of a service that leads to a port of its pods.
func (r *resolver) listenPort(s *service, target intstr.IntOrString, protocol corev1.Protocol, behind []*pod) (
	int32, bool) {
	for _, port := range s.ports {
		if port.TargetPort == target && port.Protocol == protocol {
			return port.Port, true
		}
	}
	for _, p := range behind {
		if !r.step(1 + len(p.ports) + len(s.ports)) {
			return 0, false
		}
		number, name := target.IntVal, ""
		at := slices.IndexFunc(p.ports, func(c corev1.ContainerPort) bool {
			return c.Protocol == protocol && (target.Type == intstr.String && c.Name == target.StrVal ||
				target.Type == intstr.Int && c.ContainerPort == target.IntVal)
		})
		switch {
		case at >= 0:
			number, name = p.ports[at].ContainerPort, p.ports[at].Name
		case target.Type == intstr.String:
			continue
		}
		for _, port := range s.ports {
			if port.Protocol == protocol && (port.TargetPort.Type == intstr.String && name == port.TargetPort.StrVal ||
				port.TargetPort.Type == intstr.Int && number == port.TargetPort.IntVal) {
				return port.Port, true
			}
		}
	}
	return 0, false
}

// leadsElsewhere reports whether a port of a service leads by name to a port of one of its pods that the rule does not
// allow.
func (r *resolver) leadsElsewhere(s *service, listen int32, protocol corev1.Protocol,
	ports []networkingv1.NetworkPolicyPort, behind []*pod) bool {
	at := slices.IndexFunc(s.ports, func(p corev1.ServicePort) bool {
		return p.Port == listen && p.Protocol == protocol && p.TargetPort.Type == intstr.String
	})
	if at < 0 {
		return false
	}
	return slices.ContainsFunc(behind, func(p *pod) bool {
		if !r.step(1 + len(p.ports) + len(ports)) {
			return true
		}
		number, ok := p.namedPort(s.ports[at].TargetPort.StrVal, protocol)
		return ok && !allowsNumber(ports, number, protocol)
	})
}

func allowsNumber(ports []networkingv1.NetworkPolicyPort, number int32, protocol corev1.Protocol) bool {
	return slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		if protocolOf(p) != protocol || isNamed(p) {
			return false
		}
		if p.Port == nil {
			return true
		}
		last := p.Port.IntVal
		if p.EndPort != nil {
			last = *p.EndPort
		}
		return p.Port.IntVal <= number && number <= last
	})
}
