package ssm

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// onParameters returns parameters as the targets, whether or not they exist.
func (s *Service) onParameters(ctx context.Context, action string, names ...string) []wire.Target {
	var targets []wire.Target
	for _, name := range names {
		t := wire.Target{Action: action, Conditions: make(map[string][]string)}
		r, err := placeOf(ctx).refer(name)
		if err != nil {
			r = reference{asked: name, name: name} // the operation says so, to those who may ask
		}
		t.Resource = placeOf(ctx).arn(r.name)
		if row, err := s.own(ctx, r); err == nil {
			t.Resource = row.Value.ARN()
			for k, v := range row.Value.Tags {
				t.Conditions["aws:ResourceTag/"+k] = []string{v}
			}
		}
		targets = append(targets, t)
	}
	return targets
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
