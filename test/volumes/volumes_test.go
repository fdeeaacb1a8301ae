//go:build linux

// Package volumes tests EBS volumes in real machines, as users and CSI drivers work with them. The tests need root.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// rig is a daemon and its clients.
type rig struct {
	*harness.Daemon
	t      *testing.T
	client *ec2.Client
	subnet types.Subnet
}

func newRig(t *testing.T) *rig {
	t.Helper()
	testenv.NeedsRoot(t)
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("this host has no loop devices")
	}
	d := harness.Start(t)
	r := &rig{Daemon: d, t: t, client: ec2.NewFromConfig(d.Config())}
	subnet := d.Subnets()[0]
	out, err := r.client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})
	if err != nil {
		t.Fatal(err)
	}
	r.subnet = out.Subnets[0]
	return r
}

// must returns the output of a call, which has to succeed.
func must[T any](r *rig) func(T, error) T {
	return func(out T, err error) T {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
		return out
	}
}

func (r *rig) eventually(what string, try func() error) {
	r.t.Helper()
	if err := eventually.Try(100*time.Millisecond, try); err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

// launch launches instances and waits until they run.
func (r *rig) launch(count int32, mappings ...types.BlockDeviceMapping) (ids []string) {
	r.t.Helper()
	return r.launchImage("/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id",
		count, mappings...)
}

// launchImage launches instances of the AMI that a public parameter names.
func (r *rig) launchImage(parameter string, count int32, mappings ...types.BlockDeviceMapping) (ids []string) {
	r.t.Helper()
	image := r.Run("", "aws", "ssm", "get-parameter", "--query", "Parameter.Value", "--output", "text", "--name",
		parameter)
	out := must[*ec2.RunInstancesOutput](r)(r.client.RunInstances(r.t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String(strings.TrimSpace(image)), InstanceType: types.InstanceTypeM5Large, SubnetId: r.subnet.SubnetId,
		MinCount: aws.Int32(count), MaxCount: aws.Int32(count), BlockDeviceMappings: mappings}))
	for _, i := range out.Instances {
		ids = append(ids, *i.InstanceId)
		r.awaitInstance(*i.InstanceId, types.InstanceStateNameRunning)
	}
	return ids
}

