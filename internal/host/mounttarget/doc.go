// Package mounttarget answers at the mount targets of EFS file systems.
//
// [Controller] listens in the router of each VPC on the addresses of its mount targets, on port 2049: what gets there
// the security groups of the mount target have let in. It is asked by the launchers of machines (package mountgrant),
// in whose machine somebody mounts a file system. Its answer follows from the records and is good for that mount: which
// directory of the host has the files, and what the client may do with them. Who the client is, and what the policies
// say of it, an Authorizer knows. It is asked about a few mounts of an account at a time.
//
// It reads MountTargets, MountTargetStatuses, and whatever the Authorizer reads, and writes MountTargetListeners.
package mounttarget
