// Package disks gives a machine its EBS volumes: the part of the launcher, which outlives the daemon (package launch),
// and how the daemon tells it (package volume).
//
// The daemon writes a [Table] beside the machine, and asks the launcher to [Apply] it over a socket. The launcher
// reads the same table at each boot. A disk is a loop device of the host; the machine has its node in /dev, and its
// cgroup may open that number. Whatever the table says, the launcher asks the kernel whose disk a number is
// (loopdevice.Check) before it gives it to anybody.
//
// What the launcher does where the machine's root decides about mounts and paths, it does by descriptors that it has
// checked, and for a bounded time. Mounts are looked for by a process of its own (see HolderMain), which also holds
// writes of a file system for a snapshot: it ends the hold when the launcher ends or a minute has passed, the launcher
// does when that process was killed, and releasing the device does when both were.
//
// # System calls of machines
//
// The kernel lets only the host's root mount ext4 and XFS. A machine in a user namespace therefore has a filter of
// system calls that asks the launcher (seccomp_unotify(2), package confine): it makes mount(2) and a few requests of
// ioctl(2) for the machine, where they are about a disk of that machine, and lets the kernel decide everything else as
// if it had not been asked. fsopen(2) of these file systems does not exist for machines: programs use mount(2) then.
//
// What the caller names is looked up once, in the caller's own root, and held by its descriptor. Arguments are read
// once. The mount is made by a process of its own (see HelperMain) from a device node of its own, in a mount namespace
// in which there is nothing else, and in a cgroup that may open what the machine may: a file system that names an
// external journal does not get the disk of another machine. Mount options are those of a list. IDs are mapped as those
// of all files of the machine.
//
// Mounts of network file systems (EFS) come the same way. They are made by a [Remote], package nfs.
package disks
