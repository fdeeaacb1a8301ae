package networkpolicy

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// policy is a policy with its selectors parsed. The object has what is read here alone, and no rules.
type policy struct {
	*networkingv1.NetworkPolicy
	pods            labels.Selector
	ingress, egress []rule
	size            int   // in bytes, about
	wrong           error // why it has no rules
}

// rule is a rule of a policy, with each port and peer once.
type rule struct {
	action networkpolicy.Action // of a policy of the whole cluster
	ports  []networkingv1.NetworkPolicyPort
	peers  []peer
}

// peer is a peer of a rule; both selectors are nil for a block of addresses.
type peer struct {
	block      *networkingv1.IPBlock // with its exceptions in order
	namespaces labels.Selector       // nil: that of the policy
	pods       labels.Selector
	cost       int // of matching, in comparisons
}

// parsePolicy returns a policy; one that cannot be read has no rules, and says why.
func parsePolicy(p *networkingv1.NetworkPolicy) *policy {
	if kubeclient.IsPartial(p) {
		if len(p.Spec.PolicyTypes) == 0 {
			p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
		}
		return withoutRules(p, tooLarge("it is larger than what is read of an API server"))
	}
	out := &policy{NetworkPolicy: p}
	if err := out.parseRules(); err != nil {
		return withoutRules(p, unreadable(err))
	}
	return out.trim()
}

// maxSelector is the largest size of a selector that is kept of a policy without rules, in bytes.
const maxSelector = 32 << 10

// withoutRules returns a policy that lets nothing pass: where its selector is too large, from and to no pod of its
// namespace. It is NetworkPolicies that allow, and whoever makes one is not to open the pods of others.
func withoutRules(p *networkingv1.NetworkPolicy, why error) *policy {
	out := &policy{NetworkPolicy: p, wrong: why}
	var err error
	out.pods, err = metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
	if err != nil || sizeOfSelector(out.pods) > maxSelector {
		p.Spec.PodSelector, out.pods = metav1.LabelSelector{}, labels.Everything()
	}
	p.Spec.PolicyTypes = p.Spec.PolicyTypes[:min(len(p.Spec.PolicyTypes), 2)]
	return out.trim()
}

func (out *policy) parseRules() (err error) {
	p := out.NetworkPolicy
	if out.pods, err = metav1.LabelSelectorAsSelector(&p.Spec.PodSelector); err != nil {
		return err
	}
	for _, r := range p.Spec.Ingress {
		parsed, err := parseRule(r.Ports, r.From)
		if err != nil {
			return err
		}
		out.ingress = append(out.ingress, parsed)
	}
	for _, r := range p.Spec.Egress {
		parsed, err := parseRule(r.Ports, r.To)
		if err != nil {
			return err
		}
		out.egress = append(out.egress, parsed)
	}
	return nil
}

// trim leaves what is read here alone.
func (out *policy) trim() *policy {
	p := out.NetworkPolicy
	p.ObjectMeta = trimMeta(p.ObjectMeta)
	p.Spec.Ingress, p.Spec.Egress = nil, nil
	out.size = sizeOfMeta(p.ObjectMeta) + 3*sizeOfSelector(out.pods) + sizeOfRules(out.ingress) + sizeOfRules(out.egress)
	for _, t := range p.Spec.PolicyTypes {
		out.size += 16 + len(t)
	}
	return out
}

// trimMeta returns what is read of an object's metadata.
func trimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Finalizers: m.Finalizers, DeletionTimestamp: m.DeletionTimestamp}
}

func parseRule(ports []networkingv1.NetworkPolicyPort, all []networkingv1.NetworkPolicyPeer) (rule, error) {
	out := rule{ports: uniquePorts(ports)}
	var peers []peer
	for _, p := range all {
		x, err := parsePeer(p)
		if err != nil {
			return rule{}, err
		}
		peers = append(peers, x)
	}
	out.peers = uniquePeers(peers)
	return out, nil
}

func parsePeer(p networkingv1.NetworkPolicyPeer) (out peer, err error) {
	if p.IPBlock != nil {
		return ofNetwork(p.IPBlock.CIDR, p.IPBlock.Except), nil
	}
	out.pods = labels.Everything()
	if p.NamespaceSelector != nil {
		if out.namespaces, err = metav1.LabelSelectorAsSelector(p.NamespaceSelector); err != nil {
			return peer{}, err
		}
	}
	if p.PodSelector != nil {
		if out.pods, err = metav1.LabelSelectorAsSelector(p.PodSelector); err != nil {
			return peer{}, err
		}
	}
	out.cost = costOf(out.namespaces) + costOf(out.pods)
	return out, nil
}

// ofNetwork returns the peer of a block of addresses.
func ofNetwork(block string, except []string) peer {
	except = slices.Clone(except)
	slices.Sort(except)
	return peer{block: &networkingv1.IPBlock{CIDR: block, Except: slices.Compact(except)}}
}

// uniquePeers returns each peer once.
func uniquePeers(all []peer) (out []peer) {
	seen := make(map[string]bool, len(all))
	for _, x := range all {
		var key string
		switch {
		case x.block != nil:
			key = keyOfBlock(x.block.CIDR, x.block.Except)
		case x.namespaces == nil:
			key = "pods " + x.pods.String()
		default:
			key = fmt.Sprintf("%s of %s", x.pods, x.namespaces)
		}
		if !seen[key] {
			seen[key] = true
			out = append(out, x)
		}
	}
	return out
}

