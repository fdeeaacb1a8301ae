package record

import (
	"slices"
	"time"

	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// FileSystem is an EFS file system as its owner wants it.
//
// Its life cycle state follows from the records: deleting once it is Deleted, error or creating as long as its
// [FileSystemContent] says that there is no content, and available otherwise ([FileSystem.State]).
//
// Writer: internal/aws/efs.
type FileSystem struct {
	Account   string
	Region    string
	ID        string // "fs-0123456789abcdef0"
	CreatedAt time.Time
	// CreationToken makes the creation idempotent. Its [FileSystemToken] lives as long as the file system.
	CreationToken   string
	PerformanceMode efstypes.PerformanceMode
	ThroughputMode  efstypes.ThroughputMode
	// ProvisionedThroughput is in MiB/s; 0 unless ThroughputMode is provisioned.
	ProvisionedThroughput float64 `json:",omitempty"`
	// ThroughputChangedAt is when the throughput mode was changed or the provisioned throughput was decreased last.
	ThroughputChangedAt time.Time `json:",omitzero"`
	Encrypted           bool      `json:",omitempty"`
	KMSKeyID            string    `json:",omitempty"` // ARN
	// AvailabilityZone is that of a One Zone file system; empty for a regional one.
	AvailabilityZone string            `json:",omitempty"`
	Tags             map[string]string `json:",omitempty"`
	// Backup is the status of its backup policy, a setting that has no effect.
	Backup bool `json:",omitempty"`
	// OverwriteUnprotected reports that replication may overwrite it.
	OverwriteUnprotected bool                       `json:",omitempty"`
	LifecyclePolicies    []efstypes.LifecyclePolicy `json:",omitempty"`
	// Policy is its file system policy, JSON; empty when there is none.
	Policy string `json:",omitempty"`
	// PolicyIDs are the unique IDs of the users and roles that Policy names, by ARN.
	PolicyIDs map[string]string `json:",omitempty"`
	// MountTargets are the IDs of its mount targets by availability zone, of which each has one at most.
	MountTargets map[string]string `json:",omitempty"`
	// VPCID is the VPC of its mount targets; empty without any.
	VPCID string `json:",omitempty"`
	// Deleted is the time of its deletion: the record goes when the content has gone.
	Deleted time.Time `json:",omitzero"`
}

// FileSystemKey returns the key of a file system.
func FileSystemKey(account, region, id string) string { return store.Key(account, region, id) }

// Key returns the file system's key.
func (f FileSystem) Key() string { return FileSystemKey(f.Account, f.Region, f.ID) }

// FileSystemARN returns the Amazon Resource Name of a file system.
func FileSystemARN(account, region, id string) string {
	return "arn:aws:elasticfilesystem:" + region + ":" + account + ":file-system/" + id
}

// ARN returns the file system's Amazon Resource Name.
func (f FileSystem) ARN() string { return FileSystemARN(f.Account, f.Region, f.ID) }

// State returns the life cycle state of a file system with that content, the zero value when none was recorded.
func (f FileSystem) State(content FileSystemContent) efstypes.LifeCycleState {
	switch {
	case !f.Deleted.IsZero():
		return efstypes.LifeCycleStateDeleting
	case content.Ready:
		return efstypes.LifeCycleStateAvailable
	case content.Failure != "":
		return efstypes.LifeCycleStateError
	}
	return efstypes.LifeCycleStateCreating
}

// MountTargetIDs returns the IDs of the file system's mount targets, sorted.
func (f FileSystem) MountTargetIDs() []string {
	ids := make([]string, 0, len(f.MountTargets))
	for _, id := range f.MountTargets {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// FileSystems returns the table of file systems, by FileSystemKey.
func FileSystems(s *store.Store) store.Table[FileSystem] {
	return store.NewTable[FileSystem](s, "filesystems")
}

// FileSystemToken remembers which file system the request with a creation token created, or which access point that
// with a client token did. It is written in the transaction that creates the resource and deleted in the one that
// deletes it.
//
// Writer: internal/aws/efs.
type FileSystemToken struct{ ResourceID string }

// FileSystemTokenKey returns the key of a token; kind is the prefix of the IDs that it creates ("fs-" or "fsap-").
func FileSystemTokenKey(account, region, kind, token string) string {
	return store.Key(account, region, kind, token)
}

// FileSystemTokens returns the table of tokens, by FileSystemTokenKey.
func FileSystemTokens(s *store.Store) store.Table[FileSystemToken] {
	return store.NewTable[FileSystemToken](s, "filesystemtokens")
}

// FileSystemContent is the observed content of a file system: the directory of [datadir.Dir.FileSystemRoot]. No record:
// nothing was done for it yet.
//
// Writer: internal/controller/filesystem. It deletes the record when neither the directory nor the FileSystem record is
// there.
type FileSystemContent struct {
	FileSystemID string
	Ready        bool // the directory is there, and may be mounted
	// Made reports that the directory was there once: one that is missing then is not made again.
	Made bool
	// Failure explains why the directory could not be made or removed, or is not on this host any more.
	Failure string `json:",omitempty"`
	// Size is what its files take, in bytes. MeasuredAt is when they were first measured to take that.
	Size       int64
	MeasuredAt time.Time `json:",omitzero"`
}

// FileSystemContents returns the table of observed contents, by FileSystemKey.
func FileSystemContents(s *store.Store) store.Table[FileSystemContent] {
	return store.NewTable[FileSystemContent](s, "filesystemcontents")
}

// MountTarget is a mount target of a file system. Its network interface is made and deleted in the transactions that
// make and delete the mount target, and has its security groups ([NetworkInterface]).
//
// Its life cycle state follows from the records: deleting once it is Deleted, else what its [MountTargetStatus] says.
//
// Writer: internal/aws/efs.
type MountTarget struct {
	Account            string // the owner of the file system and of the network interface
	Region             string
	ID                 string // "fsmt-0123456789abcdef0"
	CreatedAt          time.Time
	FileSystemID       string
	VPCID              string
	SubnetID           string
	AvailabilityZone   string // "eu-west-1a"
	NetworkInterfaceID string
	// IPAddress is the IPv4 address of the network interface, which never changes; IPv6Address the IPv6 address.
	IPAddress   string `json:",omitempty"`
	IPv6Address string `json:",omitempty"`
	// Deleted is the time of its deletion: nobody mounts by it from then on. The record goes with the network interface.
	Deleted time.Time `json:",omitzero"`
}

// MountTargetKey returns the key of a mount target.
func MountTargetKey(account, region, id string) string { return store.Key(account, region, id) }

// Key returns the mount target's key.
func (m MountTarget) Key() string { return MountTargetKey(m.Account, m.Region, m.ID) }

// State returns the life cycle state of a mount target with that status, the zero value when none was recorded.
func (m MountTarget) State(status MountTargetStatus) efstypes.LifeCycleState {
	switch {
	case !m.Deleted.IsZero():
		return efstypes.LifeCycleStateDeleting
	case status.Failure != "":
		return efstypes.LifeCycleStateError
	case status.Available:
		return efstypes.LifeCycleStateAvailable
	}
	return efstypes.LifeCycleStateCreating
}

// MountTargets returns the table of mount targets, by MountTargetKey.
func MountTargets(s *store.Store) store.Table[MountTarget] {
	return store.NewTable[MountTarget](s, "mounttargets")
}

// MountTargetsByVPC finds mount targets by the EC2Key of their VPC.
func MountTargetsByVPC(s *store.Store) store.Index[MountTarget] {
	return store.NewIndex(MountTargets(s), "vpc", func(m MountTarget) string {
		return EC2Key(m.Account, m.Region, m.VPCID)
	})
}

// MountTargetStatus is what was observed of a mount target. No record: nothing yet.
//
// Writer: internal/controller/filesystem. It deletes the record when the MountTarget record has gone.
type MountTargetStatus struct {
	MountTargetID string
	Available     bool
	// Failure explains why the file system cannot be mounted by the mount target.
	Failure string `json:",omitempty"`
}

// MountTargetStatuses returns the table of what was observed of mount targets, by MountTargetKey.
func MountTargetStatuses(s *store.Store) store.Table[MountTargetStatus] {
	return store.NewTable[MountTargetStatus](s, "mounttargetstatuses")
}

// MountTargetListener reports whether the host serves mounts by a mount target. No record: not yet.
//
// Writer: internal/host/mounttarget. It deletes the record when the MountTarget record has gone.
type MountTargetListener struct {
	MountTargetID string
	Listening     bool
	// Failure explains why it does not.
	Failure string `json:",omitempty"`
}

// MountTargetListeners returns the table of what serves mounts, by MountTargetKey.
func MountTargetListeners(s *store.Store) store.Table[MountTargetListener] {
	return store.NewTable[MountTargetListener](s, "mounttargetlisteners")
}

// AccessPoint is an access point of a file system. It is available as soon as the record is there.
//
// Writer: internal/aws/efs.
type AccessPoint struct {
	Account      string
	Region       string
	ID           string // "fsap-0123456789abcdef0"
	CreatedAt    time.Time
	FileSystemID string
	// ClientToken makes the creation idempotent. Its [FileSystemToken] lives as long as the access point.
	ClientToken string
	Tags        map[string]string `json:",omitempty"`
	// User is the identity that all access through the access point has; nil for that of the client.
	User *PosixUser `json:",omitempty"`
	// Path is the root directory of the access point in the file system, absolute and clean.
	Path string
	// Creation has what a root directory gets that is not there yet; nil: such a directory is not made, and a mount fails.
	Creation *RootCreation `json:",omitempty"`
}

// PosixUser is a user of a file system, with its groups.
type PosixUser struct {
	UID           uint32
	GID           uint32
	SecondaryGIDs []uint32 `json:",omitempty"`
}

// RootCreation has the owner and the mode of the root directory of an access point.
type RootCreation struct {
	UID  uint32
	GID  uint32
	Mode uint32 // permission bits, with setuid, setgid and sticky: at most 07777
	// Permissions is Mode as the request wrote it: "755" or "0755".
	Permissions string
}

// AccessPointKey returns the key of an access point.
func AccessPointKey(account, region, id string) string { return store.Key(account, region, id) }

// Key returns the access point's key.
func (a AccessPoint) Key() string { return AccessPointKey(a.Account, a.Region, a.ID) }

// AccessPointARN returns the Amazon Resource Name of an access point.
func AccessPointARN(account, region, id string) string {
	return "arn:aws:elasticfilesystem:" + region + ":" + account + ":access-point/" + id
}

// ARN returns the access point's Amazon Resource Name.
func (a AccessPoint) ARN() string { return AccessPointARN(a.Account, a.Region, a.ID) }

// AccessPoints returns the table of access points, by AccessPointKey.
func AccessPoints(s *store.Store) store.Table[AccessPoint] {
	return store.NewTable[AccessPoint](s, "accesspoints")
}

// AccessPointsByFileSystem finds access points by the FileSystemKey of their file system.
func AccessPointsByFileSystem(s *store.Store) store.Index[AccessPoint] {
	return store.NewIndex(AccessPoints(s), "filesystem", func(a AccessPoint) string {
		return FileSystemKey(a.Account, a.Region, a.FileSystemID)
	})
}
