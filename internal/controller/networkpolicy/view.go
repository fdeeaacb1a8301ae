package networkpolicy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// view is what is known of a cluster: policies, and what their selectors are about, without all that nobody reads here.
type view struct {
	mu         sync.RWMutex
	policies   map[types.NamespacedName]*policy
	namespaces map[string]labels.Set
	pods       map[string]map[string]*pod // by namespace and name
	services   map[string]map[string]*service
	endpoints  map[types.NamespacedName]map[string]*networkpolicy.PolicyEndpoint // by policy and name
	// clusterPolicies and clusterEndpoints are those of the whole cluster (cluster.go).
	clusterPolicies  map[string]*clusterPolicy
	clusterEndpoints map[string]map[string]*networkpolicy.ClusterPolicyEndpoint // by policy and name
	objects          int
	size             int // in bytes, about
}

func newView() *view {
	return &view{
		policies: map[types.NamespacedName]*policy{}, namespaces: map[string]labels.Set{},
		pods: map[string]map[string]*pod{}, services: map[string]map[string]*service{},
		endpoints:        map[types.NamespacedName]map[string]*networkpolicy.PolicyEndpoint{},
		clusterPolicies:  map[string]*clusterPolicy{},
		clusterEndpoints: map[string]map[string]*networkpolicy.ClusterPolicyEndpoint{},
	}
}

// policy is a policy with its selectors parsed.
type policy struct {
	*networkingv1.NetworkPolicy
	pods            labels.Selector
	ingress, egress [][]peer // by rule
}

// peer is a peer of a rule; both selectors are nil for a block of addresses.
type peer struct {
	block      *networkingv1.IPBlock
	namespaces labels.Selector // nil: that of the policy
	pods       labels.Selector
}

// pod is a pod, as far as policies are about it.
type pod struct {
	namespace, name string
	labels          labels.Set
	ip, host        string
	hostNetwork     bool
	ended           bool
	ports           []corev1.ContainerPort // of all containers, in their order
}

// hasNetwork reports whether the pod has an address that is its own for now.
func (p *pod) hasNetwork() bool { return p.ip != "" && !p.ended }

// service is a service, as far as policies are about it.
type service struct {
	namespace, name string
	selector        labels.Set
	ip              string
	ports           []corev1.ServicePort
}

// podIPs is where the VPC CNI plugin announces the address of a pod (ANNOTATE_POD_IP), before the kubelet reports it.
const podIPs = "vpc.amazonaws.com/pod-ips"

func trimPod(p *corev1.Pod) *pod {
	out := &pod{
		namespace: p.Namespace, name: p.Name, labels: maps.Clone(labels.Set(p.Labels)),
		ip: cmp.Or(p.Status.PodIP, p.Annotations[podIPs]), host: p.Status.HostIP, hostNetwork: p.Spec.HostNetwork,
		ended: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
	}
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			out.ports = append(out.ports, corev1.ContainerPort{Name: port.Name, ContainerPort: port.ContainerPort,
				Protocol: cmp.Or(port.Protocol, corev1.ProtocolTCP)})
		}
	}
	return out
}

func trimService(s *corev1.Service) *service {
	out := &service{namespace: s.Namespace, name: s.Name, selector: maps.Clone(labels.Set(s.Spec.Selector)),
		ip: s.Spec.ClusterIP}
	for _, p := range s.Spec.Ports {
		out.ports = append(out.ports, corev1.ServicePort{Port: p.Port, TargetPort: p.TargetPort,
			Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP)})
	}
	return out
}

func parsePolicy(p *networkingv1.NetworkPolicy) (*policy, error) {
	p.ManagedFields, p.Annotations = nil, nil
	out := &policy{NetworkPolicy: p}
	var err error
	if out.pods, err = metav1.LabelSelectorAsSelector(&p.Spec.PodSelector); err != nil {
		return nil, err
	}
	for _, rule := range p.Spec.Ingress {
		peers, err := parsePeers(rule.From)
		if err != nil {
			return nil, err
		}
		out.ingress = append(out.ingress, peers)
	}
	for _, rule := range p.Spec.Egress {
		peers, err := parsePeers(rule.To)
		if err != nil {
			return nil, err
		}
		out.egress = append(out.egress, peers)
	}
	return out, nil
}

func parsePeers(all []networkingv1.NetworkPolicyPeer) (peers []peer, err error) {
	for _, p := range all {
		out := peer{block: p.IPBlock, pods: labels.Everything()}
		if p.NamespaceSelector != nil {
			if out.namespaces, err = metav1.LabelSelectorAsSelector(p.NamespaceSelector); err != nil {
				return nil, err
			}
		}
		if p.PodSelector != nil {
			if out.pods, err = metav1.LabelSelectorAsSelector(p.PodSelector); err != nil {
				return nil, err
			}
		}
		peers = append(peers, out)
	}
	return peers, nil
}

// maxSize bounds what is kept of a cluster, in bytes: that of a hundred thousand pods with a dozen labels each.
const maxSize = 128 << 20

// count adjusts what the view has, and returns an error where that is too much.
func (v *view) count(objects, size int) error {
	v.objects, v.size = v.objects+objects, v.size+size
	if v.objects > kubeclient.MaxObjects || v.size > maxSize {
		return fmt.Errorf("what network policies are about is more than %d objects or %d MiB, %w", kubeclient.MaxObjects,
			maxSize>>20, kubeclient.ErrTooLarge)
	}
	return nil
}

func (p *pod) size() int { return 256 + sizeOf(p.labels) + len(p.ip) + 64*len(p.ports) }

func (s *service) size() int { return 256 + sizeOf(s.selector) + 128*len(s.ports) }

