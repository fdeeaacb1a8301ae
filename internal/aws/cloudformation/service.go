// Package cloudformation serves the AWS CloudFormation API.
//
// A request is checked as a whole before anything is made: the template and its parameters, the properties of each
// resource, capabilities, permissions. It is then recorded: as a revision, which is a template with its parameters and
// tags, and as the operation that the stack is to go through, in its [record.Stack]. The controller
// internal/controller/stack carries the operation out, as a client of the other services with the permissions of the
// caller or of the stack's service role. It writes the state of the stack, its resources and its events, which the
// describe operations show. The status of a stack follows from both: an operation that the controller has not seen yet
// is in progress.
//
// There is no S3 here: templates are in the request, and may have 1 MB.
//
// revision.go checks what a request wants of a stack; view.go finds stacks and shows them; changeset.go and change.go
// have the change sets, waitcondition.go the URLs that wait condition handles are.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/Welcome.html
package cloudformation

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Identity knows the callers, and which roles trust CloudFormation.
type Identity interface {
	Forward(wire.Caller) record.ForwardedSession
	// TrustedRole returns the role that CloudFormation assumes for a stack, an error that says so if it may not.
	TrustedRole(ctx context.Context, roleARN, service, stackARN string) (record.Role, error)
}

// Types tells which resource types the controller can make.
type Types interface {
	// Refused returns the properties of a type that are not supported, and whether the type is served at all.
	Refused(resourceType string) (properties []string, served bool)
	// IsTagged reports whether resources of a type take the tags of stacks.
	IsTagged(resourceType string) bool
}

// Options configures a Service.
type Options struct {
	Store    *store.Store
	Identity Identity
	Types    Types
	// Config returns the SDK's configuration with which CloudFormation acts for a caller, or under a role if it is not
	// empty, for the stack with that ARN.
	Config func(region string, caller record.ForwardedSession, roleARN, stackARN string) aws.Config
	Now    func() time.Time // time.Now unless set
}

// Service serves the CloudFormation API. It is safe for concurrent use.
type Service struct {
	options Options

	store      *store.Store
	stacks     store.Table[record.Stack]
	states     store.Table[record.StackState]
	names      store.Table[record.StackName]
	revisions  store.Table[record.StackRevision]
	templates  store.Table[record.StackTemplate]
	resources  store.Table[record.StackResource]
	events     store.Table[record.StackEvent]
	signals    store.Table[record.StackSignal]
	changeSets store.Table[record.ChangeSet]
	exports    store.Table[record.StackExport]
	imported   store.Table[record.StackImportedValue]
	drifts     store.Table[record.StackDriftDetection]
	now        func() time.Time
}

// New returns the service over the tables of o.Store.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{
		options: o, store: o.Store, stacks: record.Stacks(o.Store), states: record.StackStates(o.Store),
		names: record.StackNames(o.Store), revisions: record.StackRevisions(o.Store),
		templates: record.StackTemplates(o.Store), resources: record.StackResources(o.Store),
		events: record.StackEvents(o.Store), signals: record.StackSignals(o.Store),
		changeSets: record.ChangeSets(o.Store), exports: record.StackExports(o.Store),
		imported: record.StackImportedValues(o.Store), drifts: record.StackDriftDetections(o.Store), now: o.Now,
	}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awscloudformation.html
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.changeSetHandlers(),
		s.createHandlers(),
		s.deleteHandlers(),
		s.describeHandlers(),
		s.driftHandlers(),
		s.policyHandlers(),
		s.resourceHandlers(),
		s.rollbackHandlers(),
		s.signalHandlers(),
		s.templateHandlers(),
		s.typeHandlers(),
		s.updateHandlers(),
	} {
		mux.Register(wire.CloudFormation, handlers...)
	}
}

// Quotas of AWS.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
const (
	maxStacks       = 2000
	maxTags         = 50
	maxBody         = 1 << 20 // bytes of a template
	maxParameters   = 200
	maxParameterSum = 400 << 10 // bytes of all keys and values
	maxChangeSets   = 100       // of a stack
	stackOutputs    = 200
)

// scope is the account and region of a request.
type scope struct{ account, region string }

func scopeOf(ctx context.Context) scope {
	return scope{account: wire.CallerFrom(ctx).Account, region: wire.RegionFrom(ctx)}
}

func (sc scope) prefix() string { return store.Prefix(sc.account, sc.region) }

// timestamp returns now as the API shows it: in UTC, to the millisecond.
func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

func newID() string { return uuid.NewString() }

// maxAttempts ends a write that always loses against others.
const maxAttempts = 50

// retryWrite carries out what attempt asks for, again as long as other writers come between what it read and its write.
func (s *Service) retryWrite(ctx context.Context, attempt func() ([]store.Op, error)) error {
	for range maxAttempts {
		ops, err := attempt()
		if err != nil || len(ops) == 0 {
			return err
		}
		err = s.store.Txn(ctx, ops...)
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return wire.Errorf("OperationInProgressException",
		"Another operation on this stack is in progress: too many requests change it at the same time.")
}

func validation(format string, args ...any) error {
	return wire.Errorf("ValidationError", format, args...)
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
