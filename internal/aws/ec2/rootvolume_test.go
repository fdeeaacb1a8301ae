package ec2_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestTheRootVolumeOfAnInstance takes a root volume through the life of an instance that it outlives.
func TestTheRootVolumeOfAnInstance(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	d := disks{w}
	name := types.Tag{Key: aws.String("Name"), Value: aws.String("disk")}
	instance := *runInstance(w, ec2.RunInstancesInput{
		BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), Ebs: &types.EbsBlockDevice{
			VolumeSize: aws.Int32(30), DeleteOnTermination: aws.Bool(true)}}},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeVolume, Tags: []types.Tag{name}}},
	}).InstanceId
	waitForState(w, instance, types.InstanceStateNameRunning)
	mapped := describeInstance(w, instance).BlockDeviceMappings
	root := *mapped[0].Ebs.VolumeId
	d.waitForVolume(root, types.VolumeStateInUse)
	if v := d.describe(root); len(mapped) != 1 || *mapped[0].DeviceName != "/dev/xvda" || *v.Size != 30 ||
		v.VolumeType != types.VolumeTypeGp3 || len(v.Tags) != 1 || *v.Tags[0].Value != "disk" || *v.SnapshotId == "" ||
		*v.Attachments[0].Device != "/dev/xvda" || v.Attachments[0].State != types.VolumeAttachmentStateAttached ||
		!*v.Attachments[0].DeleteOnTermination {
		t.Errorf("it is %+v, mapped as %+v", v, mapped)
	}

	grown := awstest.Must[*ec2.ModifyVolumeOutput](t)(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &root,
		Size: aws.Int32(40)})).VolumeModification
	if *grown.OriginalSize != 30 || *grown.TargetSize != 40 {
		t.Errorf("the modification is %+v", grown)
	}
	eventually.True(t, "it has grown", func() bool { return *d.describe(root).Size == 40 })
	awstest.Must[any](t)(w.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: &root}))
	awstest.Must[any](t)(w.CopyVolumes(ctx, &ec2.CopyVolumesInput{SourceVolumeId: &root}))

	awstest.Must[any](t)(w.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{instance}}))
	waitForState(w, instance, types.InstanceStateNameStopped)
	wantRefusal(t, "detach it while its instance is stopped",
		failed(w.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: &root})), "OperationNotPermitted")

	awstest.Must[any](t)(w.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: &instance,
		BlockDeviceMappings: []types.InstanceBlockDeviceMappingSpecification{{DeviceName: aws.String("/dev/xvda"),
			Ebs: &types.EbsInstanceBlockDeviceSpecification{DeleteOnTermination: aws.Bool(false)}}}}))
	awstest.Must[any](t)(w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{instance}}))
	d.waitForVolume(root, types.VolumeStateAvailable)

	// What is left is a volume like others, though it came from an AMI.
	other := *runInstance(w, ec2.RunInstancesInput{}).InstanceId
	waitForState(w, other, types.InstanceStateNameRunning)
	own := *describeInstance(w, other).BlockDeviceMappings[0].Ebs.VolumeId
	awstest.Must[any](t)(w.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &root, InstanceId: &other,
		Device: aws.String("/dev/xvdf")}))
	awstest.Must[any](t)(w.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: &root}))
	d.waitForVolume(root, types.VolumeStateAvailable)
	awstest.Must[any](t)(w.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &root}))
	d.waitForAbsence(root)
	awstest.Must[any](t)(w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{other}}))
	d.waitForAbsence(own)
}

// TestTheVolumesOfBottlerocket launches an image of two volumes, of which a machine writes to the second one.
func TestTheVolumesOfBottlerocket(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	d := disks{w}
	images := ami.All(ec2test.Region)
	bottlerocket := images[slices.IndexFunc(images, func(i ami.Image) bool {
		return i.Family == ami.Bottlerocket && i.Architecture == "x86_64"
	})].ID
	instance := *runInstance(w, ec2.RunInstancesInput{ImageId: &bottlerocket}).InstanceId
	waitForState(w, instance, types.InstanceStateNameRunning)
	mapped := describeInstance(w, instance).BlockDeviceMappings
	if len(mapped) != 2 || *mapped[0].DeviceName != "/dev/xvda" || *mapped[1].DeviceName != "/dev/xvdb" {
		t.Fatalf("the devices are %+v", mapped)
	}
	for _, m := range mapped {
		d.waitForVolume(*m.Ebs.VolumeId, types.VolumeStateInUse)
		row, err := record.Volumes(w.Store).Get(ctx, diskKey(*m.Ebs.VolumeId))
		if err != nil || row.Value.Diskless != (*m.DeviceName == "/dev/xvda") {
			t.Errorf("%s is %+v, %v", *m.DeviceName, row.Value, err)
		}
		wantRefusal(t, "detach "+*m.DeviceName, failed(w.DetachVolume(ctx, &ec2.DetachVolumeInput{
			VolumeId: m.Ebs.VolumeId})), "OperationNotPermitted")
		run := ec2.RunInstancesInput{ImageId: &bottlerocket, BlockDeviceMappings: []types.BlockDeviceMapping{{
			DeviceName: m.DeviceName, NoDevice: aws.String("")}}}
		completeRequest(w, &run)
		wantRefusal(t, "launch without "+*m.DeviceName, failed(w.RunInstances(ctx, &run)), "InvalidBlockDeviceMapping")
	}
	awstest.Must[any](t)(w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{instance}}))
	for _, m := range mapped {
		d.waitForAbsence(*m.Ebs.VolumeId)
	}
}

// TestRootVolumesWithoutDisks launches on a host that has no disks for root volumes: what would need one is refused.
func TestRootVolumesWithoutDisks(t *testing.T) {
	t.Parallel()
	w := ec2test.NewDiskless(t)
	ctx := w.Context()
	startHardware(w)
	d := disks{w}
	instance := *runInstance(w, ec2.RunInstancesInput{}).InstanceId
	waitForState(w, instance, types.InstanceStateNameRunning)
	mapped := describeInstance(w, instance).BlockDeviceMappings
	root := *mapped[0].Ebs.VolumeId
	if v := d.describe(root); v.State != types.VolumeStateInUse ||
		mapped[0].Ebs.Status != types.AttachmentStatusAttached {
		t.Errorf("it is %+v, mapped as %+v", v, mapped)
	}
	if m := awstest.Must[*ec2.ModifyVolumeOutput](t)(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &root,
		Iops: aws.Int32(4000)})).VolumeModification; m.ModificationState != types.VolumeModificationStateCompleted {
		t.Errorf("modified it: %+v", m)
	}
	checkRefusals(w, t, []refused{
		{"detach", func() error {
			return failed(w.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: &root}))
		}, "OperationNotPermitted", "Unable to detach root volume"},
		{"snapshot", func() error {
			return failed(w.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: &root}))
		}, "UnsupportedOperation", "has no disk"},
		{"snapshots", func() error {
			return failed(w.CreateSnapshots(ctx, &ec2.CreateSnapshotsInput{
				InstanceSpecification: &types.InstanceSpecification{InstanceId: &instance}}))
		}, "UnsupportedOperation", "has no disk"},
		{"copy", func() error {
			return failed(w.CopyVolumes(ctx, &ec2.CopyVolumesInput{SourceVolumeId: &root}))
		}, "UnsupportedOperation", "has no disk"},
		{"grow", func() error {
			return failed(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &root, Size: aws.Int32(100)}))
		}, "UnsupportedOperation", "has no disk"},
	})
	awstest.Must[any](t)(w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{instance}}))
	d.waitForAbsence(root)
}
