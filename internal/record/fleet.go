package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Fleet is an EC2 Fleet of the type instant or request: what was asked for, and what became of it. Its instances carry
// its ID in the tag aws:ec2:fleet-id. The row of an instant fleet goes with the last of them.
//
// Writer: internal/aws/ec2.
type Fleet struct {
	EC2Resource        // ID is "fleet-…"
	Type               ec2types.FleetType
	Context            string `json:",omitempty"`
	Configs            []ec2types.FleetLaunchTemplateConfig
	Target             ec2types.TargetCapacitySpecification
	Spot               *ec2types.SpotOptions     `json:",omitempty"`
	OnDemand           *ec2types.OnDemandOptions `json:",omitempty"`
	Excess             ec2types.FleetExcessCapacityTerminationPolicy
	ReplaceUnhealthy   bool `json:",omitempty"`
	TerminateWhenEnded bool `json:",omitempty"`
	// Done reports that all was launched that could be; Launched and Errors say what.
	Done     bool
	Launched []FleetLaunch                 `json:",omitempty"`
	Errors   []ec2types.DescribeFleetError `json:",omitempty"`
	// Deleted reports that its owner deleted it; Terminating, with its instances.
	Deleted     bool `json:",omitempty"`
	Terminating bool `json:",omitempty"`
}

// FleetLaunch is the result of launching one override of a fleet.
type FleetLaunch struct {
	InstanceIDs  []string
	InstanceType ec2types.InstanceType
	SubnetID     string
	Zone         string
	Lifecycle    ec2types.InstanceLifecycle
	Weight       float64 // of each instance
	Source       ec2types.LaunchTemplateAndOverridesResponse
}

// Fleets returns the table of fleets, by EC2Key.
func Fleets(s *store.Store) store.Table[Fleet] { return store.NewTable[Fleet](s, "fleets") }
