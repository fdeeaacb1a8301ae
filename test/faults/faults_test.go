//go:build linux

// Package faults runs the daemon on hosts that lack something, and reads what "coracle up" and "coracle doctor" say.
package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// Commands that execute their arguments on a host that lacks something.
var (
	withoutSysAdmin = []string{"setpriv", "--bounding-set", "-sys_admin"}
	// What Docker gives to containers that are not privileged.
	dockerCapabilities = []string{"setpriv", "--bounding-set", "-all,+chown,+dac_override,+fowner,+fsetid,+kill," +
		"+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap"}
	userNamespace = []string{"unshare", "--user", "--map-root-user"}
	oldKernel     = []string{"setarch", "--uname-2.6"}
	// A remount without "bind" would make the file system read-only for everybody.
	readOnlySys     = inNamespace("--mount", "mount -o remount,ro,bind /sys")
	readOnlyCgroups = inNamespace("--mount", `for m in $(awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/self/mounts); do
		mount -o remount,ro,bind $m; done`)
	// What the daemon mounts for machines, in directories that are shared, stays when another daemon has other devices.
	withoutLoopDevices = []string{"unshare", "--mount", "--propagation", "unchanged", "sh", "-ec", `
		mount --make-private /
		mount --make-private /dev
		mount -t tmpfs -o mode=755 none /mnt
		for f in /dev/*; do
			case $f in /dev/loop*) continue;; esac
			if [ -d $f ] && ! [ -L $f ]; then mkdir /mnt/${f#/dev/}; mount --rbind $f /mnt/${f#/dev/}
			else cp -a $f /mnt/; fi
		done
		mount --move /mnt /dev
		exec "$@"`, "sh"}
	withoutCgroups = inNamespace("--mount", "umount --recursive /sys/fs/cgroup")
	dropPolicy     = inNamespace("--net", `ip link set lo up
		nft add table ip filter
		nft 'add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }'
		nft add rule ip filter FORWARD iifname docker0 accept`)
	rejectRule = inNamespace("--net", `ip link set lo up
		nft add table inet firewalld
		nft 'add chain inet firewalld filter_FORWARD { type filter hook forward priority 10; }'
		nft add rule inet firewalld filter_FORWARD ct state established,related accept
		nft add rule inet firewalld filter_FORWARD counter reject`)
	acceptRule = inNamespace("--net", `ip link set lo up
		nft add table ip filter
		nft 'add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }'
		nft 'insert rule ip filter FORWARD iifname "cor-*" accept'
		nft 'insert rule ip filter FORWARD oifname "cor-*" accept'`)
)

// inNamespace returns a command that prepares a new namespace with a shell script.
func inNamespace(namespace, script string) []string {
	return []string{"unshare", namespace, "sh", "-ec", script + "\nexec \"$@\"", "sh"}
}

// host is one on which a daemon may run.
type host struct {
	t              *testing.T
	binary, listen string
	dir            string // the data directory
	within         []string
}

// newHost returns a host that lacks what the command within takes away. Its data directory is in parent, or in a
// temporary directory.
func newHost(t *testing.T, parent string, within []string) *host {
	t.Helper()
	testenv.NeedsRoot(t)
	if parent == "" {
		parent = tempDir(t)
	}
	h := &host{t: t, binary: harness.Binary(t), listen: harness.FreeAddress(t), within: within,
		dir: filepath.Join(parent, "data")}
	t.Cleanup(h.reset)
	return h
}

// reset removes what the daemon made. The processes of a daemon in a user namespace are known in that namespace alone.
func (h *host) reset() {
	argv := []string{h.binary, "reset", "--yes", "--data-dir", h.dir}
	if pid, held, err := datadir.Dir(h.dir).Holder(); err == nil && held && slices.Equal(h.within, userNamespace) {
		argv = append([]string{"nsenter", "--user", "--preserve-credentials", "--target", strconv.Itoa(pid)}, argv...)
	}
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		h.t.Errorf("coracle reset: %v\n%s", err, out)
	}
	if left, err := exec.Command("pgrep", "--full", "--list-full", h.dir).Output(); err == nil {
		h.t.Errorf("coracle reset left processes:\n%s", left)
	}
}

