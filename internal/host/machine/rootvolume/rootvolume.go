//go:build linux

package rootvolume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

var (
	crashFormatted = crash.At("rootvolume/formatted")
	crashFilled    = crash.At("rootvolume/filled")
)

const kind = "xfs"

// ErrAbsent is the error when the volume has no device of the machine, or is just losing it.
var ErrAbsent = errors.New("the root volume is not attached")

// Check returns why this host cannot keep the files of machines on root volumes; nil when it can.
func Check() error {
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("this host has no loop devices (modprobe loop): %w", err)
	}
	if err := loopdevice.CheckUdev(); err != nil {
		return err
	}
	opened, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("this host's kernel has no XFS (modprobe xfs): %w", err)
	}
	if err := unix.Access("/sys/fs/xfs", unix.W_OK); err != nil {
		return errors.Join(fmt.Errorf("how long XFS waits for space cannot be set in /sys/fs/xfs: %w", err),
			unix.Close(opened))
	}
	return unix.Close(opened)
}

// Find returns the number of the device of a root volume.
func Find(name loopdevice.Name) (number int, err error) {
	devices, err := loopdevice.ListVolume(name.Owner, name.Volume)
	if err != nil {
		return 0, err
	}
	for _, d := range devices {
		if d.Name == name && !d.Pulled {
			return d.Number, nil
		}
	}
	return 0, ErrAbsent
}

// Mount mounts the file system of a root volume nowhere. For a while it waits for a volume that is not attached, or
// that somebody else has for himself: who looks whether it is in use does, for a moment.
func Mount(name loopdevice.Name) (mounted *os.File, err error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		number, err := Find(name)
		if err == nil {
			mounted, err = mount(number, name)
		}
		if !errors.Is(err, ErrAbsent) {
			return mounted, err
		}
		select {
		case <-limit.C:
			return nil, err
		case <-poll.C:
		}
	}
}

// patience bounds how long Mount waits.
const patience = 10 * time.Second

// absent adds ErrAbsent to the errors of a device that is being released, or that somebody has for himself.
func absent(err error) error {
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EBUSY) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return err
}

// deviceName is what machines see as the device of the file system, as on EC2.
const deviceName = "/dev/nvme0n1p1"

func mount(number int, name loopdevice.Name) (mounted *os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with its mount namespace
		mounted, err = mountNamed(number, name)
	}()
	<-done
	return mounted, absent(err)
}

// mountNamed is mount for a thread of its own, which it gives a device node of the name that the kernel keeps.
func mountNamed(number int, name loopdevice.Name) (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return nil, err
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, err
	}
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=1m,mode=700"); err != nil {
		return nil, err
	}
	if err := unix.Mknod(deviceName, unix.S_IFBLK|0o600, int(unix.Mkdev(loopdevice.Major, uint32(number)))); err != nil {
		return nil, fmt.Errorf("make a file for loop device %d: %w", number, err)
	}
	device, err := os.OpenFile(deviceName, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	if err := loopdevice.CheckFile(device, name); err != nil {
		return nil, err
	}
	opened, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open the file system %s: %w", kind, err)
	}
	defer unix.Close(opened)
	err = unix.FsconfigSetString(opened, "source", deviceName)
	for _, option := range []string{
		"discard", // what is deleted takes no space of the host
		"nouuid",  // a machine may have mounted a copy of the volume
	} {
		if err == nil {
			err = unix.FsconfigSetFlag(opened, option)
		}
	}
	if err == nil {
		err = unix.FsconfigCreate(opened)
	}
	if err != nil {
		return nil, fmt.Errorf("mount the root volume %s: %w", name.Volume, err)
	}
	root, err := os.Open("/")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := loopdevice.LimitXFS(root, number); err != nil {
		return nil, err
	}
	fd, err := unix.Fsmount(opened, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("mount the root volume %s: %w", name.Volume, err)
	}
	return os.NewFile(uintptr(fd), name.Volume), nil
}

// Move moves what Mount has mounted to a directory of the mount namespace of the calling thread, with the IDs of a user
// namespace unless that is nil.
func Move(mounted *os.File, at string, namespace *os.File) error {
	if namespace != nil {
		if err := usernamespace.MapDetached(mounted, namespace); err != nil {
			return err
		}
	}
	if err := unix.MoveMount(int(mounted.Fd()), "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &fs.PathError{Op: "mount the root volume on", Path: at, Err: err}
	}
	return nil
}

// Prepare makes the file system of a root volume unless it is there, makes it as large as the volume, and calls fill
// with the directory where it is mounted meanwhile: at, in a mount namespace in which fill runs alone. tools is the
// root directory of the node image. The error is ErrAbsent when another attempt is to be made soon.
func Prepare(ctx context.Context, name loopdevice.Name, tools, at string, fill func(dir string) error) error {
	number, err := Find(name)
	if err != nil {
		return err
	}
	if err := makeFileSystem(ctx, number, name, tools); err != nil {
		return absent(err)
	}
	crashFormatted.Here()
	return whileMounted(number, name, at, func() error {
		// What cannot grow that far is as it was: Grow says so.
		if err := grow(at); err != nil && !errors.Is(err, loopdevice.ErrManyGroups) {
			return err
		}
		if err := fill(at); err != nil {
			return err
		}
		crashFilled.Here()
		return nil
	})
}

