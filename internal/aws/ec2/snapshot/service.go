// Package snapshot serves the EBS snapshots of the EC2 API: it creates, copies, shares and deletes them. It records
// what is wanted, and shows what was observed of the content that internal/host/volume keeps.
package snapshot

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Service serves the operations. It is safe for concurrent use.
type Service struct {
	*resource.Records

	snapshotView resource.View[record.Snapshot, types.Snapshot]
}

// New returns the service over the records.
func New(records *resource.Records) *Service {
	s := &Service{Records: records}
	s.snapshotView = resource.View[record.Snapshot, types.Snapshot]{
		Kind: s.Snapshots, Show: s.viewSnapshot, Filters: snapshotFilters,
		Tagged: func(x types.Snapshot) []types.Tag { return x.Tags },
	}
	return s
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	resource.Register(mux, s.snapshotHandlers()...)
	resource.Register(mux, s.creationHandlers()...)
	resource.Register(mux, s.permissionHandlers()...)
}
