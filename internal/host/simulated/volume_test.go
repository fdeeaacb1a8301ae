package simulated_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/controller/volume"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/simulated"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestVolumesAreSimulated takes a volume and a snapshot through their lives with nothing behind them.
func TestVolumesAreSimulated(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := reconcile.Run(ctx, slog.New(slog.DiscardHandler), slices.Concat(
			simulated.NewVolumes(w.Store).Controllers(), volume.New(volume.Options{Store: w.Store,
				EC2: w.Service.VolumeLifecycle()}).Controllers())...); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })

	images := ami.All(ec2test.Region)
	image := images[slices.IndexFunc(images, func(i ami.Image) bool {
		return i.Family == ami.AL2023 && i.Architecture == "x86_64"
	})].ID
	instance := awstest.Must[*ec2.RunInstancesOutput](t)(w.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: &image,
		InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})).Instances[0]
	awstest.Must[any](t)(record.Machines(w.Store).Put(ctx, record.EC2Key(ec2test.Account, ec2test.Region,
		*instance.InstanceId), record.Machine{InstanceID: *instance.InstanceId, Boot: 1,
		State: ec2types.InstanceStateNameRunning}))

	id := awstest.Must[*ec2.CreateVolumeOutput](t)(w.CreateVolume(ctx, &ec2.CreateVolumeInput{Size: aws.Int32(1),
		AvailabilityZone: instance.Placement.AvailabilityZone})).VolumeId
	state := func() (ec2types.VolumeState, []ec2types.VolumeAttachment, int32) {
		v := awstest.Must[*ec2.DescribeVolumesOutput](t)(w.DescribeVolumes(ctx,
			&ec2.DescribeVolumesInput{VolumeIds: []string{*id}})).Volumes[0]
		return v.State, v.Attachments, *v.Size
	}
	waitFor := func(want ec2types.VolumeState) {
		t.Helper()
		eventually.True(t, "the volume is "+string(want), func() bool { s, _, _ := state(); return s == want })
	}
	waitFor(ec2types.VolumeStateAvailable)
	awstest.Must[any](t)(w.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: id, InstanceId: instance.InstanceId,
		Device: aws.String("/dev/xvdaa")}))
	eventually.True(t, "it is attached", func() bool {
		_, a, _ := state()
		return len(a) == 1 && a[0].State == ec2types.VolumeAttachmentStateAttached
	})
	awstest.Must[any](t)(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: id, Size: aws.Int32(2)}))
	eventually.True(t, "it is larger", func() bool { _, _, size := state(); return size == 2 })
	snapshot := awstest.Must[*ec2.CreateSnapshotOutput](t)(w.CreateSnapshot(ctx,
		&ec2.CreateSnapshotInput{VolumeId: id})).SnapshotId
	eventually.True(t, "the snapshot is complete", func() bool {
		return awstest.Must[*ec2.DescribeSnapshotsOutput](t)(w.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{
			SnapshotIds: []string{*snapshot}})).Snapshots[0].State == ec2types.SnapshotStateCompleted
	})
	awstest.Must[any](t)(w.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: id}))
	waitFor(ec2types.VolumeStateAvailable)
	awstest.Must[any](t)(w.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: snapshot}))
	awstest.Must[any](t)(w.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: id}))
	eventually.True(t, "nothing is left", func() bool {
		return record.Volumes(w.Store).Count("") == 1 && record.VolumeDisks(w.Store).Count("") == 1 && // the root volume
			record.Snapshots(w.Store).Count("") == 0 && record.SnapshotDisks(w.Store).Count("") == 0
	})
}
