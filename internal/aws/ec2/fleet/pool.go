package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/ec2/image"
	"github.com/coracle-eks/coracle/internal/aws/ec2/launchtemplate"
	"github.com/coracle-eks/coracle/internal/aws/ec2/offering"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

// pool is one capacity pool that a fleet can launch from: a launch template with an override, one instance type and at
// most one subnet.
type pool struct {
	index    int // among all pools of the request
	template types.FleetLaunchTemplateSpecificationRequest
	override types.FleetLaunchTemplateOverridesRequest
	kind     instancetype.Type // zero when the type does not exist: the launch says so
	name     types.InstanceType
	named    bool // by the override or by requirements, and not by the launch template
	subnet   string
	zone     string // as far as the request says
	weight   float64
	source   types.LaunchTemplateAndOverridesResponse
	size     int // of source, in bytes, or about
}

// convertViaJSON copies what has the same members into another type, as the types of requests and of answers have.
func convertViaJSON(from, into any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// isSourceOf reports whether a launch came from the pool.
func (p pool) isSourceOf(l record.FleetLaunch) bool {
	return l.InstanceType == p.name && reflect.DeepEqual(l.Source, p.source) &&
		(p.subnet == "" || l.SubnetID == p.subnet)
}

// resolvePools returns all capacity pools of a fleet, in the order of the request.
func (s *Service) resolvePools(sc resource.Scope, q *ec2.CreateFleetInput) ([]pool, error) {
	var all []pool
	size := 0
	for _, config := range q.LaunchTemplateConfigs {
		spec := config.LaunchTemplateSpecification
		if spec == nil {
			return nil, resource.MissingParameter("LaunchTemplateConfigs.LaunchTemplateSpecification")
		}
		if spec.LaunchTemplateSpecificationUserData != nil {
			return nil, resource.Unsupported("LaunchTemplateSpecificationUserData")
		}
		if aws.ToString(spec.Version) == "" {
			return nil, resource.MissingParameter("LaunchTemplateConfigs.LaunchTemplateSpecification.Version")
		}
		t, version, err := launchtemplate.Requested(
			s.Records, sc, spec.LaunchTemplateId, spec.LaunchTemplateName, spec.Version,
		)
		if err != nil {
			return nil, err
		}
		if version.Data.InstanceMarketOptions != nil {
			return nil, wire.Errorf("InvalidParameterCombination",
				"The launch template %s has InstanceMarketOptions, which a fleet decides itself.", t.ID)
		}
		overrides := config.Overrides
		if len(overrides) == 0 {
			overrides = []types.FleetLaunchTemplateOverridesRequest{{}}
		}
		for _, o := range overrides {
			found, err := s.poolsOf(sc, q, t, version, o)
			if err != nil {
				return nil, err
			}
			for _, p := range found {
				size += p.size
			}
			if all = append(all, found...); len(all) > maxPools || size > maxSources {
				return nil, errTooManyPools
			}
		}
	}
	for i := range all {
		all[i].index = i
	}
	return all, nil
}

// maxPools is the maximum number of combinations of an instance type and a subnet that a request may ask for.
const maxPools = 10_000

// maxSources bounds the overrides of all of them, in bytes: an answer has those of each that could not launch.
const maxSources = 4 << 20

var errTooManyPools = resource.Invalid("The request asks for more than %d combinations of an instance type and a "+
	"subnet, or has more than %d bytes of overrides for all of them: name fewer subnets, or instance requirements "+
	"that are shorter or that fewer instance types meet.", maxPools, maxSources)

func (s *Service) poolsOf(sc resource.Scope, q *ec2.CreateFleetInput, t record.LaunchTemplate,
	version record.LaunchTemplateVersion, o types.FleetLaunchTemplateOverridesRequest) ([]pool, error) {
	if o.InstanceType != "" && o.InstanceRequirements != nil {
		return nil, wire.Errorf("InvalidParameterCombination",
			"You can specify either InstanceType or InstanceRequirements, but not both.")
	}
	if o.WeightedCapacity != nil && *o.WeightedCapacity <= 0 {
		return nil, resource.InvalidValue(*o.WeightedCapacity, "WeightedCapacity", "Expecting a positive number.")
	}
	base := pool{
		template: types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: aws.String(t.ID),
			Version: aws.String(fmt.Sprint(version.Number))}, override: o,
		source: types.LaunchTemplateAndOverridesResponse{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecification{
				LaunchTemplateId: aws.String(t.ID), Version: aws.String(fmt.Sprint(version.Number)),
			}, Overrides: &types.FleetLaunchTemplateOverrides{}},
	}
	if err := convertViaJSON(o, base.source.Overrides); err != nil {
		return nil, fmt.Errorf("read an override of a fleet: %w", err)
	}
	own := *base.source.Overrides
	own.SubnetId = nil // each pool has one of them
	text, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	base.size = len(text)
	names := []types.InstanceType{cmp.Or(o.InstanceType, version.Data.InstanceType)}
	wanted := o.InstanceRequirements
	if wanted == nil && o.InstanceType == "" {
		wanted = version.Data.InstanceRequirements
	}
	base.named = o.InstanceType != "" || wanted != nil
	if wanted != nil {
		found, err := s.meeting(sc, q, wanted, cmp.Or(o.ImageId, version.Data.ImageId))
		if err != nil {
			return nil, err
		}
		names = found
	}
	subnets := strings.SplitN(aws.ToString(o.SubnetId), ",", maxPools+1)
	if len(names)*len(subnets) > maxPools || len(names)*len(subnets)*base.size > maxSources {
		return nil, errTooManyPools
	}
	var pools []pool
	for _, name := range names {
		for _, subnet := range subnets {
			p := base
			p.name, p.subnet = name, strings.TrimSpace(subnet)
			p.kind, _ = instancetype.Get(string(name))
			p.weight = p.instanceWeight(q.TargetCapacitySpecification.TargetCapacityUnitType)
			p.zone = cmp.Or(aws.ToString(o.AvailabilityZone), aws.ToString(o.AvailabilityZoneId))
			if row, err := s.Subnets.Table.Get(sc, sc.Key(p.subnet)); err == nil && p.subnet != "" {
				p.zone = row.Value.AvailabilityZone
			}
			overrides := *base.source.Overrides
			overrides.InstanceType = name
			if p.subnet != "" {
				overrides.SubnetId = aws.String(p.subnet)
			}
			p.source.Overrides = &overrides
			pools = append(pools, p)
		}
	}
	return pools, nil
}

