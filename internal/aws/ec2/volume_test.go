package ec2_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func TestLifeOfAVolume(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	d := startDisks(w)
	instance := *waitForState(w, *runInstance(w, ec2.RunInstancesInput{}).InstanceId,
		types.InstanceStateNameRunning).InstanceId
	zone := *describeInstance(w, instance).Placement.AvailabilityZone

	in := &ec2.CreateVolumeInput{AvailabilityZone: &zone, Size: aws.Int32(10), VolumeType: types.VolumeTypeGp3,
		ClientToken: aws.String("once"), TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeVolume,
			Tags:         []types.Tag{{Key: aws.String("CSIVolumeName"), Value: aws.String("pvc-1")}}}}}
	made := awstest.Must[*ec2.CreateVolumeOutput](t)(w.CreateVolume(ctx, in))
	id := *made.VolumeId
	ec2test.WantID(t, made.VolumeId, "vol-")
	if made.State != types.VolumeStateCreating || *made.Size != 10 || *made.Iops != 3000 || *made.Throughput != 125 ||
		*made.Encrypted || *made.MultiAttachEnabled || len(made.Tags) != 1 || *made.SnapshotId != "" {
		t.Errorf("created %+v", made)
	}
	if again := awstest.Must[*ec2.CreateVolumeOutput](t)(w.CreateVolume(ctx, in)); *again.VolumeId != id {
		t.Errorf("the same token made %s and %s", id, *again.VolumeId)
	}
	attach := &ec2.AttachVolumeInput{VolumeId: &id, InstanceId: &instance, Device: aws.String("/dev/xvdaa")}
	_, err := w.AttachVolume(ctx, attach)
	wantRefusal(t, "attach a volume that is creating", err, "IncorrectState")
	d.observe(id, 10)
	d.waitForVolume(id, types.VolumeStateAvailable)

	attached := awstest.Must[*ec2.AttachVolumeOutput](t)(w.AttachVolume(ctx, attach))
	if attached.State != types.VolumeAttachmentStateAttaching || *attached.Device != "/dev/xvdaa" ||
		*attached.DeleteOnTermination {
		t.Errorf("attached %+v", attached)
	}
	if v := d.describe(id); v.State != types.VolumeStateInUse || len(v.Attachments) != 1 ||
		v.Attachments[0].State != types.VolumeAttachmentStateAttaching {
		t.Errorf("while it is being attached: %+v", v)
	}
	d.observe(id, 10, record.DiskAttachment{InstanceID: instance, Device: "/dev/xvdaa"}) // which the host has begun
	if s := d.describe(id).Attachments[0].State; s != types.VolumeAttachmentStateAttaching {
		t.Errorf("while the machine is being given it: %s", s)
	}
	d.observe(id, 10, attachedTo(instance, "/dev/xvdaa"))
	eventually.True(t, "it is attached", func() bool {
		return d.describe(id).Attachments[0].State == types.VolumeAttachmentStateAttached
	})
	mapped := describeInstance(w, instance).BlockDeviceMappings
	if len(mapped) != 2 || *mapped[1].DeviceName != "/dev/xvdaa" || *mapped[1].Ebs.VolumeId != id ||
		mapped[1].Ebs.Status != types.AttachmentStatusAttached {
		t.Errorf("mappings %+v", mapped)
	}
	wantRefusal(t, "delete it", failed(w.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &id})), "VolumeInUse")

	// While it is busy it stays.
	detach := &ec2.DetachVolumeInput{VolumeId: &id}
	if out := awstest.Must[*ec2.DetachVolumeOutput](t)(w.DetachVolume(ctx,
		detach)); out.State != types.VolumeAttachmentStateDetaching || *out.InstanceId != instance {
		t.Errorf("detached %+v", out)
	}
	busy := attachedTo(instance, "/dev/xvdaa")
	busy.Busy = true
	d.observe(id, 10, busy)
	eventually.True(t, "it is busy", func() bool {
		return d.describe(id).Attachments[0].State == types.VolumeAttachmentStateBusy
	})
	if mapped := describeInstance(w, instance).BlockDeviceMappings; mapped[1].Ebs.Status != "detaching" {
		t.Errorf("busy: %+v", mapped[1].Ebs)
	}
	if again := awstest.Must[*ec2.DetachVolumeOutput](t)(w.DetachVolume(ctx,
		detach)); again.State != types.VolumeAttachmentStateBusy {
		t.Errorf("the same request again: %+v", again)
	}
	detach.Force = aws.Bool(true)
	awstest.Must[any](t)(w.DetachVolume(ctx, detach))
	d.observe(id, 10)
	d.waitForVolume(id, types.VolumeStateAvailable)
	if mapped := describeInstance(w, instance).BlockDeviceMappings; len(mapped) != 1 {
		t.Errorf("detached: %+v", mapped)
	}
	wantRefusal(t, "detach what is detached", failed(w.DetachVolume(ctx, detach)), "IncorrectState")

	awstest.Must[any](t)(w.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &id}))
	if v := d.describe(id); v.State != types.VolumeStateDeleting {
		t.Errorf("deleted: %s", v.State)
	}
	wantRefusal(t, "delete it again", failed(w.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &id})),
		"InvalidVolume.NotFound")
	wantRefusal(t, "attach what is deleted", failed(w.AttachVolume(ctx, attach)), "IncorrectState")
	d.remove(id)
	d.waitForAbsence(id)
	if again := awstest.Must[*ec2.CreateVolumeOutput](t)(w.CreateVolume(ctx, in)); *again.VolumeId == id {
		t.Error("the token of a deleted volume is not free")
	}
}

