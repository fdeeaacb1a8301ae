// Package instance serves the instances of the EC2 API: it launches them, changes what is wanted of them and their
// attributes, and shows them. It also serves the associations of their instance profiles, and spot requests, which
// launch instances at once.
package instance

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Service serves the operations. It is safe for concurrent use.
type Service struct {
	*resource.Records

	instanceView    resource.View[record.Instance, types.Instance]
	spotRequestView resource.View[record.SpotRequest, types.SpotInstanceRequest]
}

// New returns the service over the records.
func New(records *resource.Records) *Service {
	s := &Service{Records: records}
	s.instanceView = s.newInstanceView()
	s.spotRequestView = s.newSpotRequestView()
	return s
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	resource.Register(mux, s.instanceHandlers()...)
	resource.Register(mux, s.instanceAttributeHandlers()...)
	resource.Register(mux, s.instanceStateHandlers()...)
	resource.Register(mux, s.instanceStatusHandlers()...)
	resource.Register(mux, s.launchHandlers()...)
	resource.Register(mux, s.profileAssociationHandlers()...)
	resource.Register(mux, s.spotHandlers()...)
}
