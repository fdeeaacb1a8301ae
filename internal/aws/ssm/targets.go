package ssm

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// onParameters returns parameters as the targets, whether or not they exist.
func (s *Service) onParameters(ctx context.Context, action string, names ...string) []wire.Target {
	var targets []wire.Target
	for _, name := range names {
		r := referTo(ctx, name)
		t := newTarget(ctx, action, r.name)
		if row, err := s.findParameter(ctx, r); err == nil {
			addParameter(&t, row.Value)
		}
		targets = append(targets, t)
	}
	return targets
}

// onWritten returns the parameter that PutParameter creates, or overwrites where the request says so, as the target.
// What is created is judged by the request alone: what has the name now says nothing of what will have it.
func (s *Service) onWritten(ctx context.Context, action, asked string, overwrite bool) (wire.Target, error) {
	name := referTo(ctx, asked).name
	t := newTarget(ctx, action, name)
	if !overwrite {
		return t, nil
	}
	// Unlike a parameter that is read, one that is written has the very name that its ARN says.
	row, err := s.parameters.Get(ctx, scopeOf(ctx).parameterKey(name))
	if errors.Is(err, store.ErrNotFound) {
		return t, nil
	}
	addParameter(&t, row.Value)
	return t, err
}

// referTo returns what a request names, as it is named if that is no valid reference: the operation says so, to those
// who may ask.
func referTo(ctx context.Context, asked string) reference {
	r, err := scopeOf(ctx).parseReference(asked)
	if err != nil {
		return reference{asked: asked, name: asked}
	}
	return r
}

func newTarget(ctx context.Context, action, name string) wire.Target {
	return wire.Target{Action: action, Resource: scopeOf(ctx).parameterARN(name), Conditions: make(map[string][]string)}
}

// addParameter makes an existing parameter the target's resource.
func addParameter(t *wire.Target, p record.Parameter) {
	t.Resource = p.ARN()
	for k, v := range p.Tags {
		t.Conditions["aws:ResourceTag/"+k] = []string{v}
	}
}

// addRequestTags adds the condition keys of tags in a request to all targets.
func addRequestTags(targets []wire.Target, tags []types.Tag) []wire.Target {
	for _, t := range targets {
		for _, tag := range tags {
			key := aws.ToString(tag.Key)
			t.Conditions["aws:RequestTag/"+key] = []string{aws.ToString(tag.Value)}
			t.Conditions["aws:TagKeys"] = append(t.Conditions["aws:TagKeys"], key)
		}
	}
	return targets
}
