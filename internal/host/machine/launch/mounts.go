//go:build linux

package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

// Directories in a machine's Dir, beside those that the Spec's Mounts name.
const (
	diskDir = "root" // of its files: the upper layer of /, what the machine has written
	rootDir = "mnt"  // where the file systems are put together, in the machine's mount namespace only
)

// assemble mounts all of a machine that only the host's root may mount, in the mount namespace of the calling thread,
// whose working directory becomes the machine's root. Where proc is to be mounted lies what it shows of the hardware.
// With a user namespace, IDs of files are mapped. disk is the mount of its root volume; nil when it has none.
func assemble(spec Spec, namespace, disk *os.File) error {
	if namespace != nil {
		for _, dir := range []string{spec.Dir, spec.BaseImage} {
			if err := usernamespace.MapMount(dir, namespace); err != nil {
				return err
			}
		}
	}
	if disk != nil {
		if err := rootvolume.Move(disk, filepath.Join(spec.Dir, RootVolumeDir), namespace); err != nil {
			return err
		}
	}
	s, err := openStage(filepath.Join(spec.Dir, rootDir), spec.UserID)
	if err != nil {
		return err
	}
	root, err := s.mountDisk(spec)
	if err != nil {
		return err
	}
	attachments, err := s.gatherMounts(spec)
	if err != nil {
		return err
	}
	files, err := readHostFiles(spec.Dir)
	if err != nil {
		return err
	}
	if disk != nil {
		files = append(files, hostFile{name: boot.DiskFile, mode: 0o644})
	}
	devices := presentDevices()
	return withRoot(root, func() error {
		if err := mountMemory(spec); err != nil {
			return err
		}
		if err := makeDevices("/dev", devices, spec.UserID); err != nil {
			return err
		}
		if err := createTarget(blockDir, true, spec.UserID); err != nil {
			return err
		}
		for _, a := range attachments {
			if err := a.attach(spec.UserID); err != nil {
				return err
			}
		}
		return writeHostFiles(files, spec.UserID)
	})
}

// mountAssembled makes the working directory, in which assemble has left the machine, the root, after it has mounted
// what shows the machine its own namespaces.
func mountAssembled(spec Spec, host cgroup.Host) error {
	err := withRoot(".", func() error {
		hardware, err := os.Open("/proc") // before proc is mounted on it
		if err != nil {
			return err
		}
		defer hardware.Close()
		if err := mountKernel(); err != nil {
			return err
		}
		if spec.UserID != 0 { // otherwise these limits are the host's
			if err := limitUsers(spec.Hardware.MemoryKiB); err != nil {
				return err
			}
		}
		if err := mountCgroups("/sys/fs/cgroup", host); err != nil {
			return err
		}
		if err := maskKernel(); err != nil {
			return err
		}
		return showHardware(hardware)
	})
	if err != nil {
		return err
	}
	return pivotRoot(".")
}

// withRoot calls f while dir is the root of the calling thread, and leaves dir as its working directory. What a machine
// has left on its disk, symbolic links above all, does not lead f to files of the host.
func withRoot(dir string, f func() error) error {
	outside, err := os.Open("/")
	if err != nil {
		return err
	}
	defer outside.Close()
	inside, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer inside.Close()
	if err := unix.Chdir(dir); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter the machine's root: %w", err)
	}
	err = f()
	if back := errors.Join(outside.Chdir(), unix.Chroot("."), inside.Chdir()); back != nil {
		return errors.Join(err, fmt.Errorf("leave the machine's root: %w", back))
	}
	return err
}

// hostFile is a file that the host has for the machine.
type hostFile struct {
	name    string // in boot.HostDir
	mode    fs.FileMode
	content []byte
}

// readHostFiles reads the files that the host has for the machine in its directory, as far as they are there.
func readHostFiles(dir string) (files []hostFile, err error) {
	for _, f := range []struct {
		source string
		hostFile
	}{
		{LeaseFile, hostFile{name: boot.DHCPFile, mode: 0o644}},
		{FargateFile, hostFile{name: boot.FargateFile, mode: 0o600}},
		{FargateTokenFile, hostFile{name: boot.FargateTokenFile, mode: 0o600}},
	} {
		f.content, err = os.ReadFile(filepath.Join(dir, f.source))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f.hostFile)
	}
	return files, nil
}

