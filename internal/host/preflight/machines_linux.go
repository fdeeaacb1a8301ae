package preflight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
	"github.com/coracle-eks/coracle/internal/host/network"
	"github.com/coracle-eks/coracle/internal/host/rundir"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

// Here returns the environment of this process.
func Here() Environment { return Detect(os.DirFS("/"), os.Getenv) }

// Release returns the release of the kernel, as the calling process sees it.
func Release() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("ask the kernel for its release: %w", err)
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// CheckMachines returns why this host cannot have machines with their files below dir; nothing when it can. It tries
// what a machine needs, as root.
func CheckMachines(dir string) (all []Problem) {
	here := Here()
	if !here.Privileged {
		// All that follows would fail of it.
		return []Problem{{"CAP_SYS_ADMIN or CAP_NET_ADMIN is missing", here.Fix()}}
	}
	if here.Rootless {
		return []Problem{{"root is in a user namespace, and no root of the host", here.Fix()}}
	}
	add := func(fix, what string, err error) {
		if err != nil {
			all = append(all, Problem{what + ": " + err.Error(), fix})
		}
	}
	add("mount --bind DIRECTORY DIRECTORY   # outside, before chroot DIRECTORY", "mounts cannot be private",
		checkRoot())
	add(cgroupFix(here), "cgroups cannot be made", cgroup.Check())
	add("coracle up --data-dir DIRECTORY   # on ext4, xfs or btrfs; in a container: on a volume",
		"overlayfs cannot write to the file system of "+dir, checkOverlay(dir))
	_, err := rundir.Create()
	add("mount /run writable", "/run cannot be written to", err)
	add(here.Fix(), "networks cannot be made", network.Check())
	return all
}

// CheckVolumes returns why machines of this host can have no volumes; nothing when they can.
func CheckVolumes() (all []Problem) {
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		all = append(all, Problem{"this host has no loop devices: " + err.Error(), "modprobe loop"})
	}
	if err := cgroup.CheckDisks(); errors.Is(err, cgroup.ErrNoDisks) {
		all = append(all, Problem{"cgroup v1 alone denies machines all disks",
			"mount -t cgroup2 none /sys/fs/cgroup/unified   # and start coracle and the machines again"})
	}
	if err := loopdevice.CheckUdev(); err != nil {
		all = append(all, Problem{err.Error(), "apt-get install udev   # or remove the file that hides the rule"})
	}
	return all
}

// CheckRootVolumes returns why root volumes have no size on this host; nil when they have.
func CheckRootVolumes() *Problem {
	if err := rootvolume.Check(); err != nil {
		return &Problem{err.Error(), "modprobe loop; modprobe xfs   # and start coracle again"}
	}
	return nil
}

// UnseenUdev returns what the host's udev may do with volumes where this process cannot see it; nil where it can.
func UnseenUdev() *Problem {
	here := Here()
	if here.Container == "" || loopdevice.SeesUdev() {
		return nil
	}
	return &Problem{"the udev of the host, if it has one, acts on what machines write to their volumes, and cannot be " +
		"seen from this container", "install the rule of docs/container.md on the host"}
}

// SharedSocketMemory returns why one machine can take the memory that sockets of all have in common; nil where it
// counts for the machine.
func SharedSocketMemory() *Problem {
	host, err := cgroup.Open()
	if err != nil || host.ChargesSockets() {
		return nil
	}
	const what = ": one machine, or a pod in it, can stop UDP for this host and all machines"
	if host.V2() {
		return &Problem{"cgroup.memory=nosocket keeps the kernel from charging machines for their sockets" + what,
			"start the kernel without cgroup.memory=nosocket"}
	}
	return &Problem{"cgroup v1 does not charge machines for their sockets" + what,
		"start the kernel with cgroup v2 alone (systemd.unified_cgroup_hierarchy=1)"}
}

// cgroupFix returns how to get cgroups that machines can be put into.
func cgroupFix(here Environment) string {
	if here.Container != "" {
		return here.Fix()
	}
	if here.Cgroups == "" {
		return "mount -t cgroup2 none /sys/fs/cgroup"
	}
	return "mount -o remount,rw /sys/fs/cgroup   # in a systemd service: Delegate=yes, no ProtectControlGroups="
}

// checkRoot looks for a chroot whose root is in the middle of a mount: the kernel lets nobody make mounts private
// there, or change the root, as machines do.
func checkRoot() error {
	var s unix.Statx_t
	// An older kernel does not say.
	known := unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_BASIC_STATS, &s) == nil &&
		s.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0
	if known && s.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return errors.New("this is a chroot whose / is no mount point")
	}
	return nil
}

// checkOverlay mounts an overlay whose upper layer is below dir.
func checkOverlay(dir string) error {
	at, err := os.MkdirTemp(dir, ".overlay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(at)
	for _, d := range []string{"lower", "upper", "work", "mnt"} {
		if err := os.Mkdir(filepath.Join(at, d), 0o700); err != nil {
			return err
		}
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		done <- usernamespace.InMountNamespace(func() error {
			options := fmt.Sprintf("lowerdir=%s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", at)
			return unix.Mount("overlay", filepath.Join(at, "mnt"), "overlay", 0, options)
		})
	}()
	return <-done
}

// CheckFirewall returns why packets of machines of an owner do not reach the internet through this host.
func CheckFirewall(owner string) ([]Problem, error) {
	blocking, err := network.BlockingChains(owner)
	if err != nil {
		return nil, err
	}
	var all []Problem
	for _, c := range blocking {
		all = append(all, Problem{
			fmt.Sprintf("the firewall of this host (%s) drops what is forwarded: clusters, nodes and connections within "+
				"VPCs work; instances and pods do not reach the internet", c),
			c.Fix(),
		})
	}
	return all, nil
}
