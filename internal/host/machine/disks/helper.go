//go:build linux

package disks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
)

// HelperMain is the program "coracle-node launch mount", which mounts one disk as its standard input says. It returns
// the exit status.
func HelperMain() int {
	runtime.LockOSThread()
	var o order
	err := json.NewDecoder(io.LimitReader(os.Stdin, 1<<20)).Decode(&o)
	if err == nil {
		err = o.run()
	}
	var r result
	if err != nil {
		r.Error = err.Error()
		_ = errors.As(err, &r.Errno) // otherwise it is 0
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 1
	}
	return 0
}

func (o order) run() error {
	for _, fd := range o.Groups {
		// From here on the kernel opens for this process only what the machine may open.
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return fmt.Errorf("enter the machine's cgroup: %w", err)
		}
		unix.Close(fd)
	}
	for _, fd := range []int{o.Target, o.Mounts, o.Users} {
		unix.CloseOnExec(fd)
	}
	if o.Flags&unix.MS_REMOUNT != 0 {
		return o.remount()
	}
	host, err := openPath(unix.AT_FDCWD, "/", 0)
	if err != nil {
		return err
	}
	defer host.Close()
	if err := o.enterStage(); err != nil {
		return err
	}
	device, err := o.openDisk()
	if err != nil {
		return err
	}
	defer device.Close()
	fs, err := o.open()
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	// The file system holds the device: if it is the disk now, it has been all the time.
	if err := loopdevice.CheckFile(device, o.Name); err != nil {
		return err
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, int(Attributes(o.Flags)))
	if err != nil {
		return fmt.Errorf("fsmount: %w", err)
	}
	defer unix.Close(mount)
	if err := o.checkMount(device, mount, host); err != nil {
		return err // and the file system is unmounted with its last file
	}
	if o.Type == "xfs" {
		if err := loopdevice.LimitXFS(host, o.Loop); err != nil {
			return err
		}
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(o.Users)}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("map the IDs: %w", err)
	}
	if err := unix.Setns(o.Mounts, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the machine's mount namespace: %w", err)
	}
	if err := unix.MoveMount(mount, "", o.Target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|
		unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// enterStage makes a file system in memory the root of this process, in a mount namespace of its own. It has nothing
// but a node of the disk, by the name that the machine has for it, which the kernel shows for the mount.
func (o order) enterStage() error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", o.Stage, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=1m,mode=700"); err != nil {
		return fmt.Errorf("mount a file system in memory: %w", err)
	}
	if err := errors.Join(unix.Chdir(o.Stage), unix.Chroot(".")); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.Source), 0o700); err != nil {
		return err
	}
	device := int(unix.Mkdev(loopdevice.Major, uint32(o.Loop)))
	return unix.Mknod(o.Source, unix.S_IFBLK|0o600, device)
}

// openDisk opens the disk, after it has checked its superblock: what is on the disk, which XFS reads, and what the
// kernel remembers of it, which ext4 does. The two differ as long as the machine likes, above all where another machine
// has the disk, too, by a device of its own.
func (o order) openDisk() (*os.File, error) {
	device, err := o.openDevice(0)
	if err != nil {
		return nil, err
	}
	direct, err := o.openDevice(unix.O_DIRECT)
	if err == nil {
		defer direct.Close()
		err = errors.Join(checkSuperblock(o.Type, direct), checkSuperblock(o.Type, device), o.checkSize(device))
	}
	if err != nil {
		device.Close()
		return nil, err
	}
	return device, nil
}

func (o order) checkSize(device *os.File) error {
	size, err := device.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		return err
	}
	return checkSize(o.Type, uint64(size), uint64(host.Totalram)*uint64(host.Unit))
}

func (o order) openDevice(flags int) (*os.File, error) {
	fd, err := unix.Open(o.Source, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, fmt.Errorf("open the disk: %w", err)
	}
	return os.NewFile(uintptr(fd), "disk"), nil
}

// checkMount returns an error when the file system that is mounted is not one that the host mounts.
func (o order) checkMount(device *os.File, mount int, host *os.File) error {
	fd, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the root of the file system: %w", err)
	}
	root := os.NewFile(uintptr(fd), "root")
	defer root.Close()
	return checkMounted(o.Type, device, o.Loop, root, host)
}

