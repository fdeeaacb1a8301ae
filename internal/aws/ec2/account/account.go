package account

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/region"
)

// regionHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) regionHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeRegions, resource.OnRegion),
		wire.Handle(s.DescribeAvailabilityZones, resource.OnRegion),
		wire.Handle(s.DescribeAccountAttributes, resource.OnRegion),
	}
}

// DescribeRegions lists the regions that are open to the account, or all.
func (s *Service) DescribeRegions(ctx context.Context, in *ec2.DescribeRegionsInput) (
	*ec2.DescribeRegionsOutput, error) {
	var all []resource.Item[types.Region]
	for _, name := range region.Codes() {
		known, _ := region.Get(name)
		r := types.Region{
			RegionName:  aws.String(name),
			Endpoint:    aws.String("ec2." + name + ".amazonaws.com"),
			OptInStatus: aws.String("opt-in-not-required"),
		}
		if known.OptIn {
			r.OptInStatus = aws.String("not-opted-in")
		}
		if len(in.RegionNames) == 0 && known.OptIn && !aws.ToBool(in.AllRegions) {
			continue
		}
		if len(in.RegionNames) == 0 || slices.Contains(in.RegionNames, name) {
			all = append(all, resource.Item[types.Region]{ID: name, View: r})
		}
	}
	for _, name := range in.RegionNames {
		if !region.Valid(name) {
			return nil, resource.Invalid("Invalid region: '%s'", name)
		}
	}
	found, _, err := resource.DescribeItems(
		ctx,
		resource.Query{Operation: "DescribeRegions", DryRun: in.DryRun, Filters: in.Filters},
		all,
		resource.Filters[types.Region]{
			"endpoint":      resource.StringFilter(func(r types.Region) *string { return r.Endpoint }),
			"opt-in-status": resource.StringFilter(func(r types.Region) *string { return r.OptInStatus }),
			"region-name":   resource.StringFilter(func(r types.Region) *string { return r.RegionName }),
		},
		nil,
	)
	if err != nil {
		return nil, err
	}
	return &ec2.DescribeRegionsOutput{Regions: found}, nil
}

// DescribeAvailabilityZones lists the zones of the region.
func (s *Service) DescribeAvailabilityZones(ctx context.Context, in *ec2.DescribeAvailabilityZonesInput) (
	*ec2.DescribeAvailabilityZonesOutput, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(in.ZoneNames, in.ZoneIds) {
		if _, ok := sc.FindZone(name); !ok {
			return nil, resource.Invalid("Invalid availability zone: [%s]", name)
		}
	}
	here, _ := region.Get(sc.Region)
	var all []resource.Item[types.AvailabilityZone]
	for _, z := range here.Zones {
		if len(in.ZoneNames) > 0 && !slices.Contains(in.ZoneNames, z.Name) || len(in.ZoneIds) > 0 &&
			!slices.Contains(in.ZoneIds, z.ID) {
			continue
		}
		all = append(all, resource.Item[types.AvailabilityZone]{ID: z.Name, View: types.AvailabilityZone{
			GroupLongName:      aws.String(here.Name + " 1"),
			GroupName:          aws.String(sc.Region + "-zg-1"),
			Messages:           []types.AvailabilityZoneMessage{},
			NetworkBorderGroup: aws.String(sc.Region),
			OptInStatus:        types.AvailabilityZoneOptInStatusOptInNotRequired,
			RegionName:         aws.String(sc.Region),
			State:              types.AvailabilityZoneStateAvailable,
			ZoneId:             aws.String(z.ID),
			ZoneName:           aws.String(z.Name),
			ZoneType:           aws.String("availability-zone"),
		}})
	}
	found, _, err := resource.DescribeItems(ctx, resource.Query{Operation: "DescribeAvailabilityZones",
		DryRun: in.DryRun, Filters: in.Filters}, all,
		resource.Filters[types.AvailabilityZone]{
			"group-long-name": resource.StringFilter(func(z types.AvailabilityZone) *string { return z.GroupLongName }),
			"group-name":      resource.StringFilter(func(z types.AvailabilityZone) *string { return z.GroupName }),
			"message":         func(types.AvailabilityZone) []string { return nil },
			"opt-in-status": resource.EnumFilter(func(z types.AvailabilityZone) types.AvailabilityZoneOptInStatus {
				return z.OptInStatus
			}),
			"parent-zone-id":   func(types.AvailabilityZone) []string { return nil },
			"parent-zone-name": func(types.AvailabilityZone) []string { return nil },
			"region-name":      resource.StringFilter(func(z types.AvailabilityZone) *string { return z.RegionName }),
			"state": resource.EnumFilter(
				func(z types.AvailabilityZone) types.AvailabilityZoneState { return z.State }),
			"zone-id":   resource.StringFilter(func(z types.AvailabilityZone) *string { return z.ZoneId }),
			"zone-name": resource.StringFilter(func(z types.AvailabilityZone) *string { return z.ZoneName }),
			"zone-type": resource.StringFilter(func(z types.AvailabilityZone) *string { return z.ZoneType }),
		}, nil)
	if err != nil {
		return nil, err
	}
	return &ec2.DescribeAvailabilityZonesOutput{AvailabilityZones: found}, nil
}

// DescribeAccountAttributes answers with the limits and the default VPC of the account.
func (s *Service) DescribeAccountAttributes(ctx context.Context, in *ec2.DescribeAccountAttributesInput) (
	*ec2.DescribeAccountAttributesOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	vpc := "none"
	if found, err := s.DefaultVPC(sc); err != nil {
		return nil, err
	} else if found != nil {
		vpc = found.ID
	}
	attributes := []struct{ name, value string }{
		{"default-vpc", vpc},
		{"max-elastic-ips", resource.Decimal(resource.MaxAddresses)},
		{"max-instances", "20"},
		{"supported-platforms", "VPC"},
		{"vpc-max-elastic-ips", resource.Decimal(resource.MaxAddresses)},
		{"vpc-max-security-groups-per-interface", resource.Decimal(resource.MaxSecurityGroupsPerInterface)},
	}
	out := &ec2.DescribeAccountAttributesOutput{AccountAttributes: []types.AccountAttribute{}}
	known := map[string]bool{}
	for _, a := range attributes {
		known[a.name] = true
		if len(in.AttributeNames) > 0 && !slices.Contains(in.AttributeNames, types.AccountAttributeName(a.name)) {
			continue
		}
		out.AccountAttributes = append(out.AccountAttributes, types.AccountAttribute{
			AttributeName:   aws.String(a.name),
			AttributeValues: []types.AccountAttributeValue{{AttributeValue: aws.String(a.value)}},
		})
	}
	for _, name := range in.AttributeNames {
		// The SDK models two of the names; the service knows all six.
		if !known[string(name)] {
			return nil, wire.Errorf("InvalidParameterValue", "The account attribute '%s' is invalid", name)
		}
	}
	if aws.ToBool(in.DryRun) {
		return nil, resource.ErrDryRun
	}
	return out, nil
}
