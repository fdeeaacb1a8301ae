//go:build linux

package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// diskRig is a machine with disks, which its init finds.
type diskRig struct {
	*rig
	table disks.Table
}

func newDiskRig(t *testing.T) *diskRig {
	r := &diskRig{rig: newRig(t)}
	r.spec.Network, r.spec.UserID = machinetest.UserNetwork(t, t.TempDir(), "netns")
	t.Cleanup(func() {
		if _, err := loopdevice.RemoveAll(r.spec.Owner); err != nil && !errors.Is(err, loopdevice.ErrInUse) {
			t.Error(err)
		}
	})
	return r
}

// attach makes a new disk of the machine in the table.
func (r *diskRig) attach(volume, device string, size int64) *disks.Disk {
	r.t.Helper()
	f, err := os.OpenFile(filepath.Join(r.t.TempDir(), "disk"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		r.t.Fatal(err)
	}
	name := loopdevice.Name{Owner: r.spec.Owner, Volume: volume, InstanceID: r.spec.InstanceID}
	testenv.NeedsLoopDevices(r.t)
	loop, err := loopdevice.Attach(f, name)
	if err != nil {
		r.t.Fatal(err)
	}
	r.table.Disks = append(r.table.Disks, disks.Disk{VolumeID: volume, Device: device,
		Number: len(r.table.Disks) + 1, Loop: loop, AttachedAt: time.Now()})
	r.write()
	return &r.table.Disks[len(r.table.Disks)-1]
}

func (r *diskRig) write() {
	r.t.Helper()
	if err := r.table.Write(r.spec.Dir); err != nil {
		r.t.Fatal(err)
	}
}

// apply applies the table, and returns the state of its last disk.
func (r *diskRig) apply() disks.State {
	r.t.Helper()
	r.write()
	states, err := disks.Apply(r.t.Context(), r.spec.Dir)
	if err != nil || len(states) != len(r.table.Disks) {
		r.t.Fatalf("the states of disks are %v, %v", states, err)
	}
	return states[len(states)-1]
}

const volume = "vol-0123456789abcdef0"

func TestAMachineMountsItsDisk(t *testing.T) {
	t.Parallel()
	for kind, shown := range map[string]string{"ext3": "ext4", "ext4": "ext4", "xfs": "xfs"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newDiskRig(t)
			r.script(`
exec 2>&1
ls -ln /dev/xvdaa /dev/nvme1n1; readlink -f /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0
mkfs.` + kind + ` -q /dev/xvdaa && echo "made"
mkdir /mnt; mount -t ` + kind + ` -o discard /dev/xvdaa /mnt && echo "mounted"
grep ' /mnt ' /proc/mounts
echo content > /mnt/file && chown 1000:1000 /mnt/file && stat -c 'owner %u:%g' /mnt/file
mknod /mnt/null c 1 3 && echo "device made"
cp /bin/true /mnt/true && chmod 4755 /mnt/true && /mnt/true && echo "run"
mount -o remount,ro /mnt && echo "remounted"; touch /mnt/new 2>/dev/null && echo "written though read-only"
mount -o remount,rw /mnt && touch /mnt/new && echo "writable"
fstrim -v /mnt && echo "trimmed"
umount /mnt && echo "unmounted"
mount /dev/nvme1n1 /mnt && cat /mnt/file && echo "mounted again"
mkdir /other; mount -t ext4 -o journal_path=/dev/nvme1n1 /dev/xvdaa /other && echo "evil option"
mount -t btrfs /dev/xvdaa /other && echo "evil type"
mount -t ` + kind + ` /dev/null /other && echo "evil device"
losetup -d /dev/nvme1n1 && echo "loop device taken away"
`)
			r.attach(volume, "/dev/xvdaa", 512<<20)
			r.on()
			r.untilConsole("\nup\n")
			for _, want := range []string{"made\n", "mounted\n", "/dev/xvdaa /mnt " + shown + " rw,nodev",
				"owner 1000:1000", "run\n", "remounted\n", "writable\n", "trimmed\n", "unmounted\n", "content\nmounted again",
				"0 6 7,", "/dev/nvme1n1\n"} {
				if !strings.Contains(r.console(), want) {
					t.Errorf("the console does not show %q", want)
				}
			}
			for _, unwanted := range []string{"evil", "though", "taken", "device made"} {
				if strings.Contains(r.console(), unwanted) {
					t.Errorf("the console shows %q", unwanted)
				}
			}
			d := &r.table.Disks[0]
			if kind == "xfs" { // which no signal ends the wait for
				limit, err := os.ReadFile("/sys/fs/xfs/loop" + itoa(d.Loop) + "/error/metadata/ENOSPC/retry_timeout_seconds")
				if err != nil || strings.TrimSpace(string(limit)) != "60" {
					t.Errorf("it tries for %s to write to a full disk, %v", limit, err)
				}
			}
			d.Detaching = true
			if s := r.apply(); s.State != disks.Busy {
				t.Errorf("a mounted disk is %+v", s)
			}
			d.Force = true
			if s := r.apply(); s.State != disks.Detached {
				t.Errorf("a disk that is taken away is %+v", s)
			}
			name := loopdevice.Name{Owner: r.spec.Owner, Volume: volume, InstanceID: r.spec.InstanceID}
			eventually.True(t, "the loop device is released", func() bool {
				return loopdevice.Release(d.Loop, name) == nil
			})
		})
	}
}