// TestAttachmentsAtOnce attaches a volume to two instances, and deletes it, at the same time, from two daemons.
func TestAttachmentsAtOnce(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	d := startDisks(w)
	second := w.NewClient(w.Daemon(), ec2test.Region)
	var instances []string
	for range 2 {
		id := *runInstance(w, ec2.RunInstancesInput{}).InstanceId
		waitForState(w, id, types.InstanceStateNameRunning)
		instances = append(instances, id)
	}
	for range 10 {
		id := d.volume(ec2.CreateVolumeInput{Encrypted: aws.Bool(true), Size: aws.Int32(1)})
		device := aws.String("/dev/xvdf")
		errs := make([]error, 3)
		var calls sync.WaitGroup
		for i, c := range []*ec2.Client{w.Client, second} {
			calls.Go(func() {
				_, errs[i] = c.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &id, InstanceId: &instances[i],
					Device: device})
			})
		}
		calls.Go(func() { _, errs[2] = second.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &id}) })
		calls.Wait()
		succeeded := 0
		for _, err := range errs {
			if err == nil {
				succeeded++
			}
		}
		if succeeded != 1 {
			t.Errorf("%d of two attachments and a deletion succeeded: %v", succeeded, errs)
		}
		for i, instance := range instances {
			if errs[i] == nil {
				awstest.Must[any](t)(w.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: &id, InstanceId: &instance}))
				eventually.True(t, "it is detached", func() bool {
					return len(describeInstance(w, instance).BlockDeviceMappings) == 1
				})
			}
		}
	}
}

// TestWhatIsStillSeenStays neither attaches nor deletes a volume whose disk is seen in another machine.
func TestWhatIsStillSeenStays(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	d := startDisks(w)
	instance := *runInstance(w, ec2.RunInstancesInput{}).InstanceId
	waitForState(w, instance, types.InstanceStateNameRunning)
	id := d.volume(ec2.CreateVolumeInput{})
	d.observe(id, 10, attachedTo("i-0123456789abcdef0", "/dev/xvdf"))
	wantRefusal(t, "attach", failed(w.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &id, InstanceId: &instance,
		Device: aws.String("/dev/xvdf")})), "VolumeInUse")
	wantRefusal(t, "delete", failed(w.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &id})), "VolumeInUse")
}

