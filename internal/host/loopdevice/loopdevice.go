//go:build linux

// Package loopdevice makes files block devices of the host, one for each machine that has the file as a disk.
//
// The name of a device ([Name]) is kept by the kernel beside the file: it says whose disk the device is, to a daemon
// that has just started as to the process that gives a machine the device. Whoever acts on a number checks the name
// first, since numbers are those of the whole host.
//
// A device that somebody still has open cannot be taken from him. [Release] makes it one of no size first: every read
// and write fails, as when a disk is pulled. Its number goes to no other disk before the last has closed it. The kernel
// separates it from its file then, and whoever lists or attaches devices next removes the number.
package loopdevice

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Major is the major number of loop devices. Last is the highest minor number that is used for disks: cgroups of
// version 1 list what machines may not open.
const (
	Major = 7
	Last  = 4095
)

// ErrInUse is the error of what cannot be done while a device is mounted or open.
var ErrInUse = errors.New("the device is in use")

// Name says whose disk a device is.
type Name struct {
	Owner      string // of the daemon: datadir.Dir.Owner
	Volume     string
	InstanceID string
}

// String returns the name as the kernel keeps it, in at most 63 bytes.
func (n Name) String() string { return n.Owner + "/" + n.Volume + "/" + n.InstanceID }

func parseName(b []byte) (Name, bool) {
	text, _, _ := strings.Cut(string(b), "\x00")
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Name{}, false
	}
	return Name{parts[0], parts[1], parts[2]}, true
}

// Device is a loop device that is or was a disk.
type Device struct {
	Number int
	Name   Name
	// Pulled reports that the device has no size any more: it waits for those who have it open.
	Pulled bool
}

var errNotDisk = errors.New("the loop device is not a disk of a machine")

// isNone reports whether an error says that a device is no disk of a machine.
func isNone(err error) bool {
	return errors.Is(err, errNotDisk) || errors.Is(err, unix.ENXIO) || errors.Is(err, fs.ErrNotExist)
}

// Get returns what a device is.
func Get(number int) (Device, error) {
	return callDevice(number, patience, func() (Device, error) { return inspect(number) })
}

// inspect is Get for those who ask the device.
func inspect(number int) (Device, error) {
	f, err := Open(number, unix.O_RDONLY)
	if err != nil {
		return Device{}, err
	}
	defer f.Close()
	return get(f, number)
}

func get(f *os.File, number int) (Device, error) {
	before, counted := identify(number)
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err != nil {
		return Device{}, fmt.Errorf("read the status of loop device %d: %w", number, err)
	}
	name, ok := parseName(info.File_name[:])
	if !ok {
		return Device{}, errNotDisk
	}
	if after, _ := identify(number); counted && after == before {
		known.Store(after, name)
	}
	return Device{Number: number, Name: name, Pulled: info.Offset != 0}, nil
}

// Check returns an error unless a device is the disk of that name.
func Check(number int, name Name) error {
	d, err := Get(number)
	if err != nil {
		return err
	}
	return d.check(name)
}

// Is reports whether a device is the disk of that name. Where nobody can say, because it cannot be looked at, that is
// an error: who takes it for another would take it away from the machine that has it.
func Is(number int, name Name) (bool, error) {
	d, err := Get(number)
	switch {
	case err == nil:
		return d.Name == name && !d.Pulled, nil
	case isNone(err):
		return false, nil
	}
	return false, err
}

// CheckFile returns an error unless an open device is the disk of that name.
func CheckFile(f *os.File, name Name) error {
	number, ok := Number(f)
	if !ok {
		return errNotDisk
	}
	d, err := get(f, number)
	if err != nil {
		return err
	}
	return d.check(name)
}

func (d Device) check(name Name) error {
	if d.Name != name || d.Pulled {
		return fmt.Errorf("loop device %d is not the disk %s", d.Number, name)
	}
	return nil
}

// Open opens a device, whether the host has a file for it in /dev or not. The error is fs.ErrNotExist when there is
// none of that number.
func Open(number, flags int) (*os.File, error) {
	if _, err := os.Stat(sysDir(number)); err != nil { // to open it would make one, with a number that nobody frees
		return nil, err
	}
	path := fmt.Sprintf("/dev/loop%d", number)
	if f, err := openBlock(path, number, flags); err == nil || errors.Is(err, unix.EBUSY) ||
		errors.Is(err, unix.ENXIO) {
		return f, err
	}
	dir, err := os.MkdirTemp("/dev", ".coracle-") // where device files work
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path = filepath.Join(dir, "loop")
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(Major, uint32(number)))); err != nil {
		return nil, fmt.Errorf("make a file for loop device %d: %w", number, err)
	}
	return openBlock(path, number, flags)
}

