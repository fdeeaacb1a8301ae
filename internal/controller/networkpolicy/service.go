package networkpolicy

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// resolveServices returns the cluster IPs of the services of a namespace that stand for the pods of a peer. Agents see
// what pods send before kube-proxy has chosen one of the service's pods.
func (v *view) resolveServices(namespace string, pods labels.Selector, ports []networkingv1.NetworkPolicyPort) (
	all []networkpolicy.EndpointInfo) {
	for _, s := range slices.SortedFunc(maps.Values(v.services[namespace]), func(a, b *service) int {
		return cmp.Compare(a.name, b.name)
	}) {
		if s.ip == "" || s.ip == corev1.ClusterIPNone || !pods.Matches(s.selector) {
			continue
		}
		var behind []*pod
		for _, p := range v.podsIn(namespace) {
			if len(s.selector) > 0 && s.selector.AsSelector().Matches(p.labels) {
				behind = append(behind, p)
			}
		}
		var of []networkpolicy.Port
		for _, port := range ports {
			if port.Port == nil {
				of = append(of, toPort(port))
				continue
			}
			number, ok := s.listenPort(*port.Port, protocolOf(port), behind)
			if !ok || port.Port.Type == intstr.Int && s.leadsElsewhere(number, protocolOf(port), ports, behind) {
				continue
			}
			of = append(of, networkpolicy.Port{Protocol: new(protocolOf(port)), Port: new(number), EndPort: port.EndPort})
		}
		if len(of) > 0 || len(ports) == 0 {
			all = append(all, networkpolicy.EndpointInfo{CIDR: s.ip, Ports: of})
		}
	}
	return all
}

// listenPort returns the port of a service that leads to a port of its pods.
func (s *service) listenPort(target intstr.IntOrString, protocol corev1.Protocol, behind []*pod) (int32, bool) {
	for _, port := range s.ports {
		if port.TargetPort == target && port.Protocol == protocol {
			return port.Port, true
		}
	}
	for _, p := range behind {
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
func (s *service) leadsElsewhere(listen int32, protocol corev1.Protocol, ports []networkingv1.NetworkPolicyPort,
	behind []*pod) bool {
	at := slices.IndexFunc(s.ports, func(p corev1.ServicePort) bool {
		return p.Port == listen && p.Protocol == protocol && p.TargetPort.Type == intstr.String
	})
	if at < 0 {
		return false
	}
	return slices.ContainsFunc(behind, func(p *pod) bool {
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