// Grow makes the file system of a root volume as large as its device, if there is one already. at is any directory. The
// error is loopdevice.ErrManyGroups where it began too small for that: it stays as it is.
func Grow(number int, name loopdevice.Name, at string) error {
	device, err := loopdevice.Open(number, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer device.Close()
	if there, err := isThere(device); err != nil || !there {
		return err
	}
	return whileMounted(number, name, at, func() error { return grow(at) })
}

// whileMounted calls f with the file system mounted on a directory, in a mount namespace of its own.
func whileMounted(number int, name loopdevice.Name, at string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its mount namespace
		done <- usernamespace.InMountNamespace(func() error {
			mounted, err := mount(number, name)
			if err != nil {
				return err
			}
			defer mounted.Close()
			if err := Move(mounted, at, nil); err != nil {
				return err
			}
			return f()
		})
	}()
	return <-done
}

// isThere reports whether a file system has been made on a device. One that is neither empty nor made by this package
// is an error: nothing of it is to be lost.
func isThere(device *os.File) (bool, error) {
	// struct xfs_dsb: sb_magicnum and sb_inprogress
	const magic, inProgress = 0, 126
	sector := make([]byte, 512)
	if _, err := device.ReadAt(sector, 0); err != nil {
		return false, fmt.Errorf("read the superblock of the root volume: %w", err)
	}
	switch {
	case bytes.HasPrefix(sector[magic:], []byte("XFSB")):
		return sector[inProgress] == 0, nil
	case bytes.Equal(sector, make([]byte, len(sector))):
		return false, nil
	}
	return false, errors.New("the root volume has something else than the file system of a machine")
}

// makeFileSystem makes the file system on a device that has none.
func makeFileSystem(ctx context.Context, number int, name loopdevice.Name, tools string) error {
	device, err := loopdevice.Open(number, unix.O_RDWR)
	if err != nil {
		return err
	}
	defer device.Close()
	if err := loopdevice.CheckFile(device, name); err != nil {
		return err
	}
	if there, err := isThere(device); err != nil || there {
		return err
	}
	// Somebody who looks whether the device is in use has it for himself for a moment, and then it fails.
	const attempts = 3
	for range attempts {
		if err = makeOn(ctx, device, tools); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("make the file system of the root volume %s: %w", name.Volume, err)
	}
	return nil
}

// makeOn makes the file system on a device.
func makeOn(ctx context.Context, device *os.File, tools string) error {
	// Features that Linux 5.10 has. The log is as small as one may be: its space is set aside. Nothing has been written
	// that could be discarded (-K).
	cmd, err := command(ctx, tools, "usr/sbin/mkfs.xfs", "-q", "-f", "-K", "-m", "rmapbt=0", "-i", "nrext64=0",
		"-l", "size=64m", "/proc/self/fd/3")
	if err != nil {
		return err
	}
	cmd.ExtraFiles = []*os.File{device}
	// Two at once would make no file system: it ends with this process, and so with the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// command returns a command of the node image, which runs with the libraries of that.
func command(ctx context.Context, tools, program string, args ...string) (*exec.Cmd, error) {
	loader, libraries := "usr/lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu"
	if runtime.GOARCH == "arm64" {
		loader, libraries = "usr/lib/ld-linux-aarch64.so.1", "usr/lib/aarch64-linux-gnu"
	}
	loader = filepath.Join(tools, loader)
	if _, err := os.Stat(loader); err != nil {
		return nil, fmt.Errorf("run %s of the node image: %w", filepath.Base(program), err)
	}
	args = append([]string{"--library-path", filepath.Join(tools, libraries), filepath.Join(tools, program)}, args...)
	cmd := exec.CommandContext(ctx, loader, args...)
	cmd.Env = []string{}
	return cmd, nil
}

// grow makes the file system that is mounted on dir as large as its device.
func grow(dir string) error {
	root, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return err
	}
	device, err := loopdevice.Open(int(unix.Minor(st.Dev)), unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer device.Close()
	size, err := device.Seek(0, 2)
	if err != nil {
		return err
	}
	g, err := loopdevice.GeometryOfXFS(root)
	if err != nil {
		return fmt.Errorf("read the size of the root volume's file system: %w", err)
	}
	blocks := uint64(size) / uint64(g.BlockSize)
	if blocks <= g.Blocks {
		return nil
	}
	if err := loopdevice.GrowXFS(root, blocks, g.MaxInodes, func() bool { return true }); err != nil {
		return fmt.Errorf("make the root volume's file system larger: %w", err)
	}
	return nil
}