func openBlock(path string, number, flags int) (*os.File, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if got, ok := Number(f); !ok || got != number {
		f.Close()
		return nil, fmt.Errorf("%s is not loop device %d: %w", path, number, fs.ErrNotExist)
	}
	return f, nil
}

// Number returns which loop device an open file is, if it is one.
func Number(f *os.File) (number int, ok bool) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK ||
		unix.Major(st.Rdev) != Major {
		return 0, false
	}
	return int(unix.Minor(st.Rdev)), true
}

// blockSize is that of EBS volumes, in bytes.
const blockSize = 512

// Attach makes a file a device with a number that nobody has open, and returns the number. The error is ErrUdev where
// the host would act on what is in the file.
func Attach(file *os.File, name Name) (number int, err error) {
	if err := hostUdev.guard(); err != nil {
		return 0, err
	}
	if len(name.String()) >= unix.LO_NAME_SIZE {
		return 0, fmt.Errorf("the name %s of a loop device is too long", name)
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("this host has no loop devices (modprobe loop): %w", err)
	}
	defer control.Close()
	const attempts = 64 // others of the host may take a device that is new
	for range attempts {
		number, err := ioctl(control, unix.LOOP_CTL_ADD, ^uintptr(0))
		if err != nil {
			return 0, fmt.Errorf("add a loop device: %w", err)
		}
		if number > Last {
			_ = remove(control, number) // it is not bound
			return 0, fmt.Errorf("this host has more than %d loop devices", Last)
		}
		err = configure(file, number, name)
		if err == nil {
			return number, nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return 0, errors.Join(err, remove(control, number))
		}
	}
	return 0, errors.New("no loop device stays free until it is used")
}

