package record

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Stack is a CloudFormation stack as its owner wants it: the last operation that was requested. What has become of it
// is in the StackState and the StackResources.
//
// Writer: internal/aws/cloudformation. Only the row's deletion is the controller's (internal/controller/stack), some
// time after the stack is gone.
type Stack struct {
	Account   string
	Region    string
	Name      string
	ID        string // a UUID, part of the ARN
	CreatedAt time.Time

	TerminationProtection bool   `json:",omitempty"`
	Policy                string `json:",omitempty"` // the stack policy, a JSON document
	// ParentID and RootID are the ARNs of the stacks that a nested stack is in.
	ParentID string `json:",omitempty"`
	RootID   string `json:",omitempty"`

	// Operation is the last one that was requested. A stack that has only change sets has none (its ID is empty).
	Operation StackOperation
	// Drift is the ID of the last drift detection.
	Drift string `json:",omitempty"`
}

// ARN returns the stack's Amazon Resource Name, which is its stack ID.
func (s Stack) ARN() string { return StackARN(s.Account, s.Region, s.Name, s.ID) }

// StackARN returns the ARN of a stack.
func StackARN(account, region, name, id string) string {
	return "arn:aws:cloudformation:" + region + ":" + account + ":stack/" + name + "/" + id
}

// StackOperationKind is the kind of an operation on a stack.
type StackOperationKind string

// The kinds of operations. A rollback is one that its owner asks for, after a failure that left the stack as it was.
const (
	StackCreate   StackOperationKind = "CREATE"
	StackUpdate   StackOperationKind = "UPDATE"
	StackImport   StackOperationKind = "IMPORT"
	StackDelete   StackOperationKind = "DELETE"
	StackRollback StackOperationKind = "ROLLBACK"
)

// StackOperation is one operation on a stack.
type StackOperation struct {
	ID          string // a UUID; empty before the first operation
	Kind        StackOperationKind
	Status      types.StackStatus // that the stack has when the operation begins
	StartedAt   time.Time
	Token       string `json:",omitempty"` // ClientRequestToken
	Fingerprint string `json:",omitempty"` // of the request with that token
	// Revision is the one that the stack is to have; empty for deletions and rollbacks.
	Revision string `json:",omitempty"`

	// Caller or RoleARN says with whose permissions the operation acts.
	Caller  ForwardedSession
	RoleARN string `json:",omitempty"`

	OnFailure types.OnFailure `json:",omitempty"`
	Timeout   time.Duration   `json:",omitempty"` // of a creation; 0 without
	// Retain are the logical IDs of resources that a deletion leaves alone, or that a rollback skips.
	Retain               []string `json:",omitempty"`
	Force                bool     `json:",omitempty"` // FORCE_DELETE_STACK
	RetainExceptOnCreate bool     `json:",omitempty"`
	// Imports are the identifiers of resources that exist and become part of the stack, by logical ID.
	Imports map[string]map[string]string `json:",omitempty"`
	// PolicyDuringUpdate replaces the stack policy for the time of an update.
	PolicyDuringUpdate string `json:",omitempty"`
	ChangeSet          string `json:",omitempty"` // the ID of the change set that was executed
	Canceled           bool   `json:",omitempty"` // CancelUpdateStack
}

// StackState is the observed state of a stack.
//
// Writer: internal/controller/stack.
type StackState struct {
	Account     string
	Region      string
	ID          string // of the stack
	OperationID string // that the state is of
	Status      types.StackStatus
	Reason      string `json:",omitempty"`

	// Epoch is the operation that began when all resources were last as a revision has them. What has been done since is
	// what a rollback undoes.
	Epoch string `json:",omitempty"`
	// Revision is the last one that was reached: an update that fails goes back to it.
	Revision string `json:",omitempty"`
	// Current is the revision that DescribeStacks shows: that of the operation, once it has begun.
	Current string        `json:",omitempty"`
	Outputs []StackOutput `json:",omitempty"`
	RoleARN string        `json:",omitempty"` // of the last operation

	CreatedAt time.Time `json:",omitzero"` // when the operation that created the stack began
	UpdatedAt time.Time `json:",omitzero"` // when the last update began
	DeletedAt time.Time `json:",omitzero"`
}

// StackStatus returns the status of a stack: of an operation that the controller has not seen, the one that it begins
// with.
func StackStatus(s Stack, state StackState) types.StackStatus {
	switch {
	case s.Operation.ID == "":
		return types.StackStatusReviewInProgress
	case state.OperationID != s.Operation.ID:
		return s.Operation.Status
	}
	return state.Status
}

