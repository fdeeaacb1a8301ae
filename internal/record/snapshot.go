package record

import (
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// Snapshot is an EBS snapshot as its owner wants it.
//
// Writer: internal/aws/ec2.
type Snapshot struct {
	EC2Resource
	VolumeID    string // "vol-ffffffff" for a copy
	VolumeSize  int32  // GiB
	Description string `json:",omitempty"`
	Encrypted   bool   `json:",omitempty"`
	KMSKeyID    string `json:",omitempty"`
	// Source is what it is a copy of (CopySnapshot); nil for that of a volume.
	Source *SnapshotSource `json:",omitempty"`
	// Public and SharedWith are its createVolumePermission: everybody, or these accounts.
	Public     bool     `json:",omitempty"`
	SharedWith []string `json:",omitempty"`
	// Deleted is the time of its deletion: the record goes when the content has gone.
	Deleted time.Time `json:",omitzero"`
}

// SnapshotSource identifies the snapshot that another is a copy of.
type SnapshotSource struct {
	Account    string
	Region     string
	SnapshotID string
}

// Snapshots returns the table of snapshots, by EC2Key.
func Snapshots(s *store.Store) store.Table[Snapshot] { return store.NewTable[Snapshot](s, "snapshots") }

// SnapshotsByContent returns the index of snapshots by the ID of the volume or snapshot whose content they have.
func SnapshotsByContent(s *store.Store) store.Index[Snapshot] {
	return store.NewIndex(Snapshots(s), "content", func(r Snapshot) string {
		if r.Source != nil {
			return r.Source.SnapshotID
		}
		return r.VolumeID
	})
}

// SnapshotDisk is the observed content of a snapshot. No record: nothing was done for it yet.
//
// Writer: internal/host/volume. It deletes the record when neither the content nor the Snapshot record is there.
type SnapshotDisk struct {
	SnapshotID string
	Complete   bool
	Progress   int32  // percent
	Failure    string `json:",omitempty"` // why it has none, and never will: the snapshot is in state error
	UsedBytes  int64  // that its content takes
}

// SnapshotDisks returns the table of observed contents, by EC2Key of the snapshot.
func SnapshotDisks(s *store.Store) store.Table[SnapshotDisk] {
	return store.NewTable[SnapshotDisk](s, "snapshotdisks")
}
