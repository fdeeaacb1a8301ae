package autoscalinggroup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/instancetype"
)

// option is one way to launch an instance: a launch template and, in a mixed instances policy, what overrides it.
type option struct {
	template *types.LaunchTemplateSpecification // with the number of its version
	image    string                             // that overrides the template's
	kind     string                             // instance type that overrides the template's
	weight   int32
	weighted bool
	order    int // in the policy
	// launches are as what the options of a launch were before it failed: see pool.key.
	imageID string // of what is launched
	typeOf  string
}

// location is the location of a launch: a subnet, or the default subnet of a zone.
type location struct{ zone, subnet string }

func (l location) key() string { return cmp.Or(l.subnet, l.zone) }

// pool is an option in a location, on demand or as a spot instance.
type pool struct {
	option
	location
	spot bool
}

// key names the pool among those in which a launch has failed.
func (p pool) key() string {
	return fmt.Sprintf("%s %s %v", p.location.key(), p.typeOf, p.spot)
}

// resolveVersion returns the version of a launch template that its "$Latest" or "$Default" is now.
func (c *Controller) resolveVersion(
	ctx context.Context, v *view, spec *types.LaunchTemplateSpecification,
) (option, error) {
	out, err := v.client.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: spec.LaunchTemplateId, Versions: []string{aws.ToString(spec.Version)},
	})
	if err != nil {
		return option{}, err
	}
	if len(out.LaunchTemplateVersions) == 0 {
		return option{}, fmt.Errorf("launch template %s has no version %s", aws.ToString(spec.LaunchTemplateId),
			aws.ToString(spec.Version))
	}
	version := out.LaunchTemplateVersions[0]
	o := option{weight: 1, template: &types.LaunchTemplateSpecification{
		LaunchTemplateId: spec.LaunchTemplateId, LaunchTemplateName: version.LaunchTemplateName,
		Version: new(strconv.FormatInt(aws.ToInt64(version.VersionNumber), 10)),
	}}
	if d := version.LaunchTemplateData; d != nil {
		o.imageID, o.typeOf = aws.ToString(d.ImageId), string(d.InstanceType)
	}
	return o, nil
}

// configuration returns what the group launches: its own, or that of the instance refresh under way.
func (v *view) configuration() (*types.LaunchTemplateSpecification, *types.MixedInstancesPolicy) {
	if v.refresh != nil && v.refresh.target != nil {
		return v.refresh.target.LaunchTemplate, v.refresh.target.MixedInstancesPolicy
	}
	return v.group.LaunchTemplate, v.group.Mixed
}

// options returns the ways in which the group launches instances.
func (c *Controller) options(ctx context.Context, v *view) ([]option, *types.InstancesDistribution, error) {
	template, mixed := v.configuration()
	if mixed == nil {
		o, err := c.resolveVersion(ctx, v, template)
		return []option{o}, nil, err
	}
	base, err := c.resolveVersion(ctx, v, mixed.LaunchTemplate.LaunchTemplateSpecification)
	if err != nil {
		return nil, nil, err
	}
	if len(mixed.LaunchTemplate.Overrides) == 0 {
		return []option{base}, mixed.InstancesDistribution, nil
	}
	var all []option
	for _, override := range mixed.LaunchTemplate.Overrides {
		o := base
		if override.LaunchTemplateSpecification != nil {
			if o, err = c.resolveVersion(ctx, v, override.LaunchTemplateSpecification); err != nil {
				return nil, nil, err
			}
		}
		if override.ImageId != nil {
			o.image, o.imageID = *override.ImageId, *override.ImageId
		}
		if override.WeightedCapacity != nil {
			w, err := strconv.ParseInt(*override.WeightedCapacity, 10, 32)
			if err != nil {
				return nil, nil, fmt.Errorf("weighted capacity %q: %w", *override.WeightedCapacity, err)
			}
			o.weight, o.weighted = int32(w), true
		}
		kinds := []string{aws.ToString(override.InstanceType)}
		if override.InstanceRequirements != nil {
			if kinds, err = c.listInstanceTypes(ctx, v, o, override.InstanceRequirements); err != nil {
				return nil, nil, err
			}
		}
		for _, kind := range kinds {
			o.kind, o.typeOf = kind, cmp.Or(kind, o.typeOf)
			o.order = len(all)
			all = append(all, o)
		}
	}
	return all, mixed.InstancesDistribution, nil
}

