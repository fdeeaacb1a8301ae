// Package image serves the images of the EC2 API: the EKS-optimized images of package ami.
package image

import (
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Service serves the operations. It is safe for concurrent use.
type Service struct {
	*resource.Records
}

// New returns the service over the records.
func New(records *resource.Records) *Service {
	return &Service{Records: records}
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	resource.Register(mux, s.imageHandlers()...)
}
