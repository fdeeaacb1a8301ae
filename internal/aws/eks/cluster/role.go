package cluster

import (
	"context"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
)

// checkClusterRole demands that a cluster's role is the account's own, that the caller may pass it to EKS, that it
// exists, and that it trusts EKS.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-iam-role.html
func (s *Service) checkClusterRole(ctx context.Context, cluster, arn string) error {
	p, ok := principal.Parse(arn)
	if !ok || p.Kind != "role" {
		return exception.InvalidParameter(cluster, "roleArn %s is not the ARN of an IAM role", arn)
	}
	resource := resource.ScopeOf(ctx).ClusterARN(cluster)
	if err := principal.PassRole(ctx, p, principal.EKS, resource); err != nil {
		return err
	}
	exists, trusts, err := s.principals.Assumable(
		ctx, p, principal.EKS, policy.Context{"aws:SourceAccount": {p.Account}, "aws:SourceArn": {resource}},
		"sts:AssumeRole",
	)
	switch {
	case err != nil:
		return err
	case !exists:
		return exception.InvalidParameter(
			cluster, "Role with arn: %s, could not be assumed because it does not exist or the trusted entity is not correct",
			arn,
		)
	case !trusts:
		return exception.InvalidParameter(
			cluster, "Following required service principals [%s] were not found in the trust relationships of clusterRole %s",
			principal.EKS, arn,
		)
	}
	return nil
}

// serviceLinkedRole is the role in which EKS acts for clusters.
const serviceLinkedRole = "AWSServiceRoleForAmazonEKS"
