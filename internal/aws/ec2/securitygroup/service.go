// Package securitygroup serves the security groups of the EC2 API and their rules.
package securitygroup

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Service serves the operations. It is safe for concurrent use.
type Service struct {
	*resource.Records

	securityGroupView resource.View[record.SecurityGroup, types.SecurityGroup]
}

// New returns the service over the records.
func New(records *resource.Records) *Service {
	s := &Service{Records: records}
	s.securityGroupView = s.newSecurityGroupView()
	return s
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	resource.Register(mux, s.securityGroupHandlers()...)
	resource.Register(mux, s.securityGroupRuleHandlers()...)
}
