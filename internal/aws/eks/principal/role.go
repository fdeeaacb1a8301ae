package principal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// EKS is the service principal of EKS in trust policies and in iam:PassedToService.
const EKS = "eks.amazonaws.com"

// ServiceLinkedRoles makes the role through which a service acts in an account, such as AWSServiceRoleForAmazonEKS.
type ServiceLinkedRoles interface {
	// Ensure makes the service-linked role of service ("eks.amazonaws.com") in account unless it is there.
	Ensure(ctx context.Context, account, service string) error
}

// Directory looks up the IAM users and roles that requests to EKS name.
type Directory struct {
	roles  store.Table[record.Role]
	users  store.Table[record.User]
	linked ServiceLinkedRoles
}

// NewDirectory returns the users and roles of a store; linked makes the service-linked roles of EKS.
func NewDirectory(s *store.Store, linked ServiceLinkedRoles) *Directory {
	return &Directory{roles: record.Roles(s), users: record.Users(s), linked: linked}
}

// PassRole returns an error unless a role is of the caller's account and the caller may pass it to a service, for the
// resource with that ARN.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html
func PassRole(ctx context.Context, p Principal, service, resource string) error {
	if p.Account != wire.CallerFrom(ctx).Account {
		return &types.AccessDeniedException{Message: new("Cross-account pass role is not allowed.")}
	}
	return wire.Authorize(ctx, wire.Target{
		Action: "iam:PassRole", Resource: p.ARN,
		Conditions: map[string][]string{"iam:PassedToService": {service}, "iam:AssociatedResourceArn": {resource}},
	})
}

// Assumable reports whether there is such a role, and whether its trust policy allows a service all of the actions,
// under the condition keys.
func (d *Directory) Assumable(
	ctx context.Context, p Principal, service string, keys policy.Context, actions ...string,
) (exists, trusts bool, err error) {
	row, err := d.roles.Get(ctx, record.RoleKey(p.Account, p.Name))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ARN() != p.ARN {
		return false, false, nil
	} else if err != nil {
		return false, false, err
	}
	trust, err := policy.Compile(policy.Trust, row.Value.Trust)
	if err != nil {
		return true, false, fmt.Errorf("read the trust policy of %s: %w", p.ARN, err)
	}
	for _, action := range actions {
		assume := &policy.Request{
			Action:    action,
			Resource:  p.ARN,
			Principal: policy.Principal{Type: policy.Service, Name: service},
			Keys:      keys,
		}
		allowed, err := policy.Allows(assume, []policy.Source{{Document: trust}})
		if err != nil || !allowed {
			return true, false, err
		}
	}
	return true, true, nil
}

// EnsureServiceLinkedRole creates the role in which a service acts with the first resource in the account that needs
// it, if the caller may create it.
// https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles.html
func (d *Directory) EnsureServiceLinkedRole(ctx context.Context, c record.Cluster, service, role string) error {
	is, err := d.roles.Get(ctx, record.RoleKey(c.Account, role))
	if err == nil && is.Value.LinkedService != service {
		return exception.InvalidRequest(c.Name, "Failed to create service linked role: the name %s has been taken in "+
			"this account by a role that is not linked to %s: delete that role", role, service)
	}
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
		return exception.InvalidRequest(
			c.Name, "Failed to create service linked role: %s due to missing permissions for 'iam:CreateServiceLinkedRole'",
			role,
		)
	} else if err != nil {
		return err
	}
	return d.linked.Ensure(ctx, c.Account, service)
}

// Lookup returns when a user or role was created, its unique ID, and whether there is one; a root user was always
// there. The path in the ARN has to be that of the user or role.
func (d *Directory) Lookup(ctx context.Context, p Principal) (at time.Time, id string, exists bool, err error) {
	var arn string
	switch p.Kind {
	case "role":
		var row store.Row[record.Role]
		row, err = d.roles.Get(ctx, record.RoleKey(p.Account, p.Name))
		arn, id, at = row.Value.ARN(), row.Value.ID, row.Value.CreatedAt
	case "user":
		var row store.Row[record.User]
		row, err = d.users.Get(ctx, record.UserKey(p.Account, p.Name))
		arn, id, at = row.Value.ARN(), row.Value.ID, row.Value.CreatedAt
	default:
		return at, p.Account, true, nil
	}
	if errors.Is(err, store.ErrNotFound) {
		return at, "", false, nil
	}
	return at, id, arn == p.ARN, err
}