// The kernel takes memory of the host for each group of blocks that a file system says it has.
func TestAMachineMountsNoFileSystemWithManyGroups(t *testing.T) {
	t.Parallel()
	for kind, patch := range map[string]string{
		"ext4": `printf '\1\0\0\0' | dd of=/dev/xvdaa bs=1 seek=1056 conv=notrunc`, // s_blocks_per_group
		"xfs":  `printf '\0\100\0\0' | dd of=/dev/xvdaa bs=1 seek=88 conv=notrunc`, // sb_agcount
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newDiskRig(t)
			r.script(`
exec 2>&1
mkfs.` + kind + ` -q /dev/xvdaa && echo "made"
` + patch + ` && echo "patched"
mkdir /mnt; mount -t ` + kind + ` /dev/xvdaa /mnt && echo "evil: mounted"
`)
			r.attach(volume, "/dev/xvdaa", 1<<30)
			r.on()
			r.untilConsole("\nup\n")
			if strings.Contains(r.console(), "made\n") && (!strings.Contains(r.console(), "groups of blocks") ||
				!strings.Contains(r.console(), "File too large") || strings.Contains(r.console(), "evil: ")) {
				t.Error("a file system with many groups is not refused")
			}
		})
	}
}

// Its root writes to the raw disk what it likes, and changes its own mounts.
func TestDeviceFilesOnADisk(t *testing.T) {
	t.Parallel()
	r := newDiskRig(t)
	var st unix.Stat_t
	if err := unix.Stat(r.spec.Dir, &st); err != nil {
		t.Fatal(err)
	}
	r.script(`
exec 2>&1
until test -e /dev/xvdaa; do sleep 0.1; done
mkfs.ext4 -q /dev/xvdaa && mkdir /mnt && mount /dev/xvdaa /mnt && echo begun
umount /mnt
for node in "null c 1 3" "mem c 1 1" "console c 5 1" "disk b ` + itoa(int(unix.Major(st.Dev))) + ` ` +
		itoa(int(unix.Minor(st.Dev))) + `"; do debugfs -w -R "mknod $node" /dev/xvdaa; done
mount /dev/xvdaa /mnt && head -c 0 /mnt/null || echo "nodev holds"
mount -o remount,bind,dev /mnt; grep ' /mnt ' /proc/self/mountinfo; ls -l /mnt
echo > /mnt/null && echo "null is the machine's"
for name in mem console disk; do
	test -e /mnt/$name && echo "$name is there" && (: < /mnt/$name) && echo "evil: $name"
done
mkdir -m 700 /closed; ` + machinetest.Init + " " + mountAs + ` 0 0 /dev/none /closed/none/none
` + machinetest.Init + " " + mountAs + ` 1000 0 /dev/none /closed/none/none
mkdir /old; ` + machinetest.Init + " " + mountAs + ` 0 ` + itoa(unix.MS_MGC_VAL) + ` /dev/xvdaa /old
`)
	r.attach(volume, "/dev/xvdaa", 64<<20)
	r.on()
	r.untilConsole("\nup\n")
	console := r.console()
	for _, want := range []string{"begun\n", "nodev holds\n", "null is the machine's\n", "mem is there\n",
		"console is there\n", "disk is there\n"} {
		if !strings.Contains(console, want) {
			t.Errorf("the console does not show %q", want)
		}
	}
	if strings.Contains(console, "evil") {
		t.Error("a device file on a disk opens a device of the host")
	}
	// Who may not mount learns nothing of what there is.
	for _, want := range []string{"/closed/none/none as 0: no such file", "/closed/none/none as 1000: permission denied",
		"/old as 0: <nil>"} {
		if !strings.Contains(console, want) {
			t.Errorf("the console does not show %q", want)
		}
	}
}

