package ec2_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

// blockFixture has volumes, snapshots and an instance.
type blockFixture struct {
	disks
	instance, root, free, attached, calm, pending, elsewhere string
	complete, unfinished, encrypted                          string // snapshots
}

func newBlockFixture(t *testing.T) *blockFixture {
	t.Helper()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	f := &blockFixture{disks: startDisks(w)}
	f.instance = *runInstance(w, ec2.RunInstancesInput{}).InstanceId
	waitForState(w, f.instance, types.InstanceStateNameRunning)
	f.root = *describeInstance(w, f.instance).BlockDeviceMappings[0].Ebs.VolumeId
	f.waitForVolume(f.root, types.VolumeStateInUse)
	f.free, f.attached = f.volume(ec2.CreateVolumeInput{ClientToken: aws.String("taken")}), f.volume(
		ec2.CreateVolumeInput{})
	f.calm = f.volume(ec2.CreateVolumeInput{}) // of which no snapshot is pending
	f.elsewhere = f.volume(ec2.CreateVolumeInput{AvailabilityZone: aws.String("eu-west-1b")})
	f.pending = *awstest.Must[*ec2.CreateVolumeOutput](t)(w.CreateVolume(ctx, &ec2.CreateVolumeInput{
		AvailabilityZone: aws.String("eu-west-1a"), Size: aws.Int32(1)})).VolumeId
	f.complete = f.snapshot(f.free)
	f.unfinished = *awstest.Must[*ec2.CreateSnapshotOutput](t)(w.CreateSnapshot(ctx,
		&ec2.CreateSnapshotInput{VolumeId: &f.free})).SnapshotId
	f.encrypted = f.snapshot(f.volume(ec2.CreateVolumeInput{Encrypted: aws.Bool(true)}))
	awstest.Must[any](t)(w.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &f.attached, InstanceId: &f.instance,
		Device: aws.String("/dev/xvdf")}))
	f.observe(f.attached, 10, attachedTo(f.instance, "/dev/xvdf"))
	awstest.Must[any](t)(w.CopyVolumes(ctx, &ec2.CopyVolumesInput{SourceVolumeId: &f.free,
		ClientToken: aws.String("copied")}))
	return f
}

// TestBadVolumeRequests sends requests about volumes and snapshots that AWS refuses.
func TestBadVolumeRequests(t *testing.T) {
	t.Parallel()
	f := newBlockFixture(t)
	all := slices.Concat(creationRefusals(f), attachmentRefusals(f), modificationRefusals(f), snapshotRefusals(f),
		permissionRefusals(f))
	if len(all) < 80 {
		t.Errorf("%d requests", len(all))
	}
	checkRefusals(f.Fixture, t, all)
}

