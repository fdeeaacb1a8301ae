package cloudformation

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// view is a stack as its records tell it.
type view struct {
	record.Stack
	row   store.Row[record.Stack]
	state store.Row[record.StackState] // Revision is 0 before the controller has written it
}

// status returns the stack's status.
func (v view) status() types.StackStatus { return record.StackStatus(v.Stack, v.state.Value) }

func (v view) isDeleted() bool { return v.status() == types.StackStatusDeleteComplete }

// isBusy reports whether an operation is under way.
func (v view) isBusy() bool {
	return strings.HasSuffix(string(v.status()), "_IN_PROGRESS") && v.Operation.ID != ""
}

// current returns the key of the revision that describes the stack; empty if it has none.
func (v view) current() string {
	if v.state.Value.OperationID != v.Operation.ID && v.Operation.Revision != "" {
		return v.Operation.Revision
	}
	return v.state.Value.Current
}

// roleARN returns the service role of the stack's last operation, which following ones use unless they name another.
func (v view) roleARN() string { return v.Operation.RoleARN }

func (v view) key() string { return record.StackKey(v.Account, v.Region, v.ID) }

// checkOp demands that the state of the stack has not changed.
func (s *Service) checkState(v view) store.Op {
	if v.state.Revision == 0 {
		return s.states.AbsentOp(v.key())
	}
	return s.states.CheckOp(v.state)
}

// load returns a stack by its key.
func (s *Service) load(ctx context.Context, key string) (view, error) {
	row, err := s.stacks.Copy(ctx, key)
	if err != nil {
		return view{}, err
	}
	v := view{Stack: row.Value, row: row}
	v.state, err = s.states.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return v, nil
	}
	return v, err
}

var stackARN = regexp.MustCompile(`^arn:[a-z-]+:cloudformation:([a-z0-9-]+):([0-9]{12}):stack/([^/]+)/([^/]+)$`)

// keyOf returns the key of the stack that a request names, by its name or its ID.
func (s *Service) keyOf(ctx context.Context, at scope, nameOrID string) (string, error) {
	if m := stackARN.FindStringSubmatch(nameOrID); m != nil {
		if m[1] != at.region || m[2] != at.account {
			return "", store.ErrNotFound
		}
		return record.StackKey(at.account, at.region, m[4]), nil
	}
	row, err := s.names.Get(ctx, record.StackNameKey(at.account, at.region, nameOrID))
	if err != nil {
		return "", err
	}
	return record.StackKey(at.account, at.region, row.Value.ID), nil
}

// find returns a stack by its name, or by its ID, under which deleted stacks are found, too. A stack that does not
// exist is store.ErrNotFound.
func (s *Service) find(ctx context.Context, nameOrID string) (view, error) {
	at := scopeOf(ctx)
	key, err := s.keyOf(ctx, at, nameOrID)
	if err != nil {
		return view{}, err
	}
	v, err := s.load(ctx, key)
	if err != nil {
		return v, err
	}
	isARN := strings.HasPrefix(nameOrID, "arn:")
	if isARN && v.ARN() != nameOrID || !isARN && v.isDeleted() {
		return v, store.ErrNotFound
	}
	return v, nil
}

// get is like find, and returns AWS's error for a stack that does not exist.
func (s *Service) get(ctx context.Context, nameOrID *string) (view, error) {
	v, err := s.find(ctx, aws.ToString(nameOrID))
	if errors.Is(err, store.ErrNotFound) {
		return v, noStack(aws.ToString(nameOrID))
	}
	return v, err
}

// getLive is like get, for operations on stacks that are not deleted.
func (s *Service) getLive(ctx context.Context, nameOrID *string) (view, error) {
	v, err := s.get(ctx, nameOrID)
	if err == nil && v.isDeleted() {
		err = validation("Stack [%s] does not exist", aws.ToString(nameOrID))
	}
	return v, err
}

func noStack(name string) error { return validation("Stack with id %s does not exist", name) }

// revision returns a revision of a stack; the zero revision for an empty ID.
func (s *Service) revision(ctx context.Context, v view, id string) (record.StackRevision, error) {
	if id == "" {
		return record.StackRevision{}, nil
	}
	row, err := s.revisions.Get(ctx, record.StackRevisionKey(v.Account, v.Region, v.ID, id))
	return row.Value, err
}

