package iam

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/managed"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Targets names the resource of every operation, with the condition keys that IAM has for it.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsidentityandaccessmanagementiam.html
func (s *Service) Targets(ctx context.Context, operation string, input any) ([]wire.Target, error) {
	t := wire.Target{Action: "iam:" + operation, Resource: "*", Conditions: map[string][]string{}}
	members := reflect.ValueOf(input).Elem()
	if err := s.resource(ctx, operation, members, &t); err != nil {
		return nil, err
	}
	addRequestTags(members, t.Conditions)
	if arn := text(members, "PolicyArn"); arn != "" && t.Resource != arn {
		t.Conditions["iam:PolicyARN"] = []string{arn}
	}
	if arn := text(members, "PermissionsBoundary"); arn != "" {
		t.Conditions["iam:PermissionsBoundary"] = []string{arn}
	}
	targets := []wire.Target{t}
	switch in := input.(type) {
	case *iam.UpdateUserInput:
		if in.NewPath != nil || in.NewUserName != nil {
			targets = append(targets, renamed(t, "user", in.NewPath, in.NewUserName))
		}
	case *iam.UpdateGroupInput:
		if in.NewPath != nil || in.NewGroupName != nil {
			targets = append(targets, renamed(t, "group", in.NewPath, in.NewGroupName))
		}
	case *iam.CreateServiceLinkedRoleInput:
		t.Conditions["iam:AWSServiceName"] = []string{*in.AWSServiceName}
	case *iam.AddRoleToInstanceProfileInput:
		role := wire.Target{Action: "iam:PassRole", Conditions: map[string][]string{"iam:PassedToService": {"ec2.amazonaws.com"}}}
		if err := describe(ctx, s.roles, record.Role.ARN, *in.RoleName, "/", "role", &role); err != nil {
			return nil, err
		}
		targets = append(targets, role)
	}
	return targets, nil
}

// renamed is the target that a user or group becomes with another path or name: who may change it must be allowed to change that one as well.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_UpdateUser.html
func renamed(t wire.Target, resource string, path, name *string) wire.Target {
	prefix, pathAndName, _ := strings.Cut(t.Resource, ":"+resource+"/")
	slash := strings.LastIndexByte(pathAndName, '/') + 1
	newPath, newName := "/"+pathAndName[:slash], pathAndName[slash:]
	if path != nil {
		newPath = *path
	}
	if name != nil {
		newName = *name
	}
	t.Resource = prefix + ":" + resource + newPath + newName
	return t
}

// lists are the operations on no resource in particular: AWS names the root of their kind.
var lists = map[string]string{
	"ListUsers": "user/", "ListGroups": "group/", "ListRoles": "role/", "ListInstanceProfiles": "instance-profile/", "ListPolicies": "policy/",
	"ListOpenIDConnectProviders": "oidc-provider/",
}

// resource finds what the operation is about by the members of its input, the most telling one first.
func (s *Service) resource(ctx context.Context, operation string, in reflect.Value, t *wire.Target) error {
	id := account(ctx)
	arn := "arn:aws:iam::" + id + ":"
	path := text(in, "Path")
	if path == "" {
		path = "/"
	}
	switch {
	case lists[operation] != "":
		t.Resource = arn + lists[operation]
		return nil
	case text(in, "InstanceProfileName") != "":
		return s.describeProfile(ctx, text(in, "InstanceProfileName"), path, t)
	case text(in, "AWSServiceName") != "":
		service := text(in, "AWSServiceName")
		t.Resource = arn + "role/aws-service-role/" + service + "/" + linkedRoles[service].name
		if suffix := text(in, "CustomSuffix"); suffix != "" {
			t.Resource += "_" + suffix
		}
		return nil
	case text(in, "RoleName") != "":
		return describe(ctx, s.roles, record.Role.ARN, text(in, "RoleName"), path, "role", t)
	case text(in, "GroupName") != "":
		return describe(ctx, s.groups, record.Group.ARN, text(in, "GroupName"), path, "group", t)
	case in.FieldByName("UserName").IsValid() && in.FieldByName("UserName").Kind() == reflect.Pointer:
		if text(in, "UserName") != "" {
			return describe(ctx, s.users, record.User.ARN, text(in, "UserName"), path, "user", t)
		}
		return s.describeCaller(ctx, t)
	case operation == "GetAccessKeyLastUsed":
		return s.describeKeyOwner(ctx, text(in, "AccessKeyId"), t)
	case text(in, "PolicyArn") != "":
		return s.describePolicy(ctx, text(in, "PolicyArn"), t)
	case operation == "CreatePolicy":
		t.Resource = arn + "policy" + path + text(in, "PolicyName")
	case operation == "CreateOpenIDConnectProvider":
		url, err := issuer(text(in, "Url"))
		if err != nil {
			url = text(in, "Url") // the operation says so, to those who may ask
		}
		t.Resource = arn + "oidc-provider/" + url
	case text(in, "OpenIDConnectProviderArn") != "":
		return s.describeProvider(ctx, text(in, "OpenIDConnectProviderArn"), t)
	case text(in, "PolicySourceArn") != "":
		t.Resource = text(in, "PolicySourceArn")
	}
	return nil
}

