package record

import (
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// SpotRequest is a one-time request for a spot instance, which was fulfilled when it was made. Its state follows from
// Cancelled and from its instance. The row goes with the instance's.
//
// Writer: internal/aws/ec2.
type SpotRequest struct {
	EC2Resource        // ID is "sir-…"
	InstanceID  string //
	MaxPrice    string // USD per hour
	Behavior    ec2types.InstanceInterruptionBehavior
	LaunchGroup string    `json:",omitempty"`
	ValidFrom   time.Time `json:",omitzero"`
	ValidUntil  time.Time `json:",omitzero"`
	// Cancelled is the time when its owner cancelled it; zero while it is active.
	Cancelled time.Time `json:",omitzero"`
}

// SpotRequests returns the table of spot requests, by EC2Key.
func SpotRequests(s *store.Store) store.Table[SpotRequest] {
	return store.NewTable[SpotRequest](s, "spotrequests")
}
