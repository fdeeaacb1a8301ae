//go:build linux

package ebscsi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/guest/csidriver/csidrivertest"
)

// zone is that of the fake EC2, which has one instance.
const (
	zone     = "eu-west-1a"
	instance = "i-00000000000000001"
)

// fakeEC2 keeps volumes and snapshots in memory. The operations that it lacks are not called.
type fakeEC2 struct {
	mu        sync.Mutex
	last      int
	volumes   map[string]*types.Volume
	created   map[string]ec2.CreateVolumeInput // by client token
	ids       map[string]string                // of volumes by client token
	snapshots []types.Snapshot
	calls     []string // of what changes something
	// state is that of new volumes, available unless it is said; undeletable keeps volumes.
	state       types.VolumeState
	undeletable bool
}

func newFakeEC2() *fakeEC2 {
	return &fakeEC2{volumes: map[string]*types.Volume{}, created: map[string]ec2.CreateVolumeInput{},
		ids: map[string]string{}}
}

func refuse(code string) error {
	return &smithy.GenericAPIError{Code: code, Message: "refused by the test"}
}

func (f *fakeEC2) newID(prefix string) *string {
	f.last++
	return aws.String(fmt.Sprintf("%s-%017x", prefix, f.last))
}

func tagsOf(specifications []types.TagSpecification) (tags []types.Tag) {
	for _, s := range specifications {
		tags = append(tags, s.Tags...)
	}
	return tags
}

func (f *fakeEC2) CreateVolume(_ context.Context, in *ec2.CreateVolumeInput, _ ...func(*ec2.Options)) (
	*ec2.CreateVolumeOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.SnapshotId != nil && !slices.ContainsFunc(f.snapshots, func(s types.Snapshot) bool {
		return *s.SnapshotId == *in.SnapshotId
	}) {
		return nil, refuse("InvalidSnapshot.NotFound")
	}
	if id, again := f.ids[*in.ClientToken]; again {
		if *f.created[*in.ClientToken].Size != *in.Size {
			return nil, refuse("IdempotentParameterMismatch")
		}
		return &ec2.CreateVolumeOutput{VolumeId: &id, Size: in.Size, AvailabilityZone: in.AvailabilityZone}, nil
	}
	v := &types.Volume{VolumeId: f.newID("vol"), Size: in.Size, AvailabilityZone: in.AvailabilityZone,
		State: cmp.Or(f.state, types.VolumeStateAvailable), VolumeType: in.VolumeType, Iops: in.Iops,
		Tags: tagsOf(in.TagSpecifications)}
	f.volumes[*v.VolumeId] = v
	f.created[*in.ClientToken], f.ids[*in.ClientToken] = *in, *v.VolumeId
	return &ec2.CreateVolumeOutput{VolumeId: v.VolumeId, Size: v.Size, AvailabilityZone: v.AvailabilityZone}, nil
}

func (f *fakeEC2) CopyVolumes(ctx context.Context, in *ec2.CopyVolumesInput, _ ...func(*ec2.Options)) (
	*ec2.CopyVolumesOutput, error) {
	out, err := f.CreateVolume(ctx, &ec2.CreateVolumeInput{ClientToken: in.ClientToken, Size: in.Size,
		VolumeType: in.VolumeType, AvailabilityZone: aws.String(zone)})
	if err != nil {
		return nil, err
	}
	return &ec2.CopyVolumesOutput{Volumes: []types.Volume{{VolumeId: out.VolumeId, Size: out.Size}}}, nil
}

func (f *fakeEC2) DeleteVolume(_ context.Context, in *ec2.DeleteVolumeInput, _ ...func(*ec2.Options)) (
	*ec2.DeleteVolumeOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.volumes[*in.VolumeId] == nil { // its tags let nobody delete it
		return nil, refuse("UnauthorizedOperation")
	}
	if f.undeletable {
		return nil, refuse("RequestLimitExceeded")
	}
	delete(f.volumes, *in.VolumeId)
	maps.DeleteFunc(f.ids, func(_, id string) bool { return id == *in.VolumeId })
	return &ec2.DeleteVolumeOutput{}, nil
}

func (f *fakeEC2) DescribeVolumes(_ context.Context, in *ec2.DescribeVolumesInput, _ ...func(*ec2.Options)) (
	*ec2.DescribeVolumesOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.volumes[in.VolumeIds[0]]
	if v == nil {
		return nil, refuse("InvalidVolume.NotFound")
	}
	return &ec2.DescribeVolumesOutput{Volumes: []types.Volume{*v}}, nil
}

