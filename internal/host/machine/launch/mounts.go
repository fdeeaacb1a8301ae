package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
)

// Directories in a machine's Dir, beside those that the Spec's Mounts name.
const (
	diskDir     = "root"     // the upper layer of /: what the machine has written
	usrDir      = "usr"      // the upper layer of /usr
	rootDir     = "mnt"      // where the root file system is put together, in the machine's mount namespace only
	hardwareDir = "hardware" // see Hardware
)

// mountAll makes the machine's root file system and makes it the root.
func mountAll(spec Spec, host cgroup.Host) error {
	// What is mounted from here on is the machine's alone.
	if err := mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	root := filepath.Join(spec.Dir, rootDir)
	if err := mountDisk(spec, root); err != nil {
		return err
	}
	if err := mountMemory(root, spec); err != nil {
		return err
	}
	if err := makeDevices(filepath.Join(root, "dev"), spec.UserID); err != nil {
		return err
	}
	if err := mountOwn(spec, host, filepath.Join(spec.Dir, hardwareDir), root); err != nil {
		return err
	}
	if err := bindAll(spec, root); err != nil {
		return err
	}
	return pivot(root)
}

// mountAssembled makes the root file system that assemble has left in the working directory the root.
func mountAssembled(spec Spec, host cgroup.Host) error {
	if err := enterAssembled(); err != nil {
		return err
	}
	hardware, err := os.Open("proc") // before proc is mounted on it
	if err != nil {
		return err
	}
	defer hardware.Close()
	if err := mountOwn(spec, host, fmt.Sprintf("/proc/self/fd/%d", hardware.Fd()), "."); err != nil {
		return err
	}
	return pivot(".")
}

// mountOwn mounts what shows the machine its own namespaces, and over that what it is to see of its hardware.
func mountOwn(spec Spec, host cgroup.Host, hardware, root string) error {
	if err := mountKernel(root); err != nil {
		return err
	}
	if err := mountCgroups(filepath.Join(root, "sys/fs/cgroup"), host); err != nil {
		return err
	}
	return spec.Hardware.mount(hardware, root)
}

// bindAll mounts the files and directories of the host that a machine has.
func bindAll(spec Spec, root string) error {
	if err := copyLease(filepath.Join(spec.Dir, LeaseFile), filepath.Join(root, boot.HostDir)); err != nil {
		return err
	}
	own := Mount{Source: filepath.Join(spec.Dir, RunDir), Target: boot.Dir}
	for _, m := range append([]Mount{own}, spec.Mounts...) {
		if err := bind(m.Source, filepath.Join(root, m.Target), m.ReadOnly, spec.UserID); err != nil {
			return err
		}
	}
	return nil
}

// copyLease gives the machine the DHCP lease, as a file of its own: what the host writes shares nothing with a machine.
func copyLease(from, dir string) error {
	lease, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, boot.DHCPFile), lease, 0o644)
}

// mountDisk mounts what survives a reboot. /usr is a layer of its own, because an overlay over the host's / would hold itself: the
// machine's directory is below it.
func mountDisk(spec Spec, root string) error {
	back, err := makeFilesAs(spec.UserID)
	if err != nil {
		return err
	}
	defer back()
	err = overlay(root, filepath.Join(spec.Dir, diskDir), spec.Skeleton)
	if err != nil {
		return err
	}
	lower := []string{"/usr"}
	if _, err := os.Stat(filepath.Join(spec.Skeleton, "usr")); err == nil {
		lower = []string{filepath.Join(spec.Skeleton, "usr"), "/usr"}
	}
	if err := os.MkdirAll(filepath.Join(root, "usr"), 0o755); err != nil {
		return err
	}
	return overlay(filepath.Join(root, "usr"), filepath.Join(spec.Dir, usrDir), lower...)
}

// overlay mounts a layer that is written, in dir, over others. The overlay acts for ever with the rights that the calling thread has now.
func overlay(target, dir string, lower ...string) error {
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace
	for i := range lower {
		lower[i] = escape(lower[i])
	}
	options := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + escape(filepath.Join(dir, "upper")) + ",workdir=" + escape(filepath.Join(dir, "work"))
	err := mount("overlay", target, "overlay", 0, options)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: the file system of %s cannot hold what is written over another (it may be an overlay itself): keep the data directory on ext4 or xfs, in a container on a volume", err, dir)
	}
	return err
}

