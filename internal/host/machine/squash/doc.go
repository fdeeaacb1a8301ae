// Package squash serves a directory of the host to a machine as a file system in user space (FUSE), with other rights
// than the machine's users have: all of them are the user of an EFS access point, root is nobody, or nobody may write.
//
// [Main] is a process for each mount, which its starter has confined before (package nfs): the directory is its root,
// it has no capabilities but those for files and users, and no new privileges. On files it acts as the user of the
// access point, or as whoever makes a request. It ends when the directory is deleted.
//
// A file is known by a descriptor that stays open as long as the kernel of the machine remembers it, and never by a
// path. Other machines may rename, link and replace files and directories of the same file system at any moment, which
// changes names and leads nowhere else. Nothing of a file is cached, neither its attributes nor its name, so that what
// one machine has closed another one opens. Content is cached between the opening of a file and the next.
//
// Locks are those of the host's files: a lock of an owner is held by a descriptor of its own, so that the processes of
// a machine exclude each other, as they do those of other machines and of mounts without this package.
package squash
