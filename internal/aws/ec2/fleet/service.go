// Package fleet serves the fleets of the EC2 API, which launch instances at once from launch templates and overrides.
package fleet

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/instance"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Service serves the operations. It is safe for concurrent use.
type Service struct {
	*resource.Records
	instances *instance.Service

	fleetView resource.View[record.Fleet, types.FleetData]
}

// New returns the service over the records. It launches and terminates instances through their service.
func New(records *resource.Records, instances *instance.Service) *Service {
	s := &Service{Records: records, instances: instances}
	s.fleetView = s.newFleetView()
	return s
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	resource.Register(mux, s.fleetHandlers()...)
}
