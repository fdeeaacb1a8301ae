package record

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Volume is an EBS volume as its owner wants it. How it is attached stands in the BlockDevices of the instances.
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
	SourceVolumeID   string `json:",omitempty"` // that it is a copy of (CopyVolumes)
	MultiAttach      bool   `json:",omitempty"`
	InstanceID       string `json:",omitempty"` // that it is attached to
	// MoreInstanceIDs are the others that it is attached to, with Multi-Attach.
	MoreInstanceIDs []string `json:",omitempty"`
	// Diskless reports that no disk stands for it: the files of its machine, which have no bound, do.
	Diskless bool `json:",omitempty"`
	// OfImage reports that a launch made it for a block device of the AMI. Its disk begins empty, whatever SnapshotID
	// says: the machine gets the files of the AMI by another way.
	OfImage bool `json:",omitempty"`
	// Fargate reports that it is of the machine of a Fargate pod: no operation of EC2 shows or changes it.
	Fargate bool `json:",omitempty"`
	// AutoEnableIO is the attribute of that name: it says what to do after an inconsistency, which there is none here.
	AutoEnableIO bool `json:",omitempty"`
	// Deleted is the time of its deletion: the record goes when the disk has gone.
	Deleted time.Time `json:",omitzero"`
	// Modification is the last one; nil when it has not been modified.
	Modification *VolumeModification `json:",omitempty"`
}

// VolumeModification is a change of a volume. The fields of [Volume] have its target already.
type VolumeModification struct {
	StartedAt           time.Time
	CompletedAt         time.Time `json:",omitzero"` // when the disk had the size
	OriginalSize        int32
	OriginalType        ec2types.VolumeType
	OriginalIOPS        int32 `json:",omitempty"`
	OriginalThroughput  int32 `json:",omitempty"`
	OriginalMultiAttach bool  `json:",omitempty"`
	// Times are those of the modifications of the last 24 hours, of which there may be four.
	Times []time.Time
}

// ContentID returns the snapshot or volume whose content its disk begins with; empty when it begins empty.
func (v Volume) ContentID() string {
	if v.OfImage {
		return ""
	}
	return cmp.Or(v.SnapshotID, v.SourceVolumeID)
}

// InstanceIDs returns the instances that it is attached to.
func (v Volume) InstanceIDs() []string {
	if v.InstanceID == "" {
		return nil
	}
	return append([]string{v.InstanceID}, v.MoreInstanceIDs...)
}

// Attach adds an instance to those that it is attached to.
func (v *Volume) Attach(instance string) {
	if v.InstanceID == "" {
		v.InstanceID = instance
	} else {
		v.MoreInstanceIDs = append(slices.Clone(v.MoreInstanceIDs), instance)
	}
}

// Detach removes an instance from those that it is attached to.
func (v *Volume) Detach(instance string) {
	left := slices.DeleteFunc(slices.Clone(v.InstanceIDs()), func(id string) bool { return id == instance })
	v.InstanceID, v.MoreInstanceIDs = "", nil
	for _, id := range left {
		v.Attach(id)
	}
}

// Volumes returns the table of volumes, by EC2Key.
func Volumes(s *store.Store) store.Table[Volume] { return store.NewTable[Volume](s, "volumes") }

// VolumeDisk is the observed disk of a volume. No record: nothing was done for it yet.
//
// Writer: internal/host/volume. It deletes the record when neither the disk nor the Volume record is there.
type VolumeDisk struct {
	VolumeID string
	Size     int32 // GiB; 0 as long as the disk is not there with its content
	// Failure explains why the disk could not be made, changed or attached.
	Failure string `json:",omitempty"`
	// Final reports that the disk will never be made: the Failure is not one that passes.
	Final       bool             `json:",omitempty"`
	Attachments []DiskAttachment `json:",omitempty"`
}

// DiskAttachment is an observed attachment of a disk to the machine of an instance. It is written before the machine
// gets the disk, and stays until it has lost it: without one the disk is in no machine.
type DiskAttachment struct {
	InstanceID string
	Device     string    // "/dev/xvdaa"
	AttachedAt time.Time `json:",omitzero"`  // zero before the machine has it
	Busy       bool      `json:",omitempty"` // it cannot be detached, because it is in use in the machine
}

// Attaching reports that the machine may get the disk at any time, and was not seen to have it yet.
func (a DiskAttachment) Attaching() bool { return a.AttachedAt.IsZero() }

// VolumeDisks returns the table of observed disks, by EC2Key of the volume.
func VolumeDisks(s *store.Store) store.Table[VolumeDisk] {
	return store.NewTable[VolumeDisk](s, "volumedisks")
}

// MaxMultiAttach is the number of instances that a volume may be attached to at once.
const MaxMultiAttach = 16

// VolumeDisksByInstance returns indexes of disks by the ID of an instance that has them, one for each place in
// Attachments.
func VolumeDisksByInstance(s *store.Store) (all [MaxMultiAttach]store.Index[VolumeDisk]) {
	for i := range all {
		all[i] = store.NewIndex(VolumeDisks(s), "instance"+strconv.Itoa(i), func(d VolumeDisk) string {
			if i < len(d.Attachments) {
				return d.Attachments[i].InstanceID
			}
			return ""
		})
	}
	return all
}

// VolumesByContent returns the index of volumes by the ID of the snapshot or volume whose content they begin with.
func VolumesByContent(s *store.Store) store.Index[Volume] {
	return store.NewIndex(Volumes(s), "content", Volume.ContentID)
}

// EBSSettings are the settings of EBS of an account in a region. No record: the defaults.
//
// Writer: internal/aws/ec2.
type EBSSettings struct {
	EncryptionByDefault bool   `json:",omitempty"`
	DefaultKMSKeyID     string `json:",omitempty"` // ARN; empty for the AWS managed key
}

// EBSSettingsTable returns the table of settings, by Key(account, region).
func EBSSettingsTable(s *store.Store) store.Table[EBSSettings] {
	return store.NewTable[EBSSettings](s, "ebssettings")
}
