//go:build linux

package loopdevice

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// fiThaw is FITHAW, a request of ioctl(2).
const fiThaw = 0xc0045878

// Thaw lets writes of a file system on a device go on which are held, and whose holder was killed (fsfreeze(8)): where
// nothing is mounted any more, such a file system keeps the device, and nobody can reach it but by a new mount of it.
func Thaw(number int, name Name) error {
	return callDeviceError(number, patience, func() error { return thawClaimed(number, name) })
}

// thawClaimed is Thaw for those who ask the device.
func thawClaimed(number int, name Name) error {
	d, err := inspect(number)
	if isNone(err) { // nothing is mounted from a device without a file, as after a boot of the host
		return nil
	}
	if err != nil || d.Name != name {
		return err // the device is another's, which is as good
	}
	if claimed, err := isClaimed(number); err != nil || !claimed {
		return err
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its mount namespace
		done <- thaw(number)
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("let writes of loop device %d go on: %w", number, err)
	}
	return nil
}

// ThawAll calls Thaw for all devices of an owner.
func ThawAll(owner string) error {
	devices, err := List(owner)
	failures := make(chan error)
	for _, d := range devices {
		go func() { failures <- Thaw(d.Number, d.Name) }()
	}
	for range devices {
		err = errors.Join(err, <-failures)
	}
	return err
}

func thaw(number int) error {
	device, err := stageDevice(number)
	if err != nil {
		return err
	}
	for _, kind := range []string{"ext4", "xfs"} {
		for _, flag := range []string{"rw", "ro"} {
			if thawMounted(kind, flag, device) == nil {
				return nil
			}
		}
	}
	return nil // it is none that is mounted
}

// stageDevice gives the calling thread a root directory with a file for the device and nothing else, and returns its
// path.
func stageDevice(number int) (device string, err error) {
	const stage = "/dev"
	device = "/disk"
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return "", err
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", err
	}
	if err := unix.Mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=1m,mode=700"); err != nil {
		return "", err
	}
	if err := errors.Join(unix.Chdir(stage), unix.Chroot(".")); err != nil {
		return "", err
	}
	if err := unix.Mknod(device, unix.S_IFBLK|0o600, int(unix.Mkdev(Major, uint32(number)))); err != nil {
		return "", err
	}
	return device, nil
}

// neverMounts are options with which no file system is mounted that is not there already: one of the machine's content
// has nothing to do on the host. One that is there is found by its device, and takes no notice of them. ext4 refuses
// delalloc where data is journaled, as soon as it has read its superblock; XFS has its log on a device that does not
// exist.
var neverMounts = map[string][][2]string{
	"ext4": {{"data", "journal"}, {"delalloc", ""}, {"errors", "remount-ro"}, {"noload", ""}},
	"xfs":  {{"logdev", "/none"}},
}

func thawMounted(kind, flag, device string) error {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "source", device); err != nil {
		return err
	}
	if err := unix.FsconfigSetFlag(fs, flag); err != nil {
		return err
	}
	for _, o := range neverMounts[kind] {
		if o[1] == "" {
			err = unix.FsconfigSetFlag(fs, o[0])
		} else {
			err = unix.FsconfigSetString(fs, o[0], o[1])
		}
		if err != nil {
			return err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID|
		unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	root, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(root), fiThaw, 0)
	if errno != 0 && errno != unix.EINVAL { // it is not frozen
		return errno
	}
	return nil
}