// mountMemory mounts the file systems in memory, which may take so much of it as systemd lets them. They belong to the machine's root.
func mountMemory(root string, spec Spec) error {
	half, fifth := fmt.Sprintf(",size=%dk", spec.Hardware.MemoryKiB/2), fmt.Sprintf(",size=%dk", spec.Hardware.MemoryKiB/5)
	for _, m := range []struct {
		target  string
		flags   uintptr
		options string
	}{
		{"dev", unix.MS_NOSUID, "mode=755,size=4m"},
		{"dev/shm", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777" + half},
		{"run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755" + fifth},
		{"tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777" + half},
	} {
		target := filepath.Join(root, m.target)
		if err := create(target, true, spec.UserID); err != nil {
			return err
		}
		options := fmt.Sprintf("%s,uid=%d,gid=%d", m.options, spec.UserID, spec.UserID)
		if err := mount("tmpfs", target, "tmpfs", m.flags, options); err != nil {
			return err
		}
	}
	return nil
}

// mountKernel mounts the kernel's own file systems.
func mountKernel(root string) error {
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct {
		source, target string
		flags          uintptr
		options        string
		optional       bool
	}{
		{source: "proc", target: "proc", flags: quiet},
		{source: "sysfs", target: "sys", flags: quiet},
		{source: "tmpfs", target: "sys/fs/cgroup", flags: quiet, options: "mode=755"},
		{source: "bpf", target: "sys/fs/bpf", flags: quiet, options: "mode=700", optional: true},
		{source: "devpts", target: "dev/pts", flags: unix.MS_NOSUID | unix.MS_NOEXEC, options: "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		{source: "mqueue", target: "dev/mqueue", flags: quiet, optional: true},
	} {
		target := filepath.Join(root, m.target)
		if err := os.MkdirAll(target, 0o755); err != nil && !m.optional {
			return err
		}
		if err := mount(m.source, target, m.source, m.flags, m.options); err != nil && !m.optional {
			return err
		}
	}
	// Nobody in a machine is to press the host's keys or read its memory.
	for _, file := range []string{"proc/sysrq-trigger", "proc/kcore"} {
		if err := hide(filepath.Join(root, file)); err != nil {
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
		if h.V2 {
			continue // it has no controllers here
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
				if err := os.Symlink(filepath.Base(h.Mount), filepath.Join(dir, c)); err != nil && !errors.Is(err, fs.ErrExist) {
					return err
				}
			}
		}
	}
	return nil
}

// makeDevices makes the devices that a machine has: none of the host's hardware.
func makeDevices(dir string, owner uint32) error {
	for _, d := range []struct {
		name         string
		mode         uint32
		major, minor uint32
		optional     bool // where the host has it
	}{
		{name: "null", mode: 0o666, major: 1, minor: 3},
		{name: "zero", mode: 0o666, major: 1, minor: 5},
		{name: "full", mode: 0o666, major: 1, minor: 7},
		{name: "random", mode: 0o666, major: 1, minor: 8},
		{name: "urandom", mode: 0o666, major: 1, minor: 9},
		{name: "kmsg", mode: 0o600, major: 1, minor: 11},
		{name: "tty", mode: 0o666, major: 5, minor: 0},
		{name: "fuse", mode: 0o666, major: 10, minor: 229, optional: true},
		{name: "net/tun", mode: 0o666, major: 10, minor: 200, optional: true},
	} {
		if d.optional {
			if _, err := os.Stat(filepath.Join("/dev", d.name)); err != nil {
				continue
			}
		}
		path := filepath.Join(dir, d.name)
		if err := create(filepath.Dir(path), true, owner); err != nil {
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
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "core": "/proc/kcore",
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

// hide shows an empty file in the place of another, where there is one.
func hide(file string) error {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return bind("/dev/null", file, true, 0)
}

// bind mounts source on target. A target that is missing is made, and belongs to owner.
func bind(source, target string, readOnly bool, owner uint32) error {
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("mount on %s: %w", target, err)
	}
	if _, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) {
		if err := create(target, info.IsDir(), owner); err != nil {
			return err
		}
	}
	if err := mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if !readOnly {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return err
	}
	kept := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC) // they cannot be taken off
	return mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, "")
}

// create makes a file or a directory, with those above it, that belongs to owner. The calling thread does it as that user, because nobody else can
// where IDs are mapped.
func create(target string, dir bool, owner uint32) error {
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

// pivot makes root the root, and leaves nothing of the host's mounts.
func pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
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

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return &fs.PathError{Op: "mount " + source + " on", Path: target, Err: err}
	}
	return nil
}
