package ec2

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// region is a commercial region. Which zone name stands for which zone ID differs between accounts on AWS; here it is
// the same for all.
type region struct {
	name string // "Europe (Ireland)"
	// zoneIDs is what the IDs of its zones begin with: "euw1".
	zoneIDs string
	// zones are its zones, letter and number of the ID: "a1" is eu-west-1a with the ID euw1-az1.
	zones string
	// optIn is set for the regions that an account must opt in to. They are served all the same.
	optIn bool
}

// https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html
var regions = map[string]region{
	"af-south-1":     {"Africa (Cape Town)", "afs1", "a1 b2 c3", true},
	"ap-east-1":      {"Asia Pacific (Hong Kong)", "ape1", "a1 b2 c3", true},
	"ap-east-2":      {"Asia Pacific (Taipei)", "ape2", "a1 b2 c3", true},
	"ap-northeast-1": {"Asia Pacific (Tokyo)", "apne1", "a4 c1 d2", false},
	"ap-northeast-2": {"Asia Pacific (Seoul)", "apne2", "a1 b2 c3 d4", false},
	"ap-northeast-3": {"Asia Pacific (Osaka)", "apne3", "a3 b1 c2", false},
	"ap-south-1":     {"Asia Pacific (Mumbai)", "aps1", "a1 b3 c2", false},
	"ap-south-2":     {"Asia Pacific (Hyderabad)", "aps2", "a1 b2 c3", true},
	"ap-southeast-1": {"Asia Pacific (Singapore)", "apse1", "a1 b2 c3", false},
	"ap-southeast-2": {"Asia Pacific (Sydney)", "apse2", "a1 b3 c2", false},
	"ap-southeast-3": {"Asia Pacific (Jakarta)", "apse3", "a1 b2 c3", true},
	"ap-southeast-4": {"Asia Pacific (Melbourne)", "apse4", "a1 b2 c3", true},
	"ap-southeast-5": {"Asia Pacific (Malaysia)", "apse5", "a1 b2 c3", true},
	"ap-southeast-6": {"Asia Pacific (New Zealand)", "apse6", "a1 b2 c3", true},
	"ap-southeast-7": {"Asia Pacific (Thailand)", "apse7", "a1 b2 c3", true},
	"ca-central-1":   {"Canada (Central)", "cac1", "a1 b2 d4", false},
	"ca-west-1":      {"Canada West (Calgary)", "caw1", "a1 b2 c3", true},
	"eu-central-1":   {"Europe (Frankfurt)", "euc1", "a2 b3 c1", false},
	"eu-central-2":   {"Europe (Zurich)", "euc2", "a1 b2 c3", true},
	"eu-north-1":     {"Europe (Stockholm)", "eun1", "a1 b2 c3", false},
	"eu-south-1":     {"Europe (Milan)", "eus1", "a1 b2 c3", true},
	"eu-south-2":     {"Europe (Spain)", "eus2", "a1 b2 c3", true},
	"eu-west-1":      {"Europe (Ireland)", "euw1", "a1 b2 c3", false},
	"eu-west-2":      {"Europe (London)", "euw2", "a2 b3 c1", false},
	"eu-west-3":      {"Europe (Paris)", "euw3", "a1 b2 c3", false},
	"il-central-1":   {"Israel (Tel Aviv)", "ilc1", "a1 b2 c3", true},
	"me-central-1":   {"Middle East (UAE)", "mec1", "a1 b2 c3", true},
	"me-south-1":     {"Middle East (Bahrain)", "mes1", "a1 b2 c3", true},
	"mx-central-1":   {"Mexico (Central)", "mxc1", "a1 b2 c3", true},
	"sa-east-1":      {"South America (Sao Paulo)", "sae1", "a1 b2 c3", false},
	"us-east-1":      {"US East (N. Virginia)", "use1", "a1 b2 c4 d6 e3 f5", false},
	"us-east-2":      {"US East (Ohio)", "use2", "a1 b2 c3", false},
	"us-west-1":      {"US West (N. California)", "usw1", "a1 c3", false}, // AWS gives an account two of them
	"us-west-2":      {"US West (Oregon)", "usw2", "a1 b2 c3 d4", false},
}

// RegionNames are the names of the regions by their codes: "Europe (Ireland)" of eu-west-1.
func RegionNames() map[string]string {
	names := make(map[string]string, len(regions))
	for code, r := range regions {
		names[code] = r.name
	}
	return names
}

// ZoneIDs are the IDs of a region's availability zones by their names: euw1-az1 of eu-west-1a.
func ZoneIDs(region string) map[string]string {
	ids := make(map[string]string)
	for _, z := range zonesOf(region) {
		ids[z.name] = z.id
	}
	return ids
}

// zone is an availability zone.
type zone struct{ name, id string }

// zonesOf are the zones of a region, by name.
func zonesOf(name string) []zone {
	r := regions[name]
	var zones []zone
	for _, z := range strings.Fields(r.zones) {
		zones = append(zones, zone{name: name + z[:1], id: r.zoneIDs + "-az" + z[1:]})
	}
	return zones
}

// zone is the zone of the scope's region with that name or ID.
func (in scope) zone(nameOrID string) (zone, bool) {
	zones := zonesOf(in.region)
	i := slices.IndexFunc(zones, func(z zone) bool { return z.name == nameOrID || z.id == nameOrID })
	if i < 0 {
		return zone{}, false
	}
	return zones[i], true
}

