//go:build linux

package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
)

func TestWhatTheKernelOffersRoot(t *testing.T) { eachIsolation(t, testWhatTheKernelOffersRoot) }

// Root in a machine is refused what is the host's, or all machines', and can do what kubelets, runc and CNI plugins do.
func testWhatTheKernelOffersRoot(t *testing.T, r *rig) {
	disk, _ := filepath.Glob("/sys/block/*/dev")
	number := "254:0"
	if len(disk) > 0 {
		b, _ := os.ReadFile(disk[len(disk)-1])
		number = strings.TrimSpace(string(b))
	}
	r.script(`
refused() { what=$1; shift; if sh -c "$*" 2>/dev/null; then echo "ALLOWED: $what"; else echo "refused: $what"; fi; }
allowed() { what=$1; shift; if out=$(sh -c "$*" 2>&1); then echo "works: $what"; else echo "FAILED: $what: $out"; fi; }
empty() { refused $1 "head -c 1 $1 | grep -c ''"; }
echo "bounding $(grep CapBnd /proc/self/status) $(grep Seccomp: /proc/self/status)"
mkdir -p /mnt/a /mnt/b /mnt/c

refused "kernel log" 'dmesg | grep .'
empty /dev/kmsg; empty /proc/kmsg; empty /proc/kcore; empty /proc/keys; empty /proc/timer_list
refused "firmware" 'ls /sys/firmware | grep .'
refused "core pattern" 'cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern'
refused "settings of all" 'cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness'
refused "sysfs" 'f=/sys/kernel/mm/transparent_hugepage/defrag; test -e $f && grep -o "\[.*\]" $f | tr -d "[]" > $f'
refused "the clock" 'date -s @$(date +%s)'
refused "swap" 'truncate -s 1M /root/swap; mkswap /root/swap && swapon /root/swap'
refused "the file system of the host" 'mount -o remount,rw /var/lib/kubelet'
refused "files that cannot be removed" 'touch /var/lib/kubelet/kept; chattr +i /var/lib/kubelet/kept'
refused "a disk" 'mknod /tmp/disk b ` + strings.Replace(number, ":", " ", 1) + ` && head -c 1 /tmp/disk'
refused "a loop device" 'mknod /tmp/loop b 7 0 && : < /tmp/loop'
refused "memory" 'mknod /tmp/mem c 1 1 && : < /tmp/mem'
refused "the kernel log as a device" 'mknod /tmp/kmsg c 1 11 && : < /tmp/kmsg'
refused "a new hierarchy" 'mount -t cgroup -o none,name=evil cgroup /mnt/c'
refused "a release agent" 'test -e /sys/fs/cgroup/memory/release_agent -o -e /sys/fs/cgroup/release_agent'
mount -t cgroup -o memory,release_agent=/` + r.spec.Owner + ` cgroup /mnt/c 2>/dev/null # without an error, or an effect

allowed "proc" 'unshare -pf mount -t proc proc /mnt/a'
allowed "tmpfs" 'mount -t tmpfs tmpfs /mnt/b'
allowed "read-only binds" 'mount --bind /etc /mnt/b && mount -o remount,bind,ro /mnt/b && ! touch /mnt/b/x'
allowed "settings of the network" 'echo 1 > /proc/sys/net/ipv4/ip_forward'
allowed "settings of the kubelet" 'echo 1 > /proc/sys/vm/overcommit_memory'
allowed "cgroups" 'd=$(ls -d /sys/fs/cgroup/memory || echo /sys/fs/cgroup); mkdir $d/pods && rmdir $d/pods'
allowed "devices of containers" 'for d in zero full random urandom; do head -c 1 /dev/$d || exit 1; done'
allowed "terminals" 'script -qec true /dev/null || python3 -c "import pty; pty.openpty()"'
allowed "flags of files" 'lsattr /etc/machine-id; touch /var/lib/kubelet/f && chattr +d /var/lib/kubelet/f'
allowed "copies" 'cp --reflink=auto /etc/passwd /root/copy || cp /bin/true /root/copy'
for d in /sys/fs/cgroup/memory /sys/fs/cgroup; do
	echo -1 > $d/memory.memsw.limit_in_bytes; echo -1 > $d/memory.limit_in_bytes; echo max > $d/memory.max
done 2>/dev/null
`)
	r.on()
	r.untilConsole("up\n")
	for _, bad := range []string{"ALLOWED", "FAILED"} {
		if strings.Contains(r.console(), bad) {
			t.Errorf("the console shows %s", bad)
		}
	}
	refused, works := strings.Count(r.console(), "refused: "), strings.Count(r.console(), "works: ")
	if refused != 20 || works != 10 {
		t.Errorf("%d attempts were refused and %d worked, want 20 and 10", refused, works)
	}
	_, rest, _ := strings.Cut(r.console(), "bounding CapBnd:")
	fields := strings.Fields(rest)
	if len(fields) < 3 || fields[2] != "2" {
		t.Fatalf("there is no filter of system calls: %q", rest)
	}
	bounding, err := strconv.ParseUint(fields[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	has := bounding&(1<<unix.CAP_SYS_MODULE) != 0
	if own := r.spec.UserID != 0; has != own { // there it is for what belongs to the machine
		t.Errorf("CAP_SYS_MODULE is in the bounding set: %v", has)
	}
	// What bounds the machine stays, whatever it has written to the cgroups that it sees.
	host, err := cgroup.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range host {
		agent, err := os.ReadFile(filepath.Join(h.Mount, "release_agent"))
		if err == nil && strings.Contains(string(agent), r.spec.Owner) {
			t.Errorf("a machine has a program of its own run on the host, from %s", h.Mount)
		}
	}
	around := filepath.Dir(host.Group(r.spec.Owner, r.spec.InstanceID).Dir("memory"))
	for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
		text, err := os.ReadFile(filepath.Join(around, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		limit, parsed := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err := errors.Join(err, parsed); err != nil || limit > r.spec.Size.MemoryBytes {
			t.Errorf("a machine has raised %s to %s, %v", file, text, err)
		}
	}
}

// The first stage, which stays on the host, has no more capabilities than the machine.
func TestLaunchDropsCapabilities(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.on()
	r.untilConsole("up\n")
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(r.supervisor.List("machine/")[0].PID) + "/task/*/status")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("launch has no threads: %v", err)
	}
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		if err != nil {
			continue // it has ended
		}
		for _, set := range []string{"CapPrm:", "CapEff:", "CapBnd:"} {
			_, rest, _ := strings.Cut(string(status), set)
			has, err := strconv.ParseUint(strings.Fields(rest)[0], 16, 64)
			if err != nil || has&(1<<unix.CAP_SYS_MODULE|1<<unix.CAP_SYS_RAWIO|1<<unix.CAP_DAC_READ_SEARCH) != 0 {
				t.Errorf("%s is %x, %v", set, has, err)
			}
		}
	}
}
