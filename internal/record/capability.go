package record

import (
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Capability is an EKS capability of a cluster as its owner wants it. Its status is not stored: it follows from this
// record, the [CapabilityState] that was observed, and the update named by LastUpdateID; see [CapabilityStatus].
//
// Writer: internal/aws/eks/capability. Only the record's deletion is the capability controller's, once nothing is left
// of a capability with Deleting set. A cluster that has one cannot be deleted.
// https://docs.aws.amazon.com/eks/latest/userguide/capabilities.html
type Capability struct {
	Account   string
	Region    string
	Cluster   string // its name
	ClusterID string
	Name      string
	ID        string // a UUID, the end of its ARN
	Type      ekstypes.CapabilityType
	CreatedAt time.Time
	// ModifiedAt is the time of the owner's last change.
	ModifiedAt time.Time

	Wanted                  CapabilityConfig
	DeletePropagationPolicy ekstypes.CapabilityDeletePropagationPolicy
	Tags                    map[string]string

	// Change counts the requests that spoke of Wanted, from 1.
	Change int
	// LastUpdateID is the newest Update of the capability, the only one that may be in progress; empty before the first.
	LastUpdateID       string
	ClientRequestToken string
	RequestHash        string
	// Deleting is set by DeleteCapability and never unset.
	Deleting bool
}

// CapabilityConfig is the part of a capability that an update changes.
type CapabilityConfig struct {
	RoleARN string
	// Ack is set for capabilities of type ACK, ArgoCD for those of type ARGOCD.
	Ack    *ekstypes.AckConfigResponse    `json:",omitempty"`
	ArgoCD *ekstypes.ArgoCdConfigResponse `json:",omitempty"`
}

// Now returns what the capability is to be like: Wanted, unless last, the update named by LastUpdateID, has failed.
func (c Capability) Now(last Update) CapabilityConfig {
	if last.ID == c.LastUpdateID && last.PreviousCapability != nil && last.Status == ekstypes.UpdateStatusFailed {
		return *last.PreviousCapability
	}
	return c.Wanted
}

// CapabilityKey returns the key of a capability.
func CapabilityKey(account, region, cluster, name string) string {
	return store.Key(account, region, cluster, name)
}

// Key returns the capability's key.
func (c Capability) Key() string { return CapabilityKey(c.Account, c.Region, c.Cluster, c.Name) }

// ARN returns the capability's Amazon Resource Name.
func (c Capability) ARN() string {
	kind := strings.ToLower(string(c.Type))
	if kind == "" {
		kind = "*"
	}
	return "arn:aws:eks:" + c.Region + ":" + c.Account + ":capability/" + c.Cluster + "/" + kind + "/" + c.Name + "/" +
		c.ID
}

// Capabilities returns the table of capabilities, by CapabilityKey.
func Capabilities(s *store.Store) store.Table[Capability] {
	return store.NewTable[Capability](s, "capabilities")
}

// CapabilityState is the observed state of a capability, and the controller's progress with it.
//
// Writer: internal/controller/capability.
type CapabilityState struct {
	CapabilityID string
	// Change is the newest Change that the controller has carried out.
	Change int
	// Created is set once the capability has been ACTIVE; Failed when its creation was given up. Issues say why.
	Created, Failed bool `json:",omitempty"`
	// BuiltAt is when its program had been built, from which the time for its creation counts.
	BuiltAt time.Time
	// StartingAt is when its program was first not ready, after the capability had been ACTIVE; zero while it is ready.
	StartingAt time.Time `json:",omitzero"`
	// DeleteFailed is set while the deletion does not get on.
	DeleteFailed bool                       `json:",omitempty"`
	Issues       []ekstypes.CapabilityIssue `json:",omitempty"`
	// Version is the version of the program that runs, "v0.9.4".
	Version string `json:",omitempty"`
	// ModifiedAt is the time of the last change of one of the above.
	ModifiedAt time.Time
}

// CapabilityStates returns the table of observed capabilities, by CapabilityKey.
func CapabilityStates(s *store.Store) store.Table[CapabilityState] {
	return store.NewTable[CapabilityState](s, "capability-states")
}

// CapabilityStatus returns the status of a capability; last is its newest update. A state of an earlier capability of
// that name says nothing.
func CapabilityStatus(c Capability, s CapabilityState, last Update) ekstypes.CapabilityStatus {
	if s.CapabilityID != c.ID {
		s = CapabilityState{}
	}
	switch {
	case c.Deleting && s.DeleteFailed:
		return ekstypes.CapabilityStatusDeleteFailed
	case c.Deleting:
		return ekstypes.CapabilityStatusDeleting
	case s.Failed:
		return ekstypes.CapabilityStatusCreateFailed
	case !s.Created:
		return ekstypes.CapabilityStatusCreating
	case last.Status == ekstypes.UpdateStatusInProgress:
		return ekstypes.CapabilityStatusUpdating
	case len(s.Issues) > 0:
		return ekstypes.CapabilityStatusDegraded
	}
	return ekstypes.CapabilityStatusActive
}