// describe sets the target to a user, group or role. One that does not exist (yet) has the ARN that it would have.
func describe[T any](ctx context.Context, k kind[T], arn func(T) string, name, path, resource string, t *wire.Target) error {
	row, err := k.Get(ctx, k.key(account(ctx), name))
	if errors.Is(err, store.ErrNotFound) {
		t.Resource = "arn:aws:iam::" + account(ctx) + ":" + resource + path + name
		return nil
	}
	if err != nil {
		return err
	}
	t.Resource = arn(row.Value)
	if k.tags != nil {
		addResourceTags(*k.tags(&row.Value), t.Conditions)
	}
	if k.boundary != nil && *k.boundary(&row.Value) != "" {
		t.Conditions["iam:PermissionsBoundary"] = []string{*k.boundary(&row.Value)}
	}
	return nil
}

// describeCaller is for operations on the caller's own user.
func (s *Service) describeCaller(ctx context.Context, t *wire.Target) error {
	caller := wire.CallerFrom(ctx)
	if _, resource, ok := strings.Cut(caller.ARN, ":user/"); ok {
		return describe(ctx, s.users, record.User.ARN, resource[strings.LastIndexByte(resource, '/')+1:], "/", "user", t)
	}
	t.Resource = caller.ARN
	return nil
}

// describeKeyOwner sets the target to the user who has an access key; nothing is the target for a key that does not
// exist in the account, or that is the root user's.
func (s *Service) describeKeyOwner(ctx context.Context, accessKeyID string, t *wire.Target) error {
	key, err := s.keys.Get(ctx, record.AccessKeyKey(accessKeyID))
	if err != nil || key.Value.Account != account(ctx) || key.Value.User == "" {
		return ignoreMissing(err)
	}
	return describe(ctx, s.users, record.User.ARN, key.Value.User, "/", "user", t)
}

func (s *Service) describeProfile(ctx context.Context, name, path string, t *wire.Target) error {
	row, err := s.profiles.Get(ctx, record.InstanceProfileKey(account(ctx), name))
	if errors.Is(err, store.ErrNotFound) {
		t.Resource = "arn:aws:iam::" + account(ctx) + ":instance-profile" + path + name
		return nil
	}
	t.Resource = row.Value.ARN()
	addResourceTags(row.Value.Tags, t.Conditions)
	return err
}

func (s *Service) describePolicy(ctx context.Context, arn string, t *wire.Target) error {
	t.Resource = arn
	if _, ok := managed.Get(arn); ok {
		return nil
	}
	row, err := s.customerPolicy(ctx, arn)
	addResourceTags(row.Value.Tags, t.Conditions)
	return err
}

func (s *Service) describeProvider(ctx context.Context, arn string, t *wire.Target) error {
	t.Resource = arn
	_, url, _ := strings.Cut(arn, ":oidc-provider/")
	row, err := s.providers.Get(ctx, record.OIDCProviderKey(account(ctx), url))
	addResourceTags(row.Value.Tags, t.Conditions)
	return ignoreMissing(err)
}

func addResourceTags(tags map[string]string, conditions map[string][]string) {
	for key, value := range tags {
		conditions["aws:ResourceTag/"+key] = []string{value}
		conditions["iam:ResourceTag/"+key] = []string{value}
	}
}

func addRequestTags(in reflect.Value, conditions map[string][]string) {
	var keys []string
	if f := in.FieldByName("Tags"); f.IsValid() {
		for _, t := range f.Interface().([]types.Tag) {
			if t.Key != nil && t.Value != nil {
				conditions["aws:RequestTag/"+*t.Key] = []string{*t.Value}
				keys = append(keys, *t.Key)
			}
		}
	}
	if f := in.FieldByName("TagKeys"); f.IsValid() {
		keys = append(keys, f.Interface().([]string)...)
	}
	if len(keys) > 0 {
		slices.Sort(keys)
		conditions["aws:TagKeys"] = keys
	}
}

// text is a string member of an input; empty when it is not given or there is no such member.
func text(in reflect.Value, member string) string {
	f := in.FieldByName(member)
	if !f.IsValid() || f.Kind() != reflect.Pointer || f.IsNil() || f.Elem().Kind() != reflect.String {
		return ""
	}
	return f.Elem().String()
}