func creationRefusals(f *blockFixture) []refused {
	i, s := aws.Int32, aws.String
	create := func(edit func(*ec2.CreateVolumeInput)) func() error {
		return func() error {
			in := &ec2.CreateVolumeInput{AvailabilityZone: s("eu-west-1a"), Size: i(10), VolumeType: "gp3"}
			edit(in)
			return failed(f.CreateVolume(f.Context(), in))
		}
	}
	of := func(kind types.VolumeType, size int32, iops, throughput *int32) func() error {
		return create(func(in *ec2.CreateVolumeInput) {
			in.VolumeType, in.Size, in.Iops, in.Throughput = kind, &size, iops, throughput
		})
	}
	duplicate := func(edit func(*ec2.CopyVolumesInput)) func() error {
		return func() error {
			in := &ec2.CopyVolumesInput{SourceVolumeId: &f.free}
			edit(in)
			return failed(f.CopyVolumes(f.Context(), in))
		}
	}
	return []refused{
		{"no zone", create(func(in *ec2.CreateVolumeInput) { in.AvailabilityZone = nil }), "MissingParameter",
			"AvailabilityZone"},
		{"zone of another region", create(func(in *ec2.CreateVolumeInput) { in.AvailabilityZone = s("us-east-1a") }),
			"InvalidZone.NotFound", "The zone 'us-east-1a' does not exist."},
		{"zone ID as a name", create(func(in *ec2.CreateVolumeInput) { in.AvailabilityZone = s("euw1-az1") }),
			"InvalidZone.NotFound", "euw1-az1"},
		{"zone by name and ID", create(func(in *ec2.CreateVolumeInput) { in.AvailabilityZoneId = s("euw1-az1") }),
			"InvalidParameterCombination", "AvailabilityZoneId"},
		{"no size", create(func(in *ec2.CreateVolumeInput) { in.Size = nil }), "MissingParameter", "size"},
		{"unknown type", of("gp9", 10, nil, nil), "UnknownVolumeType",
			"Unsupported volume type 'gp9' for volume creation."},
		{"size 0", of("gp3", 0, nil, nil), "InvalidParameterValue", "too small"},
		{"negative size", of("gp3", -5, nil, nil), "InvalidParameterValue", "too small"},
		{"gp2 too large", of("gp2", 16385, nil, nil), "InvalidParameterValue", "maximum is 16384GiB"},
		{"gp3 too large", of("gp3", 65537, nil, nil), "InvalidParameterValue", "maximum is 65536GiB"},
		{"io1 too small", of("io1", 3, i(100), nil), "InvalidParameterValue", "minimum is 4GiB"},
		{"io1 too large", of("io1", 16385, i(100), nil), "InvalidParameterValue", "maximum is 16384GiB"},
		{"io2 too small", of("io2", 3, i(100), nil), "InvalidParameterValue", "minimum is 4GiB"},
		{"st1 too small", of("st1", 124, nil, nil), "InvalidParameterValue", "minimum is 125GiB"},
		{"sc1 too small", of("sc1", 124, nil, nil), "InvalidParameterValue", "minimum is 125GiB"},
		{"standard too large", of("standard", 1025, nil, nil), "InvalidParameterValue", "maximum is 1024GiB"},
		{"io1 without IOPS", of("io1", 10, nil, nil), "MissingParameter",
			"The parameter iops must be specified for io1 volumes."},
		{"io2 without IOPS", of("io2", 10, nil, nil), "MissingParameter", "io2"},
		{"IOPS of gp2", of("gp2", 10, i(100), nil), "InvalidParameterCombination",
			"The parameter iops is not supported for gp2 volumes."},
		{"IOPS of st1", of("st1", 125, i(100), nil), "InvalidParameterCombination", "st1"},
		{"throughput of gp2", of("gp2", 10, nil, i(125)), "InvalidParameterCombination",
			"The parameter throughput is not supported for gp2 volumes."},
		{"throughput of io1", of("io1", 10, i(100), i(125)), "InvalidParameterCombination", "io1"},
		{"gp3 with few IOPS", of("gp3", 10, i(2999), nil), "InvalidParameterValue",
			"Volume iops of 2999 is too low; minimum is 3000."},
		{"gp3 with many IOPS", of("gp3", 1000, i(80001), nil), "InvalidParameterValue",
			"Volume iops of 80001 is too high; maximum is 80000."},
		{"gp3 with many IOPS a GiB", of("gp3", 10, i(5001), nil), "InvalidParameterValue",
			"Iops to volume size ratio of 500.100000 is too high; maximum is 500"},
		{"io1 with few IOPS", of("io1", 10, i(99), nil), "InvalidParameterValue", "minimum is 100"},
		{"io1 with 0 IOPS", of("io1", 10, i(0), nil), "InvalidParameterValue", "minimum is 100"},
		{"io1 with many IOPS", of("io1", 10000, i(64001), nil), "InvalidParameterValue", "maximum is 64000"},
		{"io1 with many IOPS a GiB", of("io1", 10, i(501), nil), "InvalidParameterValue", "maximum is 50"},
		{"io2 with many IOPS", of("io2", 10000, i(256001), nil), "InvalidParameterValue", "maximum is 256000"},
		{"io2 with many IOPS a GiB", of("io2", 4, i(4001), nil), "InvalidParameterValue", "maximum is 1000"},
		{"gp3 with little throughput", of("gp3", 10, nil, i(124)), "InvalidParameterValue", "minimum is 125"},
		{"gp3 with much throughput", of("gp3", 100, i(10000), i(2001)), "InvalidParameterValue", "maximum is 2000"},
		{"gp3 with much throughput an IOPS", of("gp3", 10, i(3000), i(751)), "InvalidParameterValue",
			"maximum is 0.250000 MiBps per iops"},
		{"Multi-Attach of gp3", create(func(in *ec2.CreateVolumeInput) { in.MultiAttachEnabled = aws.Bool(true) }),
			"InvalidParameterCombination", "io2"},
		{"a key without encryption", create(func(in *ec2.CreateVolumeInput) { in.KmsKeyId = s("alias/mine") }),
			"InvalidParameterDependency", "KmsKeyId"},
		{"an Outpost", create(func(in *ec2.CreateVolumeInput) { in.OutpostArn = s("arn:aws:outposts:x") }),
			"UnsupportedOperation", "OutpostArn"},
		{"an initialization rate", create(func(in *ec2.CreateVolumeInput) { in.VolumeInitializationRate = i(200) }),
			"UnsupportedOperation", "VolumeInitializationRate"},
		{"no such snapshot", create(func(in *ec2.CreateVolumeInput) { in.SnapshotId = s("snap-" + gone) }),
			"InvalidSnapshot.NotFound", "The snapshot 'snap-" + gone + "' does not exist."},
		{"malformed snapshot", create(func(in *ec2.CreateVolumeInput) { in.SnapshotId = s("snap-x") }),
			"InvalidSnapshotID.Malformed", "snap-x"},
		{"pending snapshot", create(func(in *ec2.CreateVolumeInput) { in.SnapshotId = &f.unfinished }),
			"IncorrectState", "Snapshot is in invalid state - pending"},
		{"smaller than the snapshot",
			create(func(in *ec2.CreateVolumeInput) { in.SnapshotId, in.Size = &f.complete, i(9) }),
			"InvalidParameterValue", "expect size>= 10GB"},
		{"tags of an instance", create(func(in *ec2.CreateVolumeInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance,
				Tags: []types.Tag{{Key: s("a"), Value: s("b")}}}}
		}), "InvalidParameterValue", "'instance' is not a valid taggable resource type"},
		{"tags of AWS", create(func(in *ec2.CreateVolumeInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeVolume,
				Tags: []types.Tag{{Key: s("aws:a"), Value: s("b")}}}}
		}), "InvalidParameterValue", "aws:"},
		{"the token of another request", create(func(in *ec2.CreateVolumeInput) { in.ClientToken = s("taken") }),
			"IdempotentParameterMismatch", "taken"},
		{"dry run", create(func(in *ec2.CreateVolumeInput) { in.DryRun = aws.Bool(true) }), "DryRunOperation", ""},

		{"copy no volume", duplicate(func(in *ec2.CopyVolumesInput) { in.SourceVolumeId = s("vol-" + gone) }),
			"InvalidVolume.NotFound", gone},
		{"copy what has no disk yet", duplicate(func(in *ec2.CopyVolumesInput) { in.SourceVolumeId = &f.pending }),
			"IncorrectState", "creating"},
		{"smaller copy", duplicate(func(in *ec2.CopyVolumesInput) { in.Size = i(9) }), "InvalidParameterValue",
			"expect size>= 10GB"},
		{"copy of an unknown type", duplicate(func(in *ec2.CopyVolumesInput) { in.VolumeType = "gp9" }),
			"UnknownVolumeType", "gp9"},
		{"copy with the token of another", duplicate(func(in *ec2.CopyVolumesInput) {
			in.ClientToken, in.Size = s("copied"), i(11)
		}), "IdempotentParameterMismatch", "copied"},
		{"delete no volume", func() error {
			return failed(f.DeleteVolume(f.Context(), &ec2.DeleteVolumeInput{VolumeId: s("vol-" + gone)}))
		}, "InvalidVolume.NotFound", "The volume 'vol-" + gone + "' does not exist."},
		{"delete a malformed ID", func() error {
			return failed(f.DeleteVolume(f.Context(), &ec2.DeleteVolumeInput{VolumeId: s("disk-1")}))
		}, "InvalidVolumeID.Malformed", "disk-1"},
		{"delete a root volume", func() error {
			return failed(f.DeleteVolume(f.Context(), &ec2.DeleteVolumeInput{VolumeId: &f.root}))
		}, "VolumeInUse", "Volume " + f.root + " is currently attached to " + f.instance},
		{"delete what is attached", func() error {
			return failed(f.DeleteVolume(f.Context(), &ec2.DeleteVolumeInput{VolumeId: &f.attached}))
		}, "VolumeInUse", "Volume " + f.attached + " is currently attached to " + f.instance},
	}
}

