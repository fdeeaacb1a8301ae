package vpcresource

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	webhook "github.com/coracle-eks/coracle/internal/kube/vpcresource"
)

// node is a node, as far as it matters here.
type node struct {
	name       string
	uid        types.UID
	instanceID string // "" for nodes that are no EC2 instances
	os         string
	labeled    bool   // the CNI plugin says by the label whether it has a trunk
	eniConfig  string // of custom networking; "" without
	auto       bool   // of EKS Auto Mode, which has a controller of its own
	capacity   string // of branch interfaces, as the node says it
}

// cniNode is a CNINode.
type cniNode struct {
	content   []byte // as it was read, to be changed; in JSON, which takes less than what it is decoded to
	wants     bool   // the feature SecurityGroupsForPods
	eniConfig string // the feature CustomNetworking
}

// object returns the CNINode as it was read.
func (n cniNode) object() (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	return o, o.UnmarshalJSON(n.content)
}

func (n cniNode) size() int { return 512 + len(n.content) + len(n.eniConfig) }

// pod is a pod that requests branch interfaces, or has some.
type pod struct {
	uid        types.UID
	node       string
	count      int64
	annotation string
	ended      bool
	// unread is true for a pod that is too large to be read: any interface may be its own. The node is "" if that was not
	// read either.
	unread bool
}

// mirror is what is known of a cluster.
type mirror struct {
	mu       sync.RWMutex
	nodes    map[string]node
	cniNodes map[string]cniNode
	pods     map[types.NamespacedName]pod
	size     int // in bytes, about
}

func newMirror() *mirror {
	return &mirror{nodes: map[string]node{}, cniNodes: map[string]cniNode{}, pods: map[types.NamespacedName]pod{}}
}

// maxSize bounds what is kept of a cluster, in bytes; maxAnnotation what is kept of the annotation of a pod, and
// maxCNINode the size of a CNINode, of which the controller and the plugin write some hundred bytes.
const maxSize, maxAnnotation, maxCNINode = 64 << 20, 32 << 10, 16 << 10

// podSize is what a pod takes without its annotation, in bytes, about.
const podSize = 512

// add counts what is kept, and returns an error where that is too much.
func (m *mirror) add(size int) error {
	m.size += size
	if m.size > maxSize {
		return fmt.Errorf("nodes and pods with network interfaces come to more than %d MiB, %w", maxSize>>20,
			kubeclient.ErrTooLarge)
	}
	return nil
}

const computeType, osLabel = "eks.amazonaws.com/compute-type", "kubernetes.io/os"

func trimNode(n *corev1.Node) node {
	out := node{name: n.Name, uid: n.UID, os: n.Labels[osLabel], eniConfig: n.Labels[webhook.ENIConfig],
		auto: n.Labels[computeType] == "auto"}
	_, out.labeled = n.Labels[webhook.HasTrunk]
	if id := n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:]; instanceID.MatchString(id) {
		out.instanceID = strings.Clone(id) // of a text that may have any length
	}
	if q, ok := n.Status.Capacity[webhook.PodENI]; ok {
		out.capacity = kubeclient.Cut(q.String())
	}
	return out
}

func (n node) size() int {
	return 256 + len(n.name) + len(n.uid) + len(n.instanceID) + len(n.os) + len(n.eniConfig) + len(n.capacity)
}

// setNode reports whether something has changed.
func (m *mirror) setNode(n *corev1.Node) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	is := trimNode(n)
	was, there := m.nodes[n.Name]
	if there && was == is {
		return false, nil
	}
	m.nodes[n.Name] = is
	if there {
		return true, m.add(is.size() - was.size())
	}
	return true, m.add(is.size())
}

func (m *mirror) removeNode(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, there := m.nodes[name]; there {
		m.size -= was.size()
	}
	delete(m.nodes, name)
}

func (m *mirror) node(name string) (node, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, ok := m.nodes[name]
	return n, ok
}

