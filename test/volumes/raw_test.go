//go:build linux

package volumes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
)

// published is where the kubelet has the device of a raw volume for a pod.
const published = "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pvc-1/dev/pod-1"

// container is a container that has the device $MINOR as /dev/nvme1n1, which in the machine is another disk.
const container = `set -e
mkdir -p /raw/rootfs/usr /raw/rootfs/proc /raw/rootfs/dev
for dir in bin sbin lib lib64; do ln -sfn usr/$dir /raw/rootfs/$dir; done
cat > /raw/config.json <<END
{"ociVersion": "1.1.0", "root": {"path": "rootfs"}, "process": {"cwd": "/", "user": {"uid": 0, "gid": 0},
 "args": ["/bin/sh", "-c", "ls /dev/loop* /dev/nvme* 2>/dev/null; head -c 8 /dev/nvme1n1; echo changed | dd of=/dev/nvme1n1 conv=fsync 2>&1 | tail -1 >&2"],
 "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], "capabilities": {"effective": [], "bounding": []}},
 "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
  {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755"]}],
 "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}],
  "devices": [{"path": "/dev/nvme1n1", "type": "b", "major": 7, "minor": $MINOR, "fileMode": 432, "uid": 0, "gid": 6}],
  "resources": {"devices": [{"allow": true, "type": "b", "major": 7, "minor": $MINOR, "access": "rwm"}]}}}
END
cd /raw; runc --log /raw/log --log-format json run raw
`

// The kubelet holds a raw volume by a loop device, which it looks for in /sys/block, and gives its pod the device under
// any name.
func TestARawVolumeOfAContainer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.launch(1)[0]
	var roots []string // which have devices, too
	if rootvolume.Check() == nil {
		roots = append(roots, r.root(id))
	}
	other, volume := r.create(func(*ec2.CreateVolumeInput) {}), r.create(func(*ec2.CreateVolumeInput) {})
	r.attach(other, id, "/dev/xvdaa")
	r.attach(volume, id, "/dev/xvdab")
	if got := r.do(id, "lsblk -dno NAME,SIZE | tr -s ' '"); got != "nvme1n1 1G\nnvme2n1 1G" {
		t.Errorf("the machine has the disks\n%s", got)
	}
	r.do(id, "echo 'other  ' > /dev/nvme1n1; echo 'volume ' > /dev/nvme2n1; sync")

	r.do(id, fmt.Sprintf("mkdir -p $(dirname %[1]s) && touch %[1]s && mount --bind /dev/nvme2n1 %[1]s && losetup -f %[1]s",
		published))
	if got := r.do(id, "grep -lx "+published+" /sys/block/loop*/loop/backing_file"); got !=
		"/sys/block/loop0/loop/backing_file" {
		t.Errorf("the kubelet finds the device in %q", got)
	}

	const minor = "MINOR=$((0x$(stat -c %T /dev/nvme2n1))); "
	if got := r.do(id, minor+container); got != "/dev/nvme1n1\nvolume" {
		t.Errorf("the container has %q", got)
	}
	if got := r.do(id, "for disk in 1 2; do head -n 1 /dev/nvme${disk}n1; done"); got != "other  \nchanged" {
		t.Errorf("the disks have %q", got)
	}
	// A device that the machine does not have is none of a container, whatever has its name.
	if out, err := r.inside(id, "MINOR=4095; "+container); err == nil ||
		!strings.Contains(err.Error(), "the machine has no device b 7:4095, which the container is to have as /dev/nvme1n1") {
		t.Errorf("a container with the device of another: %s, %v", out, err)
	}
	if got := r.do(id, "tail -n 1 /raw/log"); !strings.Contains(got, `"level":"error"`) {
		t.Errorf("the log of runc ends with %s", got)
	}

	// Detached, its number is no other disk's as long as the kubelet holds it.
	held := r.number(volume)
	r.detach(volume, false)
	r.eventually("the volume is detached", func() error {
		v, err := r.describe(volume)
		if err == nil && len(v.Attachments) > 0 {
			err = fmt.Errorf("its attachments are %+v", v.Attachments)
		}
		return err
	})
	kept := append(roots, other)
	if err := r.hasDevices(append(kept, volume+" pulled")...); err != nil {
		t.Error(err)
	}
	r.do(id, "losetup -d /dev/loop0 && umount "+published)
	r.eventually("the number is free", func() error {
		if _, err := os.Stat(fmt.Sprintf("/sys/block/loop%d", held)); err == nil {
			return fmt.Errorf("%d is held", held)
		}
		return r.hasDevices(kept...)
	})
	if got := r.do(id, "ls -A /sys/block"); got != "nvme1n1" {
		t.Errorf("/sys/block has %q", got)
	}
}

// root returns the root volume of an instance.
func (r *rig) root(instance string) string {
	r.t.Helper()
	out := must[*ec2.DescribeInstancesOutput](r)(r.client.DescribeInstances(r.t.Context(), &ec2.DescribeInstancesInput{
		InstanceIds: []string{instance}}))
	return *out.Reservations[0].Instances[0].BlockDeviceMappings[0].Ebs.VolumeId
}

// hasDevices returns an error unless the daemon has the devices of these volumes alone. Those without a size have
// " pulled" behind their names.
func (r *rig) hasDevices(want ...string) error {
	r.t.Helper()
	var got []string
	for _, d := range r.devices() {
		name := d.Name.Volume
		if d.Pulled {
			name += " pulled"
		}
		got = append(got, name)
	}
	slices.Sort(got)
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		return fmt.Errorf("there are the devices %q, want %q", got, want)
	}
	return nil
}

// number returns the number of the device of a volume.
func (r *rig) number(volume string) int {
	r.t.Helper()
	for _, d := range r.devices() {
		if d.Name.Volume == volume {
			return d.Number
		}
	}
	r.t.Fatalf("%s has no device", volume)
	return loopdevice.Last + 1
}
