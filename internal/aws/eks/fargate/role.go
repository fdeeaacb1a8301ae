package fargate

import (
	"context"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// servicePrincipal is the principal of [fargate.ServiceLinkedRole].
const servicePrincipal = "eks-fargate.amazonaws.com"

// checkRole demands that a profile's pod execution role is the account's own, that the caller may pass it to Fargate
// pods, that it exists, that Fargate pods of this profile may have it, and that no nodes of the cluster do: as the role
// of a session decides who a kubelet is, it cannot be both.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-execution-role.html
func (s *Service) checkRole(
	ctx context.Context, f exception.About, c record.Cluster, p record.FargateProfile,
) error {
	arn := p.PodExecutionRoleARN
	role, ok := principal.Parse(arn)
	switch {
	case !ok || role.Kind != "role":
		return f.InvalidParameter("podExecutionRoleArn %s is not the ARN of an IAM role", arn)
	case role.ServiceLinked():
		return f.InvalidParameter(
			"podExecutionRoleArn %s is a service-linked role, which can't be the role of pods: specify a role that %s "+
				"may assume",
			arn,
			principal.FargatePods,
		)
	case role.HasPath():
		return f.InvalidParameter(
			"podExecutionRoleArn %s has a path: the pod execution role can't have a path other than /", arn,
		)
	}
	if err := principal.PassRole(ctx, role, principal.FargatePods, p.ARN()); err != nil {
		return err
	}
	exists, trusts, err := s.principals.Assumable(
		ctx, role, principal.FargatePods, principal.FargateTrust(p), "sts:AssumeRole",
	)
	switch {
	case err != nil:
		return err
	case !exists:
		return f.InvalidParameter(
			"The role with name %s cannot be found. (Service: Iam, Status Code: 404, Request ID: %s)",
			role.Name, wire.RequestIDFrom(ctx),
		)
	case !trusts:
		return f.InvalidParameter(
			"Misconfigured PodExecutionRole Trust Policy; Please add the %s Service Principal", principal.FargatePods,
		)
	}
	groups, err := s.NodegroupsOf(ctx, c)
	if err != nil {
		return err
	}
	for _, n := range groups {
		if n.NodeRoleARN == arn {
			return f.InvalidParameter(
				"podExecutionRoleArn %s is already in use by nodegroup %s: a Fargate profile must have a different IAM "+
					"role than Amazon EC2 node groups",
				arn,
				n.Name,
			)
		}
	}
	return nil
}
