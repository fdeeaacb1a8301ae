package image

import (
	"github.com/coracle-eks/coracle/internal/amazonaccount"
	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/kubernetes"
	"github.com/coracle-eks/coracle/node"
)

// EKSAccount owns the repositories of the images that EKS itself uses, in most regions.
const EKSAccount = amazonaccount.EKS

// The components that have images of EKS's, as the keys of References.
const (
	Pause      = "pause" // containerd's sandbox image
	VPCCNIInit = "amazon-k8s-cni-init"
	VPCCNI     = "amazon-k8s-cni" // aws-node
	KubeProxy  = "kube-proxy"
	CoreDNS    = "coredns"
	// NetworkPolicyAgent is the second container of aws-node. It is made of a program of nodes.
	NetworkPolicyAgent = "aws-network-policy-agent"
)

// networkPolicyAgentTag is that of the agent of the default version of the VPC CNI plugin.
const networkPolicyAgentTag = "v1.4.3-eksbuild.1"

// Agnhost is the image with which Kubernetes tests itself: a server of many protocols, and the clients for them.
// It is assembled so that there is something to run without a network.
const Agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"

// Host returns the registry of EKS's own images in a region: "602401143452.dkr.ecr.eu-west-1.amazonaws.com".
func Host(region string) string { return catalog.Registry(region) }

// References returns EKS's image references for a Kubernetes version ("1.35"), by component. Tags are in EKS's form,
// with the versions that the images are built from.
// https://docs.aws.amazon.com/eks/latest/userguide/managing-kube-proxy.html
func References(region, minor string) map[string]string {
	host := Host(region)
	references := map[string]string{
		Pause:              host + "/eks/pause:3.10",
		VPCCNIInit:         host + "/amazon-k8s-cni-init:" + vpcCNITag(),
		VPCCNI:             host + "/amazon-k8s-cni:" + vpcCNITag(),
		NetworkPolicyAgent: host + "/amazon/aws-network-policy-agent:" + networkPolicyAgentTag,
		CoreDNS:            host + "/eks/coredns:" + node.Pinned("github.com/coredns/coredns") + "-eksbuild.1",
	}
	if v, ok := kubernetes.Lookup(minor); ok {
		references[KubeProxy] = host + "/eks/kube-proxy:v" + v.Patch() + "-minimal-eksbuild.1"
	}
	return references
}

func vpcCNITag() string { return node.Pinned("github.com/aws/amazon-vpc-cni-k8s") + "-eksbuild.1" }

// OfEKS reports whether an account's registry holds EKS's own images.
func OfEKS(account string) bool { return amazonaccount.OwnsRegistry(account) }
