package ec2_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func describeSnapshot(c *ec2.Client, t *testing.T, id string) types.Snapshot {
	t.Helper()
	return awstest.Must[*ec2.DescribeSnapshotsOutput](t)(c.DescribeSnapshots(t.Context(),
		&ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})).Snapshots[0]
}

func TestLifeOfASnapshot(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	d := startDisks(w)
	volume := d.volume(ec2.CreateVolumeInput{})
	made := awstest.Must[*ec2.CreateSnapshotOutput](t)(w.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{
		VolumeId: &volume, Description: aws.String("nightly"), TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeSnapshot,
			Tags:         []types.Tag{{Key: aws.String("Name"), Value: aws.String("one")}}}}}))
	id := *made.SnapshotId
	ec2test.WantID(t, made.SnapshotId, "snap-")
	if made.State != types.SnapshotStatePending || *made.Progress != "0%" || *made.VolumeSize != 10 ||
		*made.VolumeId != volume || *made.OwnerId != ec2test.Account || len(made.Tags) != 1 || *made.Encrypted {
		t.Errorf("created %+v", made)
	}
	zone := aws.String("eu-west-1b")
	wantRefusal(t, "a volume of a pending snapshot", failed(w.CreateVolume(ctx, &ec2.CreateVolumeInput{
		SnapshotId: &id, AvailabilityZone: zone})), "IncorrectState")
	wantRefusal(t, "a copy of a pending snapshot", failed(w.CopySnapshot(ctx, &ec2.CopySnapshotInput{
		SourceSnapshotId: &id, SourceRegion: aws.String(ec2test.Region)})), "IncorrectState")
	for range 4 {
		awstest.Must[any](t)(w.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: &volume}))
	}
	wantRefusal(t, "a sixth at a time", failed(w.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: &volume})),
		"ConcurrentSnapshotLimitExceeded")
	d.complete(ec2test.Account, ec2test.Region, id)
	eventually.True(t, "it is complete", func() bool {
		return describeSnapshot(w.Client, t, id).State == types.SnapshotStateCompleted
	})
	if v := describeSnapshot(w.Client, t, id); *v.Progress != "100%" || *v.FullSnapshotSizeInBytes != 4096 {
		t.Errorf("completed: %+v", v)
	}
	found := awstest.Must[*ec2.DescribeSnapshotsOutput](t)(w.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{
		OwnerIds: []string{"self"}, Filters: []types.Filter{ec2test.Filter("status", "completed"),
			ec2test.Filter("tag:Name", "one"), ec2test.Filter("volume-size", "10")}})).Snapshots
	if len(found) != 1 || *found[0].SnapshotId != id {
		t.Errorf("found %+v", found)
	}

	out := awstest.Must[*ec2.CreateVolumeOutput](t)(w.CreateVolume(ctx, &ec2.CreateVolumeInput{SnapshotId: &id,
		AvailabilityZone: zone}))
	if *out.Size != 10 || *out.SnapshotId != id {
		t.Errorf("a volume of it: %+v", out)
	}
	// It is copied to another region, where it belongs to the volume that stands for all copies.
	there := w.NewClient(w.URL, "us-east-1")
	copied := *awstest.Must[*ec2.CopySnapshotOutput](t)(there.CopySnapshot(ctx, &ec2.CopySnapshotInput{
		SourceSnapshotId: &id, SourceRegion: aws.String(ec2test.Region)})).SnapshotId
	if v := describeSnapshot(there, t, copied); *v.VolumeId != "vol-ffffffff" || *v.VolumeSize != 10 ||
		v.State != types.SnapshotStatePending || v.TransferType != types.TransferTypeStandard {
		t.Errorf("the copy: %+v", v)
	}
	row := awstest.Must[store.Row[record.Snapshot]](t)(record.Snapshots(w.Store).Get(ctx,
		record.EC2Key(ec2test.Account, "us-east-1", copied)))
	if s := row.Value.Source; s == nil || s.Region != ec2test.Region || s.SnapshotID != id ||
		s.Account != ec2test.Account {
		t.Errorf("its source: %+v", s)
	}

	awstest.Must[any](t)(w.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id}))
	_, err := w.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
	wantRefusal(t, "describe what is deleted", err, "InvalidSnapshot.NotFound")
	wantRefusal(t, "delete it again", failed(w.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id})),
		"InvalidSnapshot.NotFound")
	disk := awstest.Must[store.Row[record.SnapshotDisk]](t)(record.SnapshotDisks(w.Store).Get(ctx, diskKey(id)))
	if err := record.SnapshotDisks(w.Store).Delete(ctx, disk); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "its record is gone", func() bool {
		_, err := record.Snapshots(w.Store).Get(ctx, diskKey(id))
		return err != nil
	})
}

