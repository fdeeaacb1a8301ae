// Package region lists the commercial regions of AWS and their availability zones: public data.
//
// A request that is signed for any other region is refused, because the region becomes a part of ARNs and of host
// names.
//
// https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html
package region

import (
	"maps"
	"slices"
	"strings"
)

// Region is a commercial region. Which zone name stands for which zone ID differs between accounts on AWS; here it is
// the same for all.
type Region struct {
	Code string // "eu-west-1"
	Name string // "Europe (Ireland)"
	// OptIn is set for the regions that an account must opt in to. They are served all the same.
	OptIn bool
	Zones []Zone // sorted by name
}

// Zone is an availability zone.
type Zone struct {
	Name string // "eu-west-1a"
	ID   string // "euw1-az1"
}

// row is a region as the table has it.
type row struct {
	name string
	// zoneIDs is the prefix of the IDs of its zones: "euw1".
	zoneIDs string
	// zones has the letter and the number of the ID of each zone: "a1" is eu-west-1a with the ID euw1-az1.
	zones string
	optIn bool
}

var table = map[string]row{
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

var regions = func() map[string]Region {
	all := make(map[string]Region, len(table))
	for code, r := range table {
		var zones []Zone
		for _, z := range strings.Fields(r.zones) {
			zones = append(zones, Zone{Name: code + z[:1], ID: r.zoneIDs + "-az" + z[1:]})
		}
		all[code] = Region{Code: code, Name: r.name, OptIn: r.optIn, Zones: zones}
	}
	return all
}()

// Get returns the region with that code. Callers must not change its zones.
func Get(code string) (r Region, ok bool) {
	r, ok = regions[code]
	return r, ok
}

// Valid reports whether code is that of a commercial region.
func Valid(code string) bool {
	_, ok := regions[code]
	return ok
}

// Codes returns the codes of all regions, sorted.
func Codes() []string { return slices.Sorted(maps.Keys(regions)) }

// ZoneIDs returns the IDs of a region's availability zones by their names: euw1-az1 of eu-west-1a.
func ZoneIDs(code string) map[string]string {
	ids := make(map[string]string)
	for _, z := range regions[code].Zones {
		ids[z.Name] = z.ID
	}
	return ids
}
