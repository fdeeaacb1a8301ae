package ec2_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/controller/volume"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
)

// disks stands in for internal/host/volume: tests say what it observes.
type disks struct{ *ec2test.Fixture }

// startDisks starts the controller that follows what is observed of disks.
func startDisks(w *ec2test.Fixture) disks {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := reconcile.Run(ctx, slog.New(slog.DiscardHandler), volume.New(volume.Options{Store: w.Store,
			EC2: w.Service.VolumeLifecycle()}).Controllers()...); err != nil {
			w.T.Error(err)
		}
	})
	w.T.Cleanup(func() { cancel(); running.Wait() })
	return disks{w}
}

func diskKey(id string) string { return record.EC2Key(ec2test.Account, ec2test.Region, id) }

// observe writes what the host has observed of the disk of a volume.
func (d disks) observe(id string, size int32, attachments ...record.DiskAttachment) {
	d.T.Helper()
	awstest.Must[any](d.T)(record.VolumeDisks(d.Store).Put(d.Context(), diskKey(id),
		record.VolumeDisk{VolumeID: id, Size: size, Attachments: attachments}))
}

// fail writes that a disk could not be made or changed.
func (d disks) fail(id string, size int32, why string) {
	d.T.Helper()
	awstest.Must[any](d.T)(record.VolumeDisks(d.Store).Put(d.Context(), diskKey(id),
		record.VolumeDisk{VolumeID: id, Size: size, Failure: why}))
}

// remove deletes what was observed of a volume.
func (d disks) remove(id string) {
	d.T.Helper()
	row, err := record.VolumeDisks(d.Store).Get(d.Context(), diskKey(id))
	if err == nil {
		err = record.VolumeDisks(d.Store).Delete(d.Context(), row)
	}
	if err != nil {
		d.T.Fatal(err)
	}
}

// complete writes that a snapshot of an account in a region has its content.
func (d disks) complete(account, region, id string) {
	d.T.Helper()
	awstest.Must[any](d.T)(record.SnapshotDisks(d.Store).Put(d.Context(), record.EC2Key(account, region, id),
		record.SnapshotDisk{SnapshotID: id, Complete: true, Progress: 100, UsedBytes: 4096}))
}

func attachedTo(instance, device string) record.DiskAttachment {
	return record.DiskAttachment{InstanceID: instance, Device: device, AttachedAt: time.Now()}
}

// volume creates a volume whose disk is there.
func (d disks) volume(in ec2.CreateVolumeInput) string {
	d.T.Helper()
	if in.AvailabilityZone == nil {
		in.AvailabilityZone = aws.String(ec2test.Region + "a")
	}
	if in.Size == nil && in.SnapshotId == nil {
		in.Size = aws.Int32(10)
	}
	out := awstest.Must[*ec2.CreateVolumeOutput](d.T)(d.CreateVolume(d.Context(), &in))
	d.observe(*out.VolumeId, *out.Size)
	return *out.VolumeId
}

// snapshot creates a snapshot that is complete.
func (d disks) snapshot(volume string) string {
	d.T.Helper()
	id := *awstest.Must[*ec2.CreateSnapshotOutput](d.T)(d.CreateSnapshot(d.Context(),
		&ec2.CreateSnapshotInput{VolumeId: &volume})).SnapshotId
	d.complete(ec2test.Account, ec2test.Region, id)
	return id
}

// describe returns a volume as it is now.
func (d disks) describe(id string) types.Volume {
	d.T.Helper()
	return awstest.Must[*ec2.DescribeVolumesOutput](d.T)(d.DescribeVolumes(d.Context(),
		&ec2.DescribeVolumesInput{VolumeIds: []string{id}})).Volumes[0]
}

// waitForVolume waits for the state of a volume.
func (d disks) waitForVolume(id string, state types.VolumeState) {
	d.T.Helper()
	eventually.True(d.T, id+" is "+string(state), func() bool { return d.describe(id).State == state })
}

// waitForAbsence waits until a volume is gone.
func (d disks) waitForAbsence(id string) {
	d.T.Helper()
	eventually.True(d.T, id+" is gone", func() bool {
		_, err := d.DescribeVolumes(d.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
		return awstest.Code(err) == "InvalidVolume.NotFound"
	})
}

// wantRefusal demands the code of an error; no error when it is empty.
func wantRefusal(t *testing.T, what string, err error, code string) {
	t.Helper()
	if code == "" && err == nil {
		return
	}
	if got := awstest.Code(err); got != code {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}
