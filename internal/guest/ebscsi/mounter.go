//go:build linux

package ebscsi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	mount "k8s.io/mount-utils"
	"k8s.io/utils/exec"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// mounter is what the service of a node does to the node.
type mounter interface {
	// Find returns the device of a volume, which EC2 was told to attach under a name. The name has to be that device.
	Find(name, volume, partition string) (string, error)
	// Has reports whether a path is a device, or is on its file system, by whatever name the device was mounted.
	Has(path, device string) (bool, error)
	MakeDir(path string) error
	MakeFile(path string) error
	// Stat reports whether there is something, and whether it is a block device.
	Stat(path string) (there, block bool, err error)
	IsMounted(path string) (bool, error)
	// MountedDevice returns the device that is mounted, and how many times it is anywhere.
	MountedDevice(path string) (device string, references int, err error)
	Mount(source, target, kind string, options []string) error
	FormatAndMount(source, target, kind string, options, format []string) error
	// Unmount unmounts what is mounted, if there is something, and removes the path.
	Unmount(path string) error
	// Grow makes a file system that is mounted as large as its device. The error is errGrowMounted where the host has no
	// right to.
	Grow(device, path string) error
	GrowIfSmall(device, path string) error
	// GrowUnmounted makes an ext3 or ext4 that is not mounted as large as its device.
	GrowUnmounted(device string) error
	DeviceSize(device string) (int64, error)
	Usage(path string) ([]*csi.VolumeUsage, error)
}

// systemMounter runs the programs of the image.
type systemMounter struct{ csidriver.Mounter }

var (
	devicePattern = regexp.MustCompile(`^/dev/[A-Za-z0-9]+$`)
	serialPattern = regexp.MustCompile(`vol[a-z0-9]+`)
)

// linksByID is where links to the disks of volumes are, which are named by their serial numbers.
const linksByID = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"

// Find follows the link that the volume's ID has on instances with NVMe, and refuses the disk of another volume: a name
// is given to another volume once this one is detached.
func (m systemMounter) Find(name, volume, partition string) (string, error) {
	serial := strings.ReplaceAll(volume, "-", "")
	device, err := findDevice(name, serial, resolveDevice)
	if err != nil {
		return "", err
	}
	out, err := m.Exec.Command("lsblk", "--noheadings", "--ascii", "--nodeps", "--output", "SERIAL", "--",
		device).CombinedOutput()
	if err == nil {
		for _, is := range serialPattern.FindAllString(string(out), -1) {
			if is != serial {
				return "", fmt.Errorf("refusing to mount %s because it claims to be %s but should be %s", device, is, serial)
			}
		}
	}
	if partition != "" && strings.HasPrefix(device, "/dev/nvme") {
		partition = "p" + partition
	}
	return device + partition, nil
}

// findDevice returns the device that the link of a serial number leads to, which has to be the one of the name.
func findDevice(name, serial string, resolve func(path string) (device string, number uint64, err error)) (
	string, error) {
	device, number, err := resolve(linksByID + serial)
	if err != nil {
		return "", fmt.Errorf("find the device of %s: %w", serial, err)
	}
	if !devicePattern.MatchString(device) {
		return "", fmt.Errorf("refusing to mount %s because it does not appear to be a valid device", device)
	}
	_, named, err := resolve(name)
	if err != nil {
		return "", fmt.Errorf("find the device %s of %s: %w", name, serial, err)
	}
	if named != number {
		return "", fmt.Errorf("refusing to mount %s because %s is the device %s and not %s", name, serial, device, name)
	}
	return device, nil
}

// resolveDevice follows the links of a path, and returns the block device and its number.
func resolveDevice(path string) (device string, number uint64, err error) {
	if device, err = filepath.EvalSymlinks(path); err != nil {
		return "", 0, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(device, &st); err != nil {
		return "", 0, &os.PathError{Op: "lstat", Path: device, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", 0, fmt.Errorf("%s is no block device", path)
	}
	return device, st.Rdev, nil
}

func (systemMounter) Has(path, device string) (bool, error) {
	_, number, err := resolveDevice(device)
	if err != nil {
		return false, err
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		return st.Rdev == number, nil
	}
	return st.Dev == number, nil
}

func (systemMounter) MakeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func (systemMounter) Stat(path string) (there, block bool, err error) {
	var st unix.Stat_t
	err = unix.Stat(path, &st)
	if errors.Is(err, unix.ENOENT) {
		return false, false, nil
	}
	return true, st.Mode&unix.S_IFMT == unix.S_IFBLK, err
}

func (m systemMounter) FormatAndMount(source, target, kind string, options, format []string) error {
	return m.FormatAndMountSensitiveWithFormatOptions(source, target, kind, options, nil, format)
}

// errGrowMounted is the error of a file system that cannot grow while it is mounted.
var errGrowMounted = errors.New("ext3 and ext4 grow while they are mounted only where root of the host has " +
	"CAP_SYS_RESOURCE; delete the pods that use the volume, and it grows before it is mounted again")

func (m systemMounter) Grow(device, path string) error {
	_, err := mount.NewResizeFs(m.Exec).Resize(device, path)
	if err != nil && strings.Contains(err.Error(), "Permission denied to resize filesystem") { // of resize2fs
		return fmt.Errorf("%w: %w", errGrowMounted, err)
	}
	return err
}

func (m systemMounter) GrowIfSmall(device, path string) error {
	small, err := mount.NewResizeFs(m.Exec).NeedResize(device, path)
	if err != nil || !small {
		return err
	}
	return m.Grow(device, path)
}

// GrowUnmounted checks the file system first, without which resize2fs does nothing.
func (m systemMounter) GrowUnmounted(device string) error {
	const corrected = 1 // an exit status
	out, err := m.Exec.Command("e2fsck", "-f", "-p", device).CombinedOutput()
	var exit exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitStatus() != corrected) {
		return fmt.Errorf("e2fsck -f -p %s: %w: %s", device, err, out)
	}
	if out, err := m.Exec.Command("resize2fs", device).CombinedOutput(); err != nil {
		return fmt.Errorf("resize2fs %s: %w: %s", device, err, out)
	}
	return nil
}

func (m systemMounter) DeviceSize(device string) (int64, error) {
	out, err := m.Exec.Command("blockdev", "--getsize64", device).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("blockdev --getsize64 %s: %w: %s", device, err, out)
	}
	return strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
}
