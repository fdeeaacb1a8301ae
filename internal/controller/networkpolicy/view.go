package networkpolicy

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// view is what is known of a cluster: policies, and what their selectors are about, without all that nobody reads here.
type view struct {
	mu         sync.RWMutex
	policies   map[types.NamespacedName]*policy
	namespaces map[string]namespace
	pods       map[string][]*pod // by namespace, in the order of their names
	services   map[string][]*service
	endpoints  map[types.NamespacedName]map[string]*networkpolicy.PolicyEndpoint // by policy and name
	// clusterPolicies and clusterEndpoints are those of the whole cluster (cluster.go).
	clusterPolicies  map[string]*clusterPolicy
	clusterEndpoints map[string]map[string]*networkpolicy.ClusterPolicyEndpoint // by policy and name
	// owners has the policies of all endpoints of both kinds; those of the whole cluster have no namespace.
	owners  map[types.NamespacedName]types.NamespacedName
	objects int
	size    int            // in bytes, about
	sizes   map[string]int // likewise, of what is in a namespace
}

func newView() *view {
	return &view{
		policies: map[types.NamespacedName]*policy{}, namespaces: map[string]namespace{},
		pods: map[string][]*pod{}, services: map[string][]*service{},
		endpoints:        map[types.NamespacedName]map[string]*networkpolicy.PolicyEndpoint{},
		clusterPolicies:  map[string]*clusterPolicy{},
		clusterEndpoints: map[string]map[string]*networkpolicy.ClusterPolicyEndpoint{},
		owners:           map[types.NamespacedName]types.NamespacedName{},
		sizes:            map[string]int{},
	}
}

// namespace has the labels of a namespace, unless there was no room for them: see matches.
type namespace struct {
	labels  labels.Set
	unknown bool
}

// matches reports whether a selector has the namespace. One with unknown labels is in every selector that keeps
// something from passing, and otherwise only in those that have all namespaces.
func (n namespace) matches(by labels.Selector, withUnknown bool) bool {
	if n.unknown {
		return withUnknown || by.Empty()
	}
	return by.Matches(n.labels)
}

func (n namespace) size(name string) int { return 64 + sizeOfText(name) + sizeOf(n.labels) }

func trimNamespace(n *corev1.Namespace) namespace {
	return namespace{labels: maps.Clone(labels.Set(n.Labels)), unknown: !kubeclient.HasLabels(n)}
}

// pod is a pod, as far as policies are about it.
type pod struct {
	namespace, name string
	uid             types.UID
	labels          labels.Set
	ip, host        string
	hostNetwork     bool
	ended           bool
	ports           []corev1.ContainerPort // of all containers, in their order, each once
	// unknown is set where there was no room for the labels: every policy that may select the pod does.
	unknown bool
	partial bool // not all of the pod was read
}

// isSelected reports whether a policy that is for the pod's namespace selects the pod.
func (p *pod) isSelected(by labels.Selector) bool { return p.unknown || by.Matches(p.labels) }

// hasNetwork reports whether the pod has an address that is its own for now.
func (p *pod) hasNetwork() bool { return p.ip != "" && !p.ended }

// service is a service, as far as policies are about it.
type service struct {
	namespace, name string
	uid             types.UID
	selector        labels.Set
	ip              string
	ports           []corev1.ServicePort
	// unknown is set where there was no room for the selector and the ports: what keeps something from passing keeps it
	// from all ports of the service.
	unknown bool
}

// podIPs is where the VPC CNI plugin announces the address of a pod (ANNOTATE_POD_IP), before the kubelet reports it.
const podIPs = "vpc.amazonaws.com/pod-ips"

func (p *pod) called() string { return p.name }

func (s *service) called() string { return s.name }

// find returns where the object of a name is, or belongs, among those in the order of their names.
func find[T interface{ called() string }](all []T, name string) (at int, there bool) {
	return slices.BinarySearchFunc(all, name, func(o T, name string) int { return cmp.Compare(o.called(), name) })
}

