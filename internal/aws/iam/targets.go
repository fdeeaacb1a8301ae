package iam

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/managed"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// newTarget returns the target of an action on a resource, without condition keys.
func newTarget(action, resource string) wire.Target {
	return wire.Target{Action: action, Resource: resource, Conditions: map[string][]string{}}
}

// targetWith returns the one target of a request, with the condition keys that the request adds.
func targetWith(t wire.Target, edits []func(conditions)) []wire.Target {
	for _, edit := range edits {
		edit(t.Conditions)
	}
	return []wire.Target{t}
}

// resourceARN returns the ARN of an entity in the caller's account, from its kind, path and name.
func resourceARN(ctx context.Context, resource string) string {
	return "arn:aws:iam::" + account(ctx) + ":" + resource
}

// targetAny returns the root of a kind as the target: what AWS names for operations that list.
func targetAny[In any](root string) wire.Targets[In] {
	return func(ctx context.Context, action string, _ *In) ([]wire.Target, error) {
		return []wire.Target{newTarget(action, resourceARN(ctx, root))}, nil
	}
}

// targetNew returns what a request would create as the target. It comes from the request alone: what has the name now
// says nothing of what will have it.
func targetNew(_ context.Context, action, arn string, edits ...func(conditions)) ([]wire.Target, error) {
	return targetWith(newTarget(action, arn), edits), nil
}

// targetTagged returns what a request would create with tags as the target, and for who names tags also what it takes
// to tag that, as on AWS: tags of users and roles are what other policies go by.
func targetTagged(ctx context.Context, action, tag, arn string, tags []types.Tag, edits ...func(conditions)) (
	[]wire.Target, error) {
	named := func(c conditions) { c.requestTags(tags) }
	targets, err := targetNew(ctx, action, arn, append(edits, named)...)
	own := slices.ContainsFunc(tags, func(t types.Tag) bool { return !wire.IsReservedTag(aws.ToString(t.Key)) })
	if err != nil || !own {
		return targets, err
	}
	tagging, err := targetNew(ctx, tag, arn, named)
	return append(targets, tagging...), err
}

// newARN returns the ARN that an entity will have.
func newARN(ctx context.Context, entity string, path, name *string) string {
	return resourceARN(ctx, entity+pathOrDefault(path)+aws.ToString(name))
}

// providerARN returns the ARN that a new OpenID Connect provider will have.
func providerARN(ctx context.Context, url *string) string {
	host, err := parseIssuer(aws.ToString(url))
	if err != nil {
		host = aws.ToString(url) // the operation says so, to those who may ask
	}
	return resourceARN(ctx, "oidc-provider/"+host)
}

// targetUser returns a user as the target, the caller's own without a name. One that does not exist (yet) has the ARN
// that it would have without a path.
func (s *Service) targetUser(
	ctx context.Context, action string, name *string, edits ...func(conditions),
) ([]wire.Target, error) {
	t, err := s.userTarget(ctx, action, name)
	return targetWith(t, edits), err
}

func (s *Service) userTarget(ctx context.Context, action string, name *string) (wire.Target, error) {
	if aws.ToString(name) != "" {
		return targetOf(ctx, s.users, record.User.ARN, action, "user", name)
	}
	caller := wire.CallerFrom(ctx)
	if _, resource, ok := strings.Cut(caller.ARN, ":user/"); ok {
		own := resource[strings.LastIndexByte(resource, '/')+1:]
		return targetOf(ctx, s.users, record.User.ARN, action, "user", &own)
	}
	return newTarget(action, caller.ARN), nil
}

// onKeyOwner returns the user who has an access key as the target: without one, for a key that does not exist in the
// account or is the root user's, the action on "*".
func (s *Service) onKeyOwner(ctx context.Context, action string, accessKeyID *string) ([]wire.Target, error) {
	key, err := s.keys.Get(ctx, record.AccessKeyKey(*accessKeyID))
	if err != nil || key.Value.Account != account(ctx) || key.Value.User == "" {
		return nil, ignoreMissing(err)
	}
	return s.targetUser(ctx, action, &key.Value.User)
}

// onGroup returns a group as the target.
func (s *Service) onGroup(
	ctx context.Context, action string, name *string, edits ...func(conditions),
) ([]wire.Target, error) {
	t, err := s.groupTarget(ctx, action, name)
	return targetWith(t, edits), err
}

func (s *Service) groupTarget(ctx context.Context, action string, name *string) (wire.Target, error) {
	return targetOf(ctx, s.groups, record.Group.ARN, action, "group", name)
}

