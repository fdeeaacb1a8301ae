package ssm

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Targets says on which parameters, and under which condition keys, a request is authorised.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awssystemsmanager.html
func (s *Service) Targets(ctx context.Context, operation string, input any) ([]wire.Target, error) {
	on := func(names ...string) []wire.Target {
		var targets []wire.Target
		for _, name := range names {
			t := wire.Target{Action: "ssm:" + operation, Conditions: make(map[string][]string)}
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
	tagging := func(targets []wire.Target, tags []types.Tag) []wire.Target {
		for _, t := range targets {
			for _, tag := range tags {
				key := aws.ToString(tag.Key)
				t.Conditions["aws:RequestTag/"+key] = []string{aws.ToString(tag.Value)}
				t.Conditions["aws:TagKeys"] = append(t.Conditions["aws:TagKeys"], key)
			}
		}
		return targets
	}
	switch in := input.(type) {
	case *ssm.GetParameterInput:
		return on(*in.Name), nil
	case *ssm.GetParametersInput:
		return on(in.Names...), nil
	case *ssm.GetParametersByPathInput:
		path := placeOf(ctx).path(*in.Path)
		t := []wire.Target{{Action: "ssm:" + operation, Resource: placeOf(ctx).arn(path), Conditions: make(map[string][]string)}}
		if path != "/" {
			t[0].Resource = strings.TrimSuffix(t[0].Resource, "/")
		}
		if aws.ToBool(in.Recursive) {
			t[0].Conditions["ssm:Recursive"] = []string{"true"}
		}
		return t, nil
	case *ssm.GetParameterHistoryInput:
		return on(*in.Name), nil
	case *ssm.PutParameterInput:
		targets := tagging(on(*in.Name), in.Tags)
		if in.Overwrite != nil {
			overwrite := "false"
			if *in.Overwrite {
				overwrite = "true"
			}
			targets[0].Conditions["ssm:Overwrite"] = []string{overwrite}
		}
		if len(in.Tags) > 0 {
			also := targets[0]
			also.Action = "ssm:AddTagsToResource"
			targets = append(targets, also)
		}
		return targets, nil
	case *ssm.DeleteParameterInput:
		return on(*in.Name), nil
	case *ssm.DeleteParametersInput:
		return on(in.Names...), nil
	case *ssm.LabelParameterVersionInput:
		return on(*in.Name), nil
	case *ssm.UnlabelParameterVersionInput:
		return on(*in.Name), nil
	case *ssm.AddTagsToResourceInput:
		return tagging(on(*in.ResourceId), in.Tags), nil
	case *ssm.RemoveTagsFromResourceInput:
		targets := on(*in.ResourceId)
		targets[0].Conditions["aws:TagKeys"] = in.TagKeys
		return targets, nil
	case *ssm.ListTagsForResourceInput:
		return on(*in.ResourceId), nil
	}
	return []wire.Target{{Action: "ssm:" + operation, Resource: "*"}}, nil
}
