package cloudformation

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// policyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) policyHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.SetStackPolicy, func(
			ctx context.Context, action string, in *cloudformation.SetStackPolicyInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName, func(c conditions) {
				c.set("cloudformation:StackPolicyUrl", in.StackPolicyURL)
			})
		}),
		wire.Handle(s.GetStackPolicy, func(
			ctx context.Context, action string, in *cloudformation.GetStackPolicyInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName)
		}),
		wire.Handle(s.UpdateTerminationProtection, func(
			ctx context.Context, action string, in *cloudformation.UpdateTerminationProtectionInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName)
		}),
	}
}

// modify edits a stack that is not deleted.
func (s *Service) modify(ctx context.Context, name *string, edit func(view, *record.Stack) error) (view, error) {
	var found view
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		v, err := s.getLive(ctx, name)
		if err != nil {
			return nil, err
		}
		found = v
		row := v.row
		if err := edit(v, &row.Value); err != nil {
			return nil, err
		}
		return []store.Op{s.stacks.UpdateOp(row)}, nil
	})
	return found, err
}

// SetStackPolicy gives a stack a policy.
func (s *Service) SetStackPolicy(ctx context.Context, in *cloudformation.SetStackPolicyInput) (
	*cloudformation.SetStackPolicyOutput, error) {
	if err := checkPolicy(in.StackPolicyBody, in.StackPolicyURL); err != nil {
		return nil, err
	}
	if aws.ToString(in.StackPolicyBody) == "" {
		return nil, validation("Either StackPolicyBody or StackPolicyURL must be specified.")
	}
	_, err := s.modify(ctx, in.StackName, func(_ view, stack *record.Stack) error {
		stack.Policy = *in.StackPolicyBody
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &cloudformation.SetStackPolicyOutput{}, nil
}

// GetStackPolicy returns the policy of a stack, if it has one.
func (s *Service) GetStackPolicy(ctx context.Context, in *cloudformation.GetStackPolicyInput) (
	*cloudformation.GetStackPolicyOutput, error) {
	v, err := s.getLive(ctx, in.StackName)
	if err != nil {
		return nil, err
	}
	return &cloudformation.GetStackPolicyOutput{StackPolicyBody: optional(v.Policy)}, nil
}

// UpdateTerminationProtection protects a stack from deletion, or ends that.
func (s *Service) UpdateTerminationProtection(ctx context.Context,
	in *cloudformation.UpdateTerminationProtectionInput) (*cloudformation.UpdateTerminationProtectionOutput, error) {
	v, err := s.modify(ctx, in.StackName, func(v view, stack *record.Stack) error {
		if v.ParentID != "" {
			return validation("Termination protection of the nested stack %s cannot be changed: change that of its root "+
				"stack %s", v.Name, v.RootID)
		}
		if v.status() == "DELETE_IN_PROGRESS" {
			return validation("Stack [%s] cannot be updated while in status %s", v.ARN(), v.status())
		}
		stack.TerminationProtection = aws.ToBool(in.EnableTerminationProtection)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &cloudformation.UpdateTerminationProtectionOutput{StackId: aws.String(v.ARN())}, nil
}
