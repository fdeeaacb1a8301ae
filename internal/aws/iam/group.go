package iam

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func groupKind(s *store.Store) kind[record.Group] {
	return kind[record.Group]{
		Table: record.Groups(s), name: "group", title: "Group", key: record.GroupKey, inlineLimit: maxGroupInline,
		nameOf: func(g *record.Group) string { return g.Name },
		grants: func(g *record.Group) *record.Grants { return &g.Grants },
	}
}

func groupType(g record.Group) types.Group {
	return types.Group{
		Arn: aws.String(g.ARN()), CreateDate: aws.Time(g.CreatedAt), GroupId: aws.String(g.ID),
		GroupName: aws.String(g.Name), Path: aws.String(g.Path),
	}
}

// groupHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) groupHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateGroup, func(
			ctx context.Context, action string, in *iam.CreateGroupInput,
		) ([]wire.Target, error) {
			return targetNew(ctx, action, newARN(ctx, "group", in.Path, in.GroupName))
		}),
		wire.Handle(s.GetGroup, func(ctx context.Context, action string, in *iam.GetGroupInput) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.GroupName)
		}),
		wire.Handle(s.ListGroups, targetAny[iam.ListGroupsInput]("group/")),
		wire.Handle(s.ListGroupsForUser, func(
			ctx context.Context, action string, in *iam.ListGroupsForUserInput,
		) ([]wire.Target, error) {
			return s.targetUser(ctx, action, in.UserName)
		}),
		wire.Handle(s.UpdateGroup, func(
			ctx context.Context, action string, in *iam.UpdateGroupInput,
		) ([]wire.Target, error) {
			t, err := s.groupTarget(ctx, action, in.GroupName)
			return renaming(t, "group", in.NewPath, in.NewGroupName), err
		}),
		wire.Handle(s.DeleteGroup, func(
			ctx context.Context, action string, in *iam.DeleteGroupInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.GroupName)
		}),
		wire.Handle(s.AddUserToGroup, func(
			ctx context.Context, action string, in *iam.AddUserToGroupInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.GroupName)
		}),
		wire.Handle(s.RemoveUserFromGroup, func(
			ctx context.Context, action string, in *iam.RemoveUserFromGroupInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.GroupName)
		}),
		wire.Handle(s.PutGroupPolicy, func(
			ctx context.Context, action string, in *iam.PutGroupPolicyInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.GroupName)
		}),
		wire.Handle(s.GetGroupPolicy, func(
			ctx context.Context, action string, in *iam.GetGroupPolicyInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.GroupName)
		}),
		wire.Handle(s.DeleteGroupPolicy, func(
			ctx context.Context, action string, in *iam.DeleteGroupPolicyInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.GroupName)
		}),
		wire.Handle(s.ListGroupPolicies, func(
			ctx context.Context, action string, in *iam.ListGroupPoliciesInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.GroupName)
		}),
		wire.Handle(s.AttachGroupPolicy, func(
			ctx context.Context, action string, in *iam.AttachGroupPolicyInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.GroupName, func(c conditions) { c.setPolicyARN(in.PolicyArn) })
		}),
		wire.Handle(s.DetachGroupPolicy, func(
			ctx context.Context, action string, in *iam.DetachGroupPolicyInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.GroupName, func(c conditions) { c.setPolicyARN(in.PolicyArn) })
		}),
		wire.Handle(s.ListAttachedGroupPolicies, func(
			ctx context.Context, action string, in *iam.ListAttachedGroupPoliciesInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.GroupName)
		}),
	}
}

// CreateGroup makes a group without users and permissions.
func (s *Service) CreateGroup(ctx context.Context, in *iam.CreateGroupInput) (*iam.CreateGroupOutput, error) {
	g := record.Group{Account: account(ctx), Name: *in.GroupName, Path: pathOrDefault(in.Path),
		ID: identity.NewID(identity.GroupID), CreatedAt: s.now().UTC()}
	if err := s.checkQuota(ctx, s.groups.countEntities, "Groups", maxGroups); err != nil {
		return nil, err
	}
	if _, err := s.groups.Create(ctx, record.GroupKey(g.Account, g.Name), g); err != nil {
		return nil, mapExistsError(err, "Group with name %s already exists.", g.Name)
	}
	t := groupType(g)
	return &iam.CreateGroupOutput{Group: &t}, nil
}

// mapExistsError turns store.ErrExists into IAM's error.
func mapExistsError(err error, format string, args ...any) error {
	if errors.Is(err, store.ErrExists) {
		return alreadyExists(format, args...)
	}
	return err
}

// members returns the users in a group.
func (s *Service) members(ctx context.Context, group string) ([]record.User, error) {
	all, err := s.users.listAll(ctx)
	return slices.DeleteFunc(all, func(u record.User) bool { return !slices.Contains(u.Groups, group) }), err
}

