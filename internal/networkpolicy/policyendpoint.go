// Package networkpolicy has the objects by which the network policy controller of EKS tells the agents on nodes what to
// enforce. A PolicyEndpoint is a NetworkPolicy with its selectors resolved to addresses, or a part of one; a
// ClusterPolicyEndpoint is the same of a ClusterNetworkPolicy. The controller (internal/controller/networkpolicy)
// writes them, and the agent (internal/guest/networkpolicyagent) reads them.
//
// The types have the fields of the CustomResourceDefinitions of the add-on vpc-cni.
// https://github.com/aws/amazon-network-policy-controller-k8s
package networkpolicy

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group of EKS's network policies.
var GroupVersion = schema.GroupVersion{Group: "networking.k8s.aws", Version: "v1alpha1"}

// PolicyEndpoints is the resource of the objects.
var PolicyEndpoints = GroupVersion.WithResource("policyendpoints")

// PolicyEndpoint is one part of a resolved NetworkPolicy. A policy has several of them where its rules or pods do not
// fit into one.
type PolicyEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              PolicyEndpointSpec `json:"spec"`
}

// PolicyEndpointSpec has the rules of a policy and the pods that it selects.
type PolicyEndpointSpec struct {
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	PolicyRef   PolicyReference       `json:"policyRef"`
	// PodIsolation has the directions in which a packet that no rule allows is dropped.
	PodIsolation         []networkingv1.PolicyType `json:"podIsolation,omitempty"`
	PodSelectorEndpoints []PodEndpoint             `json:"podSelectorEndpoints,omitempty"`
	Ingress              []EndpointInfo            `json:"ingress,omitempty"`
	Egress               []EndpointInfo            `json:"egress,omitempty"`
}

// PolicyReference names the policy.
type PolicyReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// PodEndpoint is a pod that a policy selects.
type PodEndpoint struct {
	HostIP    string `json:"hostIP"`
	PodIP     string `json:"podIP"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// EndpointInfo allows packets from or to a block of addresses, but for its exceptions, at some ports.
type EndpointInfo struct {
	CIDR   string   `json:"cidr,omitempty"` // a block or an address
	Except []string `json:"except,omitempty"`
	Ports  []Port   `json:"ports,omitempty"` // all when empty
	// DomainName is that of a rule of EKS Auto Mode, without CIDR.
	DomainName string `json:"domainName,omitempty"`
}

// Port is a port of a protocol, a range of ports up to EndPort, or all of them.
type Port struct {
	Protocol *corev1.Protocol `json:"protocol,omitempty"`
	Port     *int32           `json:"port,omitempty"`
	EndPort  *int32           `json:"endPort,omitempty"`
}