func sizeOf(set labels.Set) (n int) {
	for k, v := range set {
		n += len(k) + len(v) + 48
	}
	return n
}

func (v *view) setPolicy(p *networkingv1.NetworkPolicy) error {
	parsed, err := parsePolicy(p)
	if err != nil {
		return fmt.Errorf("network policy %s/%s: %w", p.Namespace, p.Name, err)
	}
	at := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	v.mu.Lock()
	defer v.mu.Unlock()
	objects, size := 1, p.Size()
	if was := v.policies[at]; was != nil {
		objects, size = 0, size-was.Size()
	}
	v.policies[at] = parsed
	return v.count(objects, 2*size) // with its selectors
}

func (v *view) removePolicy(at types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if was := v.policies[at]; was != nil {
		_ = v.count(-1, -2*was.Size())
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
	v.mu.Lock()
	defer v.mu.Unlock()
	was, there := v.namespaces[name]
	if there && maps.Equal(was, set) {
		return nil, nil
	}
	v.namespaces[name] = maps.Clone(set)
	objects := 1
	if there {
		objects = 0
	}
	return v.byNamespace(), v.count(objects, sizeOf(set)-sizeOf(was))
}

func (v *view) removeNamespace(name string) []types.NamespacedName {
	v.mu.Lock()
	defer v.mu.Unlock()
	if was, there := v.namespaces[name]; there {
		_ = v.count(-1, -sizeOf(was))
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
	for _, rule := range slices.Concat(p.ingress, p.egress) {
		if slices.ContainsFunc(rule, is) {
			return true
		}
	}
	return false
}

// setPod sets a pod, and returns the policies that the change concerns.
func (v *view) setPod(p *pod) ([]types.NamespacedName, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.pods[p.namespace][p.name]
	if was != nil && was.equals(p) {
		return nil, nil
	}
	if v.pods[p.namespace] == nil {
		v.pods[p.namespace] = map[string]*pod{}
	}
	v.pods[p.namespace][p.name] = p
	objects, size := 1, p.size()
	if was != nil {
		objects, size = 0, size-was.size()
	}
	return v.byPod(was, p), v.count(objects, size)
}

func (v *view) removePod(namespace, name string) []types.NamespacedName {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.pods[namespace][name]
	if was == nil {
		return nil
	}
	_ = v.count(-1, -was.size())
	delete(v.pods[namespace], name)
	if len(v.pods[namespace]) == 0 {
		delete(v.pods, namespace)
	}
	return v.byPod(was)
}

func (p *pod) equals(o *pod) bool {
	return p.ip == o.ip && p.host == o.host && p.hostNetwork == o.hostNetwork && p.ended == o.ended &&
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
			return p.Namespace == s.namespace && p.pods.Matches(s.labels) ||
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
	set, there := v.namespaces[namespace]
	return there && x.namespaces.Matches(set)
}

// setService sets a service, and returns the policies that this concerns.
func (v *view) setService(s *service) ([]types.NamespacedName, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.services[s.namespace][s.name]
	if was != nil && was.ip == s.ip && maps.Equal(was.selector, s.selector) && slices.Equal(was.ports, s.ports) {
		return nil, nil
	}
	if v.services[s.namespace] == nil {
		v.services[s.namespace] = map[string]*service{}
	}
	v.services[s.namespace][s.name] = s
	objects, size := 1, s.size()
	if was != nil {
		objects, size = 0, size-was.size()
	}
	return v.byService(s.namespace), v.count(objects, size)
}

func (v *view) removeService(namespace, name string) []types.NamespacedName {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.services[namespace][name]
	if was == nil {
		return nil
	}
	_ = v.count(-1, -was.size())
	delete(v.services[namespace], name)
	if len(v.services[namespace]) == 0 {
		delete(v.services, namespace)
	}
	return v.byService(namespace)
}

// byService returns the policies that let pods reach what services of a namespace may stand for.
func (v *view) byService(namespace string) []types.NamespacedName {
	all := v.concerned(func(p *policy) bool {
		return slices.ContainsFunc(p.egress, func(rule []peer) bool {
			return slices.ContainsFunc(rule, func(x peer) bool { return x.block == nil && v.isIn(namespace, p, x) })
		})
	})
	return append(all, v.concernedCluster(func(p *clusterPolicy) bool { return len(p.egress) > 0 })...)
}

func (v *view) setEndpoint(e *networkpolicy.PolicyEndpoint) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	of := policyOf(e)
	if v.endpoints[of] == nil {
		v.endpoints[of] = map[string]*networkpolicy.PolicyEndpoint{}
	}
	objects, size := 1, sizeOfEndpoint(e)
	if was := v.endpoints[of][e.Name]; was != nil {
		objects, size = 0, size-sizeOfEndpoint(was)
	}
	v.endpoints[of][e.Name] = e
	return v.count(objects, size)
}

func (v *view) removeEndpoint(e *networkpolicy.PolicyEndpoint) {
	v.mu.Lock()
	defer v.mu.Unlock()
	of := policyOf(e)
	was := v.endpoints[of][e.Name]
	if was == nil {
		return
	}
	_ = v.count(-1, -sizeOfEndpoint(was))
	delete(v.endpoints[of], e.Name)
	if len(v.endpoints[of]) == 0 {
		delete(v.endpoints, of)
	}
}

func sizeOfEndpoint(e *networkpolicy.PolicyEndpoint) int {
	n := 1024
	for _, info := range slices.Concat(e.Spec.Ingress, e.Spec.Egress) {
		n += 128 + 32*len(info.Except) + 32*len(info.Ports)
	}
	return n + 192*len(e.Spec.PodSelectorEndpoints)
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
