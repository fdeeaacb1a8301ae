package nodegroup

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The role in which EKS acts for managed node groups.
// https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles-eks-nodegroups.html
const (
	servicePrincipal  = "eks-nodegroup.amazonaws.com"
	serviceLinkedRole = "AWSServiceRoleForAmazonEKSNodegroup"
)

// ec2Service is the principal that a node role has to trust.
const ec2Service = "ec2.amazonaws.com"

// checkNodeRole demands that a group's role is the account's own, that the caller may pass it to EKS, that it exists,
// and that instances may have it.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
func (s *Service) checkNodeRole(ctx context.Context, g exception.About, n record.Nodegroup) error {
	arn := n.NodeRoleARN
	p, ok := principal.Parse(arn)
	if !ok || p.Kind != "role" {
		return g.InvalidParameter("nodeRole %s is not the ARN of an IAM role", arn)
	}
	if p.ServiceLinked() {
		return g.InvalidParameter(
			"nodeRole %s is a service-linked role, which can't be the role of nodes: specify a role that EC2 may "+
				"assume",
			arn,
		)
	}
	if err := principal.PassRole(ctx, p, principal.EKS, n.ARN()); err != nil {
		return err
	}
	exists, trusts, err := s.principals.Assumable(ctx, p, ec2Service, nil, "sts:AssumeRole")
	switch {
	case err != nil:
		return err
	case !exists:
		return g.InvalidParameter(
			"The role with name %s cannot be found. (Service: Iam, Status Code: 404, Request ID: %s)",
			p.Name, wire.RequestIDFrom(ctx),
		)
	case !trusts:
		return g.InvalidParameter(
			"Following required service principals [%s] were not found in the trust relationships of nodeRole %s",
			ec2Service, arn,
		)
	}
	return nil
}

// checkNodeSubnets demands that there is at least one subnet, and that all are in the cluster's VPC.
func (s *Service) checkNodeSubnets(ctx context.Context, g exception.About, c record.Cluster, ids []string) error {
	if len(ids) == 0 {
		return g.InvalidParameter("A nodegroup must have at least one subnet")
	}
	var strangers []string
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return g.InvalidParameter("Subnet %s is specified more than once", id)
		}
		row, err := s.subnets.Get(ctx, record.EC2Key(c.Account, c.Region, id))
		if errors.Is(err, store.ErrNotFound) {
			return g.EC2Failure(ctx, "The subnet ID '%s' does not exist", id)
		} else if err != nil {
			return err
		}
		if row.Value.VPCID != c.VPCID {
			strangers = append(strangers, id)
		}
	}
	if strangers != nil {
		return g.InvalidParameter(
			"Subnet(s) [%s] are not in the VPC of the cluster, %s", strings.Join(strangers, ", "), c.VPCID,
		)
	}
	return nil
}

// remoteAccess checks who may log in to a group's nodes.
func (s *Service) remoteAccess(
	ctx context.Context, g exception.About, c record.Cluster, in *types.RemoteAccessConfig, template *usersTemplate,
) (*types.RemoteAccessConfig, error) {
	switch {
	case in == nil || aws.ToString(in.Ec2SshKey) == "" && len(in.SourceSecurityGroups) == 0:
		return nil, nil
	case template != nil:
		return nil, g.InvalidParameter("Remote access configuration cannot be specified with a launch template.")
	case aws.ToString(in.Ec2SshKey) == "":
		return nil, g.InvalidParameter("ec2SshKey can't be empty when sourceSecurityGroups are specified")
	}
	_, err := s.keyPairNames.Get(ctx, store.Key(c.Account, c.Region, *in.Ec2SshKey))
	if errors.Is(err, store.ErrNotFound) {
		return nil, g.InvalidParameter("KeyPair %s not found", *in.Ec2SshKey)
	} else if err != nil {
		return nil, err
	}
	for i, id := range in.SourceSecurityGroups {
		if slices.Contains(in.SourceSecurityGroups[:i], id) {
			return nil, g.InvalidParameter("Security group %s is specified more than once", id)
		}
		row, err := s.securityGroups.Get(ctx, record.EC2Key(c.Account, c.Region, id))
		if errors.Is(err, store.ErrNotFound) {
			return nil, g.EC2Failure(ctx, "The security group '%s' does not exist", id)
		} else if err != nil {
			return nil, err
		}
		if row.Value.VPCID != c.VPCID {
			return nil, g.InvalidParameter("Security group %s is not in the VPC of the cluster, %s", id, c.VPCID)
		}
	}
	return in, nil
}