// Deleted snapshots count against the quotas until their content has gone: whoever deletes them while they are made, or
// while others copy them, does not get more of the disk.
func TestDeletedSnapshotsCount(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	d := startDisks(w)
	volume := d.volume(ec2.CreateVolumeInput{})
	create := func() (string, error) {
		out, err := w.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: &volume})
		if err != nil {
			return "", err
		}
		return *out.SnapshotId, nil
	}
	var ids []string
	for range 5 {
		id := awstest.Must[string](t)(create())
		awstest.Must[any](t)(record.SnapshotDisks(w.Store).Put(ctx, diskKey(id),
			record.SnapshotDisk{SnapshotID: id, Progress: 1}))
		awstest.Must[any](t)(w.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id}))
		ids = append(ids, id)
	}
	wantRefusal(t, "a sixth that is made", failed(create()), "ConcurrentSnapshotLimitExceeded")
	if err := w.Store.Txn(ctx, record.SnapshotDisks(w.Store).RemoveOp(diskKey(ids[0]))); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "one has gone", func() error { return failed(create()) })
}

// As many deleted snapshots as an account may have, with their content, leave room for no other.
func TestDeletedSnapshotsOfAnAccountCount(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	volume := disks{w}.volume(ec2.CreateVolumeInput{})
	create := func() error {
		return failed(w.CreateSnapshot(w.Context(), &ec2.CreateSnapshotInput{VolumeId: &volume}))
	}
	wantRefusal(t, "the first", create(), "")
	for some := range slices.Chunk(make([]struct{}, 9999), 100) {
		var ops []store.Op
		for range some {
			r := record.Snapshot{EC2Resource: record.EC2Resource{Account: ec2test.Account, Region: ec2test.Region,
				ID: resource.NewID("snap-")}, VolumeID: "vol-ffffffff", VolumeSize: 1, Deleted: time.Now()}
			ops = append(ops, record.Snapshots(w.Store).CreateOp(r.Key(), r))
		}
		if err := w.Store.Txn(w.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	wantRefusal(t, "one more than the quota", create(), "SnapshotLimitExceeded")
}

func TestCopyVolumes(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	d := startDisks(w)
	source := d.volume(ec2.CreateVolumeInput{VolumeType: types.VolumeTypeGp3, Iops: aws.Int32(4000)})
	in := &ec2.CopyVolumesInput{SourceVolumeId: &source, Size: aws.Int32(20), ClientToken: aws.String("once")}
	v := awstest.Must[*ec2.CopyVolumesOutput](t)(w.CopyVolumes(ctx, in)).Volumes[0]
	if *v.SourceVolumeId != source || *v.Size != 20 || v.VolumeType != types.VolumeTypeGp3 || *v.Iops != 4000 ||
		*v.AvailabilityZone != "eu-west-1a" || v.State != types.VolumeStateCreating {
		t.Errorf("the copy: %+v", v)
	}
	again := awstest.Must[*ec2.CopyVolumesOutput](t)(w.CopyVolumes(ctx, in)).Volumes[0]
	if *again.VolumeId != *v.VolumeId {
		t.Error("the same token made another copy")
	}
	_, err := w.CopyVolumes(ctx, &ec2.CopyVolumesInput{SourceVolumeId: &source, Size: aws.Int32(5)})
	wantRefusal(t, "a smaller copy", err, "InvalidParameterValue")
	_, err = w.CopyVolumes(ctx, &ec2.CopyVolumesInput{SourceVolumeId: v.VolumeId})
	wantRefusal(t, "a copy of what has no disk yet", err, "IncorrectState")
}

func TestCreateSnapshotsOfAnInstance(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	d := startDisks(w)
	instance := *runInstance(w, ec2.RunInstancesInput{}).InstanceId
	waitForState(w, instance, types.InstanceStateNameRunning)
	var volumes []string
	for _, device := range []string{"/dev/xvdf", "/dev/xvdg"} {
		id := d.volume(ec2.CreateVolumeInput{TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeVolume,
			Tags:         []types.Tag{{Key: aws.String("device"), Value: &device}}}}})
		awstest.Must[any](t)(w.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &id, InstanceId: &instance,
			Device: &device}))
		volumes = append(volumes, id)
	}
	in := &ec2.CreateSnapshotsInput{Description: aws.String("all"), CopyTagsFromSource: "volume",
		InstanceSpecification: &types.InstanceSpecification{InstanceId: &instance}}
	d.waitForVolume(*describeInstance(w, instance).BlockDeviceMappings[0].Ebs.VolumeId, types.VolumeStateInUse)
	if all := awstest.Must[*ec2.CreateSnapshotsOutput](t)(w.CreateSnapshots(ctx, in)).Snapshots; len(all) != 3 {
		t.Errorf("with the root volume: %+v", all)
	}
	in.InstanceSpecification.ExcludeBootVolume = aws.Bool(true)
	made := awstest.Must[*ec2.CreateSnapshotsOutput](t)(w.CreateSnapshots(ctx, in)).Snapshots
	if len(made) != 2 || len(made[0].Tags) != 1 || *made[0].Tags[0].Key != "device" || *made[0].Description != "all" {
		t.Errorf("made %+v", made)
	}
	tagged := w.Targets("ec2:CreateTags")
	if len(tagged) == 0 || !slices.Equal(tagged[len(tagged)-1].Conditions["aws:TagKeys"], []string{"device"}) {
		t.Errorf("tags that are copied were authorized as %+v", tagged)
	}
	in.InstanceSpecification.ExcludeDataVolumeIds = volumes[:1]
	if made := awstest.Must[*ec2.CreateSnapshotsOutput](t)(w.CreateSnapshots(ctx, in)).Snapshots; len(made) != 1 ||
		*made[0].VolumeId != volumes[1] {
		t.Errorf("without one: %+v", made)
	}
	in.InstanceSpecification.ExcludeDataVolumeIds = volumes
	_, err := w.CreateSnapshots(ctx, in)
	wantRefusal(t, "without any", err, "InvalidParameterValue")
}

