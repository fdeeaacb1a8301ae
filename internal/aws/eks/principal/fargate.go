package principal

import (
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/record"
)

// FargatePods is whom a role has to trust that the machines of Fargate pods are to have: the pod execution role.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-execution-role.html
const FargatePods = "eks-fargate-pods.amazonaws.com"

// FargateTrust returns the condition keys for which the trust policy of the pod execution role of a profile is asked.
func FargateTrust(p record.FargateProfile) policy.Context {
	return policy.Context{
		"aws:PrincipalIsAWSService": {"true"}, "aws:PrincipalServiceName": {FargatePods},
		"aws:SourceAccount": {p.Account}, "aws:SourceArn": {p.ARN()},
	}
}
