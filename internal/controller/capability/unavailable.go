package capability

import ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

// unavailable returns why capabilities of a type cannot run here; "" for those that can. Argo CD as EKS runs it is of
// no use without its users, who are those of IAM Identity Center, and without its hosted endpoint. ACK is a program for
// each AWS service, and most of those services are not served here.
func unavailable(of ekstypes.CapabilityType) string {
	switch of {
	case ekstypes.CapabilityTypeArgocd:
		return "Argo CD is not available: its users are those of AWS IAM Identity Center, which this installation of " +
			"Coracle does not serve. Delete the capability, and install Argo CD in the cluster with its Helm chart."
	case ekstypes.CapabilityTypeAck:
		return "ACK is not available: its controllers are not among the programs that this installation of Coracle " +
			"builds. Delete the capability, and install the ACK controllers that you need in the cluster with their " +
			"Helm charts."
	}
	return ""
}