// listInstanceTypes returns the instance types that meet requirements, as EC2 says.
func (c *Controller) listInstanceTypes(ctx context.Context, v *view, o option,
	requirements *types.InstanceRequirements) ([]string, error) {
	finder, ok := v.client.(interface {
		GetInstanceTypesFromInstanceRequirements(context.Context, *ec2.GetInstanceTypesFromInstanceRequirementsInput,
			...func(*ec2.Options)) (*ec2.GetInstanceTypesFromInstanceRequirementsOutput, error)
	})
	if !ok {
		return nil, fmt.Errorf("this EC2 does not find instance types by requirements")
	}
	var asked ec2types.InstanceRequirementsRequest // the members have the same names
	text, err := json.Marshal(requirements)
	if err == nil {
		err = json.Unmarshal(text, &asked)
	}
	if err != nil {
		return nil, fmt.Errorf("instance requirements: %w", err)
	}
	architecture := ec2types.ArchitectureTypeX8664
	if t, ok := instancetype.Get(o.typeOf); ok && t.Architecture == instancetype.ARM64 {
		architecture = ec2types.ArchitectureTypeArm64
	}
	in := &ec2.GetInstanceTypesFromInstanceRequirementsInput{
		ArchitectureTypes:    []ec2types.ArchitectureType{architecture},
		VirtualizationTypes:  []ec2types.VirtualizationType{ec2types.VirtualizationTypeHvm},
		InstanceRequirements: &asked,
	}
	var kinds []string
	for {
		out, err := finder.GetInstanceTypesFromInstanceRequirements(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, t := range out.InstanceTypes {
			kinds = append(kinds, aws.ToString(t.InstanceType))
		}
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			break
		}
	}
	if len(kinds) == 0 {
		return nil, fmt.Errorf("no instance type meets the instance requirements of the group")
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Compare(hourlyPrice(a, false), hourlyPrice(b, false)) })
	return kinds, nil
}

// hourlyPrice returns what an hour of an instance type costs; what is unknown costs more than anything.
func hourlyPrice(kind string, spot bool) float64 {
	t, ok := instancetype.Get(kind)
	switch {
	case !ok:
		return math.MaxFloat64
	case spot:
		return t.SpotUSD()
	}
	return t.OnDemandUSD
}

// locations returns where the group launches instances.
func (v *view) locations(ctx context.Context, c *Controller) ([]location, error) {
	if len(v.group.SubnetIDs) == 0 {
		var all []location
		for _, zone := range v.group.Zones {
			all = append(all, location{zone: zone})
		}
		return all, nil
	}
	var all []location
	for _, id := range v.group.SubnetIDs {
		zone, err := c.resolveZone(ctx, v, id)
		if err != nil {
			return nil, err
		}
		all = append(all, location{zone, id})
	}
	return all, nil
}

// plan chooses pools for instances.
type plan struct {
	options      []option
	distribution *types.InstancesDistribution
	locations    []location
	failed       map[string]time.Time
	now          time.Time
	desired      int32
	// What there is, with what was chosen already.
	onDemand int32            // capacity
	zones    map[string]int   // instances
	subnets  map[string]int   // instances
	kinds    map[string]int32 // capacity of spot instances
}

