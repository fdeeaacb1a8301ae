package iam

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func userKind(s *store.Store) kind[record.User] {
	return kind[record.User]{
		Table: record.Users(s), name: "user", title: "User", key: record.UserKey, inlineLimit: maxUserInline,
		nameOf:   func(u *record.User) string { return u.Name },
		grants:   func(u *record.User) *record.Grants { return &u.Grants },
		boundary: func(u *record.User) *string { return &u.Boundary },
		tags:     func(u *record.User) *map[string]string { return &u.Tags },
	}
}

func userType(u record.User) *types.User {
	return &types.User{
		Arn: aws.String(u.ARN()), CreateDate: aws.Time(u.CreatedAt), Path: aws.String(u.Path), UserId: aws.String(u.ID),
		UserName:            aws.String(u.Name),
		PermissionsBoundary: boundaryOf(u.Boundary), Tags: tagList(u.Tags),
	}
}

// listedUser returns a user as lists show it: without tags and boundary.
func listedUser(u record.User) types.User {
	t := *userType(u)
	t.Tags, t.PermissionsBoundary = nil, nil
	return t
}

// userHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) userHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateUser, func(
			ctx context.Context, action string, in *iam.CreateUserInput,
		) ([]wire.Target, error) {
			return targetTagged(ctx, action, "iam:TagUser", newARN(ctx, "user", in.Path, in.UserName), in.Tags,
				func(c conditions) { c.boundary(in.PermissionsBoundary) })
		}),
		wire.Handle(s.GetUser, func(ctx context.Context, action string, in *iam.GetUserInput) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.ListUsers, targetAny[iam.ListUsersInput]("user/")),
		wire.Handle(s.UpdateUser, func(
			ctx context.Context, action string, in *iam.UpdateUserInput,
		) ([]wire.Target, error) {
			t, err := s.userTarget(ctx, action, in.UserName)
			return renaming(t, "user", in.NewPath, in.NewUserName), err
		}),
		wire.Handle(s.DeleteUser, func(
			ctx context.Context, action string, in *iam.DeleteUserInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.TagUser, func(ctx context.Context, action string, in *iam.TagUserInput) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName, func(c conditions) { c.requestTags(in.Tags) })
		}),
		wire.Handle(s.UntagUser, func(
			ctx context.Context, action string, in *iam.UntagUserInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName, func(c conditions) { c.tagKeys(in.TagKeys) })
		}),
		wire.Handle(s.ListUserTags, func(
			ctx context.Context, action string, in *iam.ListUserTagsInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.PutUserPolicy, func(
			ctx context.Context, action string, in *iam.PutUserPolicyInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.GetUserPolicy, func(
			ctx context.Context, action string, in *iam.GetUserPolicyInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.DeleteUserPolicy, func(
			ctx context.Context, action string, in *iam.DeleteUserPolicyInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.ListUserPolicies, func(
			ctx context.Context, action string, in *iam.ListUserPoliciesInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.AttachUserPolicy, func(
			ctx context.Context, action string, in *iam.AttachUserPolicyInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName, func(c conditions) { c.setPolicyARN(in.PolicyArn) })
		}),
		wire.Handle(s.DetachUserPolicy, func(
			ctx context.Context, action string, in *iam.DetachUserPolicyInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName, func(c conditions) { c.setPolicyARN(in.PolicyArn) })
		}),
		wire.Handle(s.ListAttachedUserPolicies, func(
			ctx context.Context, action string, in *iam.ListAttachedUserPoliciesInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.PutUserPermissionsBoundary, func(
			ctx context.Context, action string, in *iam.PutUserPermissionsBoundaryInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName, func(c conditions) { c.boundary(in.PermissionsBoundary) })
		}),
		wire.Handle(s.DeleteUserPermissionsBoundary, func(
			ctx context.Context, action string, in *iam.DeleteUserPermissionsBoundaryInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
	}
}

// CreateUser makes a user without any permission.
func (s *Service) CreateUser(ctx context.Context, in *iam.CreateUserInput) (*iam.CreateUserOutput, error) {
	tags, err := mergeTags(ctx, nil, in.Tags)
	if err != nil {
		return nil, err
	}
	u := record.User{
		Account: account(ctx), Name: *in.UserName, Path: pathOrDefault(in.Path), ID: identity.NewID(identity.UserID),
		CreatedAt: s.now().UTC(),
		Tags:      tags, Boundary: aws.ToString(in.PermissionsBoundary),
	}
	err = s.retryWrite(ctx, func() ([]store.Op, error) {
		if err := s.checkQuota(ctx, s.users.countEntities, "Users", maxUsers); err != nil {
			return nil, err
		}
		if _, err := s.users.Get(ctx, record.UserKey(u.Account, u.Name)); !errors.Is(err, store.ErrNotFound) {
			return nil, orExists(err, "User with name %s already exists.", u.Name)
		}
		var ops []store.Op
		if u.Boundary != "" {
			if ops, err = s.holdPolicy(ctx, u.Boundary); err != nil {
				return nil, err
			}
		}
		return append(ops, s.users.CreateOp(record.UserKey(u.Account, u.Name), u)), nil
	})
	if err != nil {
		return nil, err
	}
	return &iam.CreateUserOutput{User: userType(u)}, nil
}

// countEntities returns the number of entities of the kind in the caller's account.
func (k kind[T]) countEntities(ctx context.Context) (int, error) {
	rows, err := k.List(ctx, store.Prefix(account(ctx)))
	return len(rows), err
}

// checkQuota refuses one more of what has reached its quota.
func (s *Service) checkQuota(ctx context.Context, count func(context.Context) (int, error), what string,
	quota int) error {
	n, err := count(ctx)
	if err == nil && n >= quota {
		err = limitExceeded("Cannot exceed quota for %sPerAccount: %d", what, quota)
	}
	return err
}

// orExists returns the error of a creation whose name is taken, or err when the look-up itself failed.
func orExists(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return alreadyExists(format, args...)
}

// userName returns the name of the user of an operation: the caller's, unless the request names another.
func (s *Service) userName(ctx context.Context, name *string) (*string, error) {
	if name != nil {
		return name, nil
	}
	caller := wire.CallerFrom(ctx)
	_, resource, _ := strings.Cut(caller.ARN, ":user/")
	if resource == "" {
		return nil, validation("Must specify userName when calling with non-User credentials")
	}
	return aws.String(resource[strings.LastIndexByte(resource, '/')+1:]), nil
}

// isRootUser reports whether the caller is the root user of the account and names no other user.
func isRootUser(ctx context.Context, name *string) bool {
	return name == nil && strings.HasSuffix(wire.CallerFrom(ctx).ARN, ":root")
}

// GetUser describes a user, the caller unless named.
func (s *Service) GetUser(ctx context.Context, in *iam.GetUserInput) (*iam.GetUserOutput, error) {
	if isRootUser(ctx, in.UserName) {
		a, err := s.accounts.Get(ctx, record.AccountKey(account(ctx)))
		if err != nil {
			return nil, err
		}
		return &iam.GetUserOutput{User: &types.User{
			Arn: aws.String(a.Value.ARN()), CreateDate: aws.Time(a.Value.CreatedAt), UserId: aws.String(a.Value.ID),
			Path: aws.String("/"),
		}}, nil
	}
	name, err := s.userName(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	row, err := s.users.findEntity(ctx, name)
	if err != nil {
		return nil, err
	}
	return &iam.GetUserOutput{User: userType(row.Value)}, nil
}

// ListUsers lists the users below a path.
func (s *Service) ListUsers(ctx context.Context, in *iam.ListUsersInput) (*iam.ListUsersOutput, error) {
	all, err := s.users.listAll(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(u record.User) bool { return !isInPath(u.Path, in.PathPrefix) })
	some, marker, truncated, err := paginate(ctx, all, in.MaxItems, in.Marker, s.users.sortKey)
	if err != nil {
		return nil, err
	}
	return &iam.ListUsersOutput{Users: mapSlice(some, listedUser), Marker: marker, IsTruncated: truncated}, nil
}

func mapSlice[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// UpdateUser renames a user or moves it to another path. Its ARN changes; its unique id, keys and policies stay.
func (s *Service) UpdateUser(ctx context.Context, in *iam.UpdateUserInput) (*iam.UpdateUserOutput, error) {
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		row, err := s.users.findEntity(ctx, in.UserName)
		if err != nil {
			return nil, err
		}
		u := row.Value
		if in.NewPath != nil {
			u.Path = *in.NewPath
		}
		if in.NewUserName != nil {
			u.Name = *in.NewUserName
		}
		key := record.UserKey(u.Account, u.Name)
		if key == row.Key {
			row.Value = u
			ops, err := s.renameKeys(ctx, u)
			return append(ops, s.users.UpdateOp(row)), err
		}
		if _, err := s.users.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
			return nil, orExists(err, "User with name %s already exists.", u.Name)
		}
		ops, err := s.renameKeys(ctx, u)
		return append(ops, s.users.DeleteOp(row), s.users.CreateOp(key, u)), err
	})
	return &iam.UpdateUserOutput{}, err
}

// renameKeys writes the user's name into its access keys. They are written even when it is the same, so that who holds
// one is looked up again.
func (s *Service) renameKeys(ctx context.Context, u record.User) ([]store.Op, error) {
	var ops []store.Op
	for _, id := range u.AccessKeyIDs {
		row, err := s.keys.Get(ctx, record.AccessKeyKey(id))
		if err != nil {
			return nil, err
		}
		row.Value.User = u.Name
		ops = append(ops, s.keys.UpdateOp(row))
	}
	return ops, nil
}

// DeleteUser deletes a user that has nothing left.
func (s *Service) DeleteUser(ctx context.Context, in *iam.DeleteUserInput) (*iam.DeleteUserOutput, error) {
	row, err := s.users.findEntity(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	switch u := row.Value; {
	case len(u.AccessKeyIDs) > 0:
		return nil, deleteConflict("Cannot delete entity, must delete access keys first.")
	case len(u.Groups) > 0:
		return nil, deleteConflict("Cannot delete entity, must remove user from all groups first.")
	default:
		if err := emptyGrants(u.Grants); err != nil {
			return nil, err
		}
	}
	return &iam.DeleteUserOutput{}, deleted(s.users.Delete(ctx, row), "user", *in.UserName)
}

// deleted turns the outcome of a deletion into IAM's words.
func deleted(err error, kind, name string) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return noSuchEntity("The %s with name %s cannot be found.", kind, name)
	case errors.Is(err, store.ErrConflict):
		return deleteConflict("Cannot delete entity, the %s %s was changed while it was being deleted. Try again.",
			kind, name)
	}
	return err
}

// TagUser adds tags to a user.
func (s *Service) TagUser(ctx context.Context, in *iam.TagUserInput) (*iam.TagUserOutput, error) {
	return &iam.TagUserOutput{}, s.users.tagEntity(ctx, in.UserName, in.Tags)
}

// UntagUser removes tags from a user.
func (s *Service) UntagUser(ctx context.Context, in *iam.UntagUserInput) (*iam.UntagUserOutput, error) {
	return &iam.UntagUserOutput{}, s.users.untagEntity(ctx, in.UserName, in.TagKeys)
}

// ListUserTags lists the tags of a user.
func (s *Service) ListUserTags(ctx context.Context, in *iam.ListUserTagsInput) (*iam.ListUserTagsOutput, error) {
	tags, marker, truncated, err := s.users.listTags(ctx, in.UserName, in.MaxItems, in.Marker)
	return &iam.ListUserTagsOutput{Tags: tags, Marker: marker, IsTruncated: truncated}, err
}

// PutUserPolicy adds or replaces an inline policy of a user.
func (s *Service) PutUserPolicy(ctx context.Context, in *iam.PutUserPolicyInput) (*iam.PutUserPolicyOutput, error) {
	return &iam.PutUserPolicyOutput{}, s.users.putInline(ctx, in.UserName, in.PolicyName, in.PolicyDocument)
}

// GetUserPolicy returns an inline policy of a user.
func (s *Service) GetUserPolicy(ctx context.Context, in *iam.GetUserPolicyInput) (*iam.GetUserPolicyOutput, error) {
	document, err := s.users.getInline(ctx, in.UserName, in.PolicyName)
	return &iam.GetUserPolicyOutput{UserName: in.UserName, PolicyName: in.PolicyName, PolicyDocument: document}, err
}

// DeleteUserPolicy removes an inline policy of a user.
func (s *Service) DeleteUserPolicy(ctx context.Context, in *iam.DeleteUserPolicyInput) (
	*iam.DeleteUserPolicyOutput, error) {
	return &iam.DeleteUserPolicyOutput{}, s.users.deleteInline(ctx, in.UserName, in.PolicyName)
}

// ListUserPolicies names the inline policies of a user.
func (s *Service) ListUserPolicies(ctx context.Context, in *iam.ListUserPoliciesInput) (
	*iam.ListUserPoliciesOutput, error) {
	names, marker, truncated, err := s.users.listInline(ctx, in.UserName, in.MaxItems, in.Marker)
	return &iam.ListUserPoliciesOutput{PolicyNames: names, Marker: marker, IsTruncated: truncated}, err
}

// AttachUserPolicy attaches a managed policy to a user.
func (s *Service) AttachUserPolicy(ctx context.Context, in *iam.AttachUserPolicyInput) (
	*iam.AttachUserPolicyOutput, error) {
	return &iam.AttachUserPolicyOutput{}, attachPolicy(ctx, s, s.users, in.UserName, in.PolicyArn)
}

// DetachUserPolicy detaches a managed policy from a user.
func (s *Service) DetachUserPolicy(ctx context.Context, in *iam.DetachUserPolicyInput) (
	*iam.DetachUserPolicyOutput, error) {
	return &iam.DetachUserPolicyOutput{}, detachPolicy(ctx, s.users, in.UserName, in.PolicyArn)
}

// ListAttachedUserPolicies lists the managed policies of a user.
func (s *Service) ListAttachedUserPolicies(ctx context.Context, in *iam.ListAttachedUserPoliciesInput) (
	*iam.ListAttachedUserPoliciesOutput, error) {
	list, marker, truncated, err := s.users.listAttached(ctx, in.UserName, in.PathPrefix, in.MaxItems, in.Marker)
	return &iam.ListAttachedUserPoliciesOutput{AttachedPolicies: list, Marker: marker, IsTruncated: truncated}, err
}

// PutUserPermissionsBoundary limits what a user's policies can allow.
func (s *Service) PutUserPermissionsBoundary(ctx context.Context, in *iam.PutUserPermissionsBoundaryInput) (
	*iam.PutUserPermissionsBoundaryOutput, error) {
	return &iam.PutUserPermissionsBoundaryOutput{}, setBoundary(ctx, s, s.users, in.UserName, in.PermissionsBoundary)
}

// DeleteUserPermissionsBoundary lifts the limit.
func (s *Service) DeleteUserPermissionsBoundary(ctx context.Context, in *iam.DeleteUserPermissionsBoundaryInput) (
	*iam.DeleteUserPermissionsBoundaryOutput, error) {
	return &iam.DeleteUserPermissionsBoundaryOutput{}, unbound(ctx, s.users, in.UserName)
}
