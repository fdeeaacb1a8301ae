// Package launchtemplate serves the launch templates of the EC2 API and their versions. What launch templates and
// launches have in common is checked here: user data, options of instance metadata, and which resources a launch
// tags.
package launchtemplate

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Service serves the operations. It is safe for concurrent use.
type Service struct {
	*resource.Records

	templateView resource.View[record.LaunchTemplate, types.LaunchTemplate]
}

// New returns the service over the records.
func New(records *resource.Records) *Service {
	s := &Service{Records: records}
	s.templateView = s.newTemplateView()
	return s
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	resource.Register(mux, s.launchTemplateHandlers()...)
	resource.Register(mux, s.launchTemplateVersionHandlers()...)
}
