//go:build linux

package volumes

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
)

// The kernel bounds what a machine does to a volume, and counts it where it bounds it, though the volume's device goes
// past the host's memory.
func TestThePerformanceOfAVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	host, err := cgroup.Open()
	if err != nil {
		t.Skip(err)
	}
	id := r.launch(1)[0]
	group := host.Group(r.Owner(), id)
	if group.Dir("blkio") == "" && !host.V2() {
		t.Skip("this host has no cgroups for disks")
	}
	volume := r.create(func(*ec2.CreateVolumeInput) {})
	r.attach(volume, id, "/dev/xvdaa")
	minor := uint32(r.number(volume))
	bounded := func(iops, mebibytes int64) {
		t.Helper()
		want := cgroup.DiskLimits{IOPS: iops, BytesPerSecond: mebibytes << 20}
		r.eventually("the volume is bounded", func() error {
			use, err := group.DiskUse(minor)
			if err == nil && use.Limits != want {
				err = fmt.Errorf("the bounds are %+v, not %+v", use.Limits, want)
			}
			return err
		})
	}
	bounded(3000, 125)
	must[*ec2.ModifyVolumeOutput](r)(r.client.ModifyVolume(t.Context(), &ec2.ModifyVolumeInput{VolumeId: &volume,
		Size: aws.Int32(10), Iops: aws.Int32(4000), Throughput: aws.Int32(500)}))
	bounded(4000, 500)
	must[*ec2.ModifyVolumeOutput](r)(r.client.ModifyVolume(t.Context(), &ec2.ModifyVolumeInput{VolumeId: &volume,
		VolumeType: types.VolumeTypeGp2}))
	bounded(3000, 128)

	before, err := group.DiskUse(minor)
	if err != nil {
		t.Fatal(err)
	}
	const size = 4 << 20
	r.do(id, "dd if=/dev/zero of=/dev/xvdaa bs=1M count=4 oflag=direct 2>/dev/null && "+
		"dd if=/dev/xvdaa of=/dev/null bs=1M count=4 iflag=direct 2>/dev/null")
	after, err := group.DiskUse(minor)
	if err != nil || after.Written-before.Written != size || after.Read-before.Read < size {
		t.Errorf("counted are %+v, before %+v, %v; want %d bytes more", after, before, err, size)
	}
}
