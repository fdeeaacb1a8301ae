package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Fleet is an EC2 Fleet of the type instant or request: what was asked for, and what became of it.
//
// Writer: internal/aws/ec2.
type Fleet struct {
	EC2Resource       // ID is "fleet-…"
	Type              ec2types.FleetType
	Context           string `json:",omitempty"`
	Configs           []ec2types.FleetLaunchTemplateConfig
	Target            ec2types.TargetCapacitySpecification
	Spot              *ec2types.SpotOptions     `json:",omitempty"`
	OnDemand          *ec2types.OnDemandOptions `json:",omitempty"`
	Excess            ec2types.FleetExcessCapacityTerminationPolicy
	Launched          []FleetLaunch                 `json:",omitempty"`
	Errors            []ec2types.DescribeFleetError `json:",omitempty"`
	Deleted           bool                          `json:",omitempty"`
	TerminateOnDelete bool                          `json:",omitempty"`
}

// FleetLaunch is what one override of a fleet launched.
type FleetLaunch struct {
	InstanceIDs  []string
	InstanceType ec2types.InstanceType
	Lifecycle    ec2types.InstanceLifecycle
	Weight       float64 // of each instance
	Source       ec2types.LaunchTemplateAndOverridesResponse
}

// Fleets is the table of fleets, by EC2Key.
func Fleets(s *store.Store) store.Table[Fleet] { return store.NewTable[Fleet](s, "fleets") }
