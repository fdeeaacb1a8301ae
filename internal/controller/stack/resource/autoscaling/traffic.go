package autoscaling

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// trafficProperties are the properties that name load balancers and target groups.
var trafficProperties = []string{"LoadBalancerNames", "TargetGroupARNs", "TrafficSources"}

// trafficAtOnce is how many traffic sources a request attaches or detaches.
const trafficAtOnce = 10

// trafficOf returns the traffic sources that properties name, each once.
func trafficOf(properties map[string]any) (all []types.TrafficSourceIdentifier) {
	add := func(identifier, kind string) {
		if !slices.ContainsFunc(all, func(t types.TrafficSourceIdentifier) bool {
			return *t.Identifier == identifier && *t.Type == kind
		}) {
			all = append(all, types.TrafficSourceIdentifier{Identifier: &identifier, Type: &kind})
		}
	}
	for _, name := range resource.Texts(properties["LoadBalancerNames"]) {
		add(name, "elb")
	}
	for _, arn := range resource.Texts(properties["TargetGroupARNs"]) {
		add(arn, "elbv2")
	}
	for _, source := range resource.Objects(properties["TrafficSources"]) {
		// Without a type the API finds out which it is.
		identifier, kind := resource.Text(source["Identifier"]), resource.Text(source["Type"])
		if kind == "" {
			if kind = "elb"; strings.HasPrefix(identifier, "arn:") {
				kind = "elbv2"
			}
		}
		add(identifier, kind)
	}
	return all
}

// updateTraffic attaches the load balancers and target groups that an update adds, and detaches those that it leaves
// out. What others have attached stays.
func updateTraffic(ctx context.Context, c *autoscaling.Client, r *resource.Request) error {
	live, err := describeGroup(ctx, c, r.PhysicalID)
	if err != nil {
		return err
	}
	without := func(list, others []types.TrafficSourceIdentifier) []types.TrafficSourceIdentifier {
		return slices.DeleteFunc(slices.Clone(list), func(t types.TrafficSourceIdentifier) bool {
			return slices.ContainsFunc(others, func(o types.TrafficSourceIdentifier) bool {
				return *o.Identifier == *t.Identifier && aws.ToString(o.Type) == *t.Type
			})
		})
	}
	wanted, had := trafficOf(r.Properties), trafficOf(r.Previous)
	gone := without(had, wanted)
	gone = without(gone, without(gone, live.TrafficSources)) // those that are attached
	if err := eachTraffic(without(wanted, live.TrafficSources),
		func(kind string, identifiers []string) (err error) {
			switch kind {
			case "elb":
				_, err = c.AttachLoadBalancers(ctx, &autoscaling.AttachLoadBalancersInput{
					AutoScalingGroupName: &r.PhysicalID, LoadBalancerNames: identifiers})
			default:
				_, err = c.AttachLoadBalancerTargetGroups(ctx, &autoscaling.AttachLoadBalancerTargetGroupsInput{
					AutoScalingGroupName: &r.PhysicalID, TargetGroupARNs: identifiers})
			}
			return err
		}); err != nil {
		return err
	}
	return eachTraffic(gone, func(kind string, identifiers []string) (err error) {
		switch kind {
		case "elb":
			_, err = c.DetachLoadBalancers(ctx, &autoscaling.DetachLoadBalancersInput{
				AutoScalingGroupName: &r.PhysicalID, LoadBalancerNames: identifiers})
		default:
			_, err = c.DetachLoadBalancerTargetGroups(ctx, &autoscaling.DetachLoadBalancerTargetGroupsInput{
				AutoScalingGroupName: &r.PhysicalID, TargetGroupARNs: identifiers})
		}
		return err
	})
}

// eachTraffic calls do with as many traffic sources of a type as a request takes.
func eachTraffic(list []types.TrafficSourceIdentifier, do func(kind string, identifiers []string) error) error {
	for _, kind := range []string{"elb", "elbv2"} {
		var identifiers []string
		for _, t := range list {
			if (*t.Type == "elb") == (kind == "elb") {
				identifiers = append(identifiers, *t.Identifier)
			}
		}
		for some := range slices.Chunk(identifiers, trafficAtOnce) {
			if err := do(kind, some); err != nil {
				return err
			}
		}
	}
	return nil
}

// putTraffic gives the properties of a group its load balancers and target groups, as those properties of the template
// have them that it sets: the API shows each of them twice.
func putTraffic(r *resource.Request, g *types.AutoScalingGroup, properties map[string]any) {
	said := trafficOf(r.Properties)
	rank := func(t types.TrafficSourceIdentifier) int {
		i := slices.IndexFunc(said, func(s types.TrafficSourceIdentifier) bool { return *s.Identifier == *t.Identifier })
		if i < 0 {
			return len(said)
		}
		return i
	}
	live := slices.Clone(g.TrafficSources)
	slices.SortStableFunc(live, func(a, b types.TrafficSourceIdentifier) int { return rank(a) - rank(b) })
	named := func(property, identifier string) bool {
		for _, t := range trafficOf(map[string]any{property: r.Properties[property]}) {
			if *t.Identifier == identifier {
				return true
			}
		}
		return false
	}
	balancers, groups, sources := []any{}, []any{}, []any{}
	for _, t := range live {
		kind := aws.ToString(t.Type)
		switch asSource := named("TrafficSources", *t.Identifier); {
		case asSource:
			sources = append(sources, map[string]any{"Identifier": *t.Identifier, "Type": kind})
			if !named("LoadBalancerNames", *t.Identifier) && !named("TargetGroupARNs", *t.Identifier) {
				continue
			}
		case r.Properties["LoadBalancerNames"] == nil && r.Properties["TargetGroupARNs"] == nil &&
			r.Properties["TrafficSources"] != nil: // whoever attached it, it is one more
			sources = append(sources, map[string]any{"Identifier": *t.Identifier, "Type": kind})
			continue
		}
		if kind == "elb" {
			balancers = append(balancers, *t.Identifier)
		} else {
			groups = append(groups, *t.Identifier)
		}
	}
	for name, list := range map[string][]any{"LoadBalancerNames": balancers, "TargetGroupARNs": groups,
		"TrafficSources": sources} {
		if properties[name] = list; len(list) == 0 && r.Properties[name] == nil {
			delete(properties, name)
		}
	}
}
