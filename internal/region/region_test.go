package region_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/coracle-eks/coracle/internal/region"
)

func TestRegions(t *testing.T) {
	t.Parallel()
	code := regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d$`)
	ids := map[string]bool{}
	for _, c := range region.Codes() {
		r, ok := region.Get(c)
		if !ok || r.Code != c || r.Name == "" || !code.MatchString(c) || len(r.Zones) < 2 || !region.Valid(c) {
			t.Errorf("region %q is %+v", c, r)
		}
		if !slices.IsSortedFunc(r.Zones, func(a, b region.Zone) int {
			return slices.Compare([]byte(a.Name),
				[]byte(b.Name))
		}) {
			t.Errorf("the zones of %s are not sorted: %v", c, r.Zones)
		}
		for _, z := range r.Zones {
			if ids[z.ID] {
				t.Errorf("two zones have the ID %s", z.ID)
			}
			ids[z.ID] = true
			if region.ZoneIDs(c)[z.Name] != z.ID {
				t.Errorf("the ID of %s is %q, want %q", z.Name, region.ZoneIDs(c)[z.Name], z.ID)
			}
		}
	}
	for _, bad := range []string{"", "mars-1", "us-east-1 ", "US-EAST-1", "us-east-1\n", "us-east-1:111122223333",
		"us-east-1a", "aws-global"} {
		if region.Valid(bad) {
			t.Errorf("%q is a region", bad)
		}
	}
}