func (r *rig) awaitInstance(id string, want types.InstanceStateName) {
	r.t.Helper()
	r.eventually(id+" is "+string(want), func() error {
		out, err := r.client.DescribeInstances(r.t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		if err != nil {
			return err
		}
		i := out.Reservations[0].Instances[0]
		if i.State.Name == types.InstanceStateNameTerminated && want != i.State.Name {
			r.t.Fatalf("%s is terminated: %+v", id, aws.ToString(i.StateReason.Message))
		}
		if i.State.Name != want {
			return fmt.Errorf("it is %s: %+v", i.State.Name, i.StateReason)
		}
		return nil
	})
}

// inside runs a shell command in a machine.
func (r *rig) inside(id, script string) (string, error) {
	out, text, err := r.Try("", "coracle", "exec", "--data-dir", r.Dir, id, "--", "/bin/sh", "-c", script)
	if err != nil {
		return out, fmt.Errorf("%w: %s%s", err, out, text)
	}
	return out, nil
}

func (r *rig) do(id, script string) string {
	r.t.Helper()
	out, err := r.inside(id, script)
	if err != nil {
		r.t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(out)
}

func (r *rig) create(edit func(*ec2.CreateVolumeInput)) string {
	r.t.Helper()
	in := &ec2.CreateVolumeInput{AvailabilityZone: r.subnet.AvailabilityZone, Size: aws.Int32(1),
		VolumeType: types.VolumeTypeGp3}
	edit(in)
	id := *must[*ec2.CreateVolumeOutput](r)(r.client.CreateVolume(r.t.Context(), in)).VolumeId
	r.awaitVolume(id, types.VolumeStateAvailable)
	return id
}

func (r *rig) describe(id string) (types.Volume, error) {
	out, err := r.client.DescribeVolumes(r.t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
	if err != nil {
		return types.Volume{}, err
	}
	return out.Volumes[0], nil
}

func (r *rig) awaitVolume(id string, want types.VolumeState) {
	r.t.Helper()
	r.eventually(id+" is "+string(want), func() error {
		v, err := r.describe(id)
		if err == nil && v.State != want {
			err = fmt.Errorf("it is %s, with %+v", v.State, v.Attachments)
		}
		return err
	})
}

func (r *rig) awaitAttachment(id string, want types.VolumeAttachmentState) {
	r.t.Helper()
	r.eventually(id+" is "+string(want), func() error {
		v, err := r.describe(id)
		if err != nil {
			return err
		}
		if len(v.Attachments) != 1 || v.Attachments[0].State != want {
			return fmt.Errorf("its attachments are %+v", v.Attachments)
		}
		return nil
	})
}

func (r *rig) attach(volume, instance, device string) {
	r.t.Helper()
	must[*ec2.AttachVolumeOutput](r)(r.client.AttachVolume(r.t.Context(), &ec2.AttachVolumeInput{
		VolumeId: &volume, InstanceId: &instance, Device: &device}))
	r.awaitAttachment(volume, types.VolumeAttachmentStateAttached)
}

func (r *rig) detach(volume string, force bool) {
	r.t.Helper()
	must[*ec2.DetachVolumeOutput](r)(r.client.DetachVolume(r.t.Context(), &ec2.DetachVolumeInput{VolumeId: &volume,
		Force: &force}))
}

func (r *rig) devices() []loopdevice.Device {
	r.t.Helper()
	devices, err := loopdevice.List(r.Owner())
	if err != nil {
		r.t.Fatal(err)
	}
	return devices
}

// byID is the name by which CSI drivers find a volume.
func byID(volume string) string {
	return "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol" + strings.TrimPrefix(volume, "vol-")
}

func TestTheLifeOfAVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	machines := r.launch(2)
	one, two := machines[0], machines[1]
	volume := r.create(func(*ec2.CreateVolumeInput) {})
	r.attach(volume, one, "/dev/xvdaa")
	r.do(one, "mkfs.xfs -q "+byID(volume)+" && mkdir /data && mount /dev/xvdaa /data && echo hello > /data/file && sync")
	if out, err := r.inside(two, "ls /dev/xvdaa /dev/nvme1n1"); err == nil {
		t.Errorf("another machine has the volume: %s", out)
	}

	// It grows while it is mounted.
	must[*ec2.ModifyVolumeOutput](r)(r.client.ModifyVolume(t.Context(), &ec2.ModifyVolumeInput{VolumeId: &volume,
		Size: aws.Int32(2)}))
	r.eventually("the device has grown", func() error {
		if size, err := r.inside(one, "blockdev --getsize64 /dev/xvdaa"); err != nil ||
			strings.TrimSpace(size) != fmt.Sprint(2<<30) {
			return fmt.Errorf("%s, %w", size, err)
		}
		return nil
	})
	r.do(one, "xfs_growfs /data >/dev/null")
	if blocks := r.do(one, `stat -f -c '%b' /data`); blocks < "500000" || len(blocks) != 6 {
		t.Errorf("the file system has %s blocks", blocks)
	}

	// A snapshot while it is written, and a volume from it.
	r.do(one, "(while test -e /data/file; do date > /data/busy; sync; done) >/dev/null 2>&1 &")
	snapshot := *must[*ec2.CreateSnapshotOutput](r)(r.client.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{
		VolumeId: &volume})).SnapshotId
	r.eventually("the snapshot is complete", func() error {
		out, err := r.client.DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{snapshot}})
		if err == nil && out.Snapshots[0].State != types.SnapshotStateCompleted {
			err = fmt.Errorf("it is %s: %s", out.Snapshots[0].State, aws.ToString(out.Snapshots[0].StateMessage))
		}
		return err
	})
	r.do(one, "rm /data/file")
	restored := r.create(func(in *ec2.CreateVolumeInput) { in.SnapshotId, in.Size = &snapshot, nil })
	r.attach(restored, two, "/dev/xvdab")
	if got := r.do(two, "mkdir /data && mount -t xfs /dev/xvdab /data && cat /data/file"); got != "hello" {
		t.Errorf("the snapshot has %q", got)
	}

	// It is busy as long as it is mounted, and moves.
	r.detach(volume, false)
	r.awaitAttachment(volume, types.VolumeAttachmentStateBusy)
	r.eventually("it is unmounted", func() error {
		_, err := r.inside(one, "umount /data")
		return err
	})
	r.awaitVolume(volume, types.VolumeStateAvailable)
	if out, err := r.inside(one, "ls /dev/xvdaa /dev/nvme1n1 "+byID(volume)); err == nil {
		t.Errorf("a detached volume is still there: %s", out)
	}
	r.attach(volume, two, "/dev/xvdac")
	r.do(two, "mkdir /moved && mount "+byID(volume)+" /moved && test -e /moved/busy")

	// The daemon dies, and another finds everything as it is; a machine reboots, and has its disks.
	r.Kill()
	r.do(two, "echo alone > /moved/alone && sync")
	r.Serve()
	r.awaitAttachment(volume, types.VolumeAttachmentStateAttached)
	if got := r.do(two, "cat /moved/alone"); got != "alone" {
		t.Errorf("the file has %q", got)
	}
	boot := r.do(two, "cat /proc/sys/kernel/random/boot_id")
	must[*ec2.RebootInstancesOutput](r)(r.client.RebootInstances(t.Context(), &ec2.RebootInstancesInput{
		InstanceIds: []string{two}}))
	r.eventually("the machine has rebooted with its disks", func() error {
		now, err := r.inside(two, "cat /proc/sys/kernel/random/boot_id; test -b "+byID(volume)+" && test -b /dev/xvdab")
		if err == nil && strings.TrimSpace(now) == boot {
			err = errors.New("it has not rebooted")
		}
		return err
	})
	r.do(two, "mkdir -p /moved && mount "+byID(volume)+" /moved && cat /moved/alone")

	// By force, though it is mounted.
	r.detach(volume, true)
	r.awaitVolume(volume, types.VolumeStateAvailable)
	if out, err := r.inside(two, "cat /moved/alone 2>&1"); err == nil {
		t.Errorf("a volume that was taken away is read: %s", out)
	}
	must[*ec2.DeleteVolumeOutput](r)(r.client.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: &volume}))
	r.eventually("its disk is removed", func() error {
		if _, err := os.Stat(filepath.Join(r.Dir, "volumes", volume)); !os.IsNotExist(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})

	// A machine that ends lets its disks go.
	must[*ec2.TerminateInstancesOutput](r)(r.client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{
		InstanceIds: machines}))
	r.awaitVolume(restored, types.VolumeStateAvailable)
	r.eventually("no device is left", func() error {
		if left := r.devices(); len(left) > 0 {
			return fmt.Errorf("there are %+v", left)
		}
		return nil
	})
}