func (m *mirror) setCNINode(o *unstructured.Unstructured) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.SetManagedFields(nil)
	content, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	if len(content) > maxCNINode {
		return nil // somebody else's, to whom it is left
	}
	is := cniNode{content: content}
	features, _, _ := unstructured.NestedSlice(o.Object, "spec", "features")
	for _, f := range features {
		feature, _ := f.(map[string]any)
		switch feature["name"] {
		case "SecurityGroupsForPods":
			is.wants = true
		case "CustomNetworking":
			is.eniConfig, _ = feature["value"].(string)
		}
	}
	growth := is.size()
	if was, there := m.cniNodes[o.GetName()]; there {
		growth -= was.size()
	}
	m.cniNodes[o.GetName()] = is
	return m.add(growth)
}

func (m *mirror) removeCNINode(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, there := m.cniNodes[name]; there {
		m.size -= was.size()
	}
	delete(m.cniNodes, name)
}

func (m *mirror) cniNode(name string) (cniNode, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, ok := m.cniNodes[name]
	return n, ok
}

// trimPod returns what is kept of a pod; false where that is nothing.
func trimPod(p *corev1.Pod) (pod, bool) {
	out := pod{uid: p.UID, node: p.Spec.NodeName, annotation: p.Annotations[webhook.PodENI],
		ended: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed}
	if kubeclient.IsPartial(p) {
		out.unread = true
		return out, out.node != "" || !kubeclient.HasLabels(p)
	}
	if len(out.annotation) > maxAnnotation {
		out.annotation = "too long" // names no interface, and is one
	}
	for _, c := range p.Spec.Containers {
		if q, ok := c.Resources.Requests[webhook.PodENI]; ok {
			if n, exact := q.AsInt64(); exact {
				out.count = min(out.count+min(max(n, 0), maxVLAN), maxVLAN)
			}
		}
	}
	return out, out.node != "" && (out.count > 0 || out.annotation != "")
}

// setPod returns the name of the node that is concerned; "" for none.
func (m *mirror) setPod(p *corev1.Pod) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	is, concerned := trimPod(p)
	was, there := m.pods[at]
	if !concerned {
		if was.unread { // and can be read now
			delete(m.pods, at)
			m.size -= podSize
		}
		return was.node, nil
	}
	if is.unread && was.uid == is.uid && (!was.unread || is.node == "") {
		ended := is.ended
		is = was // what was read of it before
		is.ended = was.ended || ended
	}
	if is.annotation == "" && was.uid == is.uid {
		is.annotation = was.annotation // which nobody removes: the event is older than what the controller has written
	}
	if there && was == is {
		return "", nil
	}
	m.pods[at] = is
	size := len(is.annotation) - len(was.annotation)
	if !there {
		size += podSize
	}
	return is.node, m.add(size)
}

// removePod returns the name of the node that is concerned; "" for none.
func (m *mirror) removePod(at types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, there := m.pods[at]
	if there {
		m.size -= podSize + len(was.annotation)
	}
	delete(m.pods, at)
	return was.node
}

// annotated notes what the controller has written to a pod, before the watch says it.
func (m *mirror) annotated(at types.NamespacedName, uid types.UID, annotation string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.pods[at]; ok && p.uid == uid && p.annotation == "" {
		p.annotation = annotation
		m.pods[at], m.size = p, m.size+len(annotation)
	}
}

// podsOn returns the names of the pods of a node, and the pods. Those whose node was not read are among them.
func (m *mirror) podsOn(name string) (names []types.NamespacedName, pods map[types.NamespacedName]pod) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	pods = map[types.NamespacedName]pod{}
	for at, p := range m.pods {
		if p.node == name || p.unread && p.node == "" {
			names, pods[at] = append(names, at), p
		}
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return names, pods
}

// names returns the names of all nodes and CNINodes.
func (m *mirror) names() map[string]bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := map[string]bool{}
	for name := range m.nodes {
		all[name] = true
	}
	for name := range m.cniNodes {
		all[name] = true
	}
	return all
}
