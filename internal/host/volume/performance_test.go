//go:build linux

package volume

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestPerformance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind                   types.VolumeType
		size, iops, throughput int32
		wantIOPS, wantMiB      int64
	}{
		{types.VolumeTypeGp3, 1, 3000, 125, 3000, 125},
		{types.VolumeTypeGp3, 100, 16000, 1000, 16000, 1000},
		{types.VolumeTypeGp2, 1, 100, 0, 3000, 128},
		{types.VolumeTypeGp2, 170, 510, 0, 3000, 128},
		{types.VolumeTypeGp2, 171, 513, 0, 3000, 250},
		{types.VolumeTypeGp2, 2000, 6000, 0, 6000, 250},
		{types.VolumeTypeGp2, 16384, 16000, 0, 16000, 250},
		{types.VolumeTypeIo1, 4, 100, 0, 100, 25},
		{types.VolumeTypeIo1, 100, 2000, 0, 2000, 500},
		{types.VolumeTypeIo1, 1000, 32000, 0, 32000, 500},
		{types.VolumeTypeIo1, 2000, 64000, 0, 64000, 1000},
		{types.VolumeTypeIo2, 4, 100, 0, 100, 25},
		{types.VolumeTypeIo2, 100, 64000, 0, 64000, 4000},
		{types.VolumeTypeSt1, 125, 0, 0, 500, 30},
		{types.VolumeTypeSt1, 2048, 0, 0, 500, 500},
		{types.VolumeTypeSt1, 16384, 0, 0, 500, 500},
		{types.VolumeTypeSc1, 125, 0, 0, 250, 9},
		{types.VolumeTypeSc1, 16384, 0, 0, 250, 250},
		{types.VolumeTypeStandard, 1, 0, 0, 200, 90},
		{"", 1, 0, 0, 0, 0},
	} {
		got := performance(record.Volume{Type: test.kind, Size: test.size, IOPS: test.iops, Throughput: test.throughput})
		if want := (cgroup.DiskLimits{IOPS: test.wantIOPS, BytesPerSecond: test.wantMiB << 20}); got != want {
			t.Errorf("%s of %d GiB with %d IOPS: %+v, want %+v", test.kind, test.size, test.iops, got, want)
		}
	}
}