func (f *fakeEC2) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (
	*ec2.DescribeInstancesOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.InstanceIds[0] != instance {
		return nil, refuse("InvalidInstanceID.NotFound")
	}
	i := types.Instance{InstanceId: aws.String(instance)}
	for _, v := range f.volumes {
		for _, a := range v.Attachments {
			i.BlockDeviceMappings = append(i.BlockDeviceMappings, types.InstanceBlockDeviceMapping{DeviceName: a.Device,
				Ebs: &types.EbsInstanceBlockDevice{VolumeId: v.VolumeId}})
		}
	}
	return &ec2.DescribeInstancesOutput{Reservations: []types.Reservation{{Instances: []types.Instance{i}}}}, nil
}

func (f *fakeEC2) AttachVolume(_ context.Context, in *ec2.AttachVolumeInput, _ ...func(*ec2.Options)) (
	*ec2.AttachVolumeOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "attach "+*in.Device)
	v := f.volumes[*in.VolumeId]
	if v == nil {
		return nil, refuse("InvalidVolume.NotFound")
	}
	v.Attachments = []types.VolumeAttachment{{InstanceId: in.InstanceId, Device: in.Device, AttachTime: aws.Time(
		time.Now()), State: types.VolumeAttachmentStateAttached}}
	return &ec2.AttachVolumeOutput{}, nil
}

func (f *fakeEC2) DetachVolume(_ context.Context, in *ec2.DetachVolumeInput, _ ...func(*ec2.Options)) (
	*ec2.DetachVolumeOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.volumes[*in.VolumeId]
	switch {
	case v == nil:
		return nil, refuse("InvalidVolume.NotFound")
	case len(v.Attachments) == 0:
		return nil, refuse("IncorrectState")
	}
	v.Attachments = nil
	return &ec2.DetachVolumeOutput{}, nil
}

func (f *fakeEC2) ModifyVolume(_ context.Context, in *ec2.ModifyVolumeInput, _ ...func(*ec2.Options)) (
	*ec2.ModifyVolumeOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf("modify %d %s %d %d", aws.ToInt32(in.Size), in.VolumeType,
		aws.ToInt32(in.Iops), aws.ToInt32(in.Throughput)))
	v := f.volumes[*in.VolumeId]
	v.Size, v.Iops, v.Throughput = cmp.Or(in.Size, v.Size), cmp.Or(in.Iops, v.Iops), cmp.Or(in.Throughput, v.Throughput)
	v.VolumeType = cmp.Or(in.VolumeType, v.VolumeType)
	return &ec2.ModifyVolumeOutput{}, nil
}

func (f *fakeEC2) DescribeVolumesModifications(context.Context, *ec2.DescribeVolumesModificationsInput,
	...func(*ec2.Options)) (*ec2.DescribeVolumesModificationsOutput, error) {
	return nil, refuse("InvalidVolumeModification.NotFound")
}

func (f *fakeEC2) CreateTags(_ context.Context, in *ec2.CreateTagsInput, _ ...func(*ec2.Options)) (
	*ec2.CreateTagsOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.volumes[in.Resources[0]].Tags = append(f.volumes[in.Resources[0]].Tags, in.Tags...)
	return &ec2.CreateTagsOutput{}, nil
}

func (f *fakeEC2) DeleteTags(_ context.Context, in *ec2.DeleteTagsInput, _ ...func(*ec2.Options)) (
	*ec2.DeleteTagsOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.volumes[in.Resources[0]]
	v.Tags = slices.DeleteFunc(v.Tags, func(t types.Tag) bool {
		return slices.ContainsFunc(in.Tags, func(d types.Tag) bool { return *d.Key == *t.Key })
	})
	return &ec2.DeleteTagsOutput{}, nil
}

func (f *fakeEC2) CreateSnapshot(_ context.Context, in *ec2.CreateSnapshotInput, _ ...func(*ec2.Options)) (
	*ec2.CreateSnapshotOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.volumes[*in.VolumeId]
	if v == nil {
		return nil, refuse("InvalidVolume.NotFound")
	}
	s := types.Snapshot{SnapshotId: f.newID("snap"), VolumeId: in.VolumeId, VolumeSize: v.Size,
		StartTime: aws.Time(time.Now()), State: types.SnapshotStateCompleted, Tags: tagsOf(in.TagSpecifications)}
	f.snapshots = append(f.snapshots, s)
	return &ec2.CreateSnapshotOutput{SnapshotId: s.SnapshotId, VolumeId: s.VolumeId, VolumeSize: s.VolumeSize,
		StartTime: s.StartTime, State: s.State}, nil
}