// addressIn returns an address that the author of a pod may have written, as others write it; "" where it is none, or
// has a zone, which may be of any length.
func addressIn(text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" || address.Is4In6() {
		return ""
	}
	return address.String()
}

// What is kept of a pod is bounded, so that one has no more room in the policies of others than many have: of pods with
// more ports none, and of pods with larger labels no label.
const maxPorts, maxLabels = 1000, 32 << 10

func trimPod(p *corev1.Pod) *pod {
	out := &pod{
		namespace: p.Namespace, name: p.Name, uid: p.UID, labels: maps.Clone(labels.Set(p.Labels)),
		partial: kubeclient.IsPartial(p),
		ip:      addressIn(p.Status.PodIP), host: p.Status.HostIP, hostNetwork: p.Spec.HostNetwork,
		ended: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
	}
	if out.ip == "" && out.host != "" { // a pod that no kubelet has could name the address of another
		out.ip = addressIn(p.Annotations[podIPs])
	}
	if !kubeclient.HasLabels(p) || sizeOf(out.labels) > maxLabels {
		return out.withoutLabels()
	}
	seen := map[corev1.ContainerPort]bool{}
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			kept := corev1.ContainerPort{Name: port.Name, ContainerPort: port.ContainerPort,
				Protocol: cmp.Or(port.Protocol, corev1.ProtocolTCP)}
			if !seen[kept] {
				seen[kept] = true
				out.ports = append(out.ports, kept)
			}
		}
	}
	if len(out.ports) > maxPorts {
		out.ports = nil
	}
	return out
}

// withKnown returns a pod with what was known of it before, as far as not all of it was read. The ports of a pod, and
// whose network it has, do not change.
func (p *pod) withKnown(was *pod) *pod {
	if !p.partial || p.uid != was.uid {
		return p
	}
	out := *p
	out.ip, out.host, out.hostNetwork = cmp.Or(p.ip, was.ip), cmp.Or(p.host, was.host), p.hostNetwork || was.hostNetwork
	out.ports = was.ports
	return &out
}

// withoutLabels returns the least that is kept of a pod.
func (p *pod) withoutLabels() *pod {
	out := *p
	out.labels, out.ports, out.unknown = nil, nil, true
	return &out
}

func trimService(s *corev1.Service) *service {
	out := &service{namespace: s.Namespace, name: s.Name, uid: s.UID, ip: s.Spec.ClusterIP,
		selector: maps.Clone(labels.Set(s.Spec.Selector))}
	if kubeclient.IsPartial(s) {
		return out.withoutPorts()
	}
	for _, p := range s.Spec.Ports {
		out.ports = append(out.ports, corev1.ServicePort{Port: p.Port, TargetPort: p.TargetPort,
			Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP)})
	}
	return out
}

// withoutPorts returns the least that is kept of a service.
func (s *service) withoutPorts() *service {
	return &service{namespace: s.namespace, name: s.name, uid: s.uid, ip: s.ip, unknown: true}
}

// withKnown returns a service with the address that it had before, as far as not all of it was read.
func (s *service) withKnown(was *service) *service {
	if !s.unknown || s.uid != was.uid || s.ip != "" {
		return s
	}
	out := *s
	out.ip = was.ip
	return &out
}

// maxSize bounds what is kept of a cluster, in bytes: that of a hundred thousand pods with a dozen labels each. Of what
// comes when there are three quarters of it, or when its namespace has half, little is kept.
const maxSize, maxGrown, maxOfNamespace = 128 << 20, 96 << 20, 64 << 20

