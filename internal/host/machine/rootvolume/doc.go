// Package rootvolume keeps the files of a machine on its root volume: a file system, made once, on the loop device that
// package volume has attached. What the machine writes is bounded by the size of the volume.
//
// The daemon makes the file system and fills it ([Prepare]), and lets it grow with the volume ([Grow]). The launcher of
// the machine mounts it in the machine's mount namespace alone ([Mount]): it is unmounted when the machine ends,
// whatever ends it.
//
// The machine gets no node of the device, so that the host's kernel reads nothing there but what it has written.
//
// The file system is XFS, as on Amazon Linux 2023. It grows while it is mounted, and waits for space instead of failing
// for good when the disk of the host is full. Whether it has been made says its superblock: mkfs.xfs marks it as being
// made until all of it is written. The program is that of the node image, since the host need not have it.
package rootvolume
