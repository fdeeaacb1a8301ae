// Package filesystem has what the EFS API and the hosts of machines share about file systems: the request of an NFS
// client to mount one, and what it may do then.
//
// The package is pure: internal/aws/efs decides about mounts, and internal/host makes them.
package filesystem

import (
	"context"

	"github.com/coracle-eks/coracle/internal/record"
)

// Nobody is the user and the group that root has in a file system where it lacks elasticfilesystem:ClientRootAccess.
const Nobody = 65534

// MountRequest is the request of an NFS client to mount a file system by one of its mount targets. Whether the client
// reaches the mount target is the network's to decide, before.
type MountRequest struct {
	Account       string // of the file system
	Region        string
	FileSystemID  string
	MountTargetID string
	AccessPointID string // empty without an access point
	TLS           bool   // the client asked for encryption in transit
	// Signed is the query of a presigned request with which the client identifies itself (mount option iam), as efs-utils
	// signs it: "Action=Connect&PublicKeyHash=...&X-Amz-Algorithm=...&X-Amz-Signature=...", of GET / with the host
	// FileSystemID for the service elasticfilesystem. It is verified by the authorizer. Empty: the client is anonymous.
	Signed string
}

// MountGrant is what a client may do with a file system that it has mounted.
type MountGrant struct {
	FileSystem record.FileSystem
	// AccessPoint is the one that the request names; nil without one.
	AccessPoint *record.AccessPoint
	ReadOnly    bool // the client lacks elasticfilesystem:ClientWrite
	// SquashRoot reports that root is [Nobody]: the client lacks elasticfilesystem:ClientRootAccess. That goes for the
	// user of an access point as well.
	SquashRoot bool
}

// Authorizer decides about mounts. efs.Service (internal/aws/efs) implements it. What it refuses is a [*RefusedError];
// other errors are failures.
type Authorizer interface {
	AuthorizeMount(ctx context.Context, r MountRequest) (MountGrant, error)
}

// RefusedError reports why a file system is not mounted for a client.
type RefusedError struct {
	// Code is "AccessDenied", "FileSystemNotFound", "AccessPointNotFound", "MountTargetNotFound",
	// "IncorrectFileSystemLifeCycleState", "IncorrectMountTargetState", or the code of a signature that is not valid.
	Code    string
	Message string
}

func (e *RefusedError) Error() string { return e.Code + ": " + e.Message }
