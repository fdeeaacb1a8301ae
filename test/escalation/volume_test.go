package escalation

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// snapshotARN is the ARN of all snapshots, which has no account.
const snapshotARN = "arn:aws:ec2:" + region + "::snapshot/*"

// snapshot makes a snapshot of an encrypted volume of the root user's.
func (w *fixture) snapshot() {
	w.t.Helper()
	ctx, root := w.t.Context(), w.root.ec2
	volume, err := root.CreateVolume(ctx, &ec2.CreateVolumeInput{Size: aws.Int32(1), Encrypted: aws.Bool(true),
		AvailabilityZone: p(region + "a")})
	w.do(nil, err)
	key := record.EC2Key(account, region, *volume.VolumeId)
	w.do(record.VolumeDisks(w.Store).Put(ctx, key, record.VolumeDisk{VolumeID: *volume.VolumeId, Size: 1}))
	out, err := root.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: volume.VolumeId})
	w.do(nil, err)
	w.id = *out.SnapshotId
	w.do(record.SnapshotDisks(w.Store).Put(ctx, record.EC2Key(account, region, w.id),
		record.SnapshotDisk{SnapshotID: w.id, Complete: true}))
}

// volume makes a volume that is attached to nothing, beside an instance in its zone.
func (w *fixture) volume() {
	w.t.Helper()
	w.instances()
	volume, err := w.root.ec2.CreateVolume(w.t.Context(), &ec2.CreateVolumeInput{Size: aws.Int32(1),
		AvailabilityZone: p(region + "a")})
	w.do(nil, err)
	w.id = *volume.VolumeId
	w.do(record.VolumeDisks(w.Store).Put(w.t.Context(), record.EC2Key(account, region, w.id),
		record.VolumeDisk{VolumeID: w.id, Size: 1}))
}

func createsVolume(edit func(*fixture, *ec2.CreateVolumeInput)) func(*fixture) error {
	return func(w *fixture) error {
		in := &ec2.CreateVolumeInput{AvailabilityZone: p(region + "a"), Size: aws.Int32(1)}
		edit(w, in)
		return failed(w.me.ec2.CreateVolume(w.t.Context(), in))
	}
}

func copiesSnapshot(w *fixture) error {
	return failed(w.me.ec2.CopySnapshot(w.t.Context(), &ec2.CopySnapshotInput{SourceSnapshotId: &w.id,
		SourceRegion: p(region)}))
}

func attaches(w *fixture) error {
	return failed(w.me.ec2.AttachVolume(w.t.Context(), &ec2.AttachVolumeInput{VolumeId: &w.id,
		InstanceId: &w.instance, Device: p("/dev/xvdf")}))
}

var volumePaths = []path{
	{
		name: "ec2: CreateVolume with tags, without CreateTags", needs: []statement{allow("ec2:CreateVolume")},
		stops: []statement{allow("ec2:CreateTags").when("StringEquals", "ec2:CreateAction", "CreateVolume")},
		try: createsVolume(func(_ *fixture, in *ec2.CreateVolumeInput) {
			in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeVolume,
				Tags: []ec2types.Tag{{Key: p("team"), Value: p("crew")}}}}
		}),
	},
	{
		name: "ec2: CreateVolume of a snapshot of others", given: (*fixture).snapshot,
		needs: []statement{allow("ec2:CreateVolume").on(ec2ARN("volume/*"))},
		stops: []statement{allow("ec2:CreateVolume").on(snapshotARN)},
		try:   createsVolume(func(w *fixture, in *ec2.CreateVolumeInput) { in.SnapshotId = &w.id }),
	},
	{
		name: "ec2: CreateVolume that is not encrypted", needs: []statement{
			allow("ec2:CreateVolume").when("Bool", "ec2:Encrypted", "true")},
		stops: []statement{allow("ec2:CreateVolume").when("Bool", "ec2:Encrypted", "false")},
		try:   createsVolume(func(*fixture, *ec2.CreateVolumeInput) {}),
	},
	{
		name: "ec2: CreateVolume that is too large", needs: []statement{
			allow("ec2:CreateVolume").when("NumericLessThan", "ec2:VolumeSize", "1")},
		stops: []statement{allow("ec2:CreateVolume").when("NumericEquals", "ec2:VolumeSize", "1")},
		try:   createsVolume(func(*fixture, *ec2.CreateVolumeInput) {}),
	},
	{
		name: "ec2: CopySnapshot of a snapshot of others", given: (*fixture).snapshot,
		needs: []statement{allow("ec2:CopySnapshot").when("Null", "ec2:SnapshotID", "true")},
		stops: []statement{allow("ec2:CopySnapshot")}, try: copiesSnapshot,
	},
	{
		name: "ec2: RunInstances with a snapshot of others", given: func(w *fixture) { w.network(); w.snapshot() },
		needs: []statement{allow("ec2:RunInstances").except(snapshotARN)},
		stops: []statement{allow("ec2:RunInstances").on(snapshotARN)},
		try: launches(func(w *fixture, in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = []ec2types.BlockDeviceMapping{{DeviceName: p("/dev/xvdf"),
				Ebs: &ec2types.EbsBlockDevice{SnapshotId: &w.id}}}
		}),
	},
	{
		name: "ec2: AttachVolume to an instance of others", given: (*fixture).volume,
		needs: []statement{allow("ec2:AttachVolume").on(ec2ARN("volume/*"))},
		stops: []statement{allow("ec2:AttachVolume").on(ec2ARN("instance/*"))}, try: attaches,
	},
	{
		name: "ec2: AttachVolume of a volume of others", given: (*fixture).volume,
		needs: []statement{allow("ec2:AttachVolume").on(ec2ARN("instance/*"))},
		stops: []statement{allow("ec2:AttachVolume").on(ec2ARN("volume/*"))}, try: attaches,
	},
	{
		name: "ec2: DetachVolume from an instance that the request does not name",
		given: func(w *fixture) {
			w.volume()
			w.do(w.root.ec2.AttachVolume(w.t.Context(), &ec2.AttachVolumeInput{VolumeId: &w.id,
				InstanceId: &w.instance, Device: p("/dev/xvdf")}))
		},
		needs: []statement{allow("ec2:DetachVolume").on(ec2ARN("volume/*"))},
		stops: []statement{allow("ec2:DetachVolume").on(ec2ARN("instance/*"))},
		try: func(w *fixture) error {
			return failed(w.me.ec2.DetachVolume(w.t.Context(), &ec2.DetachVolumeInput{VolumeId: &w.id}))
		},
	},
	{
		name: "ec2: ModifySnapshotAttribute for another account", given: func(w *fixture) {
			w.volume()
			out, err := w.root.ec2.CreateSnapshot(w.t.Context(), &ec2.CreateSnapshotInput{VolumeId: &w.id})
			w.do(nil, err)
			w.id = *out.SnapshotId
		},
		needs: []statement{allow("ec2:ModifySnapshotAttribute").when("StringEquals", "ec2:Add/userId", "111111111111")},
		stops: []statement{allow("ec2:ModifySnapshotAttribute").when("StringEquals", "ec2:Add/userId", other)},
		try: func(w *fixture) error {
			return failed(w.me.ec2.ModifySnapshotAttribute(w.t.Context(), &ec2.ModifySnapshotAttributeInput{
				SnapshotId: &w.id, CreateVolumePermission: &ec2types.CreateVolumePermissionModifications{
					Add: []ec2types.CreateVolumePermission{{UserId: p(other)}}}}))
		},
	},
}
