//go:build linux

package csidriver

import (
	"os"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	mount "k8s.io/mount-utils"
	"k8s.io/utils/exec"
)

// Mounter mounts what drivers give to pods, by the programs of the image.
type Mounter struct{ *mount.SafeFormatAndMount }

// NewMounter returns a Mounter.
func NewMounter() Mounter {
	return Mounter{mount.NewSafeFormatAndMount(mount.New(""), exec.New())}
}

// MakeDir makes a directory, and those above it.
func (Mounter) MakeDir(path string) error {
	return os.MkdirAll(path, 0o755)
}

// IsMounted reports whether something is mounted at a path. It unmounts what is broken.
func (m Mounter) IsMounted(path string) (bool, error) {
	not, err := m.IsLikelyNotMountPoint(path)
	switch {
	case os.IsNotExist(err):
		return false, nil
	case err == nil:
		return !not, nil
	}
	if _, broken := mount.PathExists(path); broken != nil && mount.IsCorruptedMnt(broken) {
		return false, m.Unmount(path)
	}
	return false, err
}

// MountedDevice returns the device that is mounted, and how many times it is anywhere.
func (m Mounter) MountedDevice(path string) (string, int, error) {
	return mount.GetDeviceNameFromMount(m.SafeFormatAndMount, path)
}

// Unmount unmounts what is mounted, if there is something, and removes the path.
func (m Mounter) Unmount(path string) error {
	err := mount.CleanupMountPoint(path, m.SafeFormatAndMount, false)
	if err != nil && strings.Contains(err.Error(), "not mounted") {
		return nil
	}
	return err
}

// Usage returns how full the file system of a path is.
func (Mounter) Usage(path string) ([]*csi.VolumeUsage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return nil, err
	}
	size := st.Bsize
	blocks := func(n uint64) int64 { return int64(n) * size }
	usage := []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Available: blocks(st.Bavail), Total: blocks(st.Blocks),
		Used: blocks(st.Blocks - min(st.Bfree, st.Blocks))}}
	if st.Files > 0 {
		usage = append(usage, &csi.VolumeUsage{Unit: csi.VolumeUsage_INODES, Available: int64(st.Ffree),
			Total: int64(st.Files), Used: int64(st.Files - min(st.Ffree, st.Files))})
	}
	return usage, nil
}

// MountFlags returns the mount options of a volume: "noatime,ro" is two, which all are to know.
func MountFlags(c *csi.VolumeCapability) (flags []string) {
	for flag := range strings.SplitSeq(strings.Join(c.GetMount().GetMountFlags(), ","), ",") {
		if flag != "" {
			flags = append(flags, flag)
		}
	}
	return flags
}