func attachmentRefusals(f *blockFixture) []refused {
	s := aws.String
	attach := func(volume, device string) func() error {
		return func() error {
			return failed(f.AttachVolume(f.Context(), &ec2.AttachVolumeInput{VolumeId: &volume, Device: &device,
				InstanceId: &f.instance}))
		}
	}
	detach := func(in ec2.DetachVolumeInput) func() error {
		return func() error { return failed(f.DetachVolume(f.Context(), &in)) }
	}
	launch := func(device string, e types.EbsBlockDevice) func() error {
		return func() error {
			run := ec2.RunInstancesInput{BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: &device, Ebs: &e}}}
			completeRequest(f.Fixture, &run)
			return failed(f.RunInstances(f.Context(), &run))
		}
	}
	return []refused{
		{"attach no volume", attach("vol-"+gone, "/dev/sdg"), "InvalidVolume.NotFound", gone},
		{"attach to no instance", func() error {
			return failed(f.AttachVolume(f.Context(), &ec2.AttachVolumeInput{VolumeId: &f.free, Device: s("/dev/sdg"),
				InstanceId: s("i-" + gone)}))
		}, "InvalidInstanceID.NotFound", gone},
		{"attach as no device", attach(f.free, "/dev/foo"), "InvalidParameterValue",
			"Value (/dev/foo) for parameter device is invalid. /dev/foo is not a valid EBS device name."},
		{"attach without a directory", attach(f.free, "xvdg"), "InvalidParameterValue", "xvdg"},
		{"attach with a way out of the directory", attach(f.free, "/dev/../etc/passwd"), "InvalidParameterValue", "passwd"},
		{"attach as a device in use", attach(f.free, "/dev/xvdf"), "InvalidParameterValue",
			"Attachment point /dev/xvdf is already in use"},
		{"attach as a device in use, by its other name", attach(f.free, "/dev/sdf"), "InvalidParameterValue",
			"is already in use"},
		{"attach as the root device", attach(f.free, "/dev/sda1"), "InvalidParameterValue", "is already in use"},
		{"attach again", attach(f.attached, "/dev/xvdg"), "VolumeInUse", "is already attached to an instance"},
		{"attach what has no disk yet", attach(f.pending, "/dev/xvdg"), "IncorrectState", "is not 'available'"},
		{"attach in another zone", attach(f.elsewhere, "/dev/xvdg"), "InvalidVolume.ZoneMismatch",
			"is not in the same availability zone as instance"},
		{"attach a root volume", attach(f.root, "/dev/xvdg"), "VolumeInUse", f.root},
		{"attach to another card", func() error {
			return failed(f.AttachVolume(f.Context(), &ec2.AttachVolumeInput{VolumeId: &f.free, Device: s("/dev/sdg"),
				InstanceId: &f.instance, EbsCardIndex: aws.Int32(1)}))
		}, "InvalidParameterValue", "ebsCardIndex"},
		{"attach in a dry run", func() error {
			return failed(f.AttachVolume(f.Context(), &ec2.AttachVolumeInput{VolumeId: &f.free, Device: s("/dev/sdg"),
				InstanceId: &f.instance, DryRun: aws.Bool(true)}))
		}, "DryRunOperation", ""},
		{"detach no volume", detach(ec2.DetachVolumeInput{VolumeId: s("vol-" + gone)}), "InvalidVolume.NotFound", gone},
		{"detach what is not attached", detach(ec2.DetachVolumeInput{VolumeId: &f.free}), "IncorrectState",
			"is in the 'available' state"},
		{"detach from no instance", detach(ec2.DetachVolumeInput{VolumeId: &f.attached, InstanceId: s("i-" + gone)}),
			"InvalidInstanceID.NotFound", gone},
		{"detach from another instance", detach(ec2.DetachVolumeInput{VolumeId: &f.free, InstanceId: &f.instance}),
			"InvalidAttachment.NotFound", f.instance},
		{"detach another device", detach(ec2.DetachVolumeInput{VolumeId: &f.attached, Device: s("/dev/xvdz")}),
			"InvalidAttachment.NotFound", "/dev/xvdz"},
		{"detach a root volume", detach(ec2.DetachVolumeInput{VolumeId: &f.root}), "OperationNotPermitted",
			"Unable to detach root volume"},
		{"detach a root volume by force", detach(ec2.DetachVolumeInput{VolumeId: &f.root, Force: aws.Bool(true)}),
			"OperationNotPermitted", "Unable to detach root volume"},
		{"launch with a small root volume", launch("/dev/xvda", types.EbsBlockDevice{VolumeSize: aws.Int32(19)}),
			"InvalidBlockDeviceMapping", "Volume of size 19GB is smaller than snapshot"},
		{"launch with a large root volume", launch("/dev/xvda", types.EbsBlockDevice{VolumeSize: aws.Int32(65537)}),
			"InvalidParameterValue", "maximum is 65536GiB"},
		{"launch with a root volume of an unknown type", launch("/dev/xvda", types.EbsBlockDevice{VolumeType: "gp9"}),
			"UnknownVolumeType", "gp9"},
		{"launch from a cold root volume", launch("/dev/xvda", types.EbsBlockDevice{VolumeType: "sc1",
			VolumeSize: aws.Int32(125)}), "InvalidParameterCombination",
			"The parameter iops is not supported for sc1 volumes."},
		{"launch with a root volume of io2 without IOPS", launch("/dev/xvda", types.EbsBlockDevice{VolumeType: "io2"}),
			"MissingParameter", "The parameter iops must be specified for io2 volumes."},
		{"launch with a root volume of another snapshot", launch("/dev/xvda", types.EbsBlockDevice{
			SnapshotId: &f.complete}), "InvalidBlockDeviceMapping", "cannot be changed"},
		{"launch with a device of no name", launch("/dev/../x", types.EbsBlockDevice{VolumeSize: aws.Int32(1)}),
			"InvalidParameterValue", "is not a valid EBS device name"},
		{"launch with the root device by its other name", launch("/dev/sda1", types.EbsBlockDevice{
			VolumeSize: aws.Int32(1)}), "InvalidBlockDeviceMapping", "are the same"},
		{"launch with a pending snapshot", launch("/dev/sdf", types.EbsBlockDevice{SnapshotId: &f.unfinished}),
			"IncorrectState", "pending"},
		{"launch with less than the snapshot", launch("/dev/sdf", types.EbsBlockDevice{SnapshotId: &f.complete,
			VolumeSize: aws.Int32(1)}), "InvalidBlockDeviceMapping", "expect size>= 10GB"},
	}
}