// keyOfBlock identifies a block of addresses with its exceptions, which are in order.
func keyOfBlock(block string, except []string) string {
	if len(except) == 0 {
		return block
	}
	return block + "|" + strings.Join(except, "|")
}

// uniquePorts returns each port once.
func uniquePorts(all []networkingv1.NetworkPolicyPort) (out []networkingv1.NetworkPolicyPort) {
	seen := make(map[string]bool, len(all))
	for _, p := range all {
		key := string(protocolOf(p))
		if p.Port != nil {
			key += "/" + p.Port.String()
		}
		if p.EndPort != nil {
			key += fmt.Sprintf("-%d", *p.EndPort)
		}
		if !seen[key] {
			seen[key] = true
			out = append(out, p)
		}
	}
	return out
}

// costOf returns how many comparisons a selector makes for a set of labels at most.
func costOf(s labels.Selector) int {
	if s == nil {
		return 0
	}
	n := 1
	requirements, _ := s.Requirements()
	for i := range requirements {
		n += 1 + len(requirements[i].ValuesUnsorted())
	}
	return n
}

// The sizes of what is kept, in bytes: of the values of Go, with the texts that they have and what allocating them
// takes.

func sizeOfText(s string) int { return 32 + len(s) }

func sizeOfTexts(all []string) (n int) {
	for _, s := range all {
		n += sizeOfText(s)
	}
	return n
}

func sizeOf(set labels.Set) (n int) {
	for k, v := range set {
		n += 32 + sizeOfText(k) + sizeOfText(v)
	}
	return n
}

func sizeOfMeta(m metav1.ObjectMeta) int {
	return 1024 + len(m.Namespace) + len(m.Name) + len(m.UID) + len(m.ResourceVersion) + sizeOfTexts(m.Finalizers) +
		sizeOf(m.Annotations)
}

func sizeOfSelector(s labels.Selector) int {
	if s == nil {
		return 0
	}
	n := 32
	requirements, _ := s.Requirements()
	for i := range requirements {
		n += 96 + len(requirements[i].Key()) + sizeOfTexts(requirements[i].ValuesUnsorted())
	}
	return n
}

// sizeOfLabelSelector returns the size of a selector that is not parsed.
func sizeOfLabelSelector(s *metav1.LabelSelector) int {
	if s == nil {
		return 0
	}
	n := 64 + sizeOf(s.MatchLabels)
	for _, e := range s.MatchExpressions {
		n += 64 + sizeOfText(e.Key) + sizeOfText(string(e.Operator)) + sizeOfTexts(e.Values)
	}
	return n
}

func sizeOfRules(all []rule) (n int) {
	for _, r := range all {
		n += 96
		for _, p := range r.ports {
			n += 192
			if p.Port != nil {
				n += len(p.Port.StrVal)
			}
		}
		for _, x := range r.peers {
			n += 96 + sizeOfSelector(x.namespaces) + sizeOfSelector(x.pods)
			if x.block != nil {
				n += 64 + sizeOfText(x.block.CIDR) + sizeOfTexts(x.block.Except)
			}
		}
	}
	return n
}

func sizeOfPods(all []networkpolicy.PodEndpoint) (n int) {
	for _, p := range all {
		n += sizeOfText(p.HostIP) + sizeOfText(p.PodIP) + sizeOfText(p.Name) + sizeOfText(p.Namespace)
	}
	return n
}

func sizeOfPorts(all []networkpolicy.Port) (n int) {
	for _, p := range all {
		n += 64
		if p.Protocol != nil {
			n += sizeOfText(string(*p.Protocol))
		}
	}
	return n
}

func sizeOfEndpoint(e *networkpolicy.PolicyEndpoint) int {
	n := sizeOfMeta(e.ObjectMeta) + sizeOfLabelSelector(e.Spec.PodSelector) + sizeOfPods(e.Spec.PodSelectorEndpoints)
	for _, t := range e.Spec.PodIsolation {
		n += sizeOfText(string(t))
	}
	for _, all := range [][]networkpolicy.EndpointInfo{e.Spec.Ingress, e.Spec.Egress} {
		for _, info := range all {
			n += 32 + sizeOfText(info.CIDR) + sizeOfTexts(info.Except) + sizeOfPorts(info.Ports) + sizeOfText(info.DomainName)
		}
	}
	return n + sizeOfText(e.Spec.PolicyRef.Name) + sizeOfText(e.Spec.PolicyRef.Namespace)
}

func sizeOfClusterEndpoint(e *networkpolicy.ClusterPolicyEndpoint) int {
	n := sizeOfMeta(e.ObjectMeta) + sizeOfSubject(e.Spec.Subject) + sizeOfPods(e.Spec.PodSelectorEndpoints)
	for _, all := range [][]networkpolicy.ClusterEndpointInfo{e.Spec.Ingress, e.Spec.Egress} {
		for _, info := range all {
			n += 32 + sizeOfText(info.CIDR) + sizeOfPorts(info.Ports) + sizeOfText(info.DomainName) +
				sizeOfText(string(info.Action))
		}
	}
	return n + sizeOfText(e.Spec.PolicyRef.Name) + sizeOfText(string(e.Spec.Tier))
}

func sizeOfSubject(s networkpolicy.ClusterSubject) int {
	n := sizeOfLabelSelector(s.Namespaces)
	if s.Pods != nil {
		n += sizeOfLabelSelector(&s.Pods.NamespaceSelector) + sizeOfLabelSelector(&s.Pods.PodSelector)
	}
	return n
}
