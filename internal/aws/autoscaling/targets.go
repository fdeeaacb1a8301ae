package autoscaling

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Targets says on which groups, and under which condition keys, a request is authorised. Operations that describe are about "*".
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html
func (s *Service) Targets(ctx context.Context, operation string, input any) ([]wire.Target, error) {
	action := "autoscaling:" + operation
	if strings.HasPrefix(operation, "Describe") {
		return []wire.Target{{Action: action, Resource: "*"}}, nil
	}
	var names []string
	var tags []types.Tag
	v := reflect.Indirect(reflect.ValueOf(input))
	member := func(name string) *string {
		if f := v.FieldByName(name); f.IsValid() {
			p, _ := f.Interface().(*string)
			return p
		}
		return nil
	}
	if name := member("AutoScalingGroupName"); name != nil {
		names = []string{*name}
	}
	// An instance and the ARN of a policy name a group, whatever else the request names.
	if operation != "CreateAutoScalingGroup" { // which takes an instance as its model
		var ids []string
		if f := v.FieldByName("InstanceIds"); f.IsValid() {
			ids, _ = f.Interface().([]string)
		}
		for _, id := range append(slices.Clone(ids), aws.ToString(member("InstanceId"))) {
			if i, err := s.member(ctx, id); err == nil && !slices.Contains(names, i.GroupName) {
				names = append(names, i.GroupName)
			}
		}
	}
	if group, _, ok := cutPolicyARN(aws.ToString(member("PolicyName"))); ok && !slices.Contains(names, group) {
		names = append(names, group)
	}
	switch in := input.(type) {
	case *autoscaling.CreateAutoScalingGroupInput:
		tags = in.Tags
	case *autoscaling.CreateOrUpdateTagsInput:
		tags = in.Tags
	case *autoscaling.DeleteTagsInput:
		tags = in.Tags
	}
	if names == nil {
		for _, t := range tags {
			names = append(names, aws.ToString(t.ResourceId))
		}
	}
	if len(names) == 0 {
		return []wire.Target{{Action: action, Resource: "*"}}, nil
	}
	var targets []wire.Target
	seen := make(map[string]bool)
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		t := wire.Target{Action: action, Conditions: make(map[string][]string)}
		place := placeOf(ctx)
		g := record.AutoScalingGroup{Account: place.account, Region: place.region, Name: name, ID: "*"}
		if row, err := s.group(ctx, &name); err == nil {
			g = row.Value
			for _, tag := range g.Tags {
				t.Conditions["aws:ResourceTag/"+tag.Key] = []string{tag.Value}
				t.Conditions["autoscaling:ResourceTag/"+tag.Key] = []string{tag.Value}
			}
		}
		t.Resource = g.ARN()
		for _, tag := range tags {
			if tag.ResourceId != nil && *tag.ResourceId != name {
				continue
			}
			key := aws.ToString(tag.Key)
			t.Conditions["aws:TagKeys"] = append(t.Conditions["aws:TagKeys"], key)
			if _, deletes := input.(*autoscaling.DeleteTagsInput); !deletes {
				t.Conditions["aws:RequestTag/"+key] = []string{aws.ToString(tag.Value)}
			}
		}
		sizes(t.Conditions, v)
		targets = append(targets, t)
	}
	return targets, nil
}

// sizes are the condition keys about what a request makes of a group.
func sizes(conditions map[string][]string, input reflect.Value) {
	for _, name := range []string{"MinSize", "MaxSize"} {
		if f := input.FieldByName(name); f.IsValid() {
			if n, ok := f.Interface().(*int32); ok && n != nil {
				conditions["autoscaling:"+name] = []string{strconv.Itoa(int(*n))}
			}
		}
	}
	if f := input.FieldByName("LaunchTemplate"); f.IsValid() {
		if spec, ok := f.Interface().(*types.LaunchTemplateSpecification); ok {
			conditions["autoscaling:LaunchTemplateVersionSpecified"] = []string{strconv.FormatBool(spec != nil && spec.Version != nil)}
		}
	}
	if f := input.FieldByName("VPCZoneIdentifier"); f.IsValid() {
		if zones, ok := f.Interface().(*string); ok && zones != nil {
			conditions["autoscaling:VPCZoneIdentifiers"] = strings.Split(*zones, ",")
		}
	}
}