func modificationRefusals(f *blockFixture) []refused {
	i, s := aws.Int32, aws.String
	modify := func(in ec2.ModifyVolumeInput) func() error {
		return func() error {
			if in.VolumeId == nil {
				in.VolumeId = &f.calm
			}
			return failed(f.ModifyVolume(f.Context(), &in))
		}
	}
	return []refused{
		{"modify nothing", modify(ec2.ModifyVolumeInput{}), "InvalidParameterValue", "must contain a modification"},
		{"modify no volume", modify(ec2.ModifyVolumeInput{VolumeId: s("vol-" + gone), Size: i(20)}),
			"InvalidVolume.NotFound", gone},
		{"shrink", modify(ec2.ModifyVolumeInput{Size: i(9)}), "InvalidParameterValue",
			"New size cannot be smaller than existing size"},
		{"grow too far", modify(ec2.ModifyVolumeInput{Size: i(70000)}), "InvalidParameterValue", "maximum is 16384GiB"},
		{"grow while a snapshot is pending", modify(ec2.ModifyVolumeInput{VolumeId: &f.free, Size: i(20)}),
			"IncorrectState", "snapshots and copies"},
		{"unknown type", modify(ec2.ModifyVolumeInput{VolumeType: "gp9"}), "UnknownVolumeType", "gp9"},
		{"io1 without IOPS", modify(ec2.ModifyVolumeInput{VolumeType: "io1", Iops: i(1)}), "InvalidParameterValue",
			"minimum is 100"},
		{"a type that must be larger", modify(ec2.ModifyVolumeInput{VolumeType: "st1"}), "InvalidParameterValue",
			"minimum is 125GiB"},
		{"IOPS of gp2", modify(ec2.ModifyVolumeInput{Iops: i(3000)}), "InvalidParameterCombination", "gp2"},
		{"too many IOPS", modify(ec2.ModifyVolumeInput{VolumeType: "gp3", Iops: i(80001)}), "InvalidParameterValue",
			"maximum is 80000"},
		{"Multi-Attach of gp2", modify(ec2.ModifyVolumeInput{MultiAttachEnabled: aws.Bool(true)}),
			"InvalidParameterCombination", "gp2"},
		{"modify what has no disk yet", modify(ec2.ModifyVolumeInput{VolumeId: &f.pending, Size: i(20)}),
			"IncorrectState", "creating"},
		{"shrink a root volume", modify(ec2.ModifyVolumeInput{VolumeId: &f.root, Size: i(19)}), "InvalidParameterValue",
			"New size cannot be smaller than existing size"},
		{"modifications of no volume", func() error {
			return failed(f.DescribeVolumesModifications(f.Context(),
				&ec2.DescribeVolumesModificationsInput{VolumeIds: []string{"vol-" + gone}}))
		}, "InvalidVolume.NotFound", gone},
		{"modifications of a volume without", func() error {
			return failed(f.DescribeVolumesModifications(f.Context(),
				&ec2.DescribeVolumesModificationsInput{VolumeIds: []string{f.free}}))
		}, "InvalidVolumeModification.NotFound", f.free},
		{"no attribute", func() error {
			return failed(f.ModifyVolumeAttribute(f.Context(), &ec2.ModifyVolumeAttributeInput{VolumeId: &f.free}))
		}, "MissingParameter", "attribute"},
		{"unknown attribute", func() error {
			return failed(f.DescribeVolumeAttribute(f.Context(), &ec2.DescribeVolumeAttributeInput{VolumeId: &f.free,
				Attribute: "color"}))
		}, "InvalidParameterValue", "color"},
		{"unknown filter", func() error {
			return failed(f.DescribeVolumes(f.Context(),
				&ec2.DescribeVolumesInput{Filters: []types.Filter{ec2test.Filter("color", "red")}}))
		}, "InvalidParameterValue", "The filter 'color' is invalid"},
	}
}

