package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Volume is an EBS volume. How it is attached stands in the BlockDevices of the instance.
//
// Writer: internal/aws/ec2.
type Volume struct {
	EC2Resource
	AvailabilityZone string
	Size             int32 // GiB
	Type             ec2types.VolumeType
	IOPS             int32  `json:",omitempty"`
	Throughput       int32  `json:",omitempty"` // MiB/s
	Encrypted        bool   `json:",omitempty"`
	KMSKeyID         string `json:",omitempty"`
	SnapshotID       string `json:",omitempty"`
	InstanceID       string `json:",omitempty"` // that it is attached to
}

// Volumes returns the table of volumes, by EC2Key.
func Volumes(s *store.Store) store.Table[Volume] { return store.NewTable[Volume](s, "volumes") }
