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
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func (s *Service) profileType(ctx context.Context, p record.InstanceProfile) (types.InstanceProfile, error) {
	t := types.InstanceProfile{
		Arn: aws.String(p.ARN()), CreateDate: aws.Time(p.CreatedAt), InstanceProfileId: aws.String(p.ID),
		InstanceProfileName: aws.String(p.Name),
		Path:                aws.String(p.Path), Roles: []types.Role{}, Tags: tagList(p.Tags),
	}
	if p.Role != "" {
		row, err := s.roles.Get(ctx, record.RoleKey(p.Account, p.Role))
		if err != nil {
			return t, err
		}
		t.Roles = append(t.Roles, listedRole(row.Value))
	}
	return t, nil
}

func (s *Service) findProfile(ctx context.Context, name *string) (store.Row[record.InstanceProfile], error) {
	row, err := s.profiles.Get(ctx, record.InstanceProfileKey(account(ctx), *name))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.Name != *name {
		err = noSuchEntity("Instance Profile %s cannot be found.", *name)
	}
	return row, err
}

func (s *Service) allProfiles(ctx context.Context) ([]record.InstanceProfile, error) {
	rows, err := s.profiles.List(ctx, store.Prefix(account(ctx)))
	return mapSlice(rows, func(r store.Row[record.InstanceProfile]) record.InstanceProfile { return r.Value }), err
}

// profilesOf returns the instance profiles that hold a role.
func (s *Service) profilesOf(ctx context.Context, role string) ([]record.InstanceProfile, error) {
	all, err := s.allProfiles(ctx)
	return slices.DeleteFunc(all, func(p record.InstanceProfile) bool { return p.Role != role }), err
}

func profileKey(p record.InstanceProfile) string { return strings.ToLower(p.Name) }

// instanceProfileHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) instanceProfileHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateInstanceProfile, func(
			ctx context.Context, action string, in *iam.CreateInstanceProfileInput,
		) ([]wire.Target, error) {
			arn := newARN(ctx, "instance-profile", in.Path, in.InstanceProfileName)
			return targetTagged(ctx, action, "iam:TagInstanceProfile", arn, in.Tags)
		}),
		wire.Handle(s.GetInstanceProfile, func(
			ctx context.Context, action string, in *iam.GetInstanceProfileInput,
		) ([]wire.Target, error) {
			return s.onProfile(ctx, action, in.InstanceProfileName)
		}),
		wire.Handle(s.DeleteInstanceProfile, func(
			ctx context.Context, action string, in *iam.DeleteInstanceProfileInput,
		) ([]wire.Target, error) {
			return s.onProfile(ctx, action, in.InstanceProfileName)
		}),
		wire.Handle(s.ListInstanceProfiles, targetAny[iam.ListInstanceProfilesInput]("instance-profile/")),
		wire.Handle(s.ListInstanceProfilesForRole, func(
			ctx context.Context, action string, in *iam.ListInstanceProfilesForRoleInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.AddRoleToInstanceProfile, s.addRoleTargets),
		wire.Handle(s.RemoveRoleFromInstanceProfile, func(
			ctx context.Context, action string, in *iam.RemoveRoleFromInstanceProfileInput,
		) ([]wire.Target, error) {
			return s.onProfile(ctx, action, in.InstanceProfileName)
		}),
		wire.Handle(s.TagInstanceProfile, func(
			ctx context.Context, action string, in *iam.TagInstanceProfileInput,
		) ([]wire.Target, error) {
			return s.onProfile(ctx, action, in.InstanceProfileName, func(c conditions) {
				c.requestTags(in.Tags)
			})
		}),
		wire.Handle(s.UntagInstanceProfile, func(
			ctx context.Context, action string, in *iam.UntagInstanceProfileInput,
		) ([]wire.Target, error) {
			return s.onProfile(ctx, action, in.InstanceProfileName, func(c conditions) { c.tagKeys(in.TagKeys) })
		}),
		wire.Handle(s.ListInstanceProfileTags, func(
			ctx context.Context, action string, in *iam.ListInstanceProfileTagsInput,
		) ([]wire.Target, error) {
			return s.onProfile(ctx, action, in.InstanceProfileName)
		}),
	}
}