// open returns the context of the file system, which has been created.
func (o order) open() (fs int, err error) {
	if fs, err = unix.Fsopen(o.Type, unix.FSOPEN_CLOEXEC); err != nil {
		return -1, fmt.Errorf("fsopen %s: %w", o.Type, err)
	}
	err = unix.FsconfigSetString(fs, "source", o.Source)
	if err == nil {
		err = o.configure(fs)
	}
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		err = fmt.Errorf("%w %s", err, messages(fs))
		unix.Close(fs)
		return -1, err
	}
	return fs, nil
}

// configure sets the options of a file system.
func (o order) configure(fs int) error {
	for _, flag := range []struct {
		bit     uint64
		on, off string
	}{
		{unix.MS_RDONLY, "ro", "rw"}, {unix.MS_SYNCHRONOUS, "sync", "async"}, {unix.MS_DIRSYNC, "dirsync", ""},
		{unix.MS_LAZYTIME, "lazytime", "nolazytime"},
	} {
		name := flag.off
		if o.Flags&flag.bit != 0 {
			name = flag.on
		}
		if name == "" {
			continue
		}
		if err := unix.FsconfigSetFlag(fs, name); err != nil {
			return fmt.Errorf("option %s: %w", name, err)
		}
	}
	for _, option := range o.Options {
		var err error
		if option.Value == "" {
			err = unix.FsconfigSetFlag(fs, option.Key)
		} else {
			err = unix.FsconfigSetString(fs, option.Key, option.Value)
		}
		if err != nil {
			return fmt.Errorf("option %s: %w", option.Key, err)
		}
	}
	return nil
}

// messages returns what the kernel says about a context.
func messages(fs int) string {
	var said []string
	buffer := make([]byte, 1024)
	for len(said) < 8 {
		n, err := unix.Read(fs, buffer)
		if err != nil || n <= 0 {
			break
		}
		said = append(said, strings.TrimSpace(string(buffer[:n])))
	}
	return strings.Join(said, "; ")
}

// Attributes returns the attributes of a mount with the given flags of mount(2). Device files on a disk do not work:
// they would be those of the host. The kernel lets the machine's root take this back, since the mount is in its own
// namespace from the first: what they open is for the machine's cgroup to allow, and all that it allows the machine has
// in /dev.
func Attributes(flags uint64) uint64 {
	set := uint64(unix.MOUNT_ATTR_NODEV)
	for _, flag := range []struct{ bit, attribute uint64 }{
		{unix.MS_RDONLY, unix.MOUNT_ATTR_RDONLY}, {unix.MS_NOSUID, unix.MOUNT_ATTR_NOSUID},
		{unix.MS_NOEXEC, unix.MOUNT_ATTR_NOEXEC}, {unix.MS_NODIRATIME, unix.MOUNT_ATTR_NODIRATIME},
	} {
		if flags&flag.bit != 0 {
			set |= flag.attribute
		}
	}
	switch {
	case flags&unix.MS_STRICTATIME != 0:
		set |= unix.MOUNT_ATTR_STRICTATIME
	case flags&unix.MS_NOATIME != 0:
		set |= unix.MOUNT_ATTR_NOATIME
	}
	return set
}

// remount changes a file system and the mount of it.
func (o order) remount() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(o.Mounts, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the machine's mount namespace: %w", err)
	}
	fs, err := unix.Fspick(o.Target, "", unix.FSPICK_CLOEXEC|unix.FSPICK_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("fspick: %w", err)
	}
	defer unix.Close(fs)
	err = o.configure(fs)
	if err == nil {
		err = unix.FsconfigReconfigure(fs)
	}
	if err != nil {
		return fmt.Errorf("%w %s", err, messages(fs))
	}
	set := Attributes(o.Flags)
	attr := unix.MountAttr{Attr_set: set, Attr_clr: unix.MOUNT_ATTR__ATIME | (unix.MOUNT_ATTR_RDONLY|
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_NODIRATIME)&^set}
	if err := unix.MountSetattr(o.Target, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}