// GetGroup describes a group and lists its users.
func (s *Service) GetGroup(ctx context.Context, in *iam.GetGroupInput) (*iam.GetGroupOutput, error) {
	row, err := s.groups.findEntity(ctx, in.GroupName)
	if err != nil {
		return nil, err
	}
	members, err := s.members(ctx, row.Value.Name)
	if err != nil {
		return nil, err
	}
	some, marker, truncated, err := paginate(ctx, members, in.MaxItems, in.Marker, s.users.sortKey)
	if err != nil {
		return nil, err
	}
	t := groupType(row.Value)
	return &iam.GetGroupOutput{Group: &t, Users: mapSlice(some, listedUser), Marker: marker, IsTruncated: truncated},
		nil
}

// ListGroups lists the groups below a path.
func (s *Service) ListGroups(ctx context.Context, in *iam.ListGroupsInput) (*iam.ListGroupsOutput, error) {
	all, err := s.groups.listAll(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(g record.Group) bool { return !isInPath(g.Path, in.PathPrefix) })
	some, marker, truncated, err := paginate(ctx, all, in.MaxItems, in.Marker, s.groups.sortKey)
	if err != nil {
		return nil, err
	}
	return &iam.ListGroupsOutput{Groups: mapSlice(some, groupType), Marker: marker, IsTruncated: truncated}, nil
}

// ListGroupsForUser lists the groups that a user is in.
func (s *Service) ListGroupsForUser(ctx context.Context, in *iam.ListGroupsForUserInput) (
	*iam.ListGroupsForUserOutput, error) {
	row, err := s.users.findEntity(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	all, err := s.groups.listAll(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(g record.Group) bool { return !slices.Contains(row.Value.Groups, g.Name) })
	some, marker, truncated, err := paginate(ctx, all, in.MaxItems, in.Marker, s.groups.sortKey)
	if err != nil {
		return nil, err
	}
	return &iam.ListGroupsForUserOutput{Groups: mapSlice(some, groupType), Marker: marker, IsTruncated: truncated}, nil
}

// UpdateGroup renames a group or moves it to another path.
func (s *Service) UpdateGroup(ctx context.Context, in *iam.UpdateGroupInput) (*iam.UpdateGroupOutput, error) {
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		row, err := s.groups.findEntity(ctx, in.GroupName)
		if err != nil {
			return nil, err
		}
		g := row.Value
		if in.NewPath != nil {
			g.Path = *in.NewPath
		}
		if in.NewGroupName == nil || *in.NewGroupName == g.Name {
			row.Value = g
			return []store.Op{s.groups.UpdateOp(row)}, nil
		}
		old := g.Name
		g.Name = *in.NewGroupName
		ops, err := s.renameMembership(ctx, old, g.Name)
		if err != nil {
			return nil, err
		}
		key := record.GroupKey(g.Account, g.Name)
		if key == row.Key {
			row.Value = g
			return append(ops, s.groups.UpdateOp(row)), nil
		}
		if _, err := s.groups.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
			return nil, orExists(err, "Group with name %s already exists.", g.Name)
		}
		return append(ops, s.groups.DeleteOp(row), s.groups.CreateOp(key, g)), nil
	})
	return &iam.UpdateGroupOutput{}, err
}

// renameMembership writes a group's new name into its users: one transaction, which etcd limits to 128 rows.
func (s *Service) renameMembership(ctx context.Context, from, to string) ([]store.Op, error) {
	members, err := s.members(ctx, from)
	if err != nil {
		return nil, err
	}
	if len(members) > maxMembersToRename {
		return nil, limitExceeded("Group %s has %d users; coracle renames a group of at most %d.", from, len(members),
			maxMembersToRename)
	}
	var ops []store.Op
	for _, u := range members {
		row, err := s.users.Copy(ctx, record.UserKey(u.Account, u.Name))
		if err != nil {
			return nil, err
		}
		if i := slices.Index(row.Value.Groups, from); i >= 0 {
			row.Value.Groups[i] = to
			slices.Sort(row.Value.Groups)
			ops = append(ops, s.users.UpdateOp(row))
		}
	}
	return ops, nil
}

// DeleteGroup deletes a group that has neither users nor policies.
func (s *Service) DeleteGroup(ctx context.Context, in *iam.DeleteGroupInput) (*iam.DeleteGroupOutput, error) {
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		row, err := s.groups.findEntity(ctx, in.GroupName)
		if err != nil {
			return nil, err
		}
		members, err := s.members(ctx, row.Value.Name)
		if err != nil {
			return nil, err
		}
		if len(members) > 0 {
			return nil, deleteConflict("Cannot delete entity, must remove users from group first.")
		}
		if err := emptyGrants(row.Value.Grants); err != nil {
			return nil, err
		}
		return []store.Op{s.groups.DeleteOp(row)}, nil
	})
	return &iam.DeleteGroupOutput{}, err
}

