package resource

import (
	"slices"

	"github.com/coracle-eks/coracle/internal/region"
)

// Zones returns the availability zones of the scope's region, sorted by name.
func (sc Scope) Zones() []region.Zone {
	r, _ := region.Get(sc.Region)
	return r.Zones
}

// FindZone returns the zone of the scope's region with that name or ID.
func (sc Scope) FindZone(nameOrID string) (region.Zone, bool) {
	zones := sc.Zones()
	i := slices.IndexFunc(zones, func(z region.Zone) bool { return z.Name == nameOrID || z.ID == nameOrID })
	if i < 0 {
		return region.Zone{}, false
	}
	return zones[i], true
}
