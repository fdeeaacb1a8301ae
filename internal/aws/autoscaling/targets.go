package autoscaling

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// named is what a request says of the groups that it touches. An instance and the ARN of a policy name a group, whatever
// else the request names.
type named struct {
	group       *string
	instances   []string
	instance    *string
	policy      *string // a name, or the ARN of a policy
	tags        []types.Tag
	deletesTags bool
}

// groupsNamed returns the names of the groups, each once.
func (s *Service) groupsNamed(ctx context.Context, in named) []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if in.group != nil {
		add(*in.group)
	}
	for _, id := range append(slices.Clone(in.instances), aws.ToString(in.instance)) {
		if i, err := s.member(ctx, id); err == nil {
			add(i.GroupName)
		}
	}
	if group, _, ok := cutPolicyARN(aws.ToString(in.policy)); ok {
		add(group)
	}
	if names == nil {
		for _, t := range in.tags {
			add(aws.ToString(t.ResourceId))
		}
	}
	return names
}

// onGroups returns groups as the targets, whether or not they exist; without any, the action on "*".
func (s *Service) onGroups(
	ctx context.Context, action string, in named, edits ...func(conditions),
) ([]wire.Target, error) {
	var targets []wire.Target
	for _, name := range s.groupsNamed(ctx, in) {
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
		for _, tag := range in.tags {
			if tag.ResourceId != nil && *tag.ResourceId != name {
				continue
			}
			key := aws.ToString(tag.Key)
			t.Conditions["aws:TagKeys"] = append(t.Conditions["aws:TagKeys"], key)
			if !in.deletesTags {
				t.Conditions["aws:RequestTag/"+key] = []string{aws.ToString(tag.Value)}
			}
		}
		for _, edit := range edits {
			edit(t.Conditions)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// conditions are the condition keys of a request. A key for a member that the request leaves out is not set.
type conditions map[string][]string

func (c conditions) sizes(least, most *int32) {
	if least != nil {
		c["autoscaling:MinSize"] = []string{strconv.Itoa(int(*least))}
	}
	if most != nil {
		c["autoscaling:MaxSize"] = []string{strconv.Itoa(int(*most))}
	}
}

func (c conditions) launchTemplate(spec *types.LaunchTemplateSpecification) {
	specified := spec != nil && spec.Version != nil
	c["autoscaling:LaunchTemplateVersionSpecified"] = []string{strconv.FormatBool(specified)}
}

func (c conditions) zones(identifiers *string) {
	if identifiers != nil {
		c["autoscaling:VPCZoneIdentifiers"] = strings.Split(*identifiers, ",")
	}
}
