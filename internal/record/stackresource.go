package record

import (
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// StackResource is a resource of a stack.
//
// Writer: internal/controller/stack.
type StackResource struct {
	Account   string
	Region    string
	StackID   string // a UUID
	LogicalID string
	Type      string // "AWS::EC2::VPC"

	Status    types.ResourceStatus
	Reason    string `json:",omitempty"`
	UpdatedAt time.Time

	// Live is the resource that has the logical ID; nil before it is created and after it is deleted.
	Live *StackPhysical `json:",omitempty"`
	// Before is the value of Live when the epoch Touched began, for a rollback; nil if there was none.
	Before  *StackPhysical `json:",omitempty"`
	Touched string         `json:",omitempty"`
	// Failed is the operation in which the last change of the resource failed.
	Failed string `json:",omitempty"`
	// Old are resources that others have replaced, and that are not deleted yet.
	Old []StackPhysical `json:",omitempty"`
	// Work is the change that is under way.
	Work *StackWork `json:",omitempty"`

	Drift *StackResourceDrift `json:",omitempty"`
}

// StackPhysical is a resource of AWS.
type StackPhysical struct {
	PhysicalID string
	Type       string
	Name       string            `json:",omitempty"` // that was generated for it
	Ref        string            `json:",omitempty"` // if it is not the PhysicalID
	Attributes json.RawMessage   `json:",omitempty"`
	Properties json.RawMessage   `json:",omitempty"` // as they were applied
	Metadata   json.RawMessage   `json:",omitempty"`
	Tags       map[string]string `json:",omitempty"` // of the stack, as they were applied
	DependsOn  []string          `json:",omitempty"` // logical IDs

	DeletionPolicy      string `json:",omitempty"`
	UpdateReplacePolicy string `json:",omitempty"`
	CreatedIn           string `json:",omitempty"` // the operation
	// Broken is set for a resource that was not made completely, Creation is the progress of its creation, and OnDelete
	// in StackResource.Old the policy of its deletion.
	Broken   bool              `json:",omitempty"`
	Creation map[string]string `json:",omitempty"`
	OnDelete string            `json:",omitempty"`
}

// ID returns what Ref returns.
func (p StackPhysical) ID() string {
	if p.Ref != "" {
		return p.Ref
	}
	return p.PhysicalID
}

// StackAction is an action on a resource.
type StackAction string

// The actions.
const (
	ResourceCreate StackAction = "Create"
	ResourceUpdate StackAction = "Update"
	ResourceDelete StackAction = "Delete"
	ResourceImport StackAction = "Import"
)

// StackWork is a change of a resource by its handler, which may be called several times.
type StackWork struct {
	OperationID string
	Action      StackAction
	// Target is the desired state of the resource; for a deletion, the resource that is deleted.
	Target StackPhysical
	// Replaces reports that Target, once created, replaces Live.
	Replaces bool              `json:",omitempty"`
	Token    string            // of the client
	Progress map[string]string `json:",omitempty"`
	Since    time.Time
	// Failing is why the last call of the handler failed, which is made again; empty if it did not.
	Failing string `json:",omitempty"`
	// Policy is the state of a CreationPolicy or UpdatePolicy that follows the handler's work.
	Stable bool              `json:",omitempty"` // the handler is done
	Policy map[string]string `json:",omitempty"`
}

// StackResourceDrift is the difference between a resource and its configuration in the stack.
type StackResourceDrift struct {
	Status      types.StackResourceDriftStatus
	CheckedAt   time.Time
	Actual      json.RawMessage           `json:",omitempty"` // properties
	Expected    json.RawMessage           `json:",omitempty"`
	Differences []StackPropertyDifference `json:",omitempty"`
}

// StackPropertyDifference is one property that differs.
type StackPropertyDifference struct {
	Path             string
	Expected, Actual string
	Type             types.DifferenceType
}

// StackSignal is a signal that a resource waits for: of SignalResource, or to a wait condition handle.
//
// Writer: internal/aws/cloudformation. The controller deletes those of a resource that is created, updated or deleted.
type StackSignal struct {
	Account  string
	UniqueID string
	Success  bool
	Reason   string `json:",omitempty"`
	Data     string `json:",omitempty"`
	At       time.Time
}

// StackEvent is an event of a stack. Rows are written once.
//
// Writers: internal/aws/cloudformation writes the event with which an operation begins, internal/controller/stack all
// others, and deletes old ones.
type StackEvent struct {
	Account    string
	ID         string // unique in the stack
	LogicalID  string
	PhysicalID string
	Type       string
	Status     types.ResourceStatus
	Reason     string          `json:",omitempty"`
	Token      string          `json:",omitempty"` // the ClientRequestToken of the operation
	Properties json.RawMessage `json:",omitempty"`
	At         time.Time
}

// ChangeSet is a change set.
//
// Writer: internal/aws/cloudformation, except for Outcome. The controller deletes those of a stack that goes.
type ChangeSet struct {
	Account     string
	Region      string
	StackID     string // a UUID
	StackName   string
	ID          string // a UUID
	Name        string
	Type        types.ChangeSetType
	Description string `json:",omitempty"`
	CreatedAt   time.Time
	Token       string `json:",omitempty"`

	Status       types.ChangeSetStatus
	StatusReason string                `json:",omitempty"`
	Execution    types.ExecutionStatus // before the change set is executed
	OperationID  string                `json:",omitempty"` // that executes it
	// After is the operation of the stack that was the last one when the change set was prepared: after another one it
	// is obsolete. "none" for a stack without any; empty for change sets of earlier versions, which go by CreatedAt.
	After string `json:",omitempty"`

	Revision       string
	RoleARN        string                       `json:",omitempty"`
	OnStackFailure types.OnStackFailure         `json:",omitempty"`
	Imports        map[string]map[string]string `json:",omitempty"`
	// Changes are []types.Change as JSON, compressed with zstd.
	Changes []byte `json:",omitempty"`
}

// ARN returns the change set's Amazon Resource Name, which is its ID.
func (c ChangeSet) ARN() string {
	return "arn:aws:cloudformation:" + c.Region + ":" + c.Account + ":changeSet/" + c.Name + "/" + c.ID
}

// StackDriftDetection is a detection of drift.
//
// Writers: internal/aws/cloudformation creates it, internal/controller/stack completes it.
type StackDriftDetection struct {
	Account    string
	Region     string
	StackID    string // a UUID
	ID         string
	LogicalIDs []string `json:",omitempty"` // empty: all
	Caller     ForwardedSession
	RoleARN    string `json:",omitempty"`
	StartedAt  time.Time

	Status      types.StackDriftDetectionStatus
	Reason      string                 `json:",omitempty"`
	StackStatus types.StackDriftStatus `json:",omitempty"`
	Drifted     int32
}

// StackResourceKey returns the key of a resource of a stack.
func StackResourceKey(account, region, stackID, logicalID string) string {
	return store.Key(account, region, stackID, logicalID)
}

// StackSignalKey returns the key of a signal.
func StackSignalKey(account, region, stackID, logicalID, uniqueID string) string {
	return store.Key(account, region, stackID, logicalID, uniqueID)
}

// StackEventKey returns the key of an event: events sort by their time.
func StackEventKey(account, region, stackID string, at time.Time, id string) string {
	return store.Key(account, region, stackID, at.UTC().Format("20060102150405.000000000"), id)
}

// ChangeSetKey returns the key of a change set.
func ChangeSetKey(account, region, stackID, name string) string {
	return store.Key(account, region, stackID, name)
}

// StackDriftDetectionKey returns the key of a detection of drift.
func StackDriftDetectionKey(account, region, id string) string { return store.Key(account, region, id) }

// StackResources returns the table.
func StackResources(s *store.Store) store.Table[StackResource] {
	return store.NewTable[StackResource](s, "stack-resources")
}

// StackSignals returns the table.
func StackSignals(s *store.Store) store.Table[StackSignal] {
	return store.NewTable[StackSignal](s, "stack-signals")
}

// StackEvents returns the table.
func StackEvents(s *store.Store) store.Table[StackEvent] {
	return store.NewTable[StackEvent](s, "stack-events")
}

// ChangeSets returns the table.
func ChangeSets(s *store.Store) store.Table[ChangeSet] {
	return store.NewTable[ChangeSet](s, "change-sets")
}

// StackDriftDetections returns the table.
func StackDriftDetections(s *store.Store) store.Table[StackDriftDetection] {
	return store.NewTable[StackDriftDetection](s, "stack-drift-detections")
}
