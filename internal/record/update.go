package record

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Update is an EKS update object: one change of a cluster (or later of a node group or
// add-on) on its way.
//
// Writer: internal/aws/eks creates it InProgress, in the transaction that changes what is
// wanted; the controller that carries it out ends it (Status, Errors) and nobody writes it after.
type Update struct {
	ID        string // a UUID
	Cluster   string // its name
	ClusterID string
	// NodegroupName or AddonName is set when the update is not the cluster's own.
	NodegroupName string
	NodegroupID   string `json:",omitempty"` // of the group that had the name then
	AddonName     string
	AddonID       string `json:",omitempty"` // of the add-on that had the name then
	// CapabilityName and CapabilityID are those of a capability whose update it is.
	CapabilityName string `json:",omitempty"`
	CapabilityID   string `json:",omitempty"`
	Type           ekstypes.UpdateType
	Params         []ekstypes.UpdateParam
	Status         ekstypes.UpdateStatus
	Errors         []ekstypes.ErrorDetail
	CreatedAt      time.Time
	// PreviousVersion is the version that a failed version update or rollback returns to, "1.35".
	PreviousVersion string
	// PreviousTemplate is the template that a failed version update of a node group returns to. With Force, pods that
	// cannot be evicted do not stop the update.
	PreviousTemplate *NodegroupTemplate `json:",omitempty"`
	Force            bool               `json:",omitempty"`
	// PreviousAddon is the configuration that a failed update of an add-on returns to.
	PreviousAddon *AddonConfig `json:",omitempty"`
	// PreviousCapability is the configuration that a failed update of a capability returns to.
	PreviousCapability *CapabilityConfig `json:",omitempty"`
	// ClientRequestToken and RequestHash are of the request that started the update.
	ClientRequestToken string
	RequestHash        string
}

// ChangesVersion reports whether the update is of the minor version of a cluster or a node group: an upgrade, or a
// rollback.
func (u Update) ChangesVersion() bool {
	return u.Type == ekstypes.UpdateTypeVersionUpdate || u.Type == ekstypes.UpdateTypeVersionRollback
}

// UpdateKey returns the key of an update.
func UpdateKey(account, region, cluster, id string) string {
	return store.Key(account, region, cluster, id)
}

// Updates returns the table of updates, by UpdateKey.
func Updates(s *store.Store) store.Table[Update] { return store.NewTable[Update](s, "updates") }
