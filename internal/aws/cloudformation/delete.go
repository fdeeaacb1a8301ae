package cloudformation

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// deleteHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) deleteHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DeleteStack, func(
			ctx context.Context, action string, in *cloudformation.DeleteStackInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName, func(c conditions) { c.set("cloudformation:RoleArn", in.RoleARN) })
		}),
	}
}

func isLost(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExists)
}

// DeleteStack records the deletion of a stack; the controller deletes its resources. A stack that does not exist, or is
// being deleted, is no error.
func (s *Service) DeleteStack(ctx context.Context, in *cloudformation.DeleteStackInput) (
	*cloudformation.DeleteStackOutput, error) {
	out := &cloudformation.DeleteStackOutput{}
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		v, err := s.find(ctx, aws.ToString(in.StackName))
		if errors.Is(err, store.ErrNotFound) || err == nil && v.isDeleted() {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if err := s.checkDeletion(ctx, v, in); err != nil {
			return nil, err
		}
		if v.status() == types.StackStatusDeleteInProgress {
			return nil, nil
		}
		role, err := s.roleFor(ctx, v, in.RoleARN)
		if err != nil {
			return nil, err
		}
		op := s.newOperation(ctx, record.StackDelete, types.StackStatusDeleteInProgress, in.ClientRequestToken)
		op.RoleARN, op.Retain = role, in.RetainResources
		op.Force = in.DeletionMode == types.DeletionModeForceDeleteStack
		row := v.row
		row.Value.Operation = op
		began := v
		began.Stack = row.Value
		return []store.Op{s.stacks.UpdateOp(row), s.checkState(v), s.firstEvent(began)}, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkDeletion refuses the deletion of a stack that is protected, in use or not in a status for it.
func (s *Service) checkDeletion(ctx context.Context, v view, in *cloudformation.DeleteStackInput) error {
	status := v.status()
	switch {
	case v.isProtected(ctx, s):
		return validation("Stack [%s] cannot be deleted while TerminationProtection is enabled", v.Name)
	case status == types.StackStatusUpdateInProgress || strings.HasSuffix(string(status), "CLEANUP_IN_PROGRESS") ||
		status == types.StackStatusUpdateRollbackInProgress:
		return validation("Stack [%s] cannot be deleted while in status %s", v.ARN(), status)
	case len(in.RetainResources) > 0 && status != types.StackStatusDeleteFailed:
		return validation("Invalid operation on stack [%s]. Specify RetainResources only when the stack is in the "+
			"DELETE_FAILED state", v.ARN())
	case in.DeletionMode == types.DeletionModeForceDeleteStack && status != types.StackStatusDeleteFailed:
		return validation("Invalid operation on stack [%s]. FORCE_DELETE_STACK is valid only when the stack is in the "+
			"DELETE_FAILED state", v.ARN())
	}
	for _, id := range in.RetainResources {
		if _, err := s.resources.Get(ctx, record.StackResourceKey(v.Account, v.Region, v.ID, id)); err != nil {
			if errors.Is(err, store.ErrNotFound) {
				return validation("The following resources do not belong to stack %s: [%s]", v.Name, id)
			}
			return err
		}
	}
	return s.checkExports(ctx, v)
}

// isProtected reports whether the stack, or the one that it is nested in, is protected from deletion.
func (v view) isProtected(ctx context.Context, s *Service) bool {
	if v.RootID == "" || wire.CalledVia(ctx) == wire.CloudFormationPrincipal {
		return v.TerminationProtection
	}
	root, err := s.find(ctx, v.RootID)
	return err == nil && root.TerminationProtection
}

// checkExports refuses the deletion of a stack whose exports others use.
func (s *Service) checkExports(ctx context.Context, v view) error {
	for _, o := range v.state.Value.Outputs {
		if o.Export == "" {
			continue
		}
		users, err := s.usersOf(ctx, v.Stack, o.Export)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return validation("Export %s cannot be deleted as it is in use by %s", o.Export, strings.Join(users, " and "))
		}
	}
	return nil
}

// usersOf returns the names of the other stacks that use an export.
func (s *Service) usersOf(ctx context.Context, of record.Stack, export string) ([]string, error) {
	rows, err := s.imported.List(ctx, store.Prefix(of.Account, of.Region, export))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, row := range rows {
		if row.Value.StackID != of.ID {
			names = append(names, row.Value.StackName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
