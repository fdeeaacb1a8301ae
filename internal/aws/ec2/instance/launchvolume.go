package instance

import (
	"cmp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/image"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/ec2/volume"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// launchVolume is a volume that a launch makes.
type launchVolume struct {
	device              string
	root                bool // the machine keeps its files on it
	draft               volume.Draft
	deleteOnTermination bool
}

// maxMappings is the maximum number of block devices that a request may map, including those without a device.
const maxMappings = 200

// checkDevice refuses a name that a device of an instance cannot have beside those that it has.
func checkDevice(name string, devices []types.BlockDeviceMapping) error {
	if err := volume.CheckDevice(name); err != nil {
		return err
	}
	for _, d := range devices {
		if volume.SameDevice(*d.DeviceName, name) {
			return wire.Errorf("InvalidBlockDeviceMapping", "The devices '%s' and '%s' are the same.", *d.DeviceName, name)
		}
	}
	return nil
}

// readVolumes reads the block devices of a launch: those of its image, changed and extended by those of the request.
func (s *Service) readVolumes(sc resource.Scope, l *Launch) error {
	devices := image.BlockDevices(l.image)
	smallest := map[string]int32{}
	for _, d := range devices {
		smallest[*d.DeviceName] = *d.Ebs.VolumeSize
	}
	seen := map[string]bool{}
	if n := len(l.request.BlockDeviceMappings); n > maxMappings {
		return wire.Errorf(
			"InvalidBlockDeviceMapping",
			"%d block device mappings are more than the %d that a request may have.", n, maxMappings,
		)
	}
	for _, want := range l.request.BlockDeviceMappings {
		name := aws.ToString(want.DeviceName)
		switch {
		case name == "":
			return resource.MissingParameter("deviceName")
		case seen[name]:
			return wire.Errorf("InvalidBlockDeviceMapping",
				"The device '%s' is used in more than one block-device mapping", name)
		case want.NoDevice != nil && (name == l.image.RootDeviceName || name == l.image.FilesDevice()):
			return wire.Errorf("InvalidBlockDeviceMapping", "The root device '%s' cannot be left out.", name)
		case want.VirtualName != nil && want.Ebs != nil:
			return wire.Errorf("InvalidBlockDeviceMapping", "The device '%s' is mapped to an EBS volume and to '%s'.",
				name, *want.VirtualName)
		}
		seen[name] = true
		i := slices.IndexFunc(devices, func(d types.BlockDeviceMapping) bool { return *d.DeviceName == name })
		switch {
		case want.NoDevice != nil && i > 0:
			devices = slices.Delete(devices, i, i+1)
		case want.NoDevice != nil, want.Ebs == nil: // an instance store volume is there or not, whatever is mapped
		case i < 0:
			if err := checkDevice(name, devices); err != nil {
				return err
			}
			devices = append(devices, types.BlockDeviceMapping{DeviceName: want.DeviceName, Ebs: want.Ebs})
		default:
			if want.Ebs.SnapshotId != nil && *want.Ebs.SnapshotId != aws.ToString(devices[i].Ebs.SnapshotId) {
				return wire.Errorf("InvalidBlockDeviceMapping", "The snapshot of the device '%s' cannot be changed.",
					name)
			}
			e := *devices[i].Ebs
			if want.Ebs.VolumeType != "" && want.Ebs.VolumeType != e.VolumeType {
				e.VolumeType, e.Iops, e.Throughput = want.Ebs.VolumeType, nil, nil
			}
			e.VolumeSize = cmp.Or(want.Ebs.VolumeSize, e.VolumeSize)
			e.Iops, e.Throughput = cmp.Or(want.Ebs.Iops, e.Iops), cmp.Or(want.Ebs.Throughput, e.Throughput)
			e.Encrypted, e.KmsKeyId = cmp.Or(want.Ebs.Encrypted, e.Encrypted), cmp.Or(want.Ebs.KmsKeyId, e.KmsKeyId)
			e.DeleteOnTermination = cmp.Or(want.Ebs.DeleteOnTermination, e.DeleteOnTermination)
			devices[i].Ebs = &e
		}
	}
	if len(devices) > 40 {
		return wire.Errorf("InvalidBlockDeviceMapping",
			"The instance has %d volumes, which is more than the 40 that can be attached.", len(devices))
	}
	interfaces := min(max(1, len(l.request.NetworkInterfaces)), l.instanceType.MaxENIs)
	if most := volume.MaxAttachments(l.instanceType, interfaces); len(devices) > most {
		return wire.Errorf("AttachmentLimitExceeded",
			"The instance has %d volumes, and one of type %s can have %d.", len(devices), l.instanceType.Name, most)
	}
	for _, d := range devices {
		least, ofImage := smallest[*d.DeviceName]
		v, err := s.readVolume(sc, l, d, ofImage, least)
		if err != nil {
			return err
		}
		l.volumes = append(l.volumes, v)
	}
	return nil
}

// readVolume checks an EBS volume that is at least as large as its snapshot. Of those of the image one has a disk, on
// which the machine keeps its files, where the host has such disks.
func (s *Service) readVolume(sc resource.Scope, l *Launch, d types.BlockDeviceMapping, ofImage bool, least int32) (
	launchVolume, error) {
	e := *d.Ebs
	v := launchVolume{device: *d.DeviceName, root: ofImage && *d.DeviceName == l.image.FilesDevice(),
		deleteOnTermination: aws.ToBool(e.DeleteOnTermination)}
	spec := volume.Spec{Type: e.VolumeType, Size: e.VolumeSize, IOPS: e.Iops, Throughput: e.Throughput,
		SnapshotID: aws.ToString(e.SnapshotId), Encrypted: e.Encrypted, KMSKeyID: aws.ToString(e.KmsKeyId)}
	if spec.KMSKeyID != "" {
		spec.Encrypted = aws.Bool(true)
	}
	var err error
	if ofImage {
		v.draft, err = volume.NewImageDraft(s.Records, sc, spec, least, !v.root || s.DisklessRoots)
	} else {
		v.draft, err = volume.NewDraft(s.Records, sc, spec)
	}
	switch {
	case err != nil:
		return v, err
	case e.OutpostArn != nil:
		return v, resource.Unsupported("ebs.OutpostArn")
	case e.VolumeInitializationRate != nil:
		return v, resource.Unsupported("ebs.VolumeInitializationRate")
	case aws.ToInt32(e.EbsCardIndex) != 0:
		return v, resource.InvalidValue(*e.EbsCardIndex, "ebsCardIndex", "The instance type has one EBS card.")
	}
	if v.device == l.image.RootDeviceName {
		if err := v.draft.CheckRoot(); err != nil {
			return v, err
		}
	}
	return v, v.draft.Validate("InvalidBlockDeviceMapping")
}
