//go:build linux

package volumes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

const gib = 1 << 30

// TestTheRootVolume makes a node of a group with a disk size, as large as the AMI's snapshot, which is the least that
// EC2 takes. The node has the size, fills up there, is under disk pressure then, and loses images that no pod needs.
func TestTheRootVolume(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	if err := rootvolume.Check(); err != nil {
		t.Skip(err)
	}
	f := clustertest.New(t, "disks", "1.35")
	client := ec2.NewFromConfig(f.Daemon.Config())
	f.AWS(nil, "eks", "create-nodegroup", "--cluster-name", f.Cluster, "--nodegroup-name", "small", "--subnets",
		f.SubnetIDs[0], "--node-role", clustertest.RoleARN(clustertest.NodeRole), "--instance-types", "m5.large",
		"--disk-size", "20", "--scaling-config", "minSize=1,maxSize=1,desiredSize=1")
	f.Run("", "aws", "eks", "wait", "nodegroup-active", "--cluster-name", f.Cluster, "--nodegroup-name", "small")
	out, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []types.Filter{
		{Name: aws.String("tag:eks:nodegroup-name"), Values: []string{"small"}}}})
	if err != nil || len(out.Reservations) != 1 {
		t.Fatalf("the instances are %+v, %v", out, err)
	}
	instance := out.Reservations[0].Instances[0]
	id, root := *instance.InstanceId, *instance.BlockDeviceMappings[0].Ebs.VolumeId
	if v, err := client.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{root}}); err != nil ||
		*v.Volumes[0].Size != 20 || v.Volumes[0].State != types.VolumeStateInUse ||
		*v.Volumes[0].Attachments[0].Device != "/dev/xvda" {
		t.Errorf("the root volume is %+v, %v", v, err)
	}
	disk := filepath.Join(f.Dir, "volumes", root, "disk")
	until := func(what string, try func() error) {
		t.Helper()
		if err := eventually.Try(time.Second, try); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}

	// The node and everything in it see the size.
	for _, dir := range []string{"/", "/var/lib/containerd", "/var/lib/kubelet", "/var/log"} {
		if size := sizeOf(t, f.In(id, "stat", "-f", "-c", "%b %S", dir)); size < 19*gib || size > 20*gib {
			t.Errorf("%s has %d bytes", dir, size)
		}
	}
	node := f.AwaitNodes(id)[0]
	const storage = "ephemeral-storage"
	if q, err := resource.ParseQuantity(node.Status.Capacity[storage]); err != nil || q.Value() < 19*gib ||
		q.Value() > 20*gib {
		t.Errorf("the node has ephemeral storage of %s, %v", node.Status.Capacity[storage], err)
	}
	if q, err := resource.ParseQuantity(node.Status.Allocatable[storage]); err != nil || q.Value() < 15*gib ||
		q.Value() > 19*gib {
		t.Errorf("allocatable of it is %s, %v", node.Status.Allocatable[storage], err)
	}
	type fileSystem struct {
		AvailableBytes, CapacityBytes int64
	}
	var summary struct {
		Node struct {
			FS      fileSystem
			Runtime struct{ ImageFS, ContainerFS fileSystem }
		}
	}
	proxy := "/api/v1/nodes/" + node.Metadata.Name + "/proxy/stats/summary"
	until("the kubelet knows its file systems", func() error {
		out, said, err := f.Try(f.Config, "kubectl", "get", "--raw", proxy)
		if err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		if err := json.Unmarshal([]byte(out), &summary); err != nil {
			return err
		}
		for _, s := range []fileSystem{summary.Node.FS, summary.Node.Runtime.ImageFS, summary.Node.Runtime.ContainerFS} {
			if s.CapacityBytes < 19*gib || s.CapacityBytes > 20*gib || s.AvailableBytes < 15*gib {
				return fmt.Errorf("they are %+v", summary.Node)
			}
		}
		return nil
	})

	// A pod leaves its image, which the kubelet may delete at once.
	f.In(id, "sh", "-c", `sed -i '0,/{/s//{"imageMinimumGCAge": "1s", "evictionPressureTransitionPeriod": "1s",/' \
		/etc/kubernetes/kubelet/config.json && systemctl restart kubelet`)
	f.Apply(`
apiVersion: v1
kind: Pod
metadata: {name: passing}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: passing, image: ` + harness.Agnhost + `, args: [pause]}]
`)
	f.Await("condition=Ready", "pod/passing")
	f.Run(f.Config, "kubectl", "delete", "pod", "passing")
	hasImage := func() bool {
		return strings.Contains(f.In(id, "ctr", "-n", "k8s.io", "images", "ls", "-q"), harness.Agnhost)
	}
	if !hasImage() {
		t.Error("the image of the pod is not there")
	}

	// What is deleted takes no space of the host.
	before := blocksOf(t, disk)
	f.In(id, "sh", "-c", "head -c 268435456 /dev/urandom > /var/noise && sync")
	if now := blocksOf(t, disk); now < before+(200<<20) {
		t.Errorf("the disk has %d bytes, before 256 MiB were written %d", now, before)
	}
	f.In(id, "sh", "-c", "rm /var/noise && sync")
	until("the space is given back", func() error {
		if now := blocksOf(t, disk); now > before+(100<<20) {
			return fmt.Errorf("the disk has %d bytes, and had %d", now, before)
		}
		return nil
	})

	// It fills up, and the host does not.
	free := freeOf(t, f.Dir)
	f.In(id, "sh", "-c", `fallocate -l $(($(stat -f -c '%a*%S/100*99' /var))) /var/fill`)
	said := f.In(id, "sh", "-c", "! head -c 2147483648 /dev/zero > /var/more 2> /tmp/said; cat /tmp/said; rm /var/more")
	if !strings.Contains(said, "No space left on device") {
		t.Errorf("a full disk says %q", said)
	}
	if now := freeOf(t, f.Dir); now < free-4*gib {
		t.Errorf("the host has %d bytes left, and had %d", now, free)
	}
	until("the node is under disk pressure", func() error {
		nodes, err := f.TryNodes()
		if err != nil || len(nodes) != 1 {
			return fmt.Errorf("there are %d nodes, %w", len(nodes), err)
		}
		if nodes[0].Condition("DiskPressure") != "True" {
			return fmt.Errorf("its conditions are %+v", nodes[0].Status.Conditions)
		}
		return nil
	})
	until("the image is collected", func() error {
		if hasImage() {
			return errors.New("it is there")
		}
		return nil
	})
	f.In(id, "rm", "/var/fill")
	until("the pressure is over", func() error {
		nodes, err := f.TryNodes()
		if err == nil && nodes[0].Condition("DiskPressure") != "False" {
			err = fmt.Errorf("the conditions of the node are %+v", nodes[0].Status.Conditions)
		}
		return err
	})

	f.AWS(nil, "eks", "delete-nodegroup", "--cluster-name", f.Cluster, "--nodegroup-name", "small")
	until("nothing is left of the volume", func() error {
		left, err := loopdevice.List(f.Owner())
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("there are the devices %+v", left)
		}
		if _, missing := os.Stat(filepath.Dir(disk)); err == nil && !os.IsNotExist(missing) {
			err = fmt.Errorf("the disk is there: %w", missing)
		}
		return err
	})
}