// DescribeRegions lists the regions that are open to the account, or all.
func (s *Service) DescribeRegions(ctx context.Context, in *ec2.DescribeRegionsInput) (*ec2.DescribeRegionsOutput, error) {
	var all []item[types.Region]
	for _, name := range slices.Sorted(maps.Keys(regions)) {
		r := types.Region{
			RegionName:  aws.String(name),
			Endpoint:    aws.String("ec2." + name + ".amazonaws.com"),
			OptInStatus: aws.String("opt-in-not-required"),
		}
		if regions[name].optIn {
			r.OptInStatus = aws.String("not-opted-in")
		}
		if len(in.RegionNames) == 0 && regions[name].optIn && !aws.ToBool(in.AllRegions) {
			continue
		}
		if len(in.RegionNames) == 0 || slices.Contains(in.RegionNames, name) {
			all = append(all, item[types.Region]{name, r})
		}
	}
	for _, name := range in.RegionNames {
		if _, ok := regions[name]; !ok {
			return nil, invalid("Invalid region: '%s'", name)
		}
	}
	found, _, err := answer(ctx, query{DryRun: in.DryRun, Filters: in.Filters}, "", all, filters[types.Region]{
		"endpoint":      text(func(r types.Region) *string { return r.Endpoint }),
		"opt-in-status": text(func(r types.Region) *string { return r.OptInStatus }),
		"region-name":   text(func(r types.Region) *string { return r.RegionName }),
	}, nil)
	if err != nil {
		return nil, err
	}
	return &ec2.DescribeRegionsOutput{Regions: found}, nil
}

// DescribeAvailabilityZones lists the zones of the region.
func (s *Service) DescribeAvailabilityZones(ctx context.Context, in *ec2.DescribeAvailabilityZonesInput) (*ec2.DescribeAvailabilityZonesOutput, error) {
	sc, err := scopeOf(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(in.ZoneNames, in.ZoneIds) {
		if _, ok := sc.zone(name); !ok {
			return nil, invalid("Invalid availability zone: [%s]", name)
		}
	}
	var all []item[types.AvailabilityZone]
	for _, z := range zonesOf(sc.region) {
		if len(in.ZoneNames) > 0 && !slices.Contains(in.ZoneNames, z.name) || len(in.ZoneIds) > 0 && !slices.Contains(in.ZoneIds, z.id) {
			continue
		}
		all = append(all, item[types.AvailabilityZone]{z.name, types.AvailabilityZone{
			GroupLongName:      aws.String(regions[sc.region].name + " 1"),
			GroupName:          aws.String(sc.region + "-zg-1"),
			Messages:           []types.AvailabilityZoneMessage{},
			NetworkBorderGroup: aws.String(sc.region),
			OptInStatus:        types.AvailabilityZoneOptInStatusOptInNotRequired,
			RegionName:         aws.String(sc.region),
			State:              types.AvailabilityZoneStateAvailable,
			ZoneId:             aws.String(z.id),
			ZoneName:           aws.String(z.name),
			ZoneType:           aws.String("availability-zone"),
		}})
	}
	found, _, err := answer(ctx, query{DryRun: in.DryRun, Filters: in.Filters}, "", all, filters[types.AvailabilityZone]{
		"group-long-name":  text(func(z types.AvailabilityZone) *string { return z.GroupLongName }),
		"group-name":       text(func(z types.AvailabilityZone) *string { return z.GroupName }),
		"message":          func(types.AvailabilityZone) []string { return nil },
		"opt-in-status":    word(func(z types.AvailabilityZone) types.AvailabilityZoneOptInStatus { return z.OptInStatus }),
		"parent-zone-id":   func(types.AvailabilityZone) []string { return nil },
		"parent-zone-name": func(types.AvailabilityZone) []string { return nil },
		"region-name":      text(func(z types.AvailabilityZone) *string { return z.RegionName }),
		"state":            word(func(z types.AvailabilityZone) types.AvailabilityZoneState { return z.State }),
		"zone-id":          text(func(z types.AvailabilityZone) *string { return z.ZoneId }),
		"zone-name":        text(func(z types.AvailabilityZone) *string { return z.ZoneName }),
		"zone-type":        text(func(z types.AvailabilityZone) *string { return z.ZoneType }),
	}, nil)
	if err != nil {
		return nil, err
	}
	return &ec2.DescribeAvailabilityZonesOutput{AvailabilityZones: found}, nil
}

// DescribeAccountAttributes answers with the limits and the default VPC of the account.
func (s *Service) DescribeAccountAttributes(ctx context.Context, in *ec2.DescribeAccountAttributesInput) (*ec2.DescribeAccountAttributesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	vpc := "none"
	if found, err := s.defaultVPC(sc); err != nil {
		return nil, err
	} else if found != nil {
		vpc = found.ID
	}
	attributes := []struct{ name, value string }{
		{"default-vpc", vpc},
		{"max-elastic-ips", decimal(maxAddresses)},
		{"max-instances", "20"},
		{"supported-platforms", "VPC"},
		{"vpc-max-elastic-ips", decimal(maxAddresses)},
		{"vpc-max-security-groups-per-interface", decimal(maxGroupsPerInterface)},
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
		return nil, errDryRun
	}
	return out, nil
}
