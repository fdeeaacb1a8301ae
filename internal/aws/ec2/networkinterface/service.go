// Package networkinterface serves the network interfaces of the EC2 API, their attachments, and their private, public
// and elastic addresses.
package networkinterface

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Service serves the operations. It is safe for concurrent use.
type Service struct {
	*resource.Records

	networkInterfaceView resource.View[record.NetworkInterface, types.NetworkInterface]
	addressView          resource.View[record.Address, types.Address]
}

// New returns the service over the records.
func New(records *resource.Records) *Service {
	s := &Service{Records: records}
	s.networkInterfaceView = s.newNetworkInterfaceView()
	s.addressView = s.newAddressView()
	return s
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	resource.Register(mux, s.networkInterfaceHandlers()...)
	resource.Register(mux, s.attachmentHandlers()...)
	resource.Register(mux, s.trunkHandlers()...)
	resource.Register(mux, s.interfaceAddressHandlers()...)
	resource.Register(mux, s.addressHandlers()...)
}