// TestTheLifeOfARootVolume takes the files of a machine through all that may happen to it.
func TestTheLifeOfARootVolume(t *testing.T) {
	t.Parallel()
	if err := rootvolume.Check(); err != nil {
		t.Skip(err)
	}
	r := newRig(t)
	id := r.launch(1, types.BlockDeviceMapping{DeviceName: aws.String("/dev/xvda"), Ebs: &types.EbsBlockDevice{
		VolumeSize: aws.Int32(21), DeleteOnTermination: aws.Bool(false)}})[0]
	root := r.root(id)
	r.awaitVolume(root, types.VolumeStateInUse)
	size := func() int64 { return sizeOf(t, r.do(id, "stat -f -c '%b %S' /")) }
	kept := func(after string) {
		t.Helper()
		r.eventually("the machine has its files after "+after, func() error {
			got, err := r.inside(id, "cat /root/kept /var/log/kept")
			if err == nil && got != "here\nthere\n" {
				err = fmt.Errorf("they have %q", got)
			}
			return err
		})
	}
	r.do(id, "echo here > /root/kept && echo there > /var/log/kept && sync")
	if got := size(); got < 20*gib || got > 21*gib {
		t.Errorf("it has %d bytes", got)
	}
	if out, err := r.inside(id, "ls /dev/xvda /dev/nvme0n1"); err == nil {
		t.Errorf("the machine has a node of it: %s", out)
	}

	// It grows while the machine runs.
	must[*ec2.ModifyVolumeOutput](r)(r.client.ModifyVolume(t.Context(), &ec2.ModifyVolumeInput{VolumeId: &root,
		Size: aws.Int32(30)}))
	r.eventually("it has grown", func() error {
		if got := size(); got < 29*gib {
			return fmt.Errorf("it has %d bytes", got)
		}
		return nil
	})

	// A snapshot of it is one of a running machine.
	snapshot := *must[*ec2.CreateSnapshotOutput](r)(r.client.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{
		VolumeId: &root})).SnapshotId
	r.eventually("the snapshot is complete", func() error {
		out, err := r.client.DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{snapshot}})
		if err == nil && out.Snapshots[0].State != types.SnapshotStateCompleted {
			err = fmt.Errorf("it is %s: %s", out.Snapshots[0].State, aws.ToString(out.Snapshots[0].StateMessage))
		}
		return err
	})
	copied := r.create(func(in *ec2.CreateVolumeInput) { in.SnapshotId, in.Size = &snapshot, nil })
	r.attach(copied, id, "/dev/xvdf")
	if got := r.do(id, "mkdir /copy && mount -o nouuid /dev/xvdf /copy && cat /copy/root/upper/root/kept"); got != "here" {
		t.Errorf("the snapshot has %q", got)
	}
	r.do(id, "umount /copy")
	r.detach(copied, false)

	// The daemon dies, and the launcher; the machine reboots, and stops and starts.
	r.Restart()
	kept("the daemon's death")
	boot := r.do(id, "cat /proc/sys/kernel/random/boot_id")
	rebooted := func(after string) {
		t.Helper()
		r.eventually("the machine has booted after "+after, func() error {
			now, err := r.inside(id, "cat /proc/sys/kernel/random/boot_id")
			if err == nil && strings.TrimSpace(now) == boot {
				err = errors.New("it has not")
			}
			if err == nil {
				boot = strings.TrimSpace(now)
			}
			return err
		})
		kept(after)
	}
	r.killLauncher(id)
	rebooted("its launcher's death")
	must[*ec2.RebootInstancesOutput](r)(r.client.RebootInstances(t.Context(), &ec2.RebootInstancesInput{
		InstanceIds: []string{id}}))
	rebooted("a reboot")
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
	rebooted("a stop")

	// It outlives the instance, and another one has what is on it.
	must[*ec2.TerminateInstancesOutput](r)(r.client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{
		InstanceIds: []string{id}}))
	r.awaitVolume(root, types.VolumeStateAvailable)
	other := r.launch(1)[0]
	r.attach(root, other, "/dev/xvdf")
	if got := r.do(other, "mkdir /old && mount -o nouuid /dev/xvdf /old && cat /old/root/upper/root/kept"); got != "here" {
		t.Errorf("the volume of the terminated instance has %q", got)
	}
	r.reset()
	if left := r.devices(); len(left) > 0 {
		t.Errorf("coracle reset leaves %+v", left)
	}
}

