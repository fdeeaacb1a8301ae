package instance

import (
	"cmp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/image"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// launchVolume is a volume that a launch makes.
type launchVolume struct {
	device              string
	row                 record.Volume
	deleteOnTermination bool
}

// maxMappings is the maximum number of block devices that a request may map, including those without a device.
const maxMappings = 200

// readVolumes reads the block devices of a launch: those of its image, changed and extended by those of the request.
func readVolumes(_ resource.Scope, l *Launch) error {
	devices := image.BlockDevices(l.image)
	smallest := map[string]int32{}
	for _, d := range devices {
		smallest[*d.DeviceName] = *d.Ebs.VolumeSize
	}
	seen := map[string]bool{}
	if n := len(l.request.BlockDeviceMappings); n > maxMappings {
		return wire.Errorf(
			"InvalidBlockDeviceMapping",
			"%d block device mappings are more than the %d that a request may have.",
			n,
			maxMappings,
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
		case want.NoDevice != nil && name == l.image.RootDeviceName:
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
	for _, d := range devices {
		v, err := readVolume(*d.DeviceName, *d.Ebs, smallest[*d.DeviceName])
		if err != nil {
			return err
		}
		l.volumes = append(l.volumes, v)
	}
	return nil
}

// volumeLimits are the sizes in GiB and the IOPS that a type of volume may have, and its IOPS by default.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html
var volumeLimits = map[types.VolumeType]struct{ least, most, leastIOPS, mostIOPS, defaultIOPS int32 }{
	types.VolumeTypeGp2:      {least: 1, most: 16384},
	types.VolumeTypeGp3:      {least: 1, most: 65536, leastIOPS: 3000, mostIOPS: 80000, defaultIOPS: 3000},
	types.VolumeTypeIo1:      {least: 4, most: 16384, leastIOPS: 100, mostIOPS: 64000},
	types.VolumeTypeIo2:      {least: 4, most: 65536, leastIOPS: 100, mostIOPS: 256000},
	types.VolumeTypeSt1:      {least: 125, most: 16384},
	types.VolumeTypeSc1:      {least: 125, most: 16384},
	types.VolumeTypeStandard: {least: 1, most: 1024},
}

// readVolume checks an EBS volume that is at least as large as its snapshot.
func readVolume(device string, e types.EbsBlockDevice, snapshot int32) (launchVolume, error) {
	kind := cmp.Or(e.VolumeType, types.VolumeTypeGp2)
	limit, ok := volumeLimits[kind]
	if !ok {
		return launchVolume{}, wire.Errorf("UnknownVolumeType", "Unsupported volume type '%s' for volume creation.",
			kind)
	}
	size := aws.ToInt32(e.VolumeSize)
	iops, throughput := aws.ToInt32(e.Iops), aws.ToInt32(e.Throughput)
	switch {
	case e.SnapshotId != nil && snapshot == 0:
		return launchVolume{}, wire.Errorf("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.",
			*e.SnapshotId)
	case size == 0:
		return launchVolume{}, resource.MissingParameter("ebs.volumeSize")
	case size < snapshot:
		return launchVolume{}, wire.Errorf("InvalidBlockDeviceMapping",
			"Volume of size %dGB is smaller than snapshot '%s', expect size>= %dGB", size, aws.ToString(e.SnapshotId),
			snapshot)
	case size < limit.least || size > limit.most:
		return launchVolume{},
			resource.Invalid("Volume of %dGiB is invalid for volume type %s; expected a size between %dGiB and %dGiB", size,
				kind, limit.least, limit.most)
	case iops == 0 && limit.leastIOPS > 0 && limit.defaultIOPS == 0:
		return launchVolume{}, wire.Errorf("MissingParameter", "The parameter iops must be specified for %s volumes.",
			kind)
	case iops != 0 && limit.leastIOPS == 0:
		return launchVolume{}, wire.Errorf("InvalidParameterCombination",
			"The parameter iops is not supported for %s volumes.", kind)
	case iops != 0 && (iops < limit.leastIOPS || iops > limit.mostIOPS):
		return launchVolume{},
			resource.Invalid("Volume iops of %d is invalid for volume type %s; expected a value between %d and %d", iops, kind,
				limit.leastIOPS, limit.mostIOPS)
	case throughput != 0 && kind != types.VolumeTypeGp3:
		return launchVolume{}, wire.Errorf("InvalidParameterCombination",
			"The parameter throughput is not supported for %s volumes.", kind)
	case throughput != 0 && (throughput < 125 || throughput > 2000):
		return launchVolume{}, resource.InvalidValue(throughput, "throughput", "Expecting a value between 125 and 2000.")
	}
	switch {
	case kind == types.VolumeTypeGp3:
		iops, throughput = cmp.Or(iops, limit.defaultIOPS), cmp.Or(throughput, 125)
	case kind == types.VolumeTypeGp2:
		iops = min(16000, max(100, 3*size))
	}
	return launchVolume{
		device: device, deleteOnTermination: aws.ToBool(e.DeleteOnTermination),
		row: record.Volume{
			Size: size, Type: kind, IOPS: iops, Throughput: throughput, Encrypted: aws.ToBool(e.Encrypted) ||
				e.KmsKeyId != nil,
			KMSKeyID: aws.ToString(e.KmsKeyId), SnapshotID: aws.ToString(e.SnapshotId),
		},
	}, nil
}