// AddUserToGroup puts a user into a group; one that is in it already stays.
func (s *Service) AddUserToGroup(ctx context.Context, in *iam.AddUserToGroupInput) (*iam.AddUserToGroupOutput, error) {
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		group, err := s.groups.findEntity(ctx, in.GroupName)
		if err != nil {
			return nil, err
		}
		user, err := s.users.findEntity(ctx, in.UserName)
		if err != nil {
			return nil, err
		}
		if slices.Contains(user.Value.Groups, group.Value.Name) {
			return nil, nil
		}
		if len(user.Value.Groups) >= maxGroupsPerUser {
			return nil, limitExceeded("Cannot exceed quota for GroupsPerUser: %d", maxGroupsPerUser)
		}
		user.Value.Groups = slices.Sorted(slices.Values(append(slices.Clone(user.Value.Groups), group.Value.Name)))
		// the group's row is written to hold it
		return []store.Op{s.groups.UpdateOp(group), s.users.UpdateOp(user)}, nil
	})
	return &iam.AddUserToGroupOutput{}, err
}

// RemoveUserFromGroup takes a user out of a group.
func (s *Service) RemoveUserFromGroup(ctx context.Context, in *iam.RemoveUserFromGroupInput) (
	*iam.RemoveUserFromGroupOutput, error) {
	group, err := s.groups.findEntity(ctx, in.GroupName)
	if err != nil {
		return nil, err
	}
	_, err = s.users.updateEntity(ctx, in.UserName, func(u *record.User) error {
		u.Groups = slices.DeleteFunc(u.Groups, func(name string) bool { return name == group.Value.Name })
		return nil
	})
	return &iam.RemoveUserFromGroupOutput{}, err
}

// PutGroupPolicy adds or replaces an inline policy of a group.
func (s *Service) PutGroupPolicy(ctx context.Context, in *iam.PutGroupPolicyInput) (*iam.PutGroupPolicyOutput, error) {
	return &iam.PutGroupPolicyOutput{}, s.groups.putInline(ctx, in.GroupName, in.PolicyName, in.PolicyDocument)
}

// GetGroupPolicy returns an inline policy of a group.
func (s *Service) GetGroupPolicy(ctx context.Context, in *iam.GetGroupPolicyInput) (*iam.GetGroupPolicyOutput, error) {
	document, err := s.groups.getInline(ctx, in.GroupName, in.PolicyName)
	return &iam.GetGroupPolicyOutput{GroupName: in.GroupName, PolicyName: in.PolicyName, PolicyDocument: document}, err
}

// DeleteGroupPolicy removes an inline policy of a group.
func (s *Service) DeleteGroupPolicy(ctx context.Context, in *iam.DeleteGroupPolicyInput) (
	*iam.DeleteGroupPolicyOutput, error) {
	return &iam.DeleteGroupPolicyOutput{}, s.groups.deleteInline(ctx, in.GroupName, in.PolicyName)
}

// ListGroupPolicies names the inline policies of a group.
func (s *Service) ListGroupPolicies(ctx context.Context, in *iam.ListGroupPoliciesInput) (
	*iam.ListGroupPoliciesOutput, error) {
	names, marker, truncated, err := s.groups.listInline(ctx, in.GroupName, in.MaxItems, in.Marker)
	return &iam.ListGroupPoliciesOutput{PolicyNames: names, Marker: marker, IsTruncated: truncated}, err
}

// AttachGroupPolicy attaches a managed policy to a group.
func (s *Service) AttachGroupPolicy(ctx context.Context, in *iam.AttachGroupPolicyInput) (
	*iam.AttachGroupPolicyOutput, error) {
	return &iam.AttachGroupPolicyOutput{}, attachPolicy(ctx, s, s.groups, in.GroupName, in.PolicyArn)
}

// DetachGroupPolicy detaches a managed policy from a group.
func (s *Service) DetachGroupPolicy(ctx context.Context, in *iam.DetachGroupPolicyInput) (
	*iam.DetachGroupPolicyOutput, error) {
	return &iam.DetachGroupPolicyOutput{}, detachPolicy(ctx, s.groups, in.GroupName, in.PolicyArn)
}

// ListAttachedGroupPolicies lists the managed policies of a group.
func (s *Service) ListAttachedGroupPolicies(ctx context.Context, in *iam.ListAttachedGroupPoliciesInput) (
	*iam.ListAttachedGroupPoliciesOutput, error) {
	list, marker, truncated, err := s.groups.listAttached(ctx, in.GroupName, in.PathPrefix, in.MaxItems, in.Marker)
	return &iam.ListAttachedGroupPoliciesOutput{AttachedPolicies: list, Marker: marker, IsTruncated: truncated}, err
}
