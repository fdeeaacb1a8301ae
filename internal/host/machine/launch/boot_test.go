//go:build linux

package launch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/process"
)

// rig is one machine and its switches.
type rig struct {
	t          testing.TB
	spec       Spec
	supervisor *process.Supervisor
	chroot     string // where the root of launch is mounted; empty: launch has that of the host
}

// eachIsolation runs a test with a machine in the host's user namespace, with one in its own, and with one whose daemon
// runs in a chroot, where nobody can make user namespaces.
func eachIsolation(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Parallel()
	for _, name := range []string{"host's users", "own users", "chroot"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			switch name {
			case "own users":
				r.spec.Network, r.spec.UserID = machinetest.UserNetwork(t, t.TempDir(), "netns")
			case "chroot":
				r.chroot = t.TempDir()
			}
			test(t, r)
		})
	}
}

func newRig(t testing.TB) *rig {
	owner := machinetest.Owner(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	baseImage := filepath.Join(dir, "ami")
	if err := machinetest.WriteBaseImage(baseImage); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, spec: Spec{
		InstanceID: "i-0123456789abcdef0", Owner: owner, Boot: 1,
		Dir: filepath.Join(dir, "machine"), BaseImage: baseImage,
		Mounts: []Mount{
			{Source: self, Target: machinetest.Init, ReadOnly: true},
			{Source: filepath.Join(dir, "machine/kubelet"), Target: "/var/lib/kubelet"},
		},
		Network:  machinetest.Network(t, dir, "netns"),
		Hostname: "ip-10-0-0-4.eu-west-1.compute.internal",
		Size:     cgroup.Limits{CPUs: 2, MemoryBytes: MemTotal(8192) * 1024},
		Hardware: Hardware{InstanceID: "i-0123456789abcdef0", InstanceType: "m5.large", CPUs: 2, ThreadsPerCore: 2,
			ClockMHz: 3100, MemoryKiB: MemTotal(8192), MachineID: MachineID("i-0123456789abcdef0")},
		Init: []string{machinetest.Init, "init"},
	}}
	if err := os.MkdirAll(filepath.Join(r.spec.Dir, "kubelet"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.supervisor, err = process.Open(process.Options{Identity: machinetest.Identity(owner)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.supervisor.Stop(context.Background(), "machine/"+r.spec.InstanceID); err != nil {
			t.Error(err)
		}
		r.supervisor.Close()
		host, err := cgroup.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := host.RemoveAll(owner); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("console:\n%s", r.console())
		}
	})
	return r
}

// script sets the content of /etc/rc at the next boot.
func (r *rig) script(text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.spec.BaseImage, "etc/rc"), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// on presses the button of a machine that is off.
func (r *rig) on() process.Status {
	r.t.Helper()
	name := filepath.Join(r.spec.Dir, SpecFile)
	if err := r.spec.Write(name); err != nil {
		r.t.Fatal(err)
	}
	self, _ := os.Executable()
	path, args := self, []string{"launch", "--spec", name}
	if r.chroot != "" {
		path, args = "/usr/bin/unshare", append([]string{"--mount", "/bin/sh", "-c",
			`mount --rbind / "$0" && exec chroot "$0" "$@"`, r.chroot, self}, args...)
	}
	status, err := r.supervisor.Ensure(r.t.Context(), process.Spec{
		Name: "machine/" + r.spec.InstanceID, Path: path, Args: args,
		Log: filepath.Join(r.spec.Dir, "console.log"), Revision: "1",
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return status
}

func (r *rig) console() string {
	b, _ := os.ReadFile(filepath.Join(r.spec.Dir, "console.log"))
	return string(b)
}

func (r *rig) untilStatus(what string, is func(Status) bool) Status {
	r.t.Helper()
	var s Status
	eventually.True(r.t, what, func() bool {
		var err error
		s, err = ReadStatus(r.spec.Dir)
		return err == nil && is(s)
	})
	return s
}

func (r *rig) untilConsole(text string) {
	r.t.Helper()
	eventually.True(r.t, "the console shows "+text, func() bool { return strings.Contains(r.console(), text) })
}

// pid1 returns init's process ID on the host: the one child of launch.
// launcher returns the status of the process of launch.
func (r *rig) launcher() process.Status {
	r.t.Helper()
	all := r.supervisor.List("machine/")
	if len(all) != 1 {
		r.t.Fatalf("the processes of machines are %+v", all)
	}
	return all[0]
}

func (r *rig) pid1() int {
	r.t.Helper()
	found, err := process.Claims(r.spec.Owner)
	if err != nil || len(found) != 1 {
		r.t.Fatalf("processes with the mark: %v, %v; want launch alone", found, err)
	}
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, e := range entries {
		b, err := os.ReadFile(e)
		if err != nil {
			continue
		}
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if string(fields[1]) == itoa(found[0].PID) {
			return atoi(strings.Split(e, "/")[2])
		}
	}
	r.t.Fatal("launch has no child")
	return 0
}

func TestAMachineSeesItselfAlone(t *testing.T) { eachIsolation(t, testAMachineSeesItselfAlone) }

func testAMachineSeesItselfAlone(t *testing.T, r *rig) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	base, err := machinetest.Base()
	if err != nil {
		t.Fatal(err)
	}
	ofHost, err := filepath.Glob("/usr/bin/*")
	if err != nil {
		t.Fatal(err)
	}
	ofHost = slices.DeleteFunc(ofHost, func(name string) bool {
		_, err := os.Lstat(filepath.Join(base, name))
		return err == nil
	})
	r.script(`
echo "pid1: $(cat /proc/1/comm)"
for program in ` + strings.Join(ofHost, " ") + `; do test -e $program && echo "$program of the host seen"; done
echo "host: $(hostname)"
echo "links: $(ls /sys/class/net | tr '\n' ' ')"
echo "cpus: $(grep -c ^processor /proc/cpuinfo) $(cat /sys/devices/system/cpu/online)"
echo "topology: $(cat /sys/devices/system/node/node0/cpu[0-9]*/topology/core_id | tr '\n' ' ') $(cut -d' ' -f2- /sys/devices/system/node/node0/meminfo | head -1)"
echo "memory: $(grep MemTotal /proc/meminfo)"
echo "machine-id: $(cat /etc/machine-id)"
echo "cgroup: $(cut -d: -f3 /proc/1/cgroup | sed 's,^/init.scope$,/,' | sort -u | tr '\n' ' ')"
echo "limit: $(cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max)"
test -e ` + secret + ` && echo "host file seen"
nsenter --mount=/proc/1/ns/mnt test -e ` + secret + ` && echo "host file seen from the mount namespace"
test -d /work && echo "/work seen"
touch /usr/bin/new /etc/new /var/lib/kubelet/new && echo "disk written"
cat /proc/sysrq-trigger /proc/kcore 2>/dev/null | wc -c | sed 's/^/hidden: /'
echo "overcommit: $(cat /proc/sys/vm/overcommit_memory)"; echo 1 > /proc/sys/vm/overcommit_memory
for d in null zero full random urandom tty kmsg ptmx fd stdin pts/ptmx; do test -e /dev/$d || echo "no /dev/$d"; done
echo mine > /dev/console
mkdir -p /sys/fs/cgroup/*/inner 2>/dev/null; rmdir /sys/fs/cgroup/*/inner
grep -c "/ / .*shared:\|/var/lib/kubelet .*shared:" /proc/self/mountinfo | sed "s/^/shared: /"
mknod /tmp/disk b $(stat -c '0x%t 0x%T' /dev/vda 2>/dev/null || echo 254 0)
`)
	before, _ := os.ReadFile("/proc/sys/vm/overcommit_memory")
	r.on()
	r.untilConsole("\nup\n")
	for _, want := range []string{
		"pid1: coracle-node", "host: ip-10-0-0-4.eu-west-1.compute.internal", "links: eth0 lo", "cpus: 2 0-1",
		"topology: 0 0  0 MemTotal:        7932313 kB", "memory: MemTotal:        7932313 kB", "machine-id: ec2",
		"cgroup: / \n", "limit: 8122687488", "disk written", "hidden: 0", "overcommit: 1", "shared: 2",
	} {
		if !strings.Contains(r.console(), want) {
			t.Errorf("the console does not show %q", want)
		}
	}
	for _, unwanted := range []string{"seen", "no /dev", "private"} {
		if strings.Contains(r.console(), unwanted) {
			t.Errorf("the console shows %q", unwanted)
		}
	}
	if after, _ := os.ReadFile("/proc/sys/vm/overcommit_memory"); !bytes.Equal(before, after) {
		t.Error("a machine has changed the host's sysctl")
	}
	for _, unwanted := range []string{"/usr/bin/new", "/etc/new"} {
		if _, err := os.Stat(unwanted); err == nil {
			t.Errorf("%s was written on the host", unwanted)
		}
	}
	if _, err := os.Stat(filepath.Join(r.spec.Dir, "kubelet/new")); err != nil {
		t.Error(err)
	}
}

func TestTheSwitchesOfAMachine(t *testing.T) { eachIsolation(t, testTheSwitchesOfAMachine) }

func testTheSwitchesOfAMachine(t *testing.T, r *rig) {
	r.script(
		`test -e /root/booted && echo "the same disk"; touch /root/booted; cat /proc/sys/kernel/random/boot_id | sed 's/^/boot /'; mount | grep -c leftover; mkdir /run/leftover`)

	r.on()
	r.untilConsole("\nup\n")
	running := r.untilStatus("running", func(s Status) bool { return s.State == Running })
	if running.Boot != 1 || running.Starts != 1 {
		t.Errorf("status is %+v", running)
	}

	// A reboot from inside.
	init := r.pid1()
	if err := syscall.Kill(init, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	r.untilStatus("rebooted", func(s Status) bool { return s.State == Running && s.Starts == 2 })
	r.untilConsole("the same disk")
	eventually.True(t, "it is up again", func() bool { return strings.Count(r.console(), "\nup\n") == 2 })
	if r.pid1() == init {
		t.Error("init is the same process")
	}

	// Init is killed, as by a bug in the kernel: launch dies, and its supervisor starts it again.
	if err := syscall.Kill(r.pid1(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.untilStatus("crashed and started", func(s Status) bool { return s.State == Running && s.Starts == 3 })
	eventually.True(t, "it is up again", func() bool { return strings.Count(r.console(), "\nup\n") == 3 })

	// The power fails.
	init = r.pid1()
	if err := syscall.Kill(r.supervisor.List("machine/")[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "init ended with launch", func() bool { return errors.Is(syscall.Kill(init, 0), syscall.ESRCH) })
	r.untilStatus("started after the power failed", func(s Status) bool { return s.State == Running && s.Starts == 4 })
	eventually.True(t, "it is up again", func() bool { return strings.Count(r.console(), "\nup\n") == 4 })

	// Shut down from inside: it stays off.
	if err := syscall.Kill(r.pid1(), syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	r.untilStatus("off", func(s Status) bool { return s.State == PoweredOff })
	if s := r.supervisor.List("machine/"); len(s) != 1 || !s[0].Running {
		t.Errorf("launch ended, so that the machine would start again: %+v", s)
	}

	boots := map[string]bool{}
	for line := range strings.Lines(r.console()) {
		if strings.Contains(line, "boot ") {
			boots[line] = true
		}
	}
	if len(boots) != 4 {
		t.Errorf("%d boot IDs in 4 boots", len(boots))
	}
}

// TestAMachineThatRunsOnce ends a machine that is not to boot again, in each way in which others do.
func TestAMachineThatRunsOnce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *rig) error{
		"init is killed":            func(r *rig) error { return syscall.Kill(r.pid1(), syscall.SIGKILL) },
		"the power fails":           func(r *rig) error { return syscall.Kill(r.launcher().PID, syscall.SIGKILL) },
		"a reboot from inside":      func(r *rig) error { return syscall.Kill(r.pid1(), syscall.SIGUSR1) },
		"it is shut down by itself": func(r *rig) error { return syscall.Kill(r.pid1(), syscall.SIGUSR2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.spec.Once = true
			r.script("echo begin")
			r.on()
			r.untilConsole("\nup\n")
			if err := end(r); err != nil {
				t.Fatal(err)
			}
			if s := r.untilStatus("off", func(s Status) bool { return s.State == PoweredOff }); s.Starts != 1 {
				t.Errorf("its status is %+v", s)
			}
			eventually.True(t, "launch stays, so that the machine does", func() bool { return r.launcher().Running })

			// Another boot is another matter.
			if err := r.supervisor.Stop(t.Context(), "machine/"+r.spec.InstanceID); err != nil {
				t.Fatal(err)
			}
			r.spec.Boot = 2
			r.on()
			r.untilStatus("running", func(s Status) bool { return s.Boot == 2 && s.State == Running })
		})
	}
}

func TestThePowerButton(t *testing.T) { eachIsolation(t, testThePowerButton) }

func testThePowerButton(t *testing.T, r *rig) {
	r.script("sleep 300 >/dev/null 2>&1 &")
	r.on()
	r.untilConsole("\nup\n")
	if err := r.supervisor.Stop(t.Context(), "machine/"+r.spec.InstanceID); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.console(), "down") {
		t.Error("init was not told")
	}
	if s, err := ReadStatus(r.spec.Dir); err != nil || s.State != PoweredOff {
		t.Errorf("status is %+v, %v", s, err)
	}
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breakIt func(*Spec)
		want    string
	}{
		"no init": {func(s *Spec) { s.Init = []string{"/sbin/no-init"} },
			"start /sbin/no-init: no such file or directory"},
		"no program": {func(s *Spec) { s.Mounts[0].Source = "/nowhere/containerd" },
			"stat /nowhere/containerd: no such file or directory"},
		"no network": {func(s *Spec) { s.Network = "/nowhere/netns" }, "enter the network namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c.breakIt(&r.spec)
			r.on()
			s := r.untilStatus("failed", func(s Status) bool { return s.State == Failed })
			if !strings.Contains(s.Error, c.want) {
				t.Errorf("error is %q, want %q", s.Error, c.want)
			}
		})
	}
}