func (f *fakeEC2) DeleteSnapshot(_ context.Context, in *ec2.DeleteSnapshotInput, _ ...func(*ec2.Options)) (
	*ec2.DeleteSnapshotOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.ContainsFunc(f.snapshots, func(s types.Snapshot) bool { return *s.SnapshotId == *in.SnapshotId }) {
		return nil, refuse("UnauthorizedOperation")
	}
	f.snapshots = slices.DeleteFunc(f.snapshots, func(s types.Snapshot) bool { return *s.SnapshotId == *in.SnapshotId })
	return &ec2.DeleteSnapshotOutput{}, nil
}

func (f *fakeEC2) DescribeSnapshots(_ context.Context, in *ec2.DescribeSnapshotsInput, _ ...func(*ec2.Options)) (
	*ec2.DescribeSnapshotsOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &ec2.DescribeSnapshotsOutput{}
	for _, s := range f.snapshots {
		if len(in.SnapshotIds) > 0 && !slices.Contains(in.SnapshotIds, *s.SnapshotId) || !matches(s, in.Filters) {
			continue
		}
		out.Snapshots = append(out.Snapshots, s)
	}
	if len(in.SnapshotIds) > 0 && len(out.Snapshots) == 0 {
		return nil, refuse("InvalidSnapshot.NotFound")
	}
	first, _ := strconv.Atoi(aws.ToString(in.NextToken))
	out.Snapshots = out.Snapshots[first:]
	if n := int(aws.ToInt32(in.MaxResults)); n > 0 && n < len(out.Snapshots) {
		out.Snapshots, out.NextToken = out.Snapshots[:n], aws.String(strconv.Itoa(first+n))
	}
	return out, nil
}

func matches(s types.Snapshot, filters []types.Filter) bool {
	for _, f := range filters {
		has := *f.Name == "volume-id" && *s.VolumeId == f.Values[0]
		for _, t := range s.Tags {
			has = has || *f.Name == "tag:"+*t.Key && *t.Value == f.Values[0]
		}
		if !has {
			return false
		}
	}
	return true
}

func (f *fakeEC2) DescribeAvailabilityZones(_ context.Context, in *ec2.DescribeAvailabilityZonesInput,
	_ ...func(*ec2.Options)) (*ec2.DescribeAvailabilityZonesOutput, error) {
	if aws.ToBool(in.DryRun) {
		return nil, refuse("DryRunOperation")
	}
	return &ec2.DescribeAvailabilityZonesOutput{AvailabilityZones: []types.AvailabilityZone{{
		ZoneName: aws.String(zone)}}}, nil
}

// fakeMounter is a mounter whose volumes are the devices of their names.
type fakeMounter struct {
	csidrivertest.Mounter
	small   bool // what is mounted is smaller than its device, and cannot grow there
	trouble error
}

func (m *fakeMounter) Find(name, _, partition string) (string, error) { return name + partition, nil }

func (m *fakeMounter) Has(path, device string) (bool, error) { return m.Source(path) == device, nil }

func (m *fakeMounter) MakeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}

func (m *fakeMounter) Stat(path string) (there, block bool, err error) {
	_, err = os.Stat(path)
	if os.IsNotExist(err) {
		return false, false, nil
	}
	return true, false, err
}

func (m *fakeMounter) FormatAndMount(source, target, kind string, options, format []string) error {
	m.Set(target, source, fmt.Sprintf("%s%v%v", kind, format, options))
	return nil
}

func (m *fakeMounter) Grow(string, string) error { return nil }

func (m *fakeMounter) GrowIfSmall(string, string) error {
	if m.small {
		return errGrowMounted
	}
	return nil
}

func (m *fakeMounter) GrowUnmounted(device string) error {
	if m.Count() > 0 {
		return fmt.Errorf("%s is mounted", device)
	}
	if m.trouble == nil {
		m.small = false
	}
	return m.trouble
}

func (m *fakeMounter) DeviceSize(string) (int64, error) { return 10 * gib, nil }