// count adjusts what the view has, and returns an error where that is too much.
func (v *view) count(namespace string, objects, size int) error {
	v.objects, v.size = v.objects+objects, v.size+size
	if v.sizes[namespace] += size; v.sizes[namespace] == 0 {
		delete(v.sizes, namespace)
	}
	if v.objects > kubeclient.MaxObjects || v.size > maxSize {
		return fmt.Errorf("what network policies are about is more than %d objects or %d MiB, %w", kubeclient.MaxObjects,
			maxSize>>20, kubeclient.ErrTooLarge)
	}
	return nil
}

// hasRoom reports whether objects of a namespace, or the cluster's own, may grow by a size. The caller holds mu.
func (v *view) hasRoom(namespace string, growth int) bool {
	return growth <= 0 || v.size+growth <= maxGrown && (namespace == "" || v.sizes[namespace]+growth <= maxOfNamespace)
}

func (p *pod) size() int {
	n := 256 + len(p.namespace) + len(p.name) + len(p.uid) + len(p.host) + sizeOf(p.labels) + len(p.ip)
	for _, port := range p.ports {
		n += 96 + len(port.Name) + len(port.Protocol)
	}
	return n
}

func (s *service) size() int {
	n := 256 + len(s.namespace) + len(s.name) + len(s.uid) + sizeOf(s.selector) + len(s.ip)
	for _, port := range s.ports {
		n += 192 + len(port.TargetPort.StrVal) + len(port.Protocol)
	}
	return n
}

func (v *view) setPolicy(p *networkingv1.NetworkPolicy) error {
	parsed := parsePolicy(p)
	at := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	v.mu.Lock()
	defer v.mu.Unlock()
	objects, had := 1, 0
	if was := v.policies[at]; was != nil {
		objects, had = 0, was.size
	}
	if !v.hasRoom(p.Namespace, parsed.size-had) {
		parsed = withoutRules(p, tooLarge("there is no room for it beside what else its namespace, or the cluster, has"))
	}
	v.policies[at] = parsed
	return v.count(p.Namespace, objects, parsed.size-had)
}

func (v *view) removePolicy(at types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if was := v.policies[at]; was != nil {
		_ = v.count(at.Namespace, -1, -was.size)
		delete(v.policies, at)
	}
}

// policy returns a policy; nil when there is none.
func (v *view) policy(at types.NamespacedName) *networkingv1.NetworkPolicy {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if p := v.policies[at]; p != nil {
		return p.NetworkPolicy
	}
	return nil
}

// has reports whether there is a policy; one of the whole cluster has no namespace.
func (v *view) has(at types.NamespacedName) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if at.Namespace == "" {
		return v.clusterPolicies[at.Name] != nil
	}
	return v.policies[at] != nil
}

func (v *view) allPolicies() []types.NamespacedName {
	v.mu.RLock()
	defer v.mu.RUnlock()
	all := slices.Collect(maps.Keys(v.policies))
	return append(all, v.concernedCluster(func(*clusterPolicy) bool { return true })...)
}

// concerned returns the policies of which a condition is true.
func (v *view) concerned(by func(p *policy) bool) (all []types.NamespacedName) {
	for at, p := range v.policies {
		if by(p) {
			all = append(all, at)
		}
	}
	return all
}

// setNamespace sets the labels of a namespace, and returns the policies that this concerns.
func (v *view) setNamespace(name string, set labels.Set) ([]types.NamespacedName, error) {
	return v.putNamespace(name, namespace{labels: maps.Clone(set)})
}

// putNamespace sets a namespace, and returns the policies that this concerns.
func (v *view) putNamespace(name string, n namespace) ([]types.NamespacedName, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was, there := v.namespaces[name]
	objects, had := 1, 0
	if there {
		objects, had = 0, was.size(name)
	}
	if n.unknown || sizeOf(n.labels) > maxLabels || !v.hasRoom("", n.size(name)-had) {
		n = namespace{unknown: true}
	}
	if there && was.unknown == n.unknown && maps.Equal(was.labels, n.labels) {
		return nil, nil
	}
	v.namespaces[name] = n
	return v.byNamespace(), v.count("", objects, n.size(name)-had)
}