// other is another account, whose access key is AKIAOTHER.
const other = "222233334444"

func withOther(w *ec2test.Fixture) *ec2.Client {
	root := "arn:aws:iam::" + other + ":root"
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Sessions = map[string]wire.Caller{"AKIAOTHER": {Account: other, ARN: root, PrincipalARN: root, UserID: other,
		AccessKeyID: "AKIAOTHER"}}
	return w.ClientWith("AKIAOTHER")
}

func TestSharedSnapshots(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	d := startDisks(w)
	them := withOther(w)
	id := d.snapshot(d.volume(ec2.CreateVolumeInput{}))
	uses := map[string]func() error{
		"DescribeSnapshots": func() error {
			return failed(them.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}}))
		},
		"CreateVolume": func() error {
			return failed(them.CreateVolume(ctx, &ec2.CreateVolumeInput{SnapshotId: &id,
				AvailabilityZone: aws.String("eu-west-1a")}))
		},
		"CopySnapshot": func() error {
			return failed(them.CopySnapshot(ctx, &ec2.CopySnapshotInput{SourceSnapshotId: &id,
				SourceRegion: aws.String(ec2test.Region)}))
		},
		"RunInstances": func() error {
			run := ec2.RunInstancesInput{BlockDeviceMappings: []types.BlockDeviceMapping{{
				DeviceName: aws.String("/dev/xvdf"), Ebs: &types.EbsBlockDevice{SnapshotId: &id}}}}
			completeRequest(w, &run)
			return failed(them.RunInstances(ctx, &run))
		},
	}
	check := func(when, code string) {
		t.Helper()
		for name, use := range uses {
			wantRefusal(t, name+" "+when, use(), code)
		}
	}
	modify := func(in ec2.ModifySnapshotAttributeInput) {
		t.Helper()
		in.SnapshotId, in.Attribute = &id, types.SnapshotAttributeNameCreateVolumePermission
		awstest.Must[any](t)(w.ModifySnapshotAttribute(ctx, &in))
	}
	permissions := func() []types.CreateVolumePermission {
		return awstest.Must[*ec2.DescribeSnapshotAttributeOutput](t)(w.DescribeSnapshotAttribute(ctx,
			&ec2.DescribeSnapshotAttributeInput{SnapshotId: &id,
				Attribute: types.SnapshotAttributeNameCreateVolumePermission})).CreateVolumePermissions
	}
	check("of a private snapshot", "InvalidSnapshot.NotFound")
	modify(ec2.ModifySnapshotAttributeInput{OperationType: types.OperationTypeAdd, UserIds: []string{other}})
	if p := permissions(); len(p) != 1 || *p[0].UserId != other {
		t.Errorf("permissions %+v", p)
	}
	check("of a shared snapshot", "")
	shared := awstest.Must[*ec2.DescribeSnapshotsOutput](t)(them.DescribeSnapshots(ctx,
		&ec2.DescribeSnapshotsInput{RestorableByUserIds: []string{"self"}, OwnerIds: []string{ec2test.Account}}))
	if len(shared.Snapshots) != 1 || *shared.Snapshots[0].OwnerId != ec2test.Account {
		t.Errorf("they find %+v", shared.Snapshots)
	}
	for name, call := range map[string]func() error{
		"delete it": func() error {
			return failed(them.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id}))
		},
		"share it": func() error {
			return failed(them.ModifySnapshotAttribute(ctx, &ec2.ModifySnapshotAttributeInput{SnapshotId: &id,
				UserIds: []string{other}, OperationType: types.OperationTypeAdd}))
		},
		"see whom it is shared with": func() error {
			return failed(them.DescribeSnapshotAttribute(ctx, &ec2.DescribeSnapshotAttributeInput{SnapshotId: &id,
				Attribute: types.SnapshotAttributeNameCreateVolumePermission}))
		},
		"tag it": func() error {
			return failed(them.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id},
				Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}))
		},
	} {
		wantRefusal(t, name, call(), "InvalidSnapshot.NotFound")
	}
	awstest.Must[any](t)(w.ResetSnapshotAttribute(ctx, &ec2.ResetSnapshotAttributeInput{SnapshotId: &id,
		Attribute: types.SnapshotAttributeNameCreateVolumePermission}))
	check("that is private again", "InvalidSnapshot.NotFound")
	modify(ec2.ModifySnapshotAttributeInput{CreateVolumePermission: &types.CreateVolumePermissionModifications{
		Add: []types.CreateVolumePermission{{Group: types.PermissionGroupAll}}}})
	check("of a public snapshot", "")
	public := awstest.Must[*ec2.DescribeSnapshotsOutput](t)(them.DescribeSnapshots(ctx,
		&ec2.DescribeSnapshotsInput{RestorableByUserIds: []string{"all"}}))
	if len(public.Snapshots) != 1 {
		t.Errorf("public: %+v", public.Snapshots)
	}
	modify(ec2.ModifySnapshotAttributeInput{OperationType: types.OperationTypeRemove, GroupNames: []string{"all"}})
	check("that is public no longer", "InvalidSnapshot.NotFound")

	// An account does not share without end: everybody reads what all share.
	for i := range 100 {
		r := record.Snapshot{EC2Resource: record.EC2Resource{Account: ec2test.Account, Region: ec2test.Region,
			ID: fmt.Sprintf("snap-%017x", i)}, SharedWith: []string{other}}
		awstest.Must[any](t)(record.Snapshots(w.Store).Create(ctx, r.Key(), r))
	}
	_, err := w.ModifySnapshotAttribute(ctx, &ec2.ModifySnapshotAttributeInput{SnapshotId: &id, UserIds: []string{other},
		Attribute: types.SnapshotAttributeNameCreateVolumePermission, OperationType: types.OperationTypeAdd})
	wantRefusal(t, "one more than an account may share", err, "ResourceLimitExceeded")
}

