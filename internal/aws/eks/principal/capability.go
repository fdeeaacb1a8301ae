package principal

import (
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/record"
)

// Capabilities is whom a role has to trust that a capability is to have.
// https://docs.aws.amazon.com/eks/latest/userguide/capability-role.html
const Capabilities = "capabilities.eks.amazonaws.com"

// CapabilityTrust returns the condition keys for which the trust policy of the role of a capability is asked.
func CapabilityTrust(c record.Capability) policy.Context {
	return policy.Context{
		"aws:PrincipalIsAWSService": {"true"}, "aws:PrincipalServiceName": {Capabilities},
		"aws:SourceAccount": {c.Account}, "aws:SourceArn": {c.ARN()},
	}
}
