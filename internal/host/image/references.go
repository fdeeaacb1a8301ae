package image

import "fmt"

// The repositories below 602401143452.dkr.ecr.<region>.amazonaws.com of what a cluster runs, as the keys of
// References name them.
const (
	Pause         = "pause"               // containerd's sandbox image
	VPCCNIInit    = "amazon-k8s-cni-init" // the init container of aws-node
	VPCCNI        = "amazon-k8s-cni"      // aws-node
	NetworkPolicy = "aws-network-policy-agent"
	KubeProxy     = "kube-proxy"
	CoreDNS       = "coredns"
)

// Host is the registry of EKS's own images in a region.
func Host(region string) string { return EKSAccount + ".dkr.ecr." + region + ".amazonaws.com" }

// References are EKS's image references for a Kubernetes version ("1.35"), by component.
func References(region, minor string) map[string]string {
	host := Host(region)
	return map[string]string{
		Pause:      host + "/eks/pause:3.10",
		VPCCNIInit: host + "/amazon-k8s-cni-init:v1.23.2-eksbuild.1",
		VPCCNI:     host + "/amazon-k8s-cni:v1.23.2-eksbuild.1",
		KubeProxy:  fmt.Sprintf("%s/eks/kube-proxy:v%s.0-minimal-eksbuild.1", host, minor),
		CoreDNS:    host + "/eks/coredns:v1.14.2-eksbuild.1",
	}
}