// TestAttachmentsThatDangle heals records in which only one of an instance and a volume knows the other.
func TestAttachmentsThatDangle(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	d := startDisks(w)
	instance := *runInstance(w, ec2.RunInstancesInput{}).InstanceId
	waitForState(w, instance, types.InstanceStateNameRunning)
	if _, err := record.Instances(w.Store).Modify(ctx, diskKey(instance), func(r *record.Instance) error {
		r.BlockDevices = append(r.BlockDevices, record.InstanceBlockDevice{DeviceName: "/dev/xvdf",
			VolumeID: "vol-0123456789abcdef0", Detaching: time.Now(), Force: true})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	awstest.Must[any](t)(w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{instance}}))
	eventually.True(t, "the instance has no volumes", func() bool {
		row, err := record.Instances(w.Store).Get(ctx, diskKey(instance))
		return err == nil && len(row.Value.BlockDevices) == 0
	})
	id := d.volume(ec2.CreateVolumeInput{})
	if _, err := record.Volumes(w.Store).Modify(ctx, diskKey(id), func(v *record.Volume) error {
		v.InstanceID = "i-0123456789abcdef0"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	d.waitForVolume(id, types.VolumeStateAvailable)
}

// failed returns the error of a call.
func failed(_ any, err error) error { return err }

func TestVolumesOfATerminatedInstance(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	d := startDisks(w)
	run := runInstance(w, ec2.RunInstancesInput{BlockDeviceMappings: []types.BlockDeviceMapping{
		{DeviceName: aws.String("/dev/xvdf"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(5),
			DeleteOnTermination: aws.Bool(true)}},
		{DeviceName: aws.String("/dev/xvdg"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(6),
			VolumeType: types.VolumeTypeGp3}},
	}})
	instance := *run.InstanceId
	waitForState(w, instance, types.InstanceStateNameRunning)
	mapped := describeInstance(w, instance).BlockDeviceMappings
	root, goes, stays := *mapped[0].Ebs.VolumeId, *mapped[1].Ebs.VolumeId, *mapped[2].Ebs.VolumeId
	d.waitForVolume(root, types.VolumeStateInUse)
	if d.describe(goes).State != types.VolumeStateCreating || mapped[1].Ebs.Status != types.AttachmentStatusAttaching {
		t.Errorf("launched with %+v", mapped)
	}
	d.observe(goes, 5, attachedTo(instance, "/dev/xvdf"))
	d.observe(stays, 6, attachedTo(instance, "/dev/xvdg"))
	d.waitForVolume(goes, types.VolumeStateInUse)

	awstest.Must[any](t)(w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{instance}}))
	waitForState(w, instance, types.InstanceStateNameTerminated)
	d.waitForAbsence(root)
	eventually.True(t, "they are being detached", func() bool {
		return d.describe(stays).Attachments[0].State == types.VolumeAttachmentStateDetaching
	})
	if d.describe(stays).State != types.VolumeStateInUse {
		t.Error("a volume is available before it was seen detached")
	}
	d.observe(goes, 5)
	d.observe(stays, 6)
	d.waitForVolume(stays, types.VolumeStateAvailable)
	d.waitForVolume(goes, types.VolumeStateDeleting)
	d.remove(goes)
	d.waitForAbsence(goes)
	row := awstest.Must[store.Row[record.Instance]](t)(record.Instances(w.Store).Get(ctx, diskKey(instance)))
	if len(row.Value.BlockDevices) != 0 {
		t.Errorf("the instance has %+v", row.Value.BlockDevices)
	}
}

func TestModifyVolume(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	d := startDisks(w)
	id := d.volume(ec2.CreateVolumeInput{VolumeType: types.VolumeTypeGp2})
	last := func() types.VolumeModification {
		return awstest.Must[*ec2.DescribeVolumesModificationsOutput](t)(w.DescribeVolumesModifications(ctx,
			&ec2.DescribeVolumesModificationsInput{VolumeIds: []string{id}})).VolumesModifications[0]
	}
	m := awstest.Must[*ec2.ModifyVolumeOutput](t)(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &id,
		Size: aws.Int32(20), VolumeType: types.VolumeTypeGp3})).VolumeModification
	if m.ModificationState != types.VolumeModificationStateModifying || *m.OriginalSize != 10 || *m.TargetSize != 20 ||
		m.OriginalVolumeType != types.VolumeTypeGp2 || *m.TargetIops != 3000 || *m.TargetThroughput != 125 ||
		*m.OriginalIops != 100 {
		t.Errorf("modification %+v", m)
	}
	if v := d.describe(id); *v.Size != 10 || v.VolumeType != types.VolumeTypeGp3 {
		t.Errorf("while it is modified it is %d GiB of type %s", *v.Size, v.VolumeType)
	}
	wantRefusal(t, "modify it meanwhile", failed(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &id,
		Size: aws.Int32(30)})), "IncorrectModificationState")

	// It fails; another one is possible, and completes.
	d.fail(id, 10, "grow /var/lib/coracle/volumes/x: no space left on device")
	eventually.True(t, "it has failed", func() bool {
		return last().ModificationState == types.VolumeModificationStateFailed
	})
	if text := *last().StatusMessage; strings.Contains(text, "/var") || !strings.Contains(text, "no space left") {
		t.Errorf("message %q", text)
	}
	awstest.Must[any](t)(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &id, Size: aws.Int32(15)}))
	d.observe(id, 15)
	eventually.True(t, "it is complete", func() bool {
		return last().ModificationState == types.VolumeModificationStateCompleted
	})
	if m := last(); *m.Progress != 100 || m.EndTime == nil || *d.describe(id).Size != 15 {
		t.Errorf("completed: %+v", m)
	}
	for _, iops := range []int32{3500, 4000} {
		awstest.Must[any](t)(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &id, Iops: &iops}))
	}
	wantRefusal(t, "the fifth in a day", failed(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &id,
		Iops: aws.Int32(5000)})), "VolumeModificationRateExceeded")
	other := d.volume(ec2.CreateVolumeInput{})
	awstest.Must[any](t)(w.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: &other}))
	wantRefusal(t, "grow while a snapshot is pending", failed(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{
		VolumeId: &other, Size: aws.Int32(20)})), "IncorrectState")
	found := awstest.Must[*ec2.DescribeVolumesModificationsOutput](t)(w.DescribeVolumesModifications(ctx,
		&ec2.DescribeVolumesModificationsInput{Filters: []types.Filter{ec2test.Filter("target-iops", "4000"),
			ec2test.Filter("modification-state", "completed")}}))
	if len(found.VolumesModifications) != 1 {
		t.Errorf("found %+v", found.VolumesModifications)
	}
}

