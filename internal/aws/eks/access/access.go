// Package access serves the operations of the EKS API on access entries and access policies: who is let into a cluster,
// as which Kubernetes user, and what an access policy allows them there. What each policy allows says
// [github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy].
//
// It writes [record.AccessEntry], which the authenticator of the cluster reads.
//
// https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html
package access

import (
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Service serves the operations on access entries and access policies.
type Service struct {
	*resource.Records
	principals *principal.Directory
}

// New returns the service over the records.
func New(records *resource.Records, principals *principal.Directory) *Service {
	return &Service{Records: records, principals: principals}
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	mux.Register(wire.EKS, s.entryHandlers()...)
	mux.Register(wire.EKS, s.policyHandlers()...)
}
