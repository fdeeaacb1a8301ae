package eks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// checkClusterRole demands that a cluster's role is the account's own, that the caller may pass it to EKS, that it exists, and that
// it trusts EKS.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-iam-role.html
func (s *Service) checkClusterRole(ctx context.Context, cluster, arn string) error {
	p, ok := parsePrincipal(arn)
	if !ok || p.kind != "role" {
		return invalidParameter(cluster, "roleArn %s is not the ARN of an IAM role", arn)
	}
	resource := placeOf(ctx).clusterARN(cluster)
	if err := passRole(ctx, p, servicePrincipal, resource); err != nil {
		return err
	}
	exists, trusts, err := s.assumable(ctx, p, servicePrincipal, policy.Context{"aws:SourceAccount": {p.account}, "aws:SourceArn": {resource}}, "sts:AssumeRole")
	switch {
	case err != nil:
		return err
	case !exists:
		return invalidParameter(cluster, "Role with arn: %s, could not be assumed because it does not exist or the trusted entity is not correct", arn)
	case !trusts:
		return invalidParameter(cluster, "Following required service principals [%s] were not found in the trust relationships of clusterRole %s", servicePrincipal, arn)
	}
	return nil
}

// passRole demands that a role is of the caller's account, and that the caller may pass it to a service, for the resource with that ARN.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html
func passRole(ctx context.Context, p principal, service, resource string) error {
	if p.account != placeOf(ctx).account {
		return &types.AccessDeniedException{Message: new("Cross-account pass role is not allowed.")}
	}
	return wire.Authorize(ctx, wire.Target{
		Action: "iam:PassRole", Resource: p.arn,
		Conditions: map[string][]string{"iam:PassedToService": {service}, "iam:AssociatedResourceArn": {resource}},
	})
}

// assumable reports whether there is such a role, and whether its trust policy allows a service all of the actions, under the condition keys.
func (s *Service) assumable(ctx context.Context, p principal, service string, keys policy.Context, actions ...string) (exists, trusts bool, err error) {
	row, err := s.roles.Get(ctx, record.RoleKey(p.account, p.name))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ARN() != p.arn {
		return false, false, nil
	} else if err != nil {
		return false, false, err
	}
	trust, err := policy.Compile(policy.Trust, row.Value.Trust)
	if err != nil {
		return true, false, fmt.Errorf("read the trust policy of %s: %w", p.arn, err)
	}
	for _, action := range actions {
		assume := &policy.Request{Action: action, Resource: p.arn, Principal: policy.Principal{Type: policy.Service, Name: service}, Keys: keys}
		allowed, err := policy.Allows(assume, []policy.Source{{Document: trust}})
		if err != nil || !allowed {
			return true, false, err
		}
	}
	return true, true, nil
}

// serviceLinkedRole is the role in which EKS acts for clusters.
const serviceLinkedRole = "AWSServiceRoleForAmazonEKS"

// ensureServiceLinkedRole makes the role in which a service acts with the first resource in the account that needs it, if the caller may.
// https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles.html
func (s *Service) ensureServiceLinkedRole(ctx context.Context, c record.Cluster, service, role string) error {
	_, err := s.roles.Get(ctx, record.RoleKey(c.Account, role))
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return err
	}
	err = wire.Authorize(ctx, wire.Target{
		Action:     "iam:CreateServiceLinkedRole",
		Resource:   "arn:aws:iam::" + c.Account + ":role/aws-service-role/" + service + "/" + role,
		Conditions: map[string][]string{"iam:AWSServiceName": {service}},
	})
	var denied *wire.Denied
	if errors.As(err, &denied) {
		return invalidRequest(c.Name, "Failed to create service linked role: %s due to missing permissions for 'iam:CreateServiceLinkedRole'", role)
	} else if err != nil {
		return err
	}
	return s.linked.Ensure(ctx, c.Account, service)
}

// bornAt is when a user or role was created, its unique id, and whether there is one; a root user was always there. The ARN must be right to the path.
func (s *Service) bornAt(ctx context.Context, p principal) (at time.Time, id string, exists bool, err error) {
	var arn string
	switch p.kind {
	case "role":
		var row store.Row[record.Role]
		row, err = s.roles.Get(ctx, record.RoleKey(p.account, p.name))
		arn, id, at = row.Value.ARN(), row.Value.ID, row.Value.CreatedAt
	case "user":
		var row store.Row[record.User]
		row, err = s.users.Get(ctx, record.UserKey(p.account, p.name))
		arn, id, at = row.Value.ARN(), row.Value.ID, row.Value.CreatedAt
	default:
		return at, p.account, true, nil
	}
	if errors.Is(err, store.ErrNotFound) {
		return at, "", false, nil
	}
	return at, id, arn == p.arn, err
}