// targetRole returns a role as the target.
func (s *Service) targetRole(
	ctx context.Context, action string, name *string, edits ...func(conditions),
) ([]wire.Target, error) {
	t, err := targetOf(ctx, s.roles, record.Role.ARN, action, "role", name)
	return targetWith(t, edits), err
}

// targetOf returns a user, group or role as the target. One that does not exist (yet) has the ARN that it would have
// without a path; if it does by the time of the write, wire asks again ([store.Decision]).
func targetOf[T any](
	ctx context.Context, k kind[T], arn func(T) string, action, resource string, name *string,
) (wire.Target, error) {
	t := newTarget(action, newARN(ctx, resource, nil, name))
	row, err := k.Get(ctx, k.key(account(ctx), aws.ToString(name)))
	if err != nil {
		return t, ignoreMissing(err)
	}
	t.Resource = arn(row.Value)
	set := conditions(t.Conditions)
	if k.tags != nil {
		set.resourceTags(*k.tags(&row.Value))
	}
	if k.boundary != nil && *k.boundary(&row.Value) != "" {
		set.boundary(k.boundary(&row.Value))
	}
	return t, nil
}

// onProfile returns an instance profile as the target.
func (s *Service) onProfile(
	ctx context.Context, action string, name *string, edits ...func(conditions),
) ([]wire.Target, error) {
	t := newTarget(action, newARN(ctx, "instance-profile", nil, name))
	row, err := s.profiles.Get(ctx, record.InstanceProfileKey(account(ctx), aws.ToString(name)))
	switch {
	case err == nil:
		t.Resource = row.Value.ARN()
		conditions(t.Conditions).resourceTags(row.Value.Tags)
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	return targetWith(t, edits), nil
}

// onPolicy returns a policy as the target, AWS's or the account's.
func (s *Service) onPolicy(
	ctx context.Context, action string, arn *string, edits ...func(conditions),
) ([]wire.Target, error) {
	t := newTarget(action, aws.ToString(arn))
	if _, ok := managed.Get(t.Resource); !ok {
		row, err := s.customerPolicy(ctx, t.Resource)
		if err != nil {
			return nil, err
		}
		conditions(t.Conditions).resourceTags(row.Value.Tags)
	}
	return targetWith(t, edits), nil
}

// onProvider returns an OpenID Connect provider as the target.
func (s *Service) onProvider(
	ctx context.Context, action string, arn *string, edits ...func(conditions),
) ([]wire.Target, error) {
	t := newTarget(action, aws.ToString(arn))
	_, url, _ := strings.Cut(t.Resource, ":oidc-provider/")
	row, err := s.providers.Get(ctx, record.OIDCProviderKey(account(ctx), url))
	conditions(t.Conditions).resourceTags(row.Value.Tags)
	return targetWith(t, edits), ignoreMissing(err)
}

// renaming returns a user or group as the targets of a request that may give it another path or name: as it is, and as
// it becomes. Who changes it must be allowed to change both.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_UpdateUser.html
func renaming(t wire.Target, resource string, path, name *string) []wire.Target {
	if path == nil && name == nil {
		return []wire.Target{t}
	}
	prefix, pathAndName, _ := strings.Cut(t.Resource, ":"+resource+"/")
	slash := strings.LastIndexByte(pathAndName, '/') + 1
	newPath, newName := "/"+pathAndName[:slash], pathAndName[slash:]
	if path != nil {
		newPath = *path
	}
	if name != nil {
		newName = *name
	}
	renamed := t
	renamed.Resource = prefix + ":" + resource + newPath + newName
	return []wire.Target{t, renamed}
}

// conditions are the condition keys of a request.
type conditions map[string][]string

func (c conditions) setPolicyARN(arn *string) {
	if aws.ToString(arn) != "" {
		c["iam:PolicyARN"] = []string{*arn}
	}
}

func (c conditions) boundary(arn *string) {
	if aws.ToString(arn) != "" {
		c["iam:PermissionsBoundary"] = []string{*arn}
	}
}

func (c conditions) resourceTags(tags map[string]string) {
	for key, value := range tags {
		c["aws:ResourceTag/"+key] = []string{value}
		c["iam:ResourceTag/"+key] = []string{value}
	}
}

func (c conditions) requestTags(tags []types.Tag) {
	var keys []string
	for _, t := range tags {
		if t.Key != nil && t.Value != nil {
			c["aws:RequestTag/"+*t.Key] = []string{*t.Value}
			keys = append(keys, *t.Key)
		}
	}
	c.tagKeys(keys)
}

func (c conditions) tagKeys(keys []string) {
	if len(keys) > 0 {
		c["aws:TagKeys"] = slices.Sorted(slices.Values(keys))
	}
}