func TestAVolumeOfALaunch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mapping := func(device string, ends bool) types.BlockDeviceMapping {
		return types.BlockDeviceMapping{DeviceName: &device, Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(1),
			VolumeType: types.VolumeTypeGp3, DeleteOnTermination: &ends}}
	}
	id := r.launch(1, mapping("/dev/sdf", true), mapping("/dev/sdg", false))[0]
	volumes := map[string]string{}
	out := must[*ec2.DescribeInstancesOutput](r)(r.client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
		InstanceIds: []string{id}}))
	for _, b := range out.Reservations[0].Instances[0].BlockDeviceMappings {
		volumes[*b.DeviceName] = *b.Ebs.VolumeId
	}
	r.eventually("the disks are there", func() error {
		_, err := r.inside(id, "test -b /dev/sdf && test -b /dev/sdg")
		return err
	})
	r.do(id, "mkfs.ext4 -q /dev/sdg && mkdir /data && mount /dev/sdg /data && echo kept > /data/file")

	// Stopped, it has no device; started again, its disks.
	must[*ec2.StopInstancesOutput](r)(r.client.StopInstances(t.Context(), &ec2.StopInstancesInput{
		InstanceIds: []string{id}}))
	r.awaitInstance(id, types.InstanceStateNameStopped)
	r.eventually("no device is left", func() error {
		if left := r.devices(); len(left) > 0 {
			return fmt.Errorf("there are %+v", left)
		}
		return nil
	})
	must[*ec2.StartInstancesOutput](r)(r.client.StartInstances(t.Context(), &ec2.StartInstancesInput{
		InstanceIds: []string{id}}))
	r.eventually("the content is there", func() error {
		got, err := r.inside(id, "mkdir -p /data; mountpoint -q /data || mount /dev/sdg /data; cat /data/file")
		if err == nil && strings.TrimSpace(got) != "kept" {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})

	must[*ec2.TerminateInstancesOutput](r)(r.client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{
		InstanceIds: []string{id}}))
	r.awaitVolume(volumes["/dev/sdg"], types.VolumeStateAvailable)
	r.eventually("the other volume is gone", func() error {
		if v, err := r.describe(volumes["/dev/sdf"]); err == nil {
			return fmt.Errorf("it is %s", v.State)
		} else if !strings.Contains(err.Error(), "InvalidVolume.NotFound") {
			return err
		}
		return nil
	})
	if got := r.reset(); !strings.Contains(got, volumes["/dev/sdg"]) {
		t.Errorf("coracle reset says\n%s", got)
	}
	if left := r.devices(); len(left) > 0 {
		t.Errorf("coracle reset leaves %+v", left)
	}
}

// reset removes everything of the daemon.
func (r *rig) reset() string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), eventually.Limit)
	defer cancel()
	out, err := r.Command(ctx, "", "coracle", "reset", "--yes", "--data-dir", r.Dir).CombinedOutput()
	if err != nil {
		r.t.Fatalf("coracle reset: %v\n%s", err, out)
	}
	return string(out)
}
