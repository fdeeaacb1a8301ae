package autoscaling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const wellFormed = "You must use a valid fully-formed launch template. "

// template checks a reference to a launch template, and completes it by the template's ID and name. The version stays
// as it was asked for, "$Default" when none was.
func (s *Service) template(ctx context.Context, spec *types.LaunchTemplateSpecification) (
	*types.LaunchTemplateSpecification, ec2types.RequestLaunchTemplateData, error) {
	at := scopeOf(ctx)
	id, name := aws.ToString(spec.LaunchTemplateId), aws.ToString(spec.LaunchTemplateName)
	var none ec2types.RequestLaunchTemplateData
	switch {
	case id == "" && name == "":
		return nil, none, validation("Valid requests must contain either launchTemplateId or LaunchTemplateName")
	case id != "" && name != "":
		return nil, none,
			validation("Valid requests must contain either launchTemplateId or LaunchTemplateName, but not both")
	case id == "":
		row, err := record.LaunchTemplateNames(s.store).Get(ctx, store.Key(at.account, at.region, name))
		if errors.Is(err, store.ErrNotFound) {
			return nil, none, validation(wellFormed+
				"The specified launch template, with template name %s, does not exist.", name)
		} else if err != nil {
			return nil, none, err
		}
		id = row.Value.TemplateID
	}
	row, err := record.LaunchTemplates(s.store).Get(ctx, record.EC2Key(at.account, at.region, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, none, validation(wellFormed+"The specified launch template, with template ID %s, does not exist.",
			id)
	} else if err != nil {
		return nil, none, err
	}
	version := aws.ToString(spec.Version)
	if version == "" {
		version = "$Default"
	}
	number := row.Value.DefaultVersion
	switch version {
	case "$Default":
	case "$Latest":
		number = row.Value.LatestVersion
	default:
		if number, err = strconv.ParseInt(version, 10, 64); err != nil || number < 1 {
			return nil, none, validation(
				"Invalid launch template version: either '$Default', '$Latest', or a numeric version are allowed.")
		}
	}
	v, err := record.LaunchTemplateVersions(s.store).Get(ctx, record.LaunchTemplateVersionKey(at.account, at.region, id,
		number))
	if errors.Is(err, store.ErrNotFound) {
		return nil, none, validation(wellFormed+"Could not find launch template version %d.", number)
	}
	return &types.LaunchTemplateSpecification{LaunchTemplateId: &id, LaunchTemplateName: new(row.Value.Name),
		Version: &version}, v.Value.Data, err
}

// target is the placement of a launch of a group.
type target struct {
	subnets        []string
	zones          []string // whose default subnets it launches in when it has no subnets
	placementGroup string   // empty: none
	// markets are those in which it buys; none: what the template says
	markets []ec2types.MarketType
	// tried counts the dry runs that the request has made
	tried *int
}

// launchLocation is a subnet, or a zone with a default one.
type launchLocation struct{ subnet, zone string }

// onDemand is the market of instances that are not Spot Instances. Requests do not name it.
const onDemand = ec2types.MarketType("on-demand")

// maxPairs is the number of instance types that are tried in every subnet. Of more types, which requirements select,
// each is tried in the first subnet, and the first type in each subnet.
const maxPairs = 60

// maxTried is the maximum number of dry runs of a request: for each type that it names or selects, in each subnet and
// market.
const maxTried = 3000

func targetOf(g record.AutoScalingGroup) target {
	return target{subnets: g.SubnetIDs, zones: g.Zones, placementGroup: g.PlacementGroup, tried: new(int)}
}

// in returns the target with the markets of a distribution.
func (t target) in(d *types.InstancesDistribution) target {
	share := aws.ToInt32(d.OnDemandPercentageAboveBaseCapacity)
	if share > 0 || aws.ToInt32(d.OnDemandBaseCapacity) > 0 {
		t.markets = append(t.markets, onDemand)
	}
	if share < 100 {
		t.markets = append(t.markets, ec2types.MarketTypeSpot)
	}
	return t
}

// checkLaunch refuses a launch template with which the caller could not launch an instance themself, as AWS does by a
// dry run: what the template says must be good, and the caller must be allowed all of it, of every type, in every
// subnet and market. Otherwise a group would let its owner do what they may not.
func (s *Service) checkLaunch(ctx context.Context, spec *types.LaunchTemplateSpecification,
	data ec2types.RequestLaunchTemplateData, kinds []string, imageID string, at target) error {
	locations := make([]launchLocation, 0, len(at.subnets))
	for _, subnet := range at.subnets {
		locations = append(locations, launchLocation{subnet: subnet})
	}
	for _, zone := range at.zones {
		if len(at.subnets) == 0 {
			locations = append(locations, launchLocation{zone: zone})
		}
	}
	markets := at.markets
	if len(markets) == 0 {
		markets = []ec2types.MarketType{onDemand}
	}
	for i, where := range locations {
		for j, kind := range kinds {
			if i > 0 && j > 0 && len(kinds) > maxPairs {
				break
			}
			for _, market := range markets {
				if *at.tried++; *at.tried > maxTried {
					return validation("The overrides select more than %d combinations of an instance type, a subnet and a "+
						"purchase option. Specify fewer overrides or subnets, or narrower instance requirements.", maxTried)
				}
				if err := s.tryLaunch(ctx, spec, data, kind, imageID, where, at.placementGroup, market); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tryLaunch makes a dry run of a launch, as the caller. The type and the image are the template's when they are empty.
func (s *Service) tryLaunch(ctx context.Context, spec *types.LaunchTemplateSpecification,
	data ec2types.RequestLaunchTemplateData, kind, imageID string, where launchLocation, placementGroup string,
	market ec2types.MarketType) error {
	in := &ec2.RunInstancesInput{
		DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		InstanceType: ec2types.InstanceType(kind), ImageId: optional(imageID),
		LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateId: spec.LaunchTemplateId,
			Version: spec.Version},
	}
	switch {
	case where.subnet == "":
		in.Placement = &ec2types.Placement{AvailabilityZone: &where.zone}
	case len(data.NetworkInterfaces) > 0:
		in.NetworkInterfaces = []ec2types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0),
			SubnetId: &where.subnet}}
	default:
		in.SubnetId = &where.subnet
	}
	if market != onDemand {
		in.InstanceMarketOptions = &ec2types.InstanceMarketOptionsRequest{MarketType: market}
	}
	if placementGroup != "" {
		if in.Placement == nil {
			in.Placement = &ec2types.Placement{}
		}
		in.Placement.GroupName = &placementGroup
	}
	_, err := s.ec2.RunInstances(wire.WithOperation(ctx, wire.EC2, "RunInstances", in), in)
	var denied *wire.Denied
	var api smithy.APIError
	switch {
	case err == nil:
		return errors.New("a dry run of RunInstances launched something")
	case errors.As(err, &denied):
		return validation("You are not authorized to use launch template: %s (%s)",
			aws.ToString(spec.LaunchTemplateName), denied.Error())
	case errors.As(err, &api) && (api.ErrorCode() == "DryRunOperation" ||
		api.ErrorCode() == "InsufficientFreeAddressesInSubnet"):
		return nil // how many addresses are free, launches will see
	case errors.As(err, &api):
		return validation(wellFormed+"%s", api.ErrorMessage())
	}
	return err
}

// listInstanceTypes returns the instance types that meet requirements, of the architecture of the launch template's own
// type, as the controller chooses them.
func (s *Service) listInstanceTypes(ctx context.Context, data ec2types.RequestLaunchTemplateData,
	requirements *types.InstanceRequirements) ([]string, error) {
	var asked ec2types.InstanceRequirementsRequest // the members have the same names
	text, err := json.Marshal(requirements)
	if err == nil {
		err = json.Unmarshal(text, &asked)
	}
	if err != nil {
		return nil, fmt.Errorf("read instance requirements: %w", err)
	}
	architecture := ec2types.ArchitectureTypeX8664
	if t, ok := instancetype.Get(string(data.InstanceType)); ok && t.Architecture == instancetype.ARM64 {
		architecture = ec2types.ArchitectureTypeArm64
	}
	in := &ec2.GetInstanceTypesFromInstanceRequirementsInput{
		ArchitectureTypes:    []ec2types.ArchitectureType{architecture},
		VirtualizationTypes:  []ec2types.VirtualizationType{ec2types.VirtualizationTypeHvm},
		InstanceRequirements: &asked,
	}
	var kinds []string
	for {
		out, err := s.ec2.GetInstanceTypesFromInstanceRequirements(ctx, in)
		var api smithy.APIError
		if errors.As(err, &api) {
			return nil, validation("Invalid InstanceRequirements: %s", api.ErrorMessage())
		} else if err != nil {
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
		return nil, validation("No instance type meets the InstanceRequirements")
	}
	return kinds, nil
}

// configuration is the launch configuration of a group: a launch template, or several through a policy.
type configuration struct {
	template *types.LaunchTemplateSpecification
	mixed    *types.MixedInstancesPolicy
}

// configure checks what a group is to launch and completes it.
func (s *Service) configure(ctx context.Context, template *types.LaunchTemplateSpecification,
	mixed *types.MixedInstancesPolicy, before *types.MixedInstancesPolicy, at target) (configuration, error) {
	if mixed == nil {
		spec, data, err := s.template(ctx, template)
		if err != nil {
			return configuration{}, err
		}
		return configuration{template: spec}, s.checkLaunch(ctx, spec, data, []string{""}, "", at)
	}
	policy, err := s.completePolicy(ctx, mixed, before, at)
	return configuration{mixed: policy}, err
}

// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_InstancesDistribution.html
var (
	onDemandStrategies = []string{"prioritized", "lowest-price"}
	spotStrategies     = []string{"lowest-price", "capacity-optimized", "capacity-optimized-prioritized",
		"price-capacity-optimized"}
)

// completePolicy checks a mixed instances policy and fills what it leaves open: from what the group had, or with the
// defaults.
func (s *Service) completePolicy(ctx context.Context, asked, before *types.MixedInstancesPolicy,
	at target) (*types.MixedInstancesPolicy, error) {
	out := &types.MixedInstancesPolicy{LaunchTemplate: asked.LaunchTemplate}
	if out.LaunchTemplate == nil && before != nil {
		out.LaunchTemplate = before.LaunchTemplate
	}
	if out.LaunchTemplate == nil || out.LaunchTemplate.LaunchTemplateSpecification == nil {
		return nil,
			validation("Invalid MixedInstancesPolicy: LaunchTemplate with a LaunchTemplateSpecification is required")
	}
	specs := *out.LaunchTemplate.LaunchTemplateSpecification
	if specs.LaunchTemplateId != nil && before != nil && asked.LaunchTemplate == nil {
		specs.LaunchTemplateName = nil // it was completed before
	}
	spec, data, err := s.template(ctx, &specs)
	if err != nil {
		return nil, err
	}
	completed := types.LaunchTemplate{LaunchTemplateSpecification: spec}
	if out.InstancesDistribution, err = distribution(asked.InstancesDistribution, before); err != nil {
		return nil, err
	}
	at = at.in(out.InstancesDistribution)
	if n := len(out.LaunchTemplate.Overrides); n > 60 {
		return nil, validation("The number of overrides (%d) exceeds the maximum of 60", n)
	}
	weights := 0
	for _, o := range out.LaunchTemplate.Overrides {
		ownSpec, ownData := spec, data
		if o.LaunchTemplateSpecification != nil {
			again := *o.LaunchTemplateSpecification
			if again.LaunchTemplateId != nil && asked.LaunchTemplate == nil {
				again.LaunchTemplateName = nil
			}
			if ownSpec, ownData, err = s.template(ctx, &again); err != nil {
				return nil, err
			}
			o.LaunchTemplateSpecification = ownSpec
		}
		if o.WeightedCapacity != nil {
			weights++
			if w, err := strconv.Atoi(*o.WeightedCapacity); err != nil || w < 1 || w > 999 {
				return nil, validation("Weighted capacity must be a number from 1 to 999, but is %s",
					*o.WeightedCapacity)
			}
		}
		kind := aws.ToString(o.InstanceType)
		switch {
		case kind != "" && o.InstanceRequirements != nil:
			return nil,
				validation("Invalid MixedInstancesPolicy: an override has either InstanceType or InstanceRequirements")
		case o.InstanceRequirements != nil:
			if o.InstanceRequirements.VCpuCount == nil || o.InstanceRequirements.MemoryMiB == nil {
				return nil, validation("InstanceRequirements must have VCpuCount and MemoryMiB")
			}
			kinds, err := s.listInstanceTypes(ctx, ownData, o.InstanceRequirements)
			if err != nil {
				return nil, err
			}
			if err := s.checkLaunch(ctx, ownSpec, ownData, kinds, aws.ToString(o.ImageId), at); err != nil {
				return nil, err
			}
			completed.Overrides = append(completed.Overrides, o)
			continue
		case kind != "":
			if _, ok := instancetype.Get(kind); !ok {
				return nil, validation("The instance type '%s' is not supported or does not exist", kind)
			}
		}
		if err := s.checkLaunch(ctx, ownSpec, ownData, []string{kind}, aws.ToString(o.ImageId), at); err != nil {
			return nil, err
		}
		completed.Overrides = append(completed.Overrides, o)
	}
	if weights != 0 && weights != len(out.LaunchTemplate.Overrides) {
		return nil,
			validation("Weights must be specified for all instance types or for none: %d of %d overrides have one",
				weights, len(out.LaunchTemplate.Overrides))
	}
	if len(completed.Overrides) == 0 {
		if err := s.checkLaunch(ctx, spec, data, []string{""}, "", at); err != nil {
			return nil, err
		}
	}
	out.LaunchTemplate = &completed
	return out, nil
}

// distribution returns how a group divides its capacity, with the defaults.
func distribution(asked *types.InstancesDistribution, before *types.MixedInstancesPolicy) (
	*types.InstancesDistribution, error) {
	d := types.InstancesDistribution{
		OnDemandAllocationStrategy: aws.String("prioritized"), OnDemandBaseCapacity: aws.Int32(0),
		OnDemandPercentageAboveBaseCapacity: aws.Int32(100),
		SpotAllocationStrategy:              aws.String("lowest-price"),
	}
	if before != nil && before.InstancesDistribution != nil {
		d = *before.InstancesDistribution
	}
	if asked != nil {
		if len(asked.DistributionSegments) > 0 {
			return nil, unserved("DistributionSegments", "there are no capacity reservations")
		}
		if asked.OnDemandAllocationStrategy != nil {
			d.OnDemandAllocationStrategy = asked.OnDemandAllocationStrategy
		}
		if asked.OnDemandBaseCapacity != nil {
			d.OnDemandBaseCapacity = asked.OnDemandBaseCapacity
		}
		if asked.OnDemandPercentageAboveBaseCapacity != nil {
			d.OnDemandPercentageAboveBaseCapacity = asked.OnDemandPercentageAboveBaseCapacity
		}
		if asked.SpotAllocationStrategy != nil {
			d.SpotAllocationStrategy, d.SpotInstancePools = asked.SpotAllocationStrategy, nil
		}
		if asked.SpotInstancePools != nil {
			d.SpotInstancePools = asked.SpotInstancePools
		}
		if asked.SpotMaxPrice != nil {
			d.SpotMaxPrice = asked.SpotMaxPrice
		}
	}
	spot := aws.ToString(d.SpotAllocationStrategy)
	switch {
	case !slices.Contains(onDemandStrategies, aws.ToString(d.OnDemandAllocationStrategy)):
		return nil, validation("OnDemandAllocationStrategy %s is invalid. Valid values: [prioritized, lowest-price]",
			aws.ToString(d.OnDemandAllocationStrategy))
	case !slices.Contains(spotStrategies, spot):
		return nil,
			validation(
				"SpotAllocationStrategy %s is invalid. Valid values: [lowest-price, capacity-optimized, "+
					"capacity-optimized-prioritized, price-capacity-optimized]", spot)
	case aws.ToInt32(d.OnDemandBaseCapacity) < 0:
		return nil, validation("OnDemandBaseCapacity must not be negative, but is %d", *d.OnDemandBaseCapacity)
	case aws.ToInt32(d.OnDemandPercentageAboveBaseCapacity) < 0 ||
		aws.ToInt32(d.OnDemandPercentageAboveBaseCapacity) > 100:
		return nil, validation("OnDemandPercentageAboveBaseCapacity must be between 0 and 100, but is %d",
			*d.OnDemandPercentageAboveBaseCapacity)
	case d.SpotInstancePools != nil && spot != "lowest-price":
		return nil, validation("SpotInstancePools option is only available with the lowest-price allocation strategy")
	case d.SpotInstancePools != nil && (*d.SpotInstancePools < 1 || *d.SpotInstancePools > 20):
		return nil, validation("SpotInstancePools must be between 1 and 20, but is %d", *d.SpotInstancePools)
	}
	if spot == "lowest-price" && d.SpotInstancePools == nil {
		d.SpotInstancePools = aws.Int32(2)
	}
	return &d, nil
}
