//go:build linux

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
)

// TestRootOfAMachineIsNobodyOnTheHost tries, as root of a machine in a user namespace, what would give it the host.
func TestRootOfAMachineIsNobodyOnTheHost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.spec.Network, r.spec.UserID = machinetest.UserNetwork(t, t.TempDir(), "netns")
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("the host's"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Even what the disk's IDs say belongs to root is locked.
	inBaseImage := filepath.Join(r.spec.BaseImage, "usr/local/kept")
	if err := os.WriteFile(inBaseImage, []byte("the image's"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.spec.Mounts = append(r.spec.Mounts, Mount{program, "/opt/program", true}, Mount{inBaseImage, "/opt/kept", true})
	r.script(`
echo "id: $(id -u) $(cat /proc/self/uid_map | tr -s ' ')"
echo "limits: $(cat /proc/sys/user/max_inotify_instances /proc/sys/user/max_inotify_watches /proc/sys/user/max_net_namespaces | tr '\n' ' ')"
refused() { what=$1; shift; if sh -c "$*" 2>/dev/null; then echo "ALLOWED: $what"; else echo "refused: $what"; fi; }
allowed() { what=$1; shift; if out=$(sh -c "$*" 2>&1); then echo "works: $what"; else echo "FAILED: $what: $out"; fi; }
mkdir -p /mnt/proc /mnt/sys /mnt/cg
mount -t proc proc /mnt/proc; mount -t sysfs sysfs /mnt/sys
if [ -e /sys/fs/cgroup/memory ]
then mount -t cgroup -o memory cgroup /mnt/cg
else mount -t cgroup2 cgroup2 /mnt/cg
fi
refused core_pattern 'echo "|/bin/true" > /mnt/proc/sys/kernel/core_pattern'
refused modprobe 'echo /bin/true > /mnt/proc/sys/kernel/modprobe'
refused sysrq 'echo h > /mnt/proc/sysrq-trigger'
refused uevent_helper 'test -e /mnt/sys/kernel/uevent_helper && echo /bin/true > /mnt/sys/kernel/uevent_helper'
refused release_agent 'test -e /mnt/cg/release_agent && echo /bin/true > /mnt/cg/release_agent'
refused "memory limit" 'for f in /mnt/cg/memory.max /mnt/cg/memory.limit_in_bytes; do test -e $f && echo -1 > $f; done'
refused "device rules" 'd=/sys/fs/cgroup/devices; test -e $d && mkdir -p $d/own && echo a > $d/own/devices.allow'
refused "IDs of others" 'touch /root/f && chown 65536 /root/f'
refused "a device" 'mknod /root/disk b 8 0'
refused "remount of the host's" 'mount -o remount,rw,bind /opt/program'
refused "remount of the image's" 'mount -o remount,rw,bind /opt/kept'
refused "unmount of the host's" 'umount /opt/program'
refused "unmount of /usr" 'umount -l /usr'
refused "writing the host's" 'echo x > /opt/program'
refused "module" 'insmod /dev/null'
refused "host's processes" 'ls /mnt/proc/$PPID/root/lost+found /mnt/proc/2'
refused "a setuid program for the host" 'cp /bin/true /root/s && chmod u+s /root/s && test "$(stat -c %u /root/s)" != 0'
allowed "proc in new namespaces" 'unshare --mount --pid --fork mount -t proc proc /proc'
allowed "sysfs in new namespaces" 'unshare --mount --net mount -t sysfs sysfs /sys'
allowed "own cgroups" 'd=$(ls -d /sys/fs/cgroup/memory 2>/dev/null || echo /sys/fs/cgroup); mkdir $d/own && sh -c "echo \$\$ > $d/own/cgroup.procs"'
allowed "overlay" 'd=/var/lib/kubelet; mkdir -p $d/u $d/w /mnt/o &&
  mount -t overlay -o userxattr,lowerdir=/etc,upperdir=$d/u,workdir=$d/w overlay /mnt/o &&
  touch /mnt/o/new && chown 1000 /mnt/o/new'
allowed "users" 'touch /root/g && chown 65535:1000 /root/g'
allowed "port below 1024" 'p=/proc/sys/net/ipv4/ip_unprivileged_port_start; cat $p && echo 80 > $p'
allowed "setuid" 'cp /usr/bin/id /root/id && chown 7 /root/id && chmod u+s /root/id && test "$(/root/id -u)" = 7'
touch /root/marker
sleep 1000 >/dev/null 2>&1 &
`)
	r.on()
	r.untilConsole("\nup\n")
	if want := fmt.Sprintf("id: 0  0 %d 65536", r.spec.UserID); !strings.Contains(r.console(), want) {
		t.Errorf("the console does not show %q", want)
	}
	if want := "limits: 8192 524288 30985"; !strings.Contains(r.console(), want) {
		t.Errorf("the console does not show %q", want)
	}
	for _, bad := range []string{"ALLOWED", "FAILED"} {
		if strings.Contains(r.console(), bad) {
			t.Errorf("the console shows %s", bad)
		}
	}
	if n := strings.Count(r.console(), "refused: "); n != 17 {
		t.Errorf("%d attempts were refused, want 17", n)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(fmt.Sprintf("/proc/%d", r.pid1()), &st); err != nil || st.Uid != r.spec.UserID {
		t.Errorf("on the host, init runs as %d (%v), want %d", st.Uid, err, r.spec.UserID)
	}
	// On the disk, IDs are those of the machine, below a directory that is the host's root's alone.
	if err := syscall.Stat(filepath.Join(r.spec.Dir, diskDir, "upper/root/marker"), &st); err != nil || st.Uid != 0 {
		t.Errorf("on the disk, a file of the machine's root belongs to %d (%v), want 0", st.Uid, err)
	}
	eventually.True(t, "nothing of the machine is mounted on the host", func() bool {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		return err == nil && !strings.Contains(string(mounts), r.spec.Dir)
	})
	if mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo",
		r.supervisor.List("machine/")[0].PID)); err != nil || strings.Contains(string(mounts), r.spec.Dir) {
		t.Errorf("launch keeps the machine's mounts (%v)", err)
	}
}

func TestAUserNamespaceThatIsNotTheMachines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breakIt func(*Spec)
		want    string
	}{
		"none": {func(s *Spec) { s.Network = machinetest.Network(t, t.TempDir(), "netns") },
			"belongs to the host's user namespace"},
		"no record":   {func(s *Spec) { s.UserID = 0 }, "terminate i-0123456789abcdef0 and launch another instance"},
		"other range": {func(s *Spec) { s.UserID ^= 0x10000 }, "maps the IDs"},
		"no init": {func(s *Spec) { s.Init = []string{"/sbin/no-init"} },
			"start /sbin/no-init: no such file or directory"},
		"no program": {func(s *Spec) { s.Mounts[0].Source = "/nowhere/containerd" },
			"stat /nowhere/containerd: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.spec.Network, r.spec.UserID = machinetest.UserNetwork(t, t.TempDir(), "netns")
			c.breakIt(&r.spec)
			r.on()
			s := r.untilStatus("failed", func(s Status) bool { return s.State == Failed })
			if !strings.Contains(s.Error, c.want) {
				t.Errorf("error is %q, want %q", s.Error, c.want)
			}
		})
	}
}