// tempDir returns a directory with a short name, as sockets need it.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "coracle-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// mounted returns a directory on which a file system is mounted until the end of the test.
func mounted(t *testing.T, kind, options string) string {
	t.Helper()
	testenv.NeedsRoot(t)
	dir := tempDir(t)
	if err := syscall.Mount(kind, dir, kind, 0, options); err != nil {
		t.Fatalf("mount %s on %s: %v", kind, dir, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// coracle runs a command of the program on the host, and returns what it printed and its exit status.
func (h *host) coracle(args ...string) (out string, exit int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	argv := append(slices.Clone(h.within), h.binary)
	argv = append(append(argv, args...), "--data-dir", h.dir)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "CORACLE_LISTEN="+h.listen)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		h.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, both.String())
	}
	return both.String(), cmd.ProcessState.ExitCode()
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const simulated = "clusters work; instances and nodes are simulated"
	for _, c := range []struct {
		name   string
		parent func(*testing.T) string // of the data directory; nil for a temporary directory
		within []string
		check  string // of the doctor
		level  string
		says   string // a regular expression for what doctor and up say
		fix    string
		up     int    // the exit status of up
		status string // what machines are then, as coracle status says; a regular expression
	}{
		{
			name: "nothing is lacking", check: "machines", level: "ok", says: "networks can be made",
			status: "namespace",
		},
		{
			name: "without CAP_SYS_ADMIN", within: withoutSysAdmin, check: "machines", level: "warn",
			says: "CAP_SYS_ADMIN or CAP_NET_ADMIN is missing: " + simulated, fix: "run coracle as root of a Linux host",
			status: "simulated, as this host cannot have machines \\(CAP_SYS_ADMIN",
		},
		{
			name: "with the capabilities of a Docker container", within: dockerCapabilities, check: "machines",
			level: "warn", says: "CAP_SYS_ADMIN or CAP_NET_ADMIN is missing: " + simulated, fix: "run coracle as root",
			status: "simulated, as this host cannot have machines",
		},
		{
			name: "in a user namespace, as rootless containers are", within: userNamespace, check: "machines",
			level: "warn", says: "root is in a user namespace, and no root of the host: " + simulated,
			fix: "run coracle as root", status: "simulated, as this host cannot have machines",
		},
		{
			name: "without cgroup delegation", within: readOnlyCgroups, check: "machines", level: "warn",
			says: "cgroups cannot be made: .*read-only file system.*: " + simulated, fix: "remount,rw /sys/fs/cgroup",
			status: "simulated, as this host cannot have machines \\(cgroups",
		},
		{
			name: "without cgroups", within: withoutCgroups, check: "machines", level: "warn",
			says: "cgroups cannot be made: this host has no memory cgroups.*: " + simulated,
			fix:  "mount -t cgroup2 none /sys/fs/cgroup", status: "simulated, as this host cannot have machines",
		},
		{
			name: "with a data directory on which overlayfs cannot write", parent: onOverlay, check: "machines",
			level: "warn", says: "overlayfs cannot write to the file system of .*: " + simulated,
			fix: "coracle up --data-dir DIRECTORY", status: "simulated, as this host cannot have machines \\(overlayfs",
		},
		{
			name: "with a read-only /sys", within: readOnlySys, check: "isolation", level: "warn",
			says: "machines have no user namespaces", fix: "outside of containers", status: "namespace, without user",
		},
		{
			name: "without loop devices", within: withoutLoopDevices, check: "isolation", level: "warn",
			says: "root volumes have no size: a machine can fill the disk of .*this host has no loop devices",
			fix:  "modprobe loop", status: `namespace, .*with root volumes of no size \(this host has no loop devices`,
		},
		{
			name: "with 448 MiB of disk left", parent: small("448m"), check: "disk", level: "FAIL",
			says: "MiB free for .*: the AWS APIs work; clusters answer, and take no changes; no machine is launched",
			fix:  "df -h", status: "namespace|simulated",
		},
		{
			name: "with 900 MiB of disk left", parent: small("900m"), check: "disk", level: "warn",
			says: "MiB free for .*: clusters and machines work; images, log events and results of queries are refused",
			fix:  "df -h", status: "namespace|simulated",
		},
		{
			name: "with an old kernel", within: oldKernel, check: "kernel", level: "FAIL",
			says: `Linux 2\.6\..* is older than 5\.10.*: neither clusters nor machines work`, fix: "5.10 or newer", up: 1,
		},
		{
			name: "with a firewall whose policy drops", within: dropPolicy, check: "firewall", level: "warn",
			says: `ip filter FORWARD.*: clusters, nodes and connections within VPCs work; .*do not reach the internet`,
			fix:  "iptables -I FORWARD -i cor-", status: "namespace",
		},
		{
			name: "with a firewall whose last rule rejects", within: rejectRule, check: "firewall", level: "warn",
			says: `inet firewalld filter_FORWARD`, fix: `nft insert rule inet firewalld filter_FORWARD iifname "cor-\*"`,
			status: "namespace",
		},
		{
			name: "with a firewall that lets machines through", within: acceptRule, check: "firewall", level: "ok",
			says: "nothing drops", status: "namespace",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			parent := ""
			if c.parent != nil {
				parent = c.parent(t)
			}
			h := newHost(t, parent, c.within)
			finding := regexp.MustCompile(`(?m)^` + c.level + ` +` + c.check + ` +.*` + c.says)
			fix := regexp.MustCompile(`fix: .*` + c.fix)

			doctor, exit := h.coracle("doctor")
			if !finding.MatchString(doctor) || c.level != "ok" && !fix.MatchString(doctor) {
				t.Errorf("coracle doctor: want %q and %q, it says\n%s", finding, fix, doctor)
			}
			if c.level == "FAIL" && exit != 1 {
				t.Errorf("coracle doctor: exit status %d", exit)
			}

			up, exit := h.coracle("up")
			if exit != c.up {
				t.Fatalf("coracle up: exit status %d, want %d\n%s", exit, c.up, up)
			}
			said := regexp.MustCompile(`(?s)` + c.says)
			if c.level != "ok" && (!said.MatchString(up) || c.up == 0 && !fix.MatchString(up)) {
				t.Errorf("coracle up: want %q and %q, it says\n%s", said, fix, up)
			}
			if c.level == "ok" && strings.Contains(up, "! "+c.check) {
				t.Errorf("coracle up complains:\n%s", up)
			}
			if c.up != 0 {
				return
			}
			log, err := os.ReadFile(filepath.Join(h.dir, "serve.log"))
			if logged := strings.Contains(string(log), "limited\" check="+c.check+" "); err != nil ||
				logged != (c.level != "ok") {
				t.Errorf("the daemon logs (%v)\n%s", err, log)
			}
			status, _ := h.coracle("status")
			if !regexp.MustCompile(`(?m)^machines +` + c.status).MatchString(status) {
				t.Errorf("coracle status: machines should be %q\n%s", c.status, status)
			}
			if c.check == "firewall" {
				return // another command is in another network namespace
			}
			if again, exit := h.coracle("up"); exit != 0 || c.level != "ok" && !said.MatchString(again) {
				t.Errorf("coracle up, again: exit status %d\n%s", exit, again)
			}
		})
	}
}

