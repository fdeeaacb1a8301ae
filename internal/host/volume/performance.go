//go:build linux

package volume

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/record"
)

// performance returns the IOPS and the throughput that EBS gives a volume. Of types whose baseline grows with the size,
// and that burst above it as long as they have credits, it returns the burst: there are no credits here.
// https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html
// https://docs.aws.amazon.com/ebs/latest/userguide/provisioned-iops.html
// https://docs.aws.amazon.com/ebs/latest/userguide/hdd-vols.html
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volumes-previous.html (standard)
func performance(v record.Volume) cgroup.DiskLimits {
	size, iops := int64(v.Size), int64(v.IOPS)
	limits := func(iops, mebibytes int64) cgroup.DiskLimits {
		return cgroup.DiskLimits{IOPS: iops, BytesPerSecond: mebibytes << 20}
	}
	switch v.Type {
	case types.VolumeTypeGp3:
		return limits(iops, int64(v.Throughput))
	case types.VolumeTypeGp2:
		throughput := int64(250)
		if size <= 170 {
			throughput = 128
		}
		return limits(max(3000, iops), throughput)
	case types.VolumeTypeIo1: // I/O of 256 KiB up to 500 MiB/s, of 16 KiB above
		return limits(iops, min(1000, max(min(500, iops/4), iops/64)))
	case types.VolumeTypeIo2: // 0.256 MiB/s for each, at least what one at 16 KiB needs
		return limits(iops, min(4000, max(1, iops*256/1000)))
	case types.VolumeTypeSt1:
		return limits(500, min(500, max(1, 250*size/1024)))
	case types.VolumeTypeSc1:
		return limits(250, min(250, max(1, 80*size/1024)))
	case types.VolumeTypeStandard:
		return limits(200, 90)
	}
	return cgroup.DiskLimits{}
}