func TestMultiAttach(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	d := startDisks(w)
	var instances []string
	for range 2 {
		id := *runInstance(w, ec2.RunInstancesInput{}).InstanceId
		waitForState(w, id, types.InstanceStateNameRunning)
		instances = append(instances, id)
	}
	id := d.volume(ec2.CreateVolumeInput{VolumeType: types.VolumeTypeIo2, Iops: aws.Int32(100), Size: aws.Int32(4),
		MultiAttachEnabled: aws.Bool(true)})
	var seen []record.DiskAttachment
	for _, instance := range instances {
		awstest.Must[any](t)(w.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &id, InstanceId: &instance,
			Device: aws.String("/dev/sdf")}))
		seen = append(seen, attachedTo(instance, "/dev/sdf"))
	}
	d.observe(id, 4, seen...)
	found := awstest.Must[*ec2.DescribeVolumesOutput](t)(w.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{
		Filters: []types.Filter{ec2test.Filter("attachment.instance-id", instances[1]),
			ec2test.Filter("multi-attach-enabled", "true")}})).Volumes
	if len(found) != 1 || len(found[0].Attachments) != 2 {
		t.Fatalf("volumes %+v", found)
	}
	wantRefusal(t, "detach from one of two", failed(w.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: &id})),
		"InvalidParameterCombination")
	wantRefusal(t, "turn Multi-Attach off", failed(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &id,
		MultiAttachEnabled: aws.Bool(false)})), "IncorrectState")
	awstest.Must[any](t)(w.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: &id, InstanceId: &instances[0]}))
	d.observe(id, 4, seen[1])
	eventually.True(t, "one is detached", func() bool { return len(d.describe(id).Attachments) == 1 })
	if v := d.describe(id); *v.Attachments[0].InstanceId != instances[1] || v.State != types.VolumeStateInUse {
		t.Errorf("left: %+v", v)
	}
}

func TestVolumeFailuresAndStatus(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	d := startDisks(w)
	id := *awstest.Must[*ec2.CreateVolumeOutput](t)(w.CreateVolume(ctx, &ec2.CreateVolumeInput{
		AvailabilityZoneId: aws.String("euw1-az1"), Size: aws.Int32(1)})).VolumeId
	status := func() types.VolumeStatusInfoStatus {
		return awstest.Must[*ec2.DescribeVolumeStatusOutput](t)(w.DescribeVolumeStatus(ctx,
			&ec2.DescribeVolumeStatusInput{VolumeIds: []string{id}})).VolumeStatuses[0].VolumeStatus.Status
	}
	if got := status(); got != types.VolumeStatusInfoStatusInsufficientData {
		t.Errorf("while it is creating: %s", got)
	}
	d.fail(id, 0, "no space")
	d.waitForVolume(id, types.VolumeStateError)
	if got := status(); got != types.VolumeStatusInfoStatusImpaired {
		t.Errorf("without a disk: %s", got)
	}
	wantRefusal(t, "snapshot", failed(w.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: &id})), "IncorrectState")
	d.observe(id, 1)
	d.waitForVolume(id, types.VolumeStateAvailable)
	if got := status(); got != types.VolumeStatusInfoStatusOk {
		t.Errorf("with a disk: %s", got)
	}

	awstest.Must[any](t)(w.ModifyVolumeAttribute(ctx, &ec2.ModifyVolumeAttributeInput{VolumeId: &id,
		AutoEnableIO: &types.AttributeBooleanValue{Value: aws.Bool(true)}}))
	attribute := awstest.Must[*ec2.DescribeVolumeAttributeOutput](t)(w.DescribeVolumeAttribute(ctx,
		&ec2.DescribeVolumeAttributeInput{VolumeId: &id, Attribute: types.VolumeAttributeNameAutoEnableIO}))
	if !*attribute.AutoEnableIO.Value {
		t.Errorf("attribute %+v", attribute)
	}
	codes := awstest.Must[*ec2.DescribeVolumeAttributeOutput](t)(w.DescribeVolumeAttribute(ctx,
		&ec2.DescribeVolumeAttributeInput{VolumeId: &id, Attribute: types.VolumeAttributeNameProductCodes}))
	if len(codes.ProductCodes) != 0 || codes.AutoEnableIO != nil {
		t.Errorf("attribute %+v", codes)
	}
}