func configure(file *os.File, number int, name Name) error {
	f, err := Open(number, unix.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	config := unix.LoopConfig{Fd: uint32(file.Fd()), Size: blockSize}
	config.Info.Flags = unix.LO_FLAGS_DIRECT_IO // without, where the file system cannot
	config.Info.Sizelimit = tag(name.Owner, name.Volume)
	copy(config.Info.File_name[:], name.String())
	if err := unix.IoctlLoopConfigure(int(f.Fd()), &config); err != nil {
		return fmt.Errorf("make a file loop device %d: %w", number, err)
	}
	return nil
}

// Grow gives a device the size that its file has, in bytes.
func Grow(number int, size int64) error {
	return callDeviceError(number, patience, func() error {
		f, err := Open(number, unix.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		if now, err := f.Seek(0, io.SeekEnd); err != nil || now == size {
			return err
		}
		if _, err := ioctl(f, unix.LOOP_SET_CAPACITY, 0); err != nil {
			return fmt.Errorf("resize loop device %d: %w", number, err)
		}
		return nil
	})
}

// Mounted reports whether a file system on the device is mounted, or a program has it for itself.
func Mounted(number int) (bool, error) {
	return callDevice(number, patience, func() (bool, error) { return isClaimed(number) })
}

// isClaimed is Mounted for those who ask the device. Two processes that ask at once see each other: so it asks again.
func isClaimed(number int) (bool, error) {
	for attempt := 1; ; attempt++ {
		f, err := Open(number, unix.O_RDONLY|unix.O_EXCL)
		switch {
		case err == nil:
			return false, f.Close()
		case !errors.Is(err, unix.EBUSY):
			return false, err
		case attempt == 10:
			return true, nil
		}
		time.Sleep(time.Duration(attempt) * time.Millisecond)
	}
}

// syncPatience bounds how long what the kernel has of a device may take to be written.
const syncPatience = time.Minute

// Sync writes what the kernel has in memory of a device to its file.
func Sync(number int) error {
	return callDeviceError(number, syncPatience, func() error {
		f, err := Open(number, unix.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

// releasePatience bounds how long what is written to a device may take to be in its file.
const releasePatience = 30 * time.Second

// Release makes a device one of no size, separates it from its file and removes it. The error is ErrInUse as long as
// somebody has it open; the file is out of his reach nevertheless. A number that is another disk's stays as it is.
func Release(number int, name Name) error {
	return callDeviceError(number, releasePatience, func() error {
		id, _ := identify(number)
		defer known.Delete(id) // it is asked again where it stays
		if err := pull(number, name); errors.Is(err, errNotDisk) {
			return nil
		} else if err != nil {
			return err
		}
		control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer control.Close()
		err = remove(control, number)
		// A frozen file system has it as long as it is frozen. No other is found on a device of no size.
		if errors.Is(err, ErrInUse) && thawClaimed(number, name) == nil {
			err = remove(control, number)
		}
		return err
	})
}

// ReleaseUnmounted is Release for a device whose file system is to lose nothing: the error is ErrInUse, and nothing has
// happened, as long as one is mounted. None is mounted meanwhile.
func ReleaseUnmounted(number int, name Name) error {
	return callDeviceError(number, releasePatience, func() error {
		id, _ := identify(number)
		f, err := Open(number, unix.O_RDONLY|unix.O_EXCL)
		switch {
		case errors.Is(err, unix.EBUSY):
			return fmt.Errorf("release loop device %d: %w", number, ErrInUse)
		case errors.Is(err, unix.ENXIO), errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		defer known.Delete(id)
		d, err := get(f, number)
		if err == nil && d.Name == name {
			if _, err = ioctl(f, unix.LOOP_CLR_FD, 0); err != nil {
				err = fmt.Errorf("separate loop device %d from its file: %w", number, err)
			}
		}
		f.Close()
		switch {
		case errors.Is(err, unix.ENXIO): // it has no file any more
		case isNone(err), err == nil && d.Name != name:
			return nil // it is another's
		case err != nil:
			return err
		}
		control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer control.Close()
		return remove(control, number)
	})
}

// pull makes a device one of no size, and separates it from its file as soon as nobody has it open.
func pull(number int, name Name) error {
	f, err := Open(number, unix.O_RDWR)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	d, err := get(f, number)
	if errors.Is(err, unix.ENXIO) { // it has no file
		return nil
	}
	if err != nil {
		return err
	}
	if d.Name != name {
		return errNotDisk
	}
	if !d.Pulled {
		info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
		if err != nil {
			return err
		}
		info.Offset = 1 << 62 // beyond the end of any file
		if err := unix.IoctlLoopSetStatus64(int(f.Fd()), info); err != nil {
			return fmt.Errorf("make loop device %d one of no size: %w", number, err)
		}
	}
	if _, err := ioctl(f, unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("separate loop device %d from its file: %w", number, err)
	}
	return nil
}

// remove removes a device that has no file. One that has got another in the meantime is somebody else's.
func remove(control *os.File, number int) error {
	_, err := ioctl(control, unix.LOOP_CTL_REMOVE, uintptr(number))
	switch {
	case err == nil, errors.Is(err, unix.ENODEV):
		return nil
	case errors.Is(err, unix.EBUSY):
		if _, err := inspect(number); errors.Is(err, errNotDisk) {
			return nil
		}
		held.Store(number, attribute(number, tagAttribute))
		return fmt.Errorf("remove loop device %d: %w", number, ErrInUse)
	}
	return fmt.Errorf("remove loop device %d: %w", number, err)
}

// held has the tags of devices that were released while somebody had them open, by number.
var held sync.Map

// removeHeld removes those of the held devices that nobody has open any more.
func removeHeld() {
	held.Range(func(key, tag any) bool {
		number := key.(int)
		switch attribute(number, tagAttribute) {
		case "":
			held.Delete(number) // before: who opens it in this moment makes it held again
			if control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0); err == nil {
				_ = remove(control, number)
				control.Close()
			}
		case tag: // it still has its file
		default: // somebody else has got the number
			held.Delete(number)
		}
		return true
	})
}

// RemoveAll releases all devices of an owner, for "coracle reset", and returns the disks that they were. It waits a
// moment for processes that have been killed and still have some open.
func RemoveAll(owner string) (removed []Name, err error) {
	deadline := time.Now().Add(10 * time.Second)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		devices, silent, err := list(owner, "")
		if err != nil {
			return removed, err
		}
		var failed error
		if silent > 0 {
			failed = fmt.Errorf("%d loop devices: %w", silent, ErrSilent)
		}
		for _, d := range devices {
			if !d.Pulled {
				removed = append(removed, d.Name)
			}
			failed = errors.Join(failed, Release(d.Number, d.Name))
		}
		if failed == nil || !errors.Is(failed, ErrInUse) || time.Now().After(deadline) {
			return removed, failed
		}
		<-poll.C
	}
}

func ioctl(f *os.File, request, argument uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, argument)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}
