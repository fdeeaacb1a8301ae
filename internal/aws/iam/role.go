package iam

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func roleKind(s *store.Store) kind[record.Role] {
	return kind[record.Role]{
		Table: record.Roles(s), name: "role", title: "Role", key: record.RoleKey, inlineLimit: maxRoleInline,
		nameOf:   func(r *record.Role) string { return r.Name },
		grants:   func(r *record.Role) *record.Grants { return &r.Grants },
		boundary: func(r *record.Role) *string { return &r.Boundary },
		tags:     func(r *record.Role) *map[string]string { return &r.Tags },
		protect:  unlinked,
	}
}

// unlinked refuses to change a service-linked role.
func unlinked(r *record.Role) error {
	if r.LinkedService == "" {
		return nil
	}
	return wire.Errorf("UnmodifiableEntity",
		"Cannot perform the operation on the protected role '%s' - this role is only modifiable by AWS", r.Name)
}

func roleType(r record.Role) *types.Role {
	return &types.Role{
		Arn: aws.String(r.ARN()), CreateDate: aws.Time(r.CreatedAt), Path: aws.String(r.Path), RoleId: aws.String(r.ID),
		RoleName:                 aws.String(r.Name),
		AssumeRolePolicyDocument: escapeDocument(r.Trust), Description: optional(r.Description),
		MaxSessionDuration:  aws.Int32(int32(r.MaxSession / time.Second)),
		PermissionsBoundary: boundaryOf(r.Boundary), Tags: tagList(r.Tags),
	}
}

// listedRole returns a role as lists show it: without tags and boundary.
func listedRole(r record.Role) types.Role {
	t := *roleType(r)
	t.Tags, t.PermissionsBoundary = nil, nil
	return t
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return aws.String(s)
}

// roleHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) roleHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateRole, func(
			ctx context.Context, action string, in *iam.CreateRoleInput,
		) ([]wire.Target, error) {
			return targetTagged(ctx, action, "iam:TagRole", newARN(ctx, "role", in.Path, in.RoleName), in.Tags,
				func(c conditions) { c.boundary(in.PermissionsBoundary) })
		}),
		wire.Handle(s.GetRole, func(ctx context.Context, action string, in *iam.GetRoleInput) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.ListRoles, targetAny[iam.ListRolesInput]("role/")),
		wire.Handle(s.UpdateRole, func(
			ctx context.Context, action string, in *iam.UpdateRoleInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.UpdateRoleDescription, func(
			ctx context.Context, action string, in *iam.UpdateRoleDescriptionInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.UpdateAssumeRolePolicy, func(
			ctx context.Context, action string, in *iam.UpdateAssumeRolePolicyInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.DeleteRole, func(
			ctx context.Context, action string, in *iam.DeleteRoleInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.TagRole, func(ctx context.Context, action string, in *iam.TagRoleInput) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName, func(c conditions) { c.requestTags(in.Tags) })
		}),
		wire.Handle(s.UntagRole, func(
			ctx context.Context, action string, in *iam.UntagRoleInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName, func(c conditions) { c.tagKeys(in.TagKeys) })
		}),
		wire.Handle(s.ListRoleTags, func(
			ctx context.Context, action string, in *iam.ListRoleTagsInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.PutRolePolicy, func(
			ctx context.Context, action string, in *iam.PutRolePolicyInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.GetRolePolicy, func(
			ctx context.Context, action string, in *iam.GetRolePolicyInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.DeleteRolePolicy, func(
			ctx context.Context, action string, in *iam.DeleteRolePolicyInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.ListRolePolicies, func(
			ctx context.Context, action string, in *iam.ListRolePoliciesInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.AttachRolePolicy, func(
			ctx context.Context, action string, in *iam.AttachRolePolicyInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName, func(c conditions) { c.setPolicyARN(in.PolicyArn) })
		}),
		wire.Handle(s.DetachRolePolicy, func(
			ctx context.Context, action string, in *iam.DetachRolePolicyInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName, func(c conditions) { c.setPolicyARN(in.PolicyArn) })
		}),
		wire.Handle(s.ListAttachedRolePolicies, func(
			ctx context.Context, action string, in *iam.ListAttachedRolePoliciesInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.PutRolePermissionsBoundary, func(
			ctx context.Context, action string, in *iam.PutRolePermissionsBoundaryInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName, func(c conditions) { c.boundary(in.PermissionsBoundary) })
		}),
		wire.Handle(s.DeleteRolePermissionsBoundary, func(
			ctx context.Context, action string, in *iam.DeleteRolePermissionsBoundaryInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
	}
}

// CreateRole makes a role that the principals of its trust policy may assume.
func (s *Service) CreateRole(ctx context.Context, in *iam.CreateRoleInput) (*iam.CreateRoleOutput, error) {
	tags, err := mergeTags(ctx, nil, in.Tags)
	if err != nil {
		return nil, err
	}
	r := record.Role{
		Account: account(ctx), Name: *in.RoleName, Path: pathOrDefault(in.Path), ID: identity.NewID(identity.RoleID),
		CreatedAt:   s.now().UTC(),
		Description: aws.ToString(in.Description), Trust: *in.AssumeRolePolicyDocument, Tags: tags,
		Boundary: aws.ToString(in.PermissionsBoundary),
	}
	if strings.HasPrefix(r.Path, "/aws-service-role/") {
		return nil, invalidInput("Path %s is reserved for service-linked roles; use CreateServiceLinkedRole.", r.Path)
	}
	if r.MaxSession, err = maxSession(in.MaxSessionDuration); err != nil {
		return nil, err
	}
	if r.TrustIDs, err = s.resolveTrustPolicy(ctx, r.Trust); err != nil {
		return nil, err
	}
	if err := s.createRole(ctx, r); err != nil {
		return nil, err
	}
	return &iam.CreateRoleOutput{Role: roleType(r)}, nil
}

func (s *Service) createRole(ctx context.Context, r record.Role) error {
	return s.retryWrite(ctx, func() ([]store.Op, error) {
		if err := s.checkQuota(ctx, s.roles.countEntities, "Roles", maxRoles); err != nil {
			return nil, err
		}
		if _, err := s.roles.Get(ctx, record.RoleKey(r.Account, r.Name)); !errors.Is(err, store.ErrNotFound) {
			return nil, orExists(err, "Role with name %s already exists.", r.Name)
		}
		var ops []store.Op
		if r.Boundary != "" {
			var err error
			if ops, err = s.holdPolicy(ctx, r.Boundary); err != nil {
				return nil, err
			}
		}
		return append(ops, s.roles.CreateOp(record.RoleKey(r.Account, r.Name), r)), nil
	})
}

func maxSession(seconds *int32) (time.Duration, error) {
	n := aws.ToInt32(seconds)
	switch {
	case seconds == nil:
		n = defaultMaxSession
	case n < minMaxSession || n > maxMaxSession:
		return 0, validation("The value %d of MaxSessionDuration is not between %d and %d seconds.", n, minMaxSession,
			maxMaxSession)
	}
	return time.Duration(n) * time.Second, nil
}

var principalARN = regexp.MustCompile(`^arn:aws:iam::(\d{12}):(user|role)/(?:.+/)?([^/]+)$`)

// sessionARN matches the ARN of a session of a role.
var sessionARN = regexp.MustCompile(`^arn:aws:sts::(\d{12}):assumed-role/([^/]+)/.+$`)

// resolveTrustPolicy checks a trust policy, and finds the unique ids of the users and roles that it names,
// or whose sessions.
func (s *Service) resolveTrustPolicy(ctx context.Context, document string) (map[string]string, error) {
	d, err := parsePolicy(policy.Trust, document)
	if err != nil {
		return nil, err
	}
	if policy.Size(document) > maxTrust {
		return nil, limitExceeded("Cannot exceed quota for ACLSizePerRole: %d", maxTrust)
	}
	ids := map[string]string{}
	for _, statement := range d.Statements {
		for _, arn := range statement.PrincipalNames("AWS") {
			account, kind, name := "", "role", ""
			session := sessionARN.FindStringSubmatch(arn)
			if session != nil {
				account, name = session[1], session[2]
			} else if m := principalARN.FindStringSubmatch(arn); m != nil {
				account, kind, name = m[1], m[2], m[3]
			} else {
				continue
			}
			if _, err := s.accounts.Get(ctx, record.AccountKey(account)); errors.Is(err, store.ErrNotFound) {
				continue // an account of someone else's, which we cannot see
			} else if err != nil {
				return nil, err
			}
			id, found, err := s.principalID(ctx, account, kind, name)
			if err != nil {
				return nil, err
			}
			if found == "" || session == nil && found != arn {
				return nil, wire.Errorf("MalformedPolicyDocument", "Invalid principal in policy: \"AWS\":%q", arn)
			}
			ids[arn] = id
		}
	}
	return ids, nil
}

// principalID finds a user or role of any account; its ARN is empty when there is none.
func (s *Service) principalID(ctx context.Context, account, kind, name string) (id, arn string, err error) {
	if kind == "user" {
		row, err := s.users.Get(ctx, record.UserKey(account, name))
		if err == nil {
			return row.Value.ID, row.Value.ARN(), nil
		}
		return "", "", ignoreMissing(err)
	}
	row, err := s.roles.Get(ctx, record.RoleKey(account, name))
	if err == nil {
		return row.Value.ID, row.Value.ARN(), nil
	}
	return "", "", ignoreMissing(err)
}

func ignoreMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// GetRole describes a role.
func (s *Service) GetRole(ctx context.Context, in *iam.GetRoleInput) (*iam.GetRoleOutput, error) {
	row, err := s.roles.findEntity(ctx, in.RoleName)
	if err != nil {
		return nil, err
	}
	t := roleType(row.Value)
	if t.RoleLastUsed, err = s.roleLastUsed(ctx, row.Value); err != nil {
		return nil, err
	}
	return &iam.GetRoleOutput{Role: t}, nil
}

func (s *Service) roleLastUsed(ctx context.Context, r record.Role) (*types.RoleLastUsed, error) {
	use, err := s.roleUses.Get(ctx, store.Key(r.ID))
	if errors.Is(err, store.ErrNotFound) {
		return &types.RoleLastUsed{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &types.RoleLastUsed{LastUsedDate: aws.Time(use.Value.At), Region: aws.String(use.Value.Region)}, nil
}

// ListRoles lists the roles below a path; with a client token, what was created with it.
func (s *Service) ListRoles(ctx context.Context, in *iam.ListRolesInput) (*iam.ListRolesOutput, error) {
	all, err := s.roles.listAll(ctx)
	if err != nil {
		return nil, err
	}
	token := wire.ClientTokenFrom(ctx)
	all = slices.DeleteFunc(all, func(r record.Role) bool {
		return !isInPath(r.Path, in.PathPrefix) || token != "" && r.ClientToken != token
	})
	some, marker, truncated, err := paginate(ctx, all, in.MaxItems, in.Marker, s.roles.sortKey)
	if err != nil {
		return nil, err
	}
	return &iam.ListRolesOutput{Roles: mapSlice(some, listedRole), Marker: marker, IsTruncated: truncated}, nil
}

// UpdateRole changes the description or the longest session of a role.
func (s *Service) UpdateRole(ctx context.Context, in *iam.UpdateRoleInput) (*iam.UpdateRoleOutput, error) {
	longest, err := maxSession(in.MaxSessionDuration)
	if err != nil {
		return nil, err
	}
	roles := s.roles
	if in.MaxSessionDuration == nil {
		roles = s.describableRoles()
	}
	_, err = roles.updateEntity(ctx, in.RoleName, func(r *record.Role) error {
		if in.Description != nil {
			r.Description = *in.Description
		}
		if in.MaxSessionDuration != nil {
			r.MaxSession = longest
		}
		return nil
	})
	return &iam.UpdateRoleOutput{}, err
}

// describableRoles returns the roles whose description can be changed: also service-linked ones, of which nothing else
// can. https://docs.aws.amazon.com/IAM/latest/UserGuide/edit-service-linked-role.html
func (s *Service) describableRoles() kind[record.Role] {
	roles := s.roles
	roles.protect = nil
	return roles
}

// UpdateRoleDescription changes the description of a role.
func (s *Service) UpdateRoleDescription(ctx context.Context, in *iam.UpdateRoleDescriptionInput) (
	*iam.UpdateRoleDescriptionOutput, error) {
	row, err := s.describableRoles().updateEntity(ctx, in.RoleName, func(r *record.Role) error {
		r.Description = *in.Description
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &iam.UpdateRoleDescriptionOutput{Role: roleType(row.Value)}, nil
}

// UpdateAssumeRolePolicy replaces the trust policy of a role. Sessions that began before go on.
func (s *Service) UpdateAssumeRolePolicy(ctx context.Context, in *iam.UpdateAssumeRolePolicyInput) (
	*iam.UpdateAssumeRolePolicyOutput, error) {
	if _, err := s.roles.findEntity(ctx, in.RoleName); err != nil {
		return nil, err
	}
	ids, err := s.resolveTrustPolicy(ctx, *in.PolicyDocument)
	if err != nil {
		return nil, err
	}
	_, err = s.roles.updateEntity(ctx, in.RoleName, func(r *record.Role) error {
		r.Trust, r.TrustIDs = *in.PolicyDocument, ids
		return nil
	})
	return &iam.UpdateAssumeRolePolicyOutput{}, err
}

// DeleteRole deletes a role that has neither policies nor an instance profile.
func (s *Service) DeleteRole(ctx context.Context, in *iam.DeleteRoleInput) (*iam.DeleteRoleOutput, error) {
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		row, err := s.roles.findEntity(ctx, in.RoleName)
		if err != nil {
			return nil, err
		}
		if err := unlinked(&row.Value); err != nil {
			return nil, err
		}
		holders, err := s.profilesOf(ctx, row.Value.Name)
		if err != nil {
			return nil, err
		}
		if len(holders) > 0 {
			return nil, deleteConflict("Cannot delete entity, must remove roles from instance profile first.")
		}
		if err := emptyGrants(row.Value.Grants); err != nil {
			return nil, err
		}
		return []store.Op{s.roles.DeleteOp(row), s.roleUses.RemoveOp(store.Key(row.Value.ID))}, nil
	})
	return &iam.DeleteRoleOutput{}, err
}

// TagRole adds tags to a role.
func (s *Service) TagRole(ctx context.Context, in *iam.TagRoleInput) (*iam.TagRoleOutput, error) {
	return &iam.TagRoleOutput{}, s.roles.tagEntity(ctx, in.RoleName, in.Tags)
}

// UntagRole removes tags from a role.
func (s *Service) UntagRole(ctx context.Context, in *iam.UntagRoleInput) (*iam.UntagRoleOutput, error) {
	return &iam.UntagRoleOutput{}, s.roles.untagEntity(ctx, in.RoleName, in.TagKeys)
}

// ListRoleTags lists the tags of a role.
func (s *Service) ListRoleTags(ctx context.Context, in *iam.ListRoleTagsInput) (*iam.ListRoleTagsOutput, error) {
	tags, marker, truncated, err := s.roles.listTags(ctx, in.RoleName, in.MaxItems, in.Marker)
	return &iam.ListRoleTagsOutput{Tags: tags, Marker: marker, IsTruncated: truncated}, err
}

// PutRolePolicy adds or replaces an inline policy of a role.
func (s *Service) PutRolePolicy(ctx context.Context, in *iam.PutRolePolicyInput) (*iam.PutRolePolicyOutput, error) {
	return &iam.PutRolePolicyOutput{}, s.roles.putInline(ctx, in.RoleName, in.PolicyName, in.PolicyDocument)
}

// GetRolePolicy returns an inline policy of a role.
func (s *Service) GetRolePolicy(ctx context.Context, in *iam.GetRolePolicyInput) (*iam.GetRolePolicyOutput, error) {
	document, err := s.roles.getInline(ctx, in.RoleName, in.PolicyName)
	return &iam.GetRolePolicyOutput{RoleName: in.RoleName, PolicyName: in.PolicyName, PolicyDocument: document}, err
}

// DeleteRolePolicy removes an inline policy of a role.
func (s *Service) DeleteRolePolicy(ctx context.Context, in *iam.DeleteRolePolicyInput) (
	*iam.DeleteRolePolicyOutput, error) {
	return &iam.DeleteRolePolicyOutput{}, s.roles.deleteInline(ctx, in.RoleName, in.PolicyName)
}

// ListRolePolicies names the inline policies of a role.
func (s *Service) ListRolePolicies(ctx context.Context, in *iam.ListRolePoliciesInput) (
	*iam.ListRolePoliciesOutput, error) {
	names, marker, truncated, err := s.roles.listInline(ctx, in.RoleName, in.MaxItems, in.Marker)
	return &iam.ListRolePoliciesOutput{PolicyNames: names, Marker: marker, IsTruncated: truncated}, err
}

// AttachRolePolicy attaches a managed policy to a role.
func (s *Service) AttachRolePolicy(ctx context.Context, in *iam.AttachRolePolicyInput) (
	*iam.AttachRolePolicyOutput, error) {
	return &iam.AttachRolePolicyOutput{}, attachPolicy(ctx, s, s.roles, in.RoleName, in.PolicyArn)
}

// DetachRolePolicy detaches a managed policy from a role.
func (s *Service) DetachRolePolicy(ctx context.Context, in *iam.DetachRolePolicyInput) (
	*iam.DetachRolePolicyOutput, error) {
	return &iam.DetachRolePolicyOutput{}, detachPolicy(ctx, s.roles, in.RoleName, in.PolicyArn)
}

// ListAttachedRolePolicies lists the managed policies of a role.
func (s *Service) ListAttachedRolePolicies(ctx context.Context, in *iam.ListAttachedRolePoliciesInput) (
	*iam.ListAttachedRolePoliciesOutput, error) {
	list, marker, truncated, err := s.roles.listAttached(ctx, in.RoleName, in.PathPrefix, in.MaxItems, in.Marker)
	return &iam.ListAttachedRolePoliciesOutput{AttachedPolicies: list, Marker: marker, IsTruncated: truncated}, err
}

// PutRolePermissionsBoundary limits what a role's policies can allow.
func (s *Service) PutRolePermissionsBoundary(ctx context.Context, in *iam.PutRolePermissionsBoundaryInput) (
	*iam.PutRolePermissionsBoundaryOutput, error) {
	return &iam.PutRolePermissionsBoundaryOutput{}, setBoundary(ctx, s, s.roles, in.RoleName, in.PermissionsBoundary)
}

// DeleteRolePermissionsBoundary lifts the limit.
func (s *Service) DeleteRolePermissionsBoundary(ctx context.Context, in *iam.DeleteRolePermissionsBoundaryInput) (
	*iam.DeleteRolePermissionsBoundaryOutput, error) {
	return &iam.DeleteRolePermissionsBoundaryOutput{}, unbound(ctx, s.roles, in.RoleName)
}