// TestCSIProbes makes the dry runs of the EBS CSI driver, which reads the maximum of IOPS from the message.
func TestCSIProbes(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	_, err := w.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{DryRun: aws.Bool(true)})
	wantRefusal(t, "DescribeAvailabilityZones", err, "DryRunOperation")
	for kind, want := range map[types.VolumeType]string{types.VolumeTypeGp3: "maximum is 80000",
		types.VolumeTypeIo1: "maximum is 64000", types.VolumeTypeIo2: "maximum is 256000"} {
		_, err := w.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: aws.String("eu-west-1a"),
			DryRun: aws.Bool(true), Iops: aws.Int32(1<<31 - 1), Size: aws.Int32(4), VolumeType: kind})
		if code, message, _ := awstest.Failure(err); code != "InvalidParameterValue" || !strings.Contains(message, want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	_, err = w.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: aws.String("eu-west-1a"),
		DryRun: aws.Bool(true), Size: aws.Int32(4)})
	wantRefusal(t, "CreateVolume", err, "DryRunOperation")
}

func TestVolumeQuota(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	d := startDisks(w)
	for range 3 {
		d.volume(ec2.CreateVolumeInput{Size: aws.Int32(16384)})
	}
	_, err := w.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: aws.String("eu-west-1a"),
		Size: aws.Int32(2049)})
	wantRefusal(t, "CreateVolume", err, "VolumeLimitExceeded")
	run := ec2.RunInstancesInput{BlockDeviceMappings: []types.BlockDeviceMapping{
		{DeviceName: aws.String("/dev/xvdf"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(1500)}},
		{DeviceName: aws.String("/dev/xvdg"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(1500)}},
	}}
	completeRequest(w, &run)
	_, err = w.RunInstances(ctx, &run)
	wantRefusal(t, "RunInstances", err, "VolumeLimitExceeded")
	full := ec2.RunInstancesInput{BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"),
		Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(2049), VolumeType: types.VolumeTypeGp2}}}}
	completeRequest(w, &full)
	_, err = w.RunInstances(ctx, &full)
	wantRefusal(t, "a root volume", err, "VolumeLimitExceeded")
	id := d.volume(ec2.CreateVolumeInput{Size: aws.Int32(2000)})
	wantRefusal(t, "ModifyVolume", failed(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &id,
		Size: aws.Int32(3000)})), "VolumeLimitExceeded")
	if _, err := w.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: aws.String("eu-west-1a"),
		Size: aws.Int32(3000), VolumeType: types.VolumeTypeGp3}); err != nil {
		t.Errorf("another type: %v", err)
	}
}

func TestAttachmentLimit(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	d := startDisks(w)
	instance := *runInstance(w, ec2.RunInstancesInput{}).InstanceId
	waitForState(w, instance, types.InstanceStateNameRunning)
	for i := range 27 { // an m5.large has 28, of which one is its network interface, and one its root volume
		id := d.volume(ec2.CreateVolumeInput{Size: aws.Int32(1)})
		name := "/dev/xvdb" + string(rune('a'+i))
		if i == 26 {
			name = "/dev/xvdca"
		}
		_, err := w.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &id, InstanceId: &instance, Device: &name})
		if i == 26 {
			wantRefusal(t, "one more", err, "AttachmentLimitExceeded")
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
