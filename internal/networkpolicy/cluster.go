package networkpolicy

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Resources of policies of a whole cluster, and of what they resolve to.
var (
	ClusterNetworkPolicies = GroupVersion.WithResource("clusternetworkpolicies")
	ClusterPolicyEndpoints = GroupVersion.WithResource("clusterpolicyendpoints")
)

// Tier says when the rules of a ClusterNetworkPolicy are asked: before those of NetworkPolicies, or after, about pods
// that have none.
type Tier string

// The tiers.
const (
	Admin    Tier = "Admin"
	Baseline Tier = "Baseline"
)

// Action is what a rule of a ClusterNetworkPolicy does with what it matches.
type Action string

// The actions. Pass leaves the decision to the next tier.
const (
	Accept Action = "Accept"
	Deny   Action = "Deny"
	Pass   Action = "Pass"
)

// ClusterNetworkPolicy is a policy of a whole cluster.
type ClusterNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ClusterNetworkPolicySpec `json:"spec"`
}

// ClusterNetworkPolicySpec has the rules of a policy. Those of the lower priority come first.
type ClusterNetworkPolicySpec struct {
	Tier     Tier                 `json:"tier"`
	Priority int32                `json:"priority"`
	Subject  ClusterSubject       `json:"subject"`
	Ingress  []ClusterIngressRule `json:"ingress,omitempty"`
	Egress   []ClusterEgressRule  `json:"egress,omitempty"`
}

// ClusterSubject selects pods, by their namespaces alone or with their own labels. One of the fields is set.
type ClusterSubject struct {
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`
	Pods       *NamespacedPods       `json:"pods,omitempty"`
}

// NamespacedPods selects pods of namespaces.
type NamespacedPods struct {
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	PodSelector       metav1.LabelSelector `json:"podSelector"`
}

// ClusterIngressRule decides about packets to the subject.
type ClusterIngressRule struct {
	Name   string           `json:"name,omitempty"`
	Action Action           `json:"action"`
	From   []ClusterSubject `json:"from"`
	Ports  []ClusterPort    `json:"ports,omitempty"`
}

// ClusterEgressRule decides about packets from the subject.
type ClusterEgressRule struct {
	Name   string              `json:"name,omitempty"`
	Action Action              `json:"action"`
	To     []ClusterEgressPeer `json:"to"`
	Ports  []ClusterPort       `json:"ports,omitempty"`
}

// ClusterEgressPeer is where a rule leads to. DomainNames are for EKS Auto Mode.
type ClusterEgressPeer struct {
	ClusterSubject `json:",inline"`
	Networks       []string `json:"networks,omitempty"`
	DomainNames    []string `json:"domainNames,omitempty"`
}

// ClusterPort is a port: one of the fields is set.
type ClusterPort struct {
	PortNumber *struct {
		Protocol corev1.Protocol `json:"protocol"`
		Port     int32           `json:"port"`
	} `json:"portNumber,omitempty"`
	PortRange *struct {
		Protocol corev1.Protocol `json:"protocol,omitempty"`
		Start    int32           `json:"start"`
		End      int32           `json:"end"`
	} `json:"portRange,omitempty"`
	NamedPort *string `json:"namedPort,omitempty"`
}

// ClusterPolicyEndpoint is one part of a resolved ClusterNetworkPolicy.
type ClusterPolicyEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ClusterPolicyEndpointSpec `json:"spec"`
}

// ClusterPolicyEndpointSpec has the rules of a policy and the pods that it selects.
type ClusterPolicyEndpointSpec struct {
	PolicyRef            ClusterPolicyReference `json:"policyRef"`
	Tier                 Tier                   `json:"tier"`
	Priority             int32                  `json:"priority"`
	Subject              ClusterSubject         `json:"subject"`
	PodSelectorEndpoints []PodEndpoint          `json:"podSelectorEndpoints,omitempty"`
	Ingress              []ClusterEndpointInfo  `json:"ingress,omitempty"`
	Egress               []ClusterEndpointInfo  `json:"egress,omitempty"`
}

// ClusterPolicyReference names the policy.
type ClusterPolicyReference struct {
	Name string `json:"name"`
}

// ClusterEndpointInfo decides about packets from or to a block of addresses at some ports.
type ClusterEndpointInfo struct {
	CIDR       string `json:"cidr,omitempty"`
	Ports      []Port `json:"ports,omitempty"`
	DomainName string `json:"domainName,omitempty"`
	Action     Action `json:"action"`
}