func snapshotRefusals(f *blockFixture) []refused {
	s := aws.String
	create := func(in ec2.CreateSnapshotInput) func() error {
		return func() error { return failed(f.CreateSnapshot(f.Context(), &in)) }
	}
	duplicate := func(edit func(*ec2.CopySnapshotInput)) func() error {
		return func() error {
			in := &ec2.CopySnapshotInput{SourceSnapshotId: &f.complete, SourceRegion: s(ec2test.Region)}
			edit(in)
			return failed(f.CopySnapshot(f.Context(), in))
		}
	}
	all := func(spec *types.InstanceSpecification) func() error {
		return func() error {
			return failed(f.CreateSnapshots(f.Context(), &ec2.CreateSnapshotsInput{InstanceSpecification: spec}))
		}
	}
	describe := func(in ec2.DescribeSnapshotsInput) func() error {
		return func() error { return failed(f.DescribeSnapshots(f.Context(), &in)) }
	}
	return []refused{
		{"snapshot of no volume", create(ec2.CreateSnapshotInput{VolumeId: s("vol-" + gone)}), "InvalidVolume.NotFound",
			gone},
		{"snapshot of what has no disk yet", create(ec2.CreateSnapshotInput{VolumeId: &f.pending}), "IncorrectState",
			"creating"},
		{"snapshot on an Outpost", create(ec2.CreateSnapshotInput{VolumeId: &f.free, OutpostArn: s("arn:aws:x")}),
			"UnsupportedOperation", "OutpostArn"},
		{"snapshot in a Local Zone", create(ec2.CreateSnapshotInput{VolumeId: &f.free, Location: "local"}),
			"UnsupportedOperation", "Location"},
		{"long description", create(ec2.CreateSnapshotInput{VolumeId: &f.free,
			Description: s(strings.Repeat("x", 256))}), "InvalidParameterValue", "255"},
		{"tags of a volume", create(ec2.CreateSnapshotInput{VolumeId: &f.free, TagSpecifications: []types.TagSpecification{
			{ResourceType: types.ResourceTypeVolume, Tags: []types.Tag{{Key: s("a"), Value: s("b")}}}}}),
			"InvalidParameterValue", "'volume' is not a valid taggable resource type"},
		{"snapshot in a dry run", create(ec2.CreateSnapshotInput{VolumeId: &f.free, DryRun: aws.Bool(true)}),
			"DryRunOperation", ""},

		{"copy no snapshot", duplicate(func(in *ec2.CopySnapshotInput) { in.SourceSnapshotId = s("snap-" + gone) }),
			"InvalidSnapshot.NotFound", gone},
		{"copy from no region", duplicate(func(in *ec2.CopySnapshotInput) { in.SourceRegion = s("mars-1") }),
			"InvalidParameterValue", "mars-1"},
		{"copy from another region", duplicate(func(in *ec2.CopySnapshotInput) { in.SourceRegion = s("us-east-1") }),
			"InvalidSnapshot.NotFound", f.complete},
		{"copy a pending snapshot", duplicate(func(in *ec2.CopySnapshotInput) { in.SourceSnapshotId = &f.unfinished }),
			"IncorrectState", "pending"},
		{"copy under a key without encryption", duplicate(func(in *ec2.CopySnapshotInput) { in.KmsKeyId = s("alias/a") }),
			"InvalidParameterDependency", "KmsKeyId"},
		{"decrypt a copy", duplicate(func(in *ec2.CopySnapshotInput) {
			in.SourceSnapshotId, in.Encrypted = &f.encrypted, aws.Bool(false)
		}), "InvalidParameterValue", "is encrypted"},
		{"copy to an Outpost", duplicate(func(in *ec2.CopySnapshotInput) { in.DestinationOutpostArn = s("arn:aws:x") }),
			"UnsupportedOperation", "DestinationOutpostArn"},
		{"copy in some time", duplicate(func(in *ec2.CopySnapshotInput) {
			in.CompletionDurationMinutes = aws.Int32(15)
		}), "UnsupportedOperation", "CompletionDurationMinutes"},

		{"snapshots of no instance", all(&types.InstanceSpecification{InstanceId: s("i-" + gone)}),
			"InvalidInstanceID.NotFound", gone},
		{"snapshots of nothing", all(&types.InstanceSpecification{InstanceId: s("")}), "MissingParameter", "InstanceId"},
		{"snapshots without the root volume by its ID", all(&types.InstanceSpecification{InstanceId: &f.instance,
			ExcludeDataVolumeIds: []string{f.root}}), "InvalidParameterValue", "ExcludeBootVolume"},
		{"snapshots without a volume of others", all(&types.InstanceSpecification{InstanceId: &f.instance,
			ExcludeDataVolumeIds: []string{f.free}}), "InvalidParameterValue", f.free},
		{"snapshots without any volume", all(&types.InstanceSpecification{InstanceId: &f.instance,
			ExcludeBootVolume: aws.Bool(true), ExcludeDataVolumeIds: []string{f.attached}}), "InvalidParameterValue",
			"has no volumes"},

		{"delete no snapshot", func() error {
			return failed(f.DeleteSnapshot(f.Context(), &ec2.DeleteSnapshotInput{SnapshotId: s("snap-" + gone)}))
		}, "InvalidSnapshot.NotFound", gone},
		{"describe no snapshot", describe(ec2.DescribeSnapshotsInput{SnapshotIds: []string{"snap-" + gone}}),
			"InvalidSnapshot.NotFound", gone},
		{"describe a malformed ID", describe(ec2.DescribeSnapshotsInput{SnapshotIds: []string{"vol-1"}}),
			"InvalidSnapshotID.Malformed", "vol-1"},
		{"describe those of a bad owner", describe(ec2.DescribeSnapshotsInput{OwnerIds: []string{"me"}}),
			"InvalidUserID.Malformed", "me"},
		{"describe those for a bad user", describe(ec2.DescribeSnapshotsInput{RestorableByUserIds: []string{"1"}}),
			"InvalidUserID.Malformed", "1"},
		{"describe few", describe(ec2.DescribeSnapshotsInput{MaxResults: aws.Int32(1)}), "InvalidParameterValue", "5"},
		{"describe by an unknown filter", describe(ec2.DescribeSnapshotsInput{
			Filters: []types.Filter{ec2test.Filter("color", "red")}}), "InvalidParameterValue", "color"},
	}
}

