// Package nfs mounts EFS file systems in a machine: the part of the launcher, which outlives the daemon.
//
// A program of the machine calls mount(2) for a file system of type nfs, nfs4 or efs. The kernel asks the launcher
// (package disks), and [Server.Mount] connects to the mount target from the network namespace of that program, as an
// NFS client would. What answers there decides (package mountgrant): another server than one of this daemon's leaves
// the mount to the kernel. No NFS is spoken. The files are on the host already, in a directory for each file system.
//
// A client that may do everything gets that directory as a bind mount, with the machine's users mapped to those of the
// same number (see [ShareMain]). Locks, attributes and content are those of one file system then, for all machines.
// Everybody else gets a file system in user space that serves the directory with the client's restrictions: an access
// point with a user, a root that is nobody, or a client that may only read (package squash). The kernel would let root
// in the machine take all of them back from a bind mount. The process that serves it has the machine's cgroup, is
// confined to the directory and to the user, and ends with the mount or the launcher.
//
// Everything that the machine names is looked up beneath the directory of the file system, whoever changes it
// meanwhile.
package nfs