// newPlan returns a plan for instances that are to serve or, beside them, to wait in the warm pool.
func (c *Controller) newPlan(ctx context.Context, v *view, warm bool) (*plan, error) {
	p := &plan{failed: v.status.Zones, now: c.now(), desired: v.group.Desired, zones: make(map[string]int),
		subnets: make(map[string]int), kinds: make(map[string]int32)}
	var err error
	if p.options, p.distribution, err = c.options(ctx, v); err != nil {
		return nil, err
	}
	if p.locations, err = v.locations(ctx, c); err != nil {
		return nil, err
	}
	for _, m := range v.members {
		if !m.isCounted() && (!warm || !m.waitsInPool()) {
			continue
		}
		p.zones[m.row.Zone]++
		p.subnets[m.instance.SubnetID]++
		if m.row.Spot {
			p.kinds[m.row.InstanceType] += m.row.Weight
		} else {
			p.onDemand += m.row.Weight
		}
	}
	return p, nil
}

// wantsSpot reports whether the next instance is to be a spot instance.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/mixed-instances-groups-set-up-overview.html
func (p *plan) wantsSpot() bool {
	if p.distribution == nil || aws.ToInt32(p.distribution.OnDemandPercentageAboveBaseCapacity) >= 100 {
		return false // not even beyond what is desired: in the warm pool, or before another is replaced
	}
	base := aws.ToInt32(p.distribution.OnDemandBaseCapacity)
	above := max(p.desired-base, 0)
	share := int32(math.Ceil(float64(above) * float64(
		aws.ToInt32(p.distribution.OnDemandPercentageAboveBaseCapacity)) / 100))
	return p.onDemand >= min(base, p.desired)+share
}

// ordered returns the options in the order in which the strategy of the market tries them.
func (p *plan) ordered(spot bool) []option {
	options := slices.Clone(p.options)
	if p.distribution == nil || len(options) == 1 {
		return options
	}
	perUnit := func(o option) float64 { return hourlyPrice(o.typeOf, spot) / float64(o.weight) }
	byPrice := func(a, b option) int {
		return cmp.Or(cmp.Compare(perUnit(a), perUnit(b)), cmp.Compare(a.order, b.order))
	}
	switch {
	case !spot && aws.ToString(p.distribution.OnDemandAllocationStrategy) == "lowest-price":
		slices.SortFunc(options, byPrice)
	case spot && aws.ToString(p.distribution.SpotAllocationStrategy) == "lowest-price":
		// The cheapest pools, evenly.
		slices.SortFunc(options, byPrice)
		n := min(int(max(aws.ToInt32(p.distribution.SpotInstancePools), 1)), len(options))
		slices.SortStableFunc(options[:n], func(a, b option) int {
			return cmp.Compare(p.kinds[a.typeOf],
				p.kinds[b.typeOf])
		})
	case spot && aws.ToString(p.distribution.SpotAllocationStrategy) != "capacity-optimized-prioritized":
		// There is capacity in all pools alike, so what remains of the other strategies is the price.
		slices.SortFunc(options, byPrice)
	}
	return options
}

// choosePool chooses the pool of one more instance, and counts it. Zones with fewer instances go first; within one,
// subnets with fewer. false: there is none in which a launch has not failed lately.
func (p *plan) choosePool(zone string) (pool, bool) {
	spot := p.wantsSpot()
	locations := slices.Clone(p.locations)
	slices.SortStableFunc(locations, func(a, b location) int {
		return cmp.Or(cmp.Compare(p.zones[a.zone], p.zones[b.zone]), cmp.Compare(p.subnets[a.subnet],
			p.subnets[b.subnet]))
	})
	for _, l := range locations {
		if zone != "" && l.zone != zone || p.now.Before(p.failed[l.key()]) {
			continue
		}
		for _, o := range p.ordered(spot) {
			chosen := pool{o, l, spot}
			if p.now.Before(p.failed[chosen.key()]) {
				continue
			}
			p.zones[l.zone]++
			p.subnets[l.subnet]++
			if spot {
				p.kinds[o.typeOf] += o.weight
			} else {
				p.onDemand += o.weight
			}
			return chosen, true
		}
	}
	return pool{}, false
}