// writeHostFiles gives the machine what the host has for it, as files of its own: no machine has a file that the host
// writes.
func writeHostFiles(files []hostFile, owner uint32) error {
	back, err := makeFilesAs(owner)
	if err != nil {
		return err
	}
	defer back()
	if err := os.Mkdir(boot.HostDir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(boot.HostDir, f.name), f.content, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// mountMemory mounts the file systems in memory, which may take so much of it as systemd lets them. They belong to the
// machine's root.
func mountMemory(spec Spec) error {
	half := fmt.Sprintf(",size=%dk", spec.Hardware.MemoryKiB/2)
	fifth := fmt.Sprintf(",size=%dk", spec.Hardware.MemoryKiB/5)
	for _, m := range []struct {
		target  string
		flags   uintptr
		options string
	}{
		{"/dev", unix.MS_NOSUID, "mode=755,size=4m"},
		{"/dev/shm", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777" + half},
		{"/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755" + fifth},
		{"/tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777" + half},
	} {
		if err := createTarget(m.target, true, spec.UserID); err != nil {
			return err
		}
		options := fmt.Sprintf("%s,uid=%d,gid=%d", m.options, spec.UserID, spec.UserID)
		if err := mount("tmpfs", m.target, "tmpfs", m.flags, options); err != nil {
			return err
		}
	}
	return nil
}

// blockDir is what a machine sees in /sys/block: its own disks. It is one of the host's file systems, in which the
// launcher can make links.
const blockDir = "/dev/" + disks.BlockDir

// mountKernel mounts the kernel's own file systems.
func mountKernel() error {
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	const terminals = "newinstance,ptmxmode=0666,mode=0620,gid=5"
	for _, m := range []struct {
		source, target string
		flags          uintptr
		options        string
		optional       bool
	}{
		{source: "proc", target: "/proc", flags: quiet},
		{source: "sysfs", target: "/sys", flags: quiet},
		{source: blockDir, target: "/sys/block", flags: unix.MS_BIND},
		{source: "tmpfs", target: "/sys/fs/cgroup", flags: quiet, options: "mode=755"},
		{source: "bpf", target: "/sys/fs/bpf", flags: quiet, options: "mode=700", optional: true},
		{source: "devpts", target: "/dev/pts", flags: unix.MS_NOSUID | unix.MS_NOEXEC, options: terminals},
		{source: "mqueue", target: "/dev/mqueue", flags: quiet, optional: true},
	} {
		if err := os.MkdirAll(m.target, 0o755); err != nil && !m.optional {
			return err
		}
		if err := mount(m.source, m.target, m.source, m.flags, m.options); err != nil && !m.optional {
			return err
		}
	}
	return nil
}

// masked are files and directories of the kernel that a machine sees empty: they tell of the host and of other
// machines, or act on the host.
var masked = []string{
	"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/kmsg", "/proc/kpagecgroup", "/proc/kpagecount",
	"/proc/kpageflags", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger",
	"/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
}

// readOnly are directories that a machine cannot write to, by accident or in a container that sees them; writable are
// parts of them that it can, because they belong to its namespaces. Cgroups and what the kubelet sets are mounts of
// their own.
//
// Root in a machine in the host's user namespace can mount proc and sysfs once more, without any of this.
var (
	readOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/sys"}
	writable = []string{"/proc/sys/net"}
)

// maskKernel hides masked, and makes readOnly read-only.
func maskKernel() error {
	for _, path := range masked {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && info.IsDir():
			const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
			err = mount("tmpfs", path, "tmpfs", flags, "size=0,mode=555")
		case err == nil:
			err = mount("/dev/null", path, "", unix.MS_BIND, "")
		}
		if err != nil {
			return err
		}
	}
	for _, path := range slices.Concat(readOnly, writable) {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if path != "/sys" { // a mount already, with others on it
			if err := mount(path, path, "", unix.MS_BIND, ""); err != nil {
				return err
			}
		}
		if err := remount(path, slices.Contains(readOnly, path)); err != nil {
			return err
		}
	}
	return nil
}

// mountCgroups mounts every hierarchy of the host; the cgroup namespace shows of each what is the machine's.
func mountCgroups(dir string, host cgroup.Host) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if host.V2() {
		return mount("cgroup2", dir, "cgroup2", flags, "nsdelegate")
	}
	for _, h := range host {
		if h.V2 || h.IsIO() {
			continue // it has no controllers here, or none for machines
		}
		at := filepath.Join(dir, filepath.Base(h.Mount))
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		options := strings.Join(h.Controllers, ",")
		if strings.HasPrefix(options, "name=") {
			options = "none," + options
		}
		if err := mount("cgroup", at, "cgroup", flags, options); err != nil {
			return err
		}
		for _, c := range h.Controllers { // cpu -> cpu,cpuacct
			if c = strings.TrimPrefix(c, "name="); c != filepath.Base(h.Mount) {
				if err := os.Symlink(filepath.Base(h.Mount), filepath.Join(dir, c)); err != nil &&
					!errors.Is(err, fs.ErrExist) {
					return err
				}
			}
		}
	}
	return nil
}

// device is a character device of a machine.
type device struct {
	name         string // below /dev
	mode         uint32
	major, minor uint32
	optional     bool // where the host has it
}

// devices are those that a machine has: none of the host's hardware.
var devices = []device{
	{name: "null", mode: 0o666, major: 1, minor: 3},
	{name: "zero", mode: 0o666, major: 1, minor: 5},
	{name: "full", mode: 0o666, major: 1, minor: 7},
	{name: "random", mode: 0o666, major: 1, minor: 8},
	{name: "urandom", mode: 0o666, major: 1, minor: 9},
	{name: "kmsg", mode: 0o600, major: 1, minor: 3}, // empty: the kernel's log tells of all machines; kubelets open it
	{name: "tty", mode: 0o666, major: 5, minor: 0},
	{name: "fuse", mode: 0o666, major: 10, minor: 229, optional: true},
	{name: "net/tun", mode: 0o666, major: 10, minor: 200, optional: true},
}

// presentDevices returns the devices without the optional ones that are missing in the host's /dev.
func presentDevices() (present []device) {
	for _, d := range devices {
		if _, err := os.Stat(filepath.Join("/dev", d.name)); err == nil || !d.optional {
			present = append(present, d)
		}
	}
	return present
}

// makeDevices makes the devices of a machine in dir.
func makeDevices(dir string, devices []device, owner uint32) error {
	for _, d := range devices {
		path := filepath.Join(dir, d.name)
		if err := createTarget(filepath.Dir(path), true, owner); err != nil {
			return err
		}
		if err := unix.Mknod(path, unix.S_IFCHR|d.mode, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("make the device %s: %w", d.name, err)
		}
		if err := os.Chmod(path, fs.FileMode(d.mode)); err != nil { // whatever the umask
			return err
		}
		if err := os.Lchown(path, int(owner), int(owner)); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2", "core": "/proc/kcore",
		"console": "/proc/1/fd/1", // what GetConsoleOutput shows
	} {
		path := filepath.Join(dir, name)
		if err := os.Symlink(target, path); err != nil {
			return err
		}
		if err := os.Lchown(path, int(owner), int(owner)); err != nil {
			return err
		}
	}
	return nil
}

// createTarget makes a file or a directory, with those above it, that belongs to owner. The calling thread does it as
// that user, because nobody else can where IDs are mapped.
func createTarget(target string, dir bool, owner uint32) error {
	back, err := makeFilesAs(owner)
	if err != nil {
		return err
	}
	defer back()
	if dir {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// pivotRoot makes root the root, and leaves nothing of the host's mounts.
func pivotRoot(root string) error {
	dir, err := os.Open(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := leaveChroot(); err != nil {
		return fmt.Errorf("enter the root of the mount namespace: %w", err)
	}
	if err := dir.Chdir(); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make %s the root: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root lies on top
		return fmt.Errorf("leave the host's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	// As systemd does: what a pod mounts with Bidirectional propagation is seen by the machine.
	return mount("none", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// leaveChroot makes the root of the calling thread that of its mount namespace. They differ where the daemon runs in a
// chroot; whoever enters the namespace later gets the latter, which must not be the host's.
func leaveChroot() error {
	namespace, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return err
	}
	defer namespace.Close()
	// The threads of a Go program share their root, and then none may enter a mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS); err != nil {
		return err
	}
	return mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return &fs.PathError{Op: "mount " + source + " on", Path: target, Err: err}
	}
	return nil
}