// show returns a stack as DescribeStacks does.
func (s *Service) show(ctx context.Context, v view) (types.Stack, error) {
	revision, err := s.revision(ctx, v, v.current())
	if err != nil {
		return types.Stack{}, err
	}
	state, op := v.state.Value, v.Operation
	out := types.Stack{
		StackName: aws.String(v.Name), StackId: aws.String(v.ARN()), StackStatus: v.status(),
		CreationTime: aws.Time(v.CreatedAt), Description: optional(revision.Description),
		EnableTerminationProtection: aws.Bool(v.TerminationProtection), RoleARN: optional(op.RoleARN),
		ParentId: optional(v.ParentID), RootId: optional(v.RootID), NotificationARNs: []string{},
		DisableRollback: aws.Bool(op.OnFailure == types.OnFailureDoNothing), Tags: tagList(revision.Tags),
		RollbackConfiguration: &types.RollbackConfiguration{}, DriftInformation: s.driftOf(ctx, v),
	}
	if v.ParentID != "" {
		out.EnableTerminationProtection = nil
	}
	if op.ID != "" && state.OperationID == op.ID {
		out.StackStatusReason = optional(state.Reason)
	}
	if !state.UpdatedAt.IsZero() {
		out.LastUpdatedTime = aws.Time(state.UpdatedAt)
	}
	if !state.DeletedAt.IsZero() {
		out.DeletionTime = aws.Time(state.DeletedAt)
	}
	if op.Timeout > 0 {
		out.TimeoutInMinutes = aws.Int32(int32(op.Timeout.Minutes()))
	}
	if op.ChangeSet != "" {
		out.ChangeSetId = aws.String(op.ChangeSet)
	}
	if op.Kind == record.StackDelete {
		out.DeletionMode = types.DeletionModeStandard
		if op.Force {
			out.DeletionMode = types.DeletionModeForceDeleteStack
		}
	}
	out.RetainExceptOnCreate = aws.Bool(op.RetainExceptOnCreate)
	for _, c := range revision.Capabilities {
		out.Capabilities = append(out.Capabilities, types.Capability(c))
	}
	out.Parameters = parameterList(revision.Parameters)
	for _, o := range state.Outputs {
		out.Outputs = append(out.Outputs, types.Output{OutputKey: aws.String(o.Key), OutputValue: aws.String(o.Value),
			Description: optional(o.Description), ExportName: optional(o.Export)})
	}
	return out, nil
}

func parameterList(parameters []record.StackParameter) []types.Parameter {
	var list []types.Parameter
	for _, p := range parameters {
		value := p.Value
		if p.NoEcho {
			value = revision.Hidden
		}
		shown := types.Parameter{ParameterKey: aws.String(p.Key), ParameterValue: aws.String(value)}
		if p.Resolved != nil && !p.NoEcho {
			shown.ResolvedValue = p.Resolved
		}
		list = append(list, shown)
	}
	return list
}

func tagList(tags map[string]string) []types.Tag {
	list := []types.Tag{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return list
}

// summarize returns a stack as ListStacks does.
func (s *Service) summarize(ctx context.Context, v view) (types.StackSummary, error) {
	revision, err := s.revision(ctx, v, v.current())
	if err != nil {
		return types.StackSummary{}, err
	}
	drift := s.driftOf(ctx, v)
	out := types.StackSummary{
		StackName: aws.String(v.Name), StackId: aws.String(v.ARN()), StackStatus: v.status(),
		CreationTime: aws.Time(v.CreatedAt), TemplateDescription: optional(revision.Description),
		ParentId: optional(v.ParentID), RootId: optional(v.RootID),
		DriftInformation: &types.StackDriftInformationSummary{StackDriftStatus: drift.StackDriftStatus,
			LastCheckTimestamp: drift.LastCheckTimestamp},
	}
	state := v.state.Value
	if state.OperationID == v.Operation.ID {
		out.StackStatusReason = optional(state.Reason)
	}
	if !state.UpdatedAt.IsZero() {
		out.LastUpdatedTime = aws.Time(state.UpdatedAt)
	}
	if !state.DeletedAt.IsZero() {
		out.DeletionTime = aws.Time(state.DeletedAt)
	}
	return out, nil
}