func TestEncryptedSnapshotsAreSharedWithTheirKeyOnly(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	d := startDisks(w)
	key := awstest.Must[*kms.CreateKeyOutput](t)(w.KMS().CreateKey(ctx, &kms.CreateKeyInput{})).KeyMetadata.Arn
	managed := d.snapshot(d.volume(ec2.CreateVolumeInput{Encrypted: aws.Bool(true)}))
	own := d.snapshot(d.volume(ec2.CreateVolumeInput{Encrypted: aws.Bool(true), KmsKeyId: key}))
	if v := describeSnapshot(w.Client, t, own); !*v.Encrypted || *v.KmsKeyId != *key {
		t.Errorf("encrypted: %+v", v)
	}
	share := func(id string, p types.CreateVolumePermission) error {
		return failed(w.ModifySnapshotAttribute(ctx, &ec2.ModifySnapshotAttributeInput{SnapshotId: &id,
			CreateVolumePermission: &types.CreateVolumePermissionModifications{
				Add: []types.CreateVolumePermission{p}}}))
	}
	them := types.CreateVolumePermission{UserId: aws.String(other)}
	wantRefusal(t, "share under the AWS managed key", share(managed, them), "OperationNotPermitted")
	wantRefusal(t, "publish", share(own, types.CreateVolumePermission{Group: "all"}), "OperationNotPermitted")
	wantRefusal(t, "share under a key", share(own, them), "")
}