func (v *view) removeNamespace(name string) []types.NamespacedName {
	v.mu.Lock()
	defer v.mu.Unlock()
	if was, there := v.namespaces[name]; there {
		_ = v.count("", -1, -was.size(name))
		delete(v.namespaces, name)
	}
	return v.byNamespace()
}

// byNamespace returns the policies that select namespaces.
func (v *view) byNamespace() []types.NamespacedName {
	all := v.concerned(func(p *policy) bool {
		return p.hasPeer(func(x peer) bool { return x.block == nil && x.namespaces != nil })
	})
	return append(all, v.concernedCluster(func(*clusterPolicy) bool { return true })...)
}

func (p *policy) hasPeer(is func(peer) bool) bool {
	return hasPeer(p.ingress, is) || hasPeer(p.egress, is)
}

func hasPeer(rules []rule, is func(peer) bool) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return slices.ContainsFunc(r.peers, is) })
}

// setPod sets a pod, and returns the policies that the change concerns.
func (v *view) setPod(p *pod) ([]types.NamespacedName, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	in := v.pods[p.namespace]
	at, there := find(in, p.name)
	had := 0
	if there {
		p, had = p.withKnown(in[at]), in[at].size()
	}
	if !v.hasRoom(p.namespace, p.size()-had) {
		p = p.withoutLabels()
	}
	if !there {
		v.pods[p.namespace] = slices.Insert(in, at, p)
		return v.byPod(p), v.count(p.namespace, 1, p.size())
	}
	was := in[at]
	if was.equals(p) {
		return nil, nil
	}
	in[at] = p
	return v.byPod(was, p), v.count(p.namespace, 0, p.size()-was.size())
}

func (v *view) removePod(namespace, name string) []types.NamespacedName {
	v.mu.Lock()
	defer v.mu.Unlock()
	at, there := find(v.pods[namespace], name)
	if !there {
		return nil
	}
	was := v.pods[namespace][at]
	_ = v.count(namespace, -1, -was.size())
	v.pods[namespace] = slices.Delete(v.pods[namespace], at, at+1)
	if len(v.pods[namespace]) == 0 {
		delete(v.pods, namespace)
	}
	return v.byPod(was)
}

func (p *pod) equals(o *pod) bool {
	return p.uid == o.uid && p.ip == o.ip && p.host == o.host && p.hostNetwork == o.hostNetwork &&
		p.ended == o.ended && p.unknown == o.unknown && p.partial == o.partial &&
		maps.Equal(p.labels, o.labels) && slices.Equal(p.ports, o.ports)
}

// byPod returns the policies that select one of the states of a pod, or have it among their peers.
func (v *view) byPod(states ...*pod) []types.NamespacedName {
	states = slices.DeleteFunc(states, func(p *pod) bool { return p == nil || !p.hasNetwork() })
	if len(states) == 0 {
		return nil
	}
	all := v.concerned(func(p *policy) bool {
		return slices.ContainsFunc(states, func(s *pod) bool {
			return p.Namespace == s.namespace && s.isSelected(p.pods) ||
				p.hasPeer(func(x peer) bool {
					return x.block == nil && v.isIn(s.namespace, p, x) && x.pods.Matches(s.labels)
				})
		})
	})
	return append(all, v.concernedCluster(func(p *clusterPolicy) bool {
		return slices.ContainsFunc(states, func(s *pod) bool { return v.selects(p, s) })
	})...)
}

// isIn reports whether a namespace is one of a peer's.
func (v *view) isIn(namespace string, p *policy, x peer) bool {
	if x.namespaces == nil {
		return namespace == p.Namespace
	}
	n, there := v.namespaces[namespace]
	return there && n.matches(x.namespaces, true)
}