// untilMade waits until the machine has made a file in /var/lib/kubelet.
func (r *diskRig) untilMade(name string) {
	r.t.Helper()
	eventually.True(r.t, "the machine has made "+name, func() bool {
		_, err := os.Stat(filepath.Join(r.spec.Dir, "kubelet", name))
		return err == nil
	})
}

// A machine may keep the node of a disk, and what it has open: both are of no use once the disk is detached.
func TestADetachedDiskIsOutOfReach(t *testing.T) {
	t.Parallel()
	r := newDiskRig(t)
	r.script(`
exec 2>&1
mkfs.ext4 -q /dev/xvdaa && ln /dev/xvdaa /dev/kept && exec 9<>/dev/xvdaa &&
dd if=/dev/kept count=1 of=/dev/null && echo made
touch /var/lib/kubelet/ready
while test -e /dev/xvdaa; do sleep 0.1; done
until test -e /var/lib/kubelet/released; do sleep 0.1; done
dd if=/dev/kept count=1 of=/dev/null && echo "evil: read"
dd bs=512 count=1 of=/dev/null <&9 && test "$(dd bs=512 count=1 <&9 2>/dev/null | wc -c)" != 0 && echo "evil: read what was open"
mkdir /mnt; mount -t ext4 /dev/kept /mnt && echo "evil: mounted"
ls /dev/disk/by-id
`)
	r.attach(volume, "/dev/xvdaa", 64<<20)
	r.on()
	r.untilMade("ready")
	d := &r.table.Disks[0]
	d.Detaching = true
	if s := r.apply(); s.State != disks.Detached {
		t.Fatalf("a disk that is not mounted is %+v", s)
	}
	name := loopdevice.Name{Owner: r.spec.Owner, Volume: volume, InstanceID: r.spec.InstanceID}
	if err := loopdevice.Release(d.Loop, name); !errors.Is(err, loopdevice.ErrInUse) {
		t.Errorf("a device that the machine has open was released: %v", err)
	}
	// Another machine's disk does not get the number.
	other := r.attach("vol-0123456789abcdef1", "/dev/xvdab", 64<<20)
	if other.Loop == r.table.Disks[0].Loop {
		t.Errorf("the number %d was given away", other.Loop)
	}
	if err := os.WriteFile(filepath.Join(r.spec.Dir, "kubelet/released"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.untilConsole("\nup\n")
	if console := r.console(); strings.Contains(console, "evil") || !strings.Contains(console, "made") {
		t.Error("a detached disk is of use")
	}
}

// mountedRig is a machine that has mounted its disk and writes to it all the time.
func mountedRig(t *testing.T, kind string) (r *diskRig, launcher int) {
	r = newDiskRig(t)
	r.script(`
exec 2>&1
until test -e /dev/xvdaa; do sleep 0.1; done
mkfs.` + kind + ` -q /dev/xvdaa && mkdir /mnt && mount /dev/xvdaa /mnt && touch /var/lib/kubelet/ready
(while :; do
	echo x >> /mnt/file && sync /mnt/file && echo x >> /var/lib/kubelet/written; sleep 0.01
done) >/dev/null 2>&1 &
`)
	r.attach(volume, "/dev/xvdaa", 512<<20)
	launcher = r.on().PID
	r.untilMade("ready")
	r.untilWritten()
	return r, launcher
}

// untilWritten waits until the machine has written to its disk again.
func (r *diskRig) untilWritten() {
	r.t.Helper()
	size := r.written()
	eventually.True(r.t, "the machine writes", func() bool { return r.written() > size+4 })
}

func (r *diskRig) written() int64 {
	info, err := os.Stat(filepath.Join(r.spec.Dir, "kubelet/written"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// freeze holds writes of the disk.
func (r *diskRig) freeze() (thaw func()) {
	r.t.Helper()
	thaw, frozen, err := disks.Freeze(r.t.Context(), r.spec.Dir, volume)
	if err != nil || !frozen {
		r.t.Fatalf("writes are held: %v, %v", frozen, err)
	}
	return thaw
}

// holder returns the process that holds writes for the launcher.
func (r *diskRig) holder(launcher int) int {
	r.t.Helper()
	found := 0
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		args, _ := os.ReadFile(name)
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
		if strings.HasSuffix(string(args), "launch\x00hold\x00") &&
			strings.Contains(string(status), "\nPPid:\t"+itoa(launcher)+"\n") {
			found = atoi(filepath.Base(filepath.Dir(name)))
		}
	}
	if found == 0 {
		r.t.Fatal("nobody holds writes")
	}
	return found
}

// released waits until the device of the disk is gone.
func (r *diskRig) released() {
	r.t.Helper()
	name := loopdevice.Name{Owner: r.spec.Owner, Volume: volume, InstanceID: r.spec.InstanceID}
	eventually.True(r.t, "the loop device is released", func() bool {
		return loopdevice.Release(r.table.Disks[0].Loop, name) == nil
	})
}

func TestWritesGoOn(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ext4", "xfs"} {
		for name, end := range map[string]func(r *diskRig, launcher int, thaw func()){
			"asked for": func(r *diskRig, _ int, thaw func()) {
				size := r.written()
				if _, _, err := disks.Freeze(r.t.Context(), r.spec.Dir, volume); err == nil {
					r.t.Error("they were held twice")
				}
				if now := r.written(); now > size+2 {
					r.t.Errorf("%d bytes were written meanwhile", now-size)
				}
				thaw()
				r.untilWritten()
				r.freeze()()
			},
			"holder killed": func(r *diskRig, launcher int, _ func()) {
				_ = syscall.Kill(r.holder(launcher), syscall.SIGKILL)
				r.untilWritten()
			},
			"power button": func(r *diskRig, launcher int, _ func()) {
				_ = syscall.Kill(launcher, syscall.SIGTERM)
				r.untilStatus("it is off", func(s Status) bool { return s.State == PoweredOff })
				r.released()
			},
			"launcher killed": func(r *diskRig, launcher int, _ func()) {
				_ = syscall.Kill(launcher, syscall.SIGKILL)
				r.released()
			},
			"both killed": func(r *diskRig, launcher int, _ func()) {
				holder := r.holder(launcher)
				_ = syscall.Kill(launcher, syscall.SIGSTOP) // it is not to thaw
				_ = syscall.Kill(holder, syscall.SIGKILL)
				_ = syscall.Kill(launcher, syscall.SIGKILL)
				r.released()
			},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				r, launcher := mountedRig(t, kind)
				thaw := r.freeze()
				defer thaw()
				end(r, launcher, thaw)
			})
		}
	}
}

// What the machine has put over /dev, and the mount namespaces that it makes, keep nobody from taking a disk away.
func TestForceNeedsNothingOfTheMachine(t *testing.T) {
	t.Parallel()
	r := newDiskRig(t)
	r.script(`
exec 2>&1
until test -e /dev/xvdaa; do sleep 0.1; done
mkdir /mnt /other /kept /cover; mkfs.ext4 -q /dev/xvdaa && mount /dev/xvdaa /mnt && echo mounted
unshare -m --propagation private sh -c 'mount --bind /mnt /other; umount /mnt; touch /var/lib/kubelet/nested
	exec sleep 1000' >/dev/null 2>&1 &
until test -e /var/lib/kubelet/nested; do sleep 0.1; done
mount --rbind /dev /kept && mount --bind /cover /dev && touch /var/lib/kubelet/ready
until test -e /var/lib/kubelet/detached; do sleep 0.1; done
(: < /kept/xvdaa) && echo "evil: opened"
grep ' /mnt ' /proc/mounts && echo "evil: mounted"
`)
	r.attach(volume, "/dev/xvdaa", 64<<20)
	r.on()
	r.untilMade("ready")
	d := &r.table.Disks[0]
	d.Detaching, d.Force = true, true
	if s := r.apply(); s.State != disks.Detached {
		t.Fatalf("a disk that is taken away is %+v", s)
	}
	if err := os.WriteFile(filepath.Join(r.spec.Dir, "kubelet/detached"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.untilConsole("\nup\n")
	if console := r.console(); strings.Contains(console, "evil") || !strings.Contains(console, "mounted") {
		t.Error("a disk that was taken away is of use")
	}
	r.released()
}

// The kernel looks for an external journal by the number in the file system: that of another machine's disk, say.
func TestAFileSystemFindsNoJournalOfOthers(t *testing.T) {
	t.Parallel()
	r := newDiskRig(t)
	r.script(`
exec 2>&1
mke2fs -q -O journal_dev /dev/xvdab && mkfs.ext4 -q -J device=/dev/xvdab /dev/xvdaa && mkdir /mnt &&
	mount /dev/xvdaa /mnt && echo "mounted while it has both" && umount /mnt
touch /var/lib/kubelet/ready
while test -e /dev/xvdab; do sleep 0.1; done
mount /dev/xvdaa /mnt && echo "evil: mounted with the journal of another"
tune2fs -e panic /dev/xvdaa >/dev/null; dumpe2fs -h /dev/xvdaa 2>/dev/null | grep -i 'errors behavior'
`)
	r.attach(volume, "/dev/xvdaa", 64<<20)
	r.attach("vol-0123456789abcdef1", "/dev/xvdab", 64<<20)
	r.on()
	r.untilMade("ready")
	r.table.Disks[1].Detaching = true
	if s := r.apply(); s.State != disks.Detached { // the device stays, as that of another machine does
		t.Fatalf("a disk that is not mounted is %+v", s)
	}
	r.untilConsole("\nup\n")
	if console := r.console(); strings.Contains(console, "evil") ||
		!strings.Contains(console, "mounted while it has both") {
		t.Error("a file system has the journal of another machine")
	}
}

// Programs whose writes are held cannot be killed, and would keep the cgroup of the boot before.
func TestAMachineStartsAgainAfterItsWritesWereHeld(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r, launcher := mountedRig(t, kind)
			defer r.freeze()()
			holder := r.holder(launcher)
			_ = syscall.Kill(launcher, syscall.SIGSTOP) // it is not to thaw
			_ = syscall.Kill(holder, syscall.SIGKILL)
			_ = syscall.Kill(launcher, syscall.SIGKILL)
			r.on()
			r.untilStatus("it runs again", func(s Status) bool { return s.State == Running && s.Starts == 2 })
		})
	}
}

// A limit holds for any device of the host, and whoever syncs a file system waits for the slowest write to it.
func TestAMachineLimitsNoInputAndOutput(t *testing.T) {
	t.Parallel()
	r := newDiskRig(t)
	r.script(`
exec 2>&1
mkdir /blkio; mount -t cgroup -o blkio cgroup /blkio && test -e /blkio/cgroup.procs && echo "hierarchy mounted"
for dir in /blkio /sys/fs/cgroup/blkio /sys/fs/cgroup; do
	test -e $dir/cgroup.procs || continue
	mkdir $dir/evil && ls $dir/evil | grep -E '^(blkio|io)[.][^p]' && echo "evil: a group with limits in $dir"
	for file in $dir/blkio.* $dir/io.[^p]*; do test -w $file && echo "evil: $file is writable"; done
done
touch /var/lib/kubelet/ready
`)
	r.on()
	r.untilMade("ready")
	r.untilConsole("\nup\n")
	if strings.Contains(r.console(), "evil: ") {
		t.Error("a machine limits writes of the host")
	}
}
