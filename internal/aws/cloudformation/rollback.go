package cloudformation

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// rollbackHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) rollbackHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.ContinueUpdateRollback, func(
			ctx context.Context, action string, in *cloudformation.ContinueUpdateRollbackInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName, func(c conditions) { c.set("cloudformation:RoleArn", in.RoleARN) })
		}),
		wire.Handle(s.RollbackStack, func(
			ctx context.Context, action string, in *cloudformation.RollbackStackInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName, func(c conditions) { c.set("cloudformation:RoleArn", in.RoleARN) })
		}),
	}
}

// ContinueUpdateRollback goes on with the rollback of an update that failed.
func (s *Service) ContinueUpdateRollback(ctx context.Context, in *cloudformation.ContinueUpdateRollbackInput) (
	*cloudformation.ContinueUpdateRollbackOutput, error) {
	v, err := s.getLive(ctx, in.StackName)
	if err != nil {
		return nil, err
	}
	fingerprint := wire.Fingerprint(in)
	if again, err := s.isRepeated(ctx, in.ClientRequestToken, fingerprint, v, record.StackRollback); again || err != nil {
		return &cloudformation.ContinueUpdateRollbackOutput{}, err
	}
	if v.status() != types.StackStatusUpdateRollbackFailed {
		return nil, validation("Stack:%s is in %s state and can not continue rollback.", v.ARN(), v.status())
	}
	for _, id := range in.ResourcesToSkip {
		row, err := s.resources.Get(ctx, record.StackResourceKey(v.Account, v.Region, v.ID, id))
		if err != nil || !slices.Contains([]types.ResourceStatus{types.ResourceStatusUpdateFailed,
			types.ResourceStatusDeleteFailed, types.ResourceStatusCreateFailed}, row.Value.Status) {
			return nil, validation("The following resources to skip are not in UPDATE_FAILED state: [%s]", id)
		}
	}
	role, err := s.roleFor(ctx, v, in.RoleARN)
	if err != nil {
		return nil, err
	}
	op := s.newOperation(ctx, record.StackRollback, types.StackStatusUpdateRollbackInProgress, in.ClientRequestToken)
	op.Fingerprint, op.RoleARN, op.Retain = fingerprint, role, in.ResourcesToSkip
	if err := s.begin(ctx, v, op, nil); err != nil {
		return nil, err
	}
	return &cloudformation.ContinueUpdateRollbackOutput{}, nil
}

// RollbackStack rolls back a stack whose creation or update failed and that was left as it was.
func (s *Service) RollbackStack(ctx context.Context, in *cloudformation.RollbackStackInput) (
	*cloudformation.RollbackStackOutput, error) {
	v, err := s.getLive(ctx, in.StackName)
	if err != nil {
		return nil, err
	}
	fingerprint := wire.Fingerprint(in)
	if again, err := s.isRepeated(ctx, in.ClientRequestToken, fingerprint, v, record.StackRollback); again || err != nil {
		return &cloudformation.RollbackStackOutput{StackId: aws.String(v.ARN()),
			OperationId: aws.String(v.Operation.ID)}, err
	}
	var status types.StackStatus
	switch v.status() {
	case types.StackStatusCreateFailed:
		status = types.StackStatusRollbackInProgress
	case types.StackStatusUpdateFailed:
		status = types.StackStatusUpdateRollbackInProgress
	default:
		return nil, validation("Stack:%s is in %s state and can not be rolled back.", v.ARN(), v.status())
	}
	role, err := s.roleFor(ctx, v, in.RoleARN)
	if err != nil {
		return nil, err
	}
	op := s.newOperation(ctx, record.StackRollback, status, in.ClientRequestToken)
	op.Fingerprint, op.RoleARN, op.RetainExceptOnCreate = fingerprint, role, aws.ToBool(in.RetainExceptOnCreate)
	if err := s.begin(ctx, v, op, nil); err != nil {
		return nil, err
	}
	return &cloudformation.RollbackStackOutput{StackId: aws.String(v.ARN()), OperationId: aws.String(op.ID)}, nil
}
