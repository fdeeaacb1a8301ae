package autoscaling

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// named is the part of a request that names the groups that it uses. An instance and the ARN of a policy name a group,
// whatever else the request names.
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
		if i, err := s.getMember(ctx, id); err == nil {
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

// onNew returns the group that a request would create as the target. It comes from the request alone: what has the name
// now says nothing of what will have it.
func onNew(
	ctx context.Context, action string, in *autoscaling.CreateAutoScalingGroupInput, edit func(conditions),
) ([]wire.Target, error) {
	at := scopeOf(ctx)
	name := aws.ToString(in.AutoScalingGroupName)
	g := record.AutoScalingGroup{Account: at.account, Region: at.region, Name: name, ID: "*"}
	t := wire.Target{Action: action, Resource: g.ARN(), Conditions: make(map[string][]string)}
	conditions(t.Conditions).tags(name, in.Tags, false)
	edit(t.Conditions)
	return []wire.Target{t}, nil
}

// maxRequestTags is the maximum number of tags that a request changes: those of ten groups with the maximum number of
// tags.
const maxRequestTags = 500

// onGroups returns groups as the targets, whether or not they exist; without any, the action on "*".
func (s *Service) onGroups(
	ctx context.Context, action string, in named, edits ...func(conditions),
) ([]wire.Target, error) {
	if len(in.tags) > maxRequestTags { // each is a condition key of each group
		return nil, validation("The request has %d tags; the maximum is %d.", len(in.tags), maxRequestTags)
	}
	var targets []wire.Target
	for _, name := range s.groupsNamed(ctx, in) {
		t := wire.Target{Action: action, Conditions: make(map[string][]string)}
		at := scopeOf(ctx)
		g := record.AutoScalingGroup{Account: at.account, Region: at.region, Name: name, ID: "*"}
		if row, err := s.getGroup(ctx, &name); err == nil {
			g = row.Value
			for _, tag := range g.Tags {
				t.Conditions["aws:ResourceTag/"+tag.Key] = []string{tag.Value}
				t.Conditions["autoscaling:ResourceTag/"+tag.Key] = []string{tag.Value}
			}
		}
		t.Resource = g.ARN()
		conditions(t.Conditions).tags(name, in.tags, in.deletesTags)
		for _, edit := range edits {
			edit(t.Conditions)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// conditions are the condition keys of a request. A key for a member that the request leaves out is not set.
type conditions map[string][]string

func (c conditions) addSizes(least, most *int32) {
	if least != nil {
		c["autoscaling:MinSize"] = []string{strconv.Itoa(int(*least))}
	}
	if most != nil {
		c["autoscaling:MaxSize"] = []string{strconv.Itoa(int(*most))}
	}
}

// tags adds the keys of those tags in a request that are of a group.
func (c conditions) tags(group string, tags []types.Tag, deleted bool) {
	for _, tag := range tags {
		if tag.ResourceId != nil && *tag.ResourceId != group {
			continue
		}
		key := aws.ToString(tag.Key)
		c["aws:TagKeys"] = append(c["aws:TagKeys"], key)
		if !deleted {
			c["aws:RequestTag/"+key] = []string{aws.ToString(tag.Value)}
		}
	}
}

func (c conditions) launchTemplate(spec *types.LaunchTemplateSpecification) {
	specified := spec != nil && spec.Version != nil
	c["autoscaling:LaunchTemplateVersionSpecified"] = []string{strconv.FormatBool(specified)}
}

func (c conditions) addZones(identifiers *string) {
	if identifiers != nil {
		c["autoscaling:VPCZoneIdentifiers"] = subnetIDs(*identifiers)
	}
}

// subnetIDs returns the subnets in a list of IDs. Policies decide about those that the operation reads there.
func subnetIDs(identifiers string) (ids []string) {
	for id := range strings.SplitSeq(identifiers, ",") {
		if id = strings.TrimSpace(id); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// addTraffic adds the keys about load balancers and target groups.
func (c conditions) addTraffic(targetGroups, balancers []string, sources []types.TrafficSourceIdentifier) {
	if len(targetGroups) > 0 {
		c["autoscaling:TargetGroupARNs"] = targetGroups
	}
	if len(balancers) > 0 {
		c["autoscaling:LoadBalancerNames"] = balancers
	}
	for _, source := range sources {
		c["autoscaling:TrafficSourceIdentifiers"] = append(c["autoscaling:TrafficSourceIdentifiers"],
			aws.ToString(source.Identifier))
	}
}