// onOverlay returns a directory on an overlay, which cannot be the upper layer of another.
func onOverlay(t *testing.T) string {
	t.Helper()
	layers := tempDir(t)
	for _, d := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(layers, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return mounted(t, "overlay", fmt.Sprintf("lowerdir=%s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", layers))
}

// small returns a function that returns a directory of a small disk.
func small(size string) func(*testing.T) string {
	return func(t *testing.T) string { return mounted(t, "tmpfs", "size="+size) }
}

// TestNodesWhereMachinesAreImpossible has a cluster with a node group on a host that cannot have machines: its node is
// simulated.
func TestNodesWhereMachinesAreImpossible(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	d := harness.StartWithin(t, withoutSysAdmin)
	subnets := d.Subnets()
	d.CreateCluster("demo", "1.35", d.ClusterRole(), subnets)
	d.AWS(nil, "iam", "create-role", "--role-name", clustertest.NodeRole, "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},
			"Action":"sts:AssumeRole"}]}`)
	for _, policy := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy"} {
		d.AWS(nil, "iam", "attach-role-policy", "--role-name", clustertest.NodeRole, "--policy-arn",
			"arn:aws:iam::aws:policy/"+policy)
	}
	d.AwaitStatus("demo", "ACTIVE")
	client := eks.NewFromConfig(d.Config())
	_, err := client.CreateNodegroup(t.Context(), &eks.CreateNodegroupInput{
		ClusterName: aws.String("demo"), NodegroupName: aws.String("group"), Subnets: subnets,
		NodeRole: aws.String(clustertest.RoleARN(clustertest.NodeRole)),
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(1),
			DesiredSize: aws.Int32(1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := eventually.Try(50*time.Millisecond, func() error {
		out, err := client.DescribeNodegroup(t.Context(), &eks.DescribeNodegroupInput{
			ClusterName: aws.String("demo"), NodegroupName: aws.String("group")})
		if err == nil && out.Nodegroup.Status != ekstypes.NodegroupStatusActive {
			err = fmt.Errorf("the node group is %s: %+v", out.Nodegroup.Status, out.Nodegroup.Health)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestMachinesOfAHostThatLostItsRights has a data directory with machines on a host that can no longer have any: an
// instance does not become a simulated one, and ends with the reason.
func TestMachinesOfAHostThatLostItsRights(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	d := harness.Start(t, "CORACLE_MACHINES=simulated")
	d.Kill()
	if err := os.MkdirAll(filepath.Join(d.Dir, "machines", "i-0123456789abcdef0"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.SetWithin(withoutSysAdmin...)
	d.SetExtraEnv("CORACLE_MACHINES=namespace")
	d.Serve()
	awaitInstance(t, d, runInstance(t, d), ec2types.InstanceStateNameTerminated, "CAP_SYS_ADMIN")
	if out := d.Run("", "coracle", "status", "--data-dir", d.Dir); !strings.Contains(out,
		"none boots now, as this host cannot have machines (CAP_SYS_ADMIN") {
		t.Errorf("coracle status says\n%s", out)
	}
}

// TestAHostThatGetsWhatMachinesNeed gives a host what it lacked: an instance that was simulated boots.
func TestAHostThatGetsWhatMachinesNeed(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	d := harness.StartWithin(t, withoutSysAdmin)
	id := runInstance(t, d)
	awaitInstance(t, d, id, ec2types.InstanceStateNameRunning, "")
	d.Kill()
	d.SetWithin()
	d.Serve()
	if err := eventually.Try(50*time.Millisecond, func() error {
		processes := d.Processes()
		if !slices.ContainsFunc(processes, func(p string) bool {
			return strings.Contains(p, id+"/coracle-node launch")
		}) {
			return fmt.Errorf("%s has no machine:\n%s", id, strings.Join(processes, "\n"))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	awaitInstance(t, d, id, ec2types.InstanceStateNameRunning, "")
}

// TestAHostThatGetsLoopDevices has a machine on a host without loop devices, as machines of earlier versions are: its
// files are on the host's disk, and stay there when the host has what root volumes need.
func TestAHostThatGetsLoopDevices(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	if err := rootvolume.Check(); err != nil {
		t.Skip(err)
	}
	d := harness.Start(t)
	d.Kill()
	d.SetWithin(withoutLoopDevices...)
	d.Serve()
	inside := func(id, script string) string {
		t.Helper()
		return strings.TrimSpace(d.Run("", "coracle", "exec", "--data-dir", d.Dir, id, "--", "sh", "-c", script))
	}
	id := runInstance(t, d)
	awaitInstance(t, d, id, ec2types.InstanceStateNameRunning, "")
	inside(id, "echo here > /root/kept && echo there > /var/log/kept")
	boot := inside(id, "cat /proc/sys/kernel/random/boot_id")

	// It goes on as it is.
	d.Kill()
	d.SetWithin()
	d.Serve()
	awaitInstance(t, d, id, ec2types.InstanceStateNameRunning, "")
	if now := inside(id, "cat /proc/sys/kernel/random/boot_id"); now != boot {
		t.Error("the machine has booted again")
	}
	client := ec2.NewFromConfig(d.Config())
	if _, err := client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	awaitInstance(t, d, id, ec2types.InstanceStateNameStopped, "")
	if _, err := client.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	awaitInstance(t, d, id, ec2types.InstanceStateNameRunning, "")
	if got := inside(id, "cat /root/kept /var/log/kept; test ! -e /run/host/own-disk && echo the host"); got !=
		"here\nthere\nthe host" {
		t.Errorf("the machine has %q", got)
	}
	if _, err := os.Stat(filepath.Join(d.Dir, "machines", id, "root/upper/root/kept")); err != nil {
		t.Error(err)
	}

	// Another one has a root volume.
	other := runInstance(t, d)
	awaitInstance(t, d, other, ec2types.InstanceStateNameRunning, "")
	inside(other, "test -e /run/host/own-disk")
	if devices, err := loopdevice.List(d.Owner()); err != nil || len(devices) != 1 ||
		devices[0].Name.InstanceID != other {
		t.Errorf("the devices are %+v, %v", devices, err)
	}
}

// runInstance launches an instance, and returns its ID.
func runInstance(t *testing.T, d *harness.Daemon) string {
	t.Helper()
	image := d.Run("", "aws", "ssm", "get-parameter", "--query", "Parameter.Value", "--output", "text", "--name",
		"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id")
	out, err := ec2.NewFromConfig(d.Config()).RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String(strings.TrimSpace(image)), InstanceType: ec2types.InstanceTypeM5Large,
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: aws.String(d.Subnets()[0])})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.Instances[0].InstanceId)
}

// awaitInstance waits until an instance has a state, with a part of its reason.
func awaitInstance(t *testing.T, d *harness.Daemon, id string, want ec2types.InstanceStateName, reason string) {
	t.Helper()
	client := ec2.NewFromConfig(d.Config())
	if err := eventually.Try(50*time.Millisecond, func() error {
		out, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		if err != nil {
			return err
		}
		i := out.Reservations[0].Instances[0]
		if i.State.Name != want || reason != "" &&
			(i.StateReason == nil || !strings.Contains(aws.ToString(i.StateReason.Message), reason)) {
			return fmt.Errorf("%s is %s: %+v", id, i.State.Name, i.StateReason)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