func permissionRefusals(f *blockFixture) []refused {
	s := aws.String
	modify := func(in ec2.ModifySnapshotAttributeInput) func() error {
		return func() error {
			if in.SnapshotId == nil {
				in.SnapshotId = &f.complete
			}
			return failed(f.ModifySnapshotAttribute(f.Context(), &in))
		}
	}
	return []refused{
		{"share no snapshot", modify(ec2.ModifySnapshotAttributeInput{SnapshotId: s("snap-" + gone),
			UserIds: []string{other}}), "InvalidSnapshot.NotFound", gone},
		{"share with nobody", modify(ec2.ModifySnapshotAttributeInput{}), "InvalidParameterValue", "accounts or groups"},
		{"share with a bad account", modify(ec2.ModifySnapshotAttributeInput{UserIds: []string{"123"}}),
			"InvalidUserID.Malformed", "123"},
		{"share with a bad group", modify(ec2.ModifySnapshotAttributeInput{GroupNames: []string{"some"}}),
			"InvalidParameterValue", "some"},
		{"share by no operation", modify(ec2.ModifySnapshotAttributeInput{UserIds: []string{other},
			OperationType: "toggle"}), "InvalidParameterValue", "toggle"},
		{"modify product codes", modify(ec2.ModifySnapshotAttributeInput{UserIds: []string{other},
			Attribute: types.SnapshotAttributeNameProductCodes}), "InvalidParameterValue", "productCodes"},
		{"share under the managed key", modify(ec2.ModifySnapshotAttributeInput{SnapshotId: &f.encrypted,
			UserIds: []string{other}}), "OperationNotPermitted", "EBS default key cannot be shared"},
		{"publish what is encrypted", modify(ec2.ModifySnapshotAttributeInput{SnapshotId: &f.encrypted,
			GroupNames: []string{"all"}}), "OperationNotPermitted", "publicly"},
		{"share in a dry run", modify(ec2.ModifySnapshotAttributeInput{UserIds: []string{other},
			DryRun: aws.Bool(true)}), "DryRunOperation", ""},
		{"describe no attribute", func() error {
			return failed(f.DescribeSnapshotAttribute(f.Context(),
				&ec2.DescribeSnapshotAttributeInput{SnapshotId: &f.complete, Attribute: "color"}))
		}, "InvalidParameterValue", "color"},
		{"reset product codes", func() error {
			return failed(f.ResetSnapshotAttribute(f.Context(), &ec2.ResetSnapshotAttributeInput{SnapshotId: &f.complete,
				Attribute: types.SnapshotAttributeNameProductCodes}))
		}, "InvalidParameterValue", "productCodes"},
	}
}