// CreateInstanceProfile makes an instance profile without a role.
func (s *Service) CreateInstanceProfile(ctx context.Context, in *iam.CreateInstanceProfileInput) (
	*iam.CreateInstanceProfileOutput, error) {
	tags, err := mergeTags(ctx, nil, in.Tags)
	if err != nil {
		return nil, err
	}
	all, err := s.allProfiles(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) >= maxProfiles {
		return nil, limitExceeded("Cannot exceed quota for InstanceProfilesPerAccount: %d", maxProfiles)
	}
	p := record.InstanceProfile{
		Account: account(ctx), Name: *in.InstanceProfileName, Path: pathOrDefault(in.Path),
		ID: identity.NewID(identity.InstanceProfileID), CreatedAt: s.now().UTC(), Tags: tags,
	}
	if _, err := s.profiles.Create(ctx, record.InstanceProfileKey(p.Account, p.Name), p); err != nil {
		return nil, mapExistsError(err, "Instance Profile %s already exists.", p.Name)
	}
	t, err := s.profileType(ctx, p)
	return &iam.CreateInstanceProfileOutput{InstanceProfile: &t}, err
}

// GetInstanceProfile describes an instance profile with its role.
func (s *Service) GetInstanceProfile(ctx context.Context, in *iam.GetInstanceProfileInput) (
	*iam.GetInstanceProfileOutput, error) {
	row, err := s.findProfile(ctx, in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	t, err := s.profileType(ctx, row.Value)
	return &iam.GetInstanceProfileOutput{InstanceProfile: &t}, err
}

// DeleteInstanceProfile deletes an instance profile that holds no role.
func (s *Service) DeleteInstanceProfile(ctx context.Context, in *iam.DeleteInstanceProfileInput) (
	*iam.DeleteInstanceProfileOutput, error) {
	row, err := s.findProfile(ctx, in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	if row.Value.Role != "" {
		return nil, deleteConflict("Cannot delete entity, must remove roles from instance profile first.")
	}
	return &iam.DeleteInstanceProfileOutput{}, deleted(s.profiles.Delete(ctx, row), "instance profile",
		*in.InstanceProfileName)
}

// ListInstanceProfiles lists the instance profiles below a path.
func (s *Service) ListInstanceProfiles(ctx context.Context, in *iam.ListInstanceProfilesInput) (
	*iam.ListInstanceProfilesOutput, error) {
	all, err := s.allProfiles(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(p record.InstanceProfile) bool { return !isInPath(p.Path, in.PathPrefix) })
	some, marker, truncated, err := paginate(ctx, all, in.MaxItems, in.Marker, profileKey)
	if err != nil {
		return nil, err
	}
	list, err := s.listedProfiles(ctx, some)
	return &iam.ListInstanceProfilesOutput{InstanceProfiles: list, Marker: marker, IsTruncated: truncated}, err
}

// ListInstanceProfilesForRole lists the instance profiles that hold a role.
func (s *Service) ListInstanceProfilesForRole(ctx context.Context, in *iam.ListInstanceProfilesForRoleInput) (
	*iam.ListInstanceProfilesForRoleOutput, error) {
	role, err := s.roles.findEntity(ctx, in.RoleName)
	if err != nil {
		return nil, err
	}
	all, err := s.profilesOf(ctx, role.Value.Name)
	if err != nil {
		return nil, err
	}
	some, marker, truncated, err := paginate(ctx, all, in.MaxItems, in.Marker, profileKey)
	if err != nil {
		return nil, err
	}
	list, err := s.listedProfiles(ctx, some)
	return &iam.ListInstanceProfilesForRoleOutput{InstanceProfiles: list, Marker: marker, IsTruncated: truncated}, err
}

// listedProfiles returns instance profiles as lists show them: without tags.
func (s *Service) listedProfiles(ctx context.Context, some []record.InstanceProfile) ([]types.InstanceProfile, error) {
	list := make([]types.InstanceProfile, 0, len(some))
	for _, p := range some {
		p.Tags = nil
		t, err := s.profileType(ctx, p)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// addRoleTargets returns the authorization targets of adding a role: the profile, and the role, which the caller passes
// to EC2.
func (s *Service) addRoleTargets(
	ctx context.Context, action string, in *iam.AddRoleToInstanceProfileInput,
) ([]wire.Target, error) {
	profile, err := s.onProfile(ctx, action, in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	role, err := s.targetRole(ctx, "iam:PassRole", in.RoleName, func(c conditions) {
		c["iam:PassedToService"] = []string{"ec2.amazonaws.com"}
	})
	return append(profile, role...), err
}

// AddRoleToInstanceProfile puts a role into an instance profile, which holds one at most.
func (s *Service) AddRoleToInstanceProfile(ctx context.Context, in *iam.AddRoleToInstanceProfileInput) (
	*iam.AddRoleToInstanceProfileOutput, error) {
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		profile, err := s.findProfile(ctx, in.InstanceProfileName)
		if err != nil {
			return nil, err
		}
		role, err := s.roles.findEntity(ctx, in.RoleName)
		if err != nil {
			return nil, err
		}
		if err := unlinked(&role.Value); err != nil {
			return nil, err
		}
		if profile.Value.Role != "" {
			return nil, limitExceeded("Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
		}
		profile.Value.Role = role.Value.Name
		// the role's row is written to hold it
		return []store.Op{s.profiles.UpdateOp(profile), s.roles.UpdateOp(role)}, nil
	})
	return &iam.AddRoleToInstanceProfileOutput{}, err
}

// RemoveRoleFromInstanceProfile takes the role out of an instance profile.
func (s *Service) RemoveRoleFromInstanceProfile(ctx context.Context, in *iam.RemoveRoleFromInstanceProfileInput) (
	*iam.RemoveRoleFromInstanceProfileOutput, error) {
	row, err := s.findProfile(ctx, in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	_, err = s.profiles.Modify(ctx, row.Key, func(p *record.InstanceProfile) error {
		if p.Role != *in.RoleName {
			return noSuchEntity("The role with name %s cannot be found.", *in.RoleName)
		}
		p.Role = ""
		return nil
	})
	return &iam.RemoveRoleFromInstanceProfileOutput{}, err
}

// TagInstanceProfile adds tags to an instance profile.
func (s *Service) TagInstanceProfile(ctx context.Context, in *iam.TagInstanceProfileInput) (
	*iam.TagInstanceProfileOutput, error) {
	row, err := s.findProfile(ctx, in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	_, err = s.profiles.Modify(ctx, row.Key, func(p *record.InstanceProfile) (err error) {
		p.Tags, err = mergeTags(ctx, p.Tags, in.Tags)
		return err
	})
	return &iam.TagInstanceProfileOutput{}, err
}

// UntagInstanceProfile removes tags from an instance profile.
func (s *Service) UntagInstanceProfile(ctx context.Context, in *iam.UntagInstanceProfileInput) (
	*iam.UntagInstanceProfileOutput, error) {
	row, err := s.findProfile(ctx, in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	_, err = s.profiles.Modify(ctx, row.Key, func(p *record.InstanceProfile) (err error) {
		p.Tags, err = removeTags(ctx, p.Tags, in.TagKeys)
		return err
	})
	return &iam.UntagInstanceProfileOutput{}, err
}

// ListInstanceProfileTags lists the tags of an instance profile.
func (s *Service) ListInstanceProfileTags(ctx context.Context, in *iam.ListInstanceProfileTagsInput) (
	*iam.ListInstanceProfileTagsOutput, error) {
	row, err := s.findProfile(ctx, in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	tags, marker, truncated, err := paginate(ctx, tagList(row.Value.Tags), in.MaxItems, in.Marker, tagKey)
	return &iam.ListInstanceProfileTagsOutput{Tags: tags, Marker: marker, IsTruncated: truncated}, err
}
