package logs

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
)

// What AWS calls the resource of most actions is the group's ARN followed by ":log-stream:" and the name of the stream,
// if there is one: policies on "...:log-group:NAME:*" and on "...:log-group:/aws/eks/*" match it, one on
// "...:log-group:NAME" does not. The three actions on tags are the exception, whose resource is the bare ARN.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/iam-access-control-overview-cwl.html

// newTarget returns an action on a resource, without condition keys.
func newTarget(action, resource string) wire.Target {
	return wire.Target{Action: action, Resource: resource, Conditions: map[string][]string{}}
}

// onAnyGroup returns all log groups of the account in the region as the target.
func onAnyGroup(ctx context.Context, action string) ([]wire.Target, error) {
	return []wire.Target{newTarget(action, scopeOf(ctx).groupARN("")+":log-stream:")}, nil
}

// onGroup returns a log group as the target, by name or identifier, whether or not it exists: only who may ask may
// learn that.
func (s *Service) onGroup(
	ctx context.Context, action string, name, identifier *string, edits ...func(conditions),
) ([]wire.Target, error) {
	t, err := s.streamTarget(ctx, action, scopeOf(ctx).nameFor(name, identifier), "")
	for _, edit := range edits {
		edit(t.Conditions)
	}
	return []wire.Target{t}, err
}

// onStream returns a log stream as the target, whether or not it exists.
func (s *Service) onStream(
	ctx context.Context, action string, name, identifier, stream *string,
) ([]wire.Target, error) {
	t, err := s.streamTarget(ctx, action, scopeOf(ctx).nameFor(name, identifier), aws.ToString(stream))
	return []wire.Target{t}, err
}

// onGroups returns log groups as the targets, by identifier; without any, the action on "*".
func (s *Service) onGroups(ctx context.Context, action string, identifiers []string) ([]wire.Target, error) {
	var targets []wire.Target
	for _, id := range identifiers {
		t, err := s.streamTarget(ctx, action, scopeOf(ctx).nameFor(nil, &id), "")
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, nil
}

func (s *Service) streamTarget(ctx context.Context, action, group, stream string) (wire.Target, error) {
	t := newTarget(action, scopeOf(ctx).groupARN(group)+":log-stream:"+stream)
	return t, s.resourceTags(ctx, &t, group)
}

// onTagged returns what an ARN names as the target.
func (s *Service) onTagged(
	ctx context.Context, action string, arn *string, edits ...func(conditions),
) ([]wire.Target, error) {
	t, err := s.deliveryTarget(ctx, action, strings.TrimSuffix(aws.ToString(arn), ":*"))
	if err != nil {
		return nil, err
	}
	parsed, ok := parseARN(t.Resource)
	if at := scopeOf(ctx); ok && parsed.account == at.account && parsed.region == at.region {
		if err := s.resourceTags(ctx, &t, parsed.group); err != nil {
			return nil, err
		}
	} // else the operation says so, to those who may ask
	for _, edit := range edits {
		edit(t.Conditions)
	}
	return []wire.Target{t}, nil
}

// resourceTags sets the condition keys of the group's tags.
func (s *Service) resourceTags(ctx context.Context, t *wire.Target, group string) error {
	row, err := s.groups.Get(ctx, scopeOf(ctx).groupKey(group))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	for k, v := range row.Value.Tags {
		t.Conditions["aws:ResourceTag/"+k] = []string{v}
	}
	return err
}

// conditions are the condition keys of a request.
type conditions map[string][]string

func (c conditions) setValues(key string, values []string) {
	if len(values) > 0 {
		c[key] = values
	}
}

func (c conditions) requestTags(tags map[string]string) {
	var keys []string
	for k, v := range tags {
		keys = append(keys, k)
		c["aws:RequestTag/"+k] = []string{v}
	}
	slices.Sort(keys)
	c.setValues("aws:TagKeys", keys)
}
