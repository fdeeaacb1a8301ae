package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// PlacementGroup is a placement group. Its instances are those that name it.
//
// Writer: internal/aws/ec2.
type PlacementGroup struct {
	EC2Resource // ID is "pg-…"
	Name        string
	Strategy    ec2types.PlacementStrategy
	Partitions  int32                `json:",omitempty"` // of a partition group
	SpreadLevel ec2types.SpreadLevel `json:",omitempty"` // of a spread group
}

// PlacementGroups returns the table of placement groups, by EC2Key.
func PlacementGroups(s *store.Store) store.Table[PlacementGroup] {
	return store.NewTable[PlacementGroup](s, "placementgroups")
}

// PlacementGroupName claims a placement group's name in its account and region.
//
// Writer: internal/aws/ec2.
type PlacementGroupName struct{ PlacementGroupID string }

// PlacementGroupNames returns the table of placement group names, by Key(account, region, name).
func PlacementGroupNames(s *store.Store) store.Table[PlacementGroupName] {
	return store.NewTable[PlacementGroupName](s, "placementgroupnames")
}