// setService sets a service, and returns the policies that this concerns.
func (v *view) setService(s *service) ([]types.NamespacedName, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	in := v.services[s.namespace]
	at, there := find(in, s.name)
	had := 0
	if there {
		s, had = s.withKnown(in[at]), in[at].size()
	}
	if !v.hasRoom(s.namespace, s.size()-had) {
		s = s.withoutPorts()
	}
	if !there {
		v.services[s.namespace] = slices.Insert(in, at, s)
		return v.byService(s.namespace), v.count(s.namespace, 1, s.size())
	}
	was := in[at]
	if was.uid == s.uid && was.ip == s.ip && was.unknown == s.unknown && maps.Equal(was.selector, s.selector) &&
		slices.Equal(was.ports, s.ports) {
		return nil, nil
	}
	in[at] = s
	return v.byService(s.namespace), v.count(s.namespace, 0, s.size()-was.size())
}

func (v *view) removeService(namespace, name string) []types.NamespacedName {
	v.mu.Lock()
	defer v.mu.Unlock()
	at, there := find(v.services[namespace], name)
	if !there {
		return nil
	}
	was := v.services[namespace][at]
	_ = v.count(namespace, -1, -was.size())
	v.services[namespace] = slices.Delete(v.services[namespace], at, at+1)
	if len(v.services[namespace]) == 0 {
		delete(v.services, namespace)
	}
	return v.byService(namespace)
}

// byService returns the policies that let pods reach what services of a namespace may stand for.
func (v *view) byService(namespace string) []types.NamespacedName {
	all := v.concerned(func(p *policy) bool {
		return hasPeer(p.egress, func(x peer) bool { return x.block == nil && v.isIn(namespace, p, x) })
	})
	return append(all, v.concernedCluster(func(p *clusterPolicy) bool { return len(p.egress) > 0 })...)
}

// ownerOf returns the policy of an endpoint.
func (v *view) ownerOf(endpoint types.NamespacedName) (types.NamespacedName, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	of, there := v.owners[endpoint]
	return of, there
}

func (v *view) setEndpoint(e *networkpolicy.PolicyEndpoint) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	of, id := policyOf(e), types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	v.drop(id) // also when somebody has given it to another policy
	if v.endpoints[of] == nil {
		v.endpoints[of] = map[string]*networkpolicy.PolicyEndpoint{}
	}
	v.endpoints[of][e.Name], v.owners[id] = e, of
	return v.count(e.Namespace, 1, sizeOfEndpoint(e))
}

// removeEndpoint removes an endpoint of either kind.
func (v *view) removeEndpoint(endpoint types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(endpoint)
}

// drop removes an endpoint. The caller holds mu.
func (v *view) drop(endpoint types.NamespacedName) {
	of, there := v.owners[endpoint]
	if !there {
		return
	}
	delete(v.owners, endpoint)
	if endpoint.Namespace == "" {
		all := v.clusterEndpoints[of.Name]
		_ = v.count("", -1, -sizeOfClusterEndpoint(all[endpoint.Name]))
		if delete(all, endpoint.Name); len(all) == 0 {
			delete(v.clusterEndpoints, of.Name)
		}
		return
	}
	all := v.endpoints[of]
	_ = v.count(endpoint.Namespace, -1, -sizeOfEndpoint(all[endpoint.Name]))
	if delete(all, endpoint.Name); len(all) == 0 {
		delete(v.endpoints, of)
	}
}

// endpointsOf returns the PolicyEndpoints of a policy, by name.
func (v *view) endpointsOf(p *networkingv1.NetworkPolicy) []*networkpolicy.PolicyEndpoint {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.sortedEndpoints(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
}

func (v *view) sortedEndpoints(at types.NamespacedName) []*networkpolicy.PolicyEndpoint {
	return slices.SortedFunc(maps.Values(v.endpoints[at]), func(a, b *networkpolicy.PolicyEndpoint) int {
		return cmp.Compare(a.Name, b.Name)
	})
}
