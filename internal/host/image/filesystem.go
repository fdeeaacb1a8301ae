package image

import (
	"os"
	"path/filepath"
	"slices"
)

// filesystemTools are the programs that make, check, grow and mount file systems of disks.
var filesystemTools = []string{"usr/bin/lsblk", "usr/bin/mount", "usr/bin/umount", "usr/sbin/blkid",
	"usr/sbin/blockdev", "usr/sbin/dumpe2fs", "usr/sbin/e2fsck", "usr/sbin/fsck", "usr/sbin/mke2fs",
	"usr/sbin/mkfs.xfs", "usr/sbin/resize2fs", "usr/sbin/tune2fs", "usr/sbin/xfs_growfs", "usr/sbin/xfs_io",
	"usr/sbin/xfs_repair"}

// filesystemLinks are their other names.
var filesystemLinks = map[string]string{"mkfs.ext3": "mke2fs", "mkfs.ext4": "mke2fs", "fsck.ext3": "e2fsck",
	"fsck.ext4": "e2fsck"}

// filesystemsLayer returns the tools of file systems of the node image whose files are below root.
func filesystemsLayer(root string) ([]entry, error) {
	config, err := os.ReadFile(filepath.Join(root, "etc/mke2fs.conf"))
	if err != nil {
		return nil, err
	}
	entries := []entry{
		{Path: "etc/mke2fs.conf", Content: config},
		{Path: "etc/mtab", Link: "../proc/self/mounts"},
	}
	var programs []string
	for _, path := range filesystemTools {
		source := filepath.Join(root, path)
		entries = append(entries, entry{Path: path, Source: source, Mode: 0o755})
		programs = append(programs, source)
	}
	for name, target := range filesystemLinks {
		entries = append(entries, entry{Path: "usr/sbin/" + name, Link: target})
	}
	libs, err := libraries(root, programs...)
	return slices.Concat(entries, libs), err
}
