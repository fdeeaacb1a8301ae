// Package volume serves the EBS volumes of the EC2 API: it creates, attaches, modifies and deletes them. It records
// what is wanted, and shows what was observed of the disks that internal/host/volume makes.
//
//   - spec.go is what types of volumes may have, which launches of instances ask for as well, and the keys that a
//     caller needs permission for.
//   - create.go, attach.go, modify.go, attribute.go, settings.go, status.go and volume.go have the operations.
//   - lifecycle.go does what follows from what was observed.
package volume

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Service serves the operations. It is safe for concurrent use.
type Service struct {
	*resource.Records

	volumeView resource.View[record.Volume, types.Volume]
}

// New returns the service over the records.
func New(records *resource.Records) *Service {
	s := &Service{Records: records}
	s.volumeView = s.newVolumeView()
	return s
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	resource.Register(mux, s.attachmentHandlers()...)
	resource.Register(mux, s.attributeHandlers()...)
	resource.Register(mux, s.creationHandlers()...)
	resource.Register(mux, s.modificationHandlers()...)
	resource.Register(mux, s.settingHandlers()...)
	resource.Register(mux, s.volumeHandlers()...)
}