// meeting returns the instance types that meet requirements and that the image runs on.
func (s *Service) meeting(sc resource.Scope, q *ec2.CreateFleetInput, wanted *types.InstanceRequirementsRequest,
	imageID *string) ([]types.InstanceType, error) {
	r, err := offering.ReadRequirements(wanted)
	if err != nil {
		return nil, err
	}
	image, err := image.Requested(sc, imageID)
	if err != nil {
		return nil, err
	}
	return namesOf(r, image,
		q.TargetCapacitySpecification.DefaultTargetCapacityType == types.DefaultTargetCapacityTypeSpot)
}

func namesOf(r *offering.Requirements, image ami.Image, spot bool) ([]types.InstanceType, error) {
	var names []types.InstanceType
	for _, t := range r.MatchingTypes(image.Architecture, spot) {
		names = append(names, types.InstanceType(t.Name))
	}
	if len(names) == 0 {
		return nil, wire.Errorf("InvalidParameterValue",
			"No instance type meets the instance requirements for the architecture %s.", image.Architecture)
	}
	return names, nil
}

// instanceWeight returns the capacity that an instance of the pool counts as.
func (p pool) instanceWeight(unit types.TargetCapacityUnitType) float64 {
	switch {
	case p.override.WeightedCapacity != nil:
		return *p.override.WeightedCapacity
	case unit == types.TargetCapacityUnitTypeVcpu && p.kind.VCPU > 0:
		return float64(p.kind.VCPU)
	case unit == types.TargetCapacityUnitTypeMemoryMib && p.kind.MemoryMiB > 0:
		return float64(p.kind.MemoryMiB)
	}
	return 1
}