// StackOutput is an output of a stack.
type StackOutput struct {
	Key, Value  string
	Description string `json:",omitempty"`
	Export      string `json:",omitempty"`
}

// StackRevision is a template with its parameters and tags, which never changes. The template is in a StackTemplate of
// the same key.
//
// Writer: internal/aws/cloudformation. The controller deletes those that no stack needs.
type StackRevision struct {
	Account      string
	Description  string `json:",omitempty"`
	Parameters   []StackParameter
	Capabilities []string          `json:",omitempty"`
	Types        []string          `json:",omitempty"` // of resources, also of those whose condition does not hold
	AllowedTypes []string          `json:",omitempty"` // that the request named, with wildcards; empty for all
	Topics       []string          `json:",omitempty"` // NotificationARNs
	Tags         map[string]string `json:",omitempty"`
	Transforms   []string          `json:",omitempty"`
	CreatedAt    time.Time
}

// StackParameter is the value of a parameter.
type StackParameter struct {
	Key, Value string
	// Resolved is the value of the SSM parameter that Value names; nil for other parameters.
	Resolved *string `json:",omitempty"`
	// Text is Value with its dynamic references replaced, as they were when the revision was recorded; nil without them.
	Text   *string `json:",omitempty"`
	NoEcho bool    `json:",omitempty"`
}

// StackTemplate is the text of a template.
//
// Writer: internal/aws/cloudformation. The controller deletes those that no stack needs.
type StackTemplate struct {
	Account string
	Body    []byte // compressed with zstd
}

// StackName is the stack that has a name: the last one, which may be deleted.
//
// Writer: internal/aws/cloudformation.
type StackName struct {
	Account string
	ID      string
}

// StackExport is an exported output value. Names are unique in an account and region.
//
// Writer: internal/controller/stack.
type StackExport struct {
	Account, Region, Name string
	StackID               string // a UUID
	StackName             string
	Value                 string
}

// StackImportedValue reports that a stack uses an export.
//
// Writer: internal/controller/stack.
type StackImportedValue struct {
	Account, Region, Name string
	StackID, StackName    string
	OperationID           string // of the stack, in which the value was used last
}

// StackKey returns the key of a stack, and of its StackState.
func StackKey(account, region, id string) string { return store.Key(account, region, id) }

// StackNameKey returns the key of a stack's name.
func StackNameKey(account, region, name string) string { return store.Key(account, region, name) }

// StackRevisionKey returns the key of a revision of a stack, and of its template.
func StackRevisionKey(account, region, stackID, revision string) string {
	return store.Key(account, region, stackID, revision)
}

// StackExportKey returns the key of an export.
func StackExportKey(account, region, name string) string { return store.Key(account, region, name) }

// StackImportedValueKey returns the key of a stack's use of an export.
func StackImportedValueKey(account, region, name, stackID string) string {
	return store.Key(account, region, name, stackID)
}

// Stacks returns the table.
func Stacks(s *store.Store) store.Table[Stack] { return store.NewTable[Stack](s, "stacks") }

// StackStates returns the table.
func StackStates(s *store.Store) store.Table[StackState] {
	return store.NewTable[StackState](s, "stack-states")
}

// StackNames returns the table.
func StackNames(s *store.Store) store.Table[StackName] {
	return store.NewTable[StackName](s, "stack-names")
}

// StackRevisions returns the table.
func StackRevisions(s *store.Store) store.Table[StackRevision] {
	return store.NewTable[StackRevision](s, "stack-revisions")
}

// StackTemplates returns the table.
func StackTemplates(s *store.Store) store.Table[StackTemplate] {
	return store.NewTable[StackTemplate](s, "stack-templates")
}

// StackExports returns the table.
func StackExports(s *store.Store) store.Table[StackExport] {
	return store.NewTable[StackExport](s, "stack-exports")
}

// StackExportsByStack returns the exports by the ID of the stack that has them.
func StackExportsByStack(s *store.Store) store.Index[StackExport] {
	return store.NewIndex(StackExports(s), "stack", func(e StackExport) string { return e.StackID })
}

// StackImportedValuesByStack returns the uses of exports by the ID of the stack that uses them.
func StackImportedValuesByStack(s *store.Store) store.Index[StackImportedValue] {
	return store.NewIndex(StackImportedValues(s), "stack", func(v StackImportedValue) string { return v.StackID })
}

// StackImportedValues returns the table.
func StackImportedValues(s *store.Store) store.Table[StackImportedValue] {
	return store.NewTable[StackImportedValue](s, "stack-imported-values")
}
