package cloudformation

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// conditions are the condition keys of a request.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awscloudformation.html#awscloudformation-policy-keys
type conditions map[string][]string

func (c conditions) set(key string, value *string) {
	if aws.ToString(value) != "" {
		c[key] = []string{*value}
	}
}

func (c conditions) tags(tags []types.Tag) {
	for _, t := range tags {
		c["aws:RequestTag/"+aws.ToString(t.Key)] = []string{aws.ToString(t.Value)}
		c["aws:TagKeys"] = append(c["aws:TagKeys"], aws.ToString(t.Key))
	}
}

func (c conditions) resourceTypes(all []string) {
	if len(all) > 0 {
		c["cloudformation:ResourceTypes"] = all
	}
}

// onStack returns the stack that a request names as its target, with its tags.
func (s *Service) onStack(ctx context.Context, action string, name *string, add ...func(conditions)) (
	[]wire.Target, error) {
	t, err := s.stackTarget(ctx, action, aws.ToString(name), add...)
	return []wire.Target{t}, err
}

func (s *Service) stackTarget(ctx context.Context, action, name string, add ...func(conditions)) (wire.Target, error) {
	at, c := scopeOf(ctx), conditions{}
	t := wire.Target{Action: action, Conditions: c}
	for _, f := range add {
		f(c)
	}
	if m := stackARN.FindStringSubmatch(name); m != nil {
		t.Resource = name
		if m[2] != at.account {
			t.Owner = m[2]
			return t, nil
		}
	} else {
		t.Resource = record.StackARN(at.account, at.region, name, "*")
	}
	v, err := s.find(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	t.Resource = v.ARN()
	revision, err := s.revision(ctx, v, v.current())
	if errors.Is(err, store.ErrNotFound) {
		return t, nil
	}
	for key, value := range revision.Tags {
		c["aws:ResourceTag/"+key] = []string{value}
	}
	return t, err
}

// onStackOrAll returns the stack that a request names, or all.
func (s *Service) onStackOrAll(ctx context.Context, action string, name *string) ([]wire.Target, error) {
	if aws.ToString(name) == "" {
		at := scopeOf(ctx)
		return []wire.Target{{Action: action, Resource: record.StackARN(at.account, at.region, "*", "*")}}, nil
	}
	return s.onStack(ctx, action, name)
}

// onChangeSet returns the stack of the change set that a request names. Without such a change set it is the stack that
// the request names, or all.
func (s *Service) onChangeSet(ctx context.Context, action string, name, stack *string) ([]wire.Target, error) {
	row, v, err := s.findChangeSet(ctx, name, stack)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	short, of := aws.ToString(name), aws.ToString(stack)
	if m := changeSetARN.FindStringSubmatch(short); m != nil {
		short = m[3]
	}
	if row.Value.Name != "" {
		short = row.Value.Name
	}
	switch {
	case v.ID != "":
		of = v.ARN()
	case of == "":
		of = "*"
	}
	return s.onStack(ctx, action, &of, func(c conditions) { c.set("cloudformation:ChangeSetName", &short) })
}

// passRole asks whether the caller may pass the service role of a stack, and checks that it trusts CloudFormation.
func (s *Service) passRole(ctx context.Context, roleARN *string, stackARN string) error {
	if aws.ToString(roleARN) == "" {
		return nil
	}
	caller := wire.CallerFrom(ctx)
	parts := strings.SplitN(*roleARN, ":", 6)
	if len(parts) != 6 || parts[2] != "iam" || !strings.HasPrefix(parts[5], "role/") {
		return validation("1 validation error detected: Value '%s' at 'roleARN' failed to satisfy constraint: Member "+
			"must be the ARN of an IAM role", *roleARN)
	}
	if parts[4] != caller.Account {
		return &wire.Denied{Action: "iam:PassRole", Resource: *roleARN, Reason: "Cross-account pass role is not allowed."}
	}
	if err := wire.Authorize(ctx, wire.Target{Action: "iam:PassRole", Resource: *roleARN, Conditions: conditions{
		"iam:PassedToService": {wire.CloudFormationPrincipal}, "iam:AssociatedResourceArn": {stackARN},
	}}); err != nil {
		return err
	}
	if _, err := s.options.Identity.TrustedRole(ctx, *roleARN, wire.CloudFormationPrincipal, stackARN); err != nil {
		return validation("Role %s is invalid or cannot be assumed", *roleARN)
	}
	return nil
}