// ordered returns the pools in the order in which a strategy launches from them. All pools have the same free capacity,
// so the strategies that consider capacity consider prices.
func ordered(pools []pool, lifecycle types.InstanceLifecycle, strategy string) []pool {
	pools = slices.Clone(pools)
	price := func(p pool) float64 {
		if p.kind.Name == "" {
			return 0 // it fails, which is to be said
		}
		if lifecycle == types.InstanceLifecycleSpot {
			return p.kind.SpotUSD() / p.weight
		}
		return p.kind.OnDemandUSD / p.weight
	}
	priority := func(p pool) float64 {
		if p.override.Priority == nil {
			return 1e18 // the last
		}
		return *p.override.Priority
	}
	switch strategy {
	case string(types.FleetOnDemandAllocationStrategyPrioritized),
		string(types.SpotAllocationStrategyCapacityOptimizedPrioritized):
		slices.SortStableFunc(pools, func(a, b pool) int { return cmp.Compare(priority(a), priority(b)) })
	case string(types.SpotAllocationStrategyDiversified):
	default:
		slices.SortStableFunc(pools, func(a, b pool) int { return cmp.Compare(price(a), price(b)) })
	}
	return pools
}

// runInstancesInput returns the request that launches up to n instances from the pool.
func (p pool) runInstancesInput(q *ec2.CreateFleetInput, lifecycle types.InstanceLifecycle, n int32,
	token string) (*ec2.RunInstancesInput, error) {
	request := &ec2.RunInstancesInput{
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: p.template.LaunchTemplateId,
			Version: p.template.Version},
		MinCount: aws.Int32(1), MaxCount: aws.Int32(n), ClientToken: aws.String(token),
		ImageId: p.override.ImageId, SubnetId: resource.OrNil(p.subnet), KeyName: p.override.KeyName,
	}
	if p.named {
		request.InstanceType = p.name
	}
	if lifecycle == types.InstanceLifecycleSpot {
		request.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot,
			SpotOptions: &types.SpotMarketOptions{MaxPrice: p.override.MaxPrice}}
	}
	placement := types.Placement{}
	if p.override.Placement != nil {
		placement = *p.override.Placement
	}
	placement.AvailabilityZone, placement.AvailabilityZoneId = cmp.Or(p.override.AvailabilityZone,
		placement.AvailabilityZone), cmp.Or(p.override.AvailabilityZoneId, placement.AvailabilityZoneId)
	if !reflect.DeepEqual(placement, types.Placement{}) {
		request.Placement = &placement
	}
	if err := convertViaJSON(p.override.BlockDeviceMappings, &request.BlockDeviceMappings); err != nil {
		return nil, fmt.Errorf("read the block devices of an override: %w", err)
	}
	if o := p.override.MetadataOptions; o != nil {
		request.MetadataOptions = &types.InstanceMetadataOptionsRequest{}
		if err := convertViaJSON(o, request.MetadataOptions); err != nil {
			return nil, fmt.Errorf("read the metadata options of an override: %w", err)
		}
	}
	if o := p.override.IamInstanceProfile; o != nil {
		request.IamInstanceProfile = &types.IamInstanceProfileSpecification{Arn: o.Arn, Name: o.Name}
	}
	if q.Type == types.FleetTypeInstant {
		for _, tags := range q.TagSpecifications {
			if tags.ResourceType != types.ResourceTypeFleet {
				request.TagSpecifications = append(request.TagSpecifications, tags)
			}
		}
	}
	return request, nil
}