// TestTheFilesOfBottlerocket has a machine of an AMI with two volumes, which writes to the second one alone.
func TestTheFilesOfBottlerocket(t *testing.T) {
	t.Parallel()
	if err := rootvolume.Check(); err != nil {
		t.Skip(err)
	}
	r := newRig(t)
	id := r.launchImage("/aws/service/bottlerocket/aws-k8s-1.35/x86_64/latest/image_id", 1, types.BlockDeviceMapping{
		DeviceName: aws.String(ami.DataDeviceName), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(22)}})[0]
	out := must[*ec2.DescribeInstancesOutput](r)(r.client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
		InstanceIds: []string{id}}))
	volumes := map[string]string{}
	for _, b := range out.Reservations[0].Instances[0].BlockDeviceMappings {
		volumes[*b.DeviceName] = *b.Ebs.VolumeId
		r.awaitVolume(*b.Ebs.VolumeId, types.VolumeStateInUse)
	}
	if err := r.hasDevices(volumes[ami.DataDeviceName]); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{"/", "/var/lib/containerd"} {
		if got := sizeOf(t, r.do(id, "stat -f -c '%b %S' "+dir)); got < 21*gib || got > 22*gib {
			t.Errorf("%s has %d bytes", dir, got)
		}
	}
	_, err := r.client.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: aws.String(volumes["/dev/xvda"])})
	if err == nil || !strings.Contains(err.Error(), "keeps its files elsewhere") {
		t.Errorf("a snapshot of the volume without a disk: %v", err)
	}
}

// killLauncher kills the process that stands for the machine of an instance.
func (r *rig) killLauncher(id string) {
	r.t.Helper()
	for _, line := range r.Processes() {
		pid, command, _ := strings.Cut(line, " ")
		if strings.Contains(command, "launch --spec") && strings.Contains(command, id) {
			number, err := strconv.Atoi(pid)
			if err == nil {
				err = syscall.Kill(number, syscall.SIGKILL)
			}
			if err != nil {
				r.t.Fatal(err)
			}
			return
		}
	}
	r.t.Fatalf("no launcher of %s is among %q", id, r.Processes())
}

// sizeOf returns the product of the numbers of blocks and of bytes in a block.
func sizeOf(t *testing.T, text string) int64 {
	t.Helper()
	var blocks, size int64
	if _, err := fmt.Sscan(text, &blocks, &size); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return blocks * size
}

// blocksOf returns the bytes that a file takes of the host's disk.
func blocksOf(t *testing.T, file string) int64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func freeOf(t *testing.T, dir string) int64 {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}
