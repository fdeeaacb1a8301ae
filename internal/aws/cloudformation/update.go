package cloudformation

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// updateHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) updateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.UpdateStack, func(
			ctx context.Context, action string, in *cloudformation.UpdateStackInput,
		) ([]wire.Target, error) {
			targets, err := s.onStack(ctx, action, in.StackName, func(c conditions) {
				c.set("cloudformation:RoleArn", in.RoleARN)
				c.set("cloudformation:TemplateUrl", in.TemplateURL)
				c.set("cloudformation:StackPolicyUrl", in.StackPolicyURL)
				c.resourceTypes(in.ResourceTypes)
				c.tags(in.Tags)
			})
			if err == nil && in.Tags != nil {
				tag := targets[0]
				tag.Action = "cloudformation:TagResource"
				targets = append(targets, tag)
			}
			if err == nil && (in.StackPolicyBody != nil || in.StackPolicyDuringUpdateBody != nil) {
				// A stack policy keeps those who may update from updating what it protects.
				// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/protect-stack-resources.html
				policy := targets[0]
				policy.Action = "cloudformation:SetStackPolicy"
				targets = append(targets, policy)
			}
			return targets, err
		}),
		wire.Handle(s.CancelUpdateStack, func(
			ctx context.Context, action string, in *cloudformation.CancelUpdateStackInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName)
		}),
	}
}

// updatable are the statuses in which a stack can be updated.
var updatable = []types.StackStatus{
	types.StackStatusCreateComplete, types.StackStatusUpdateComplete, types.StackStatusUpdateRollbackComplete,
	types.StackStatusImportComplete, types.StackStatusImportRollbackComplete, types.StackStatusCreateFailed,
	types.StackStatusUpdateFailed,
}

// checkUpdatable refuses an update of a stack in a status that does not allow it. eksctl and others know the message.
func checkUpdatable(v view) error {
	if !slices.Contains(updatable, v.status()) {
		return validation("Stack:%s is in %s state and can not be updated.", v.ARN(), v.status())
	}
	return nil
}

// UpdateStack records an update of a stack; the controller changes its resources.
func (s *Service) UpdateStack(ctx context.Context, in *cloudformation.UpdateStackInput) (
	*cloudformation.UpdateStackOutput, error) {
	v, err := s.getLive(ctx, in.StackName)
	if err != nil {
		return nil, err
	}
	fingerprint := wire.Fingerprint(in)
	if again, err := s.isRepeated(ctx, in.ClientRequestToken, fingerprint, v, record.StackUpdate); again || err != nil {
		return &cloudformation.UpdateStackOutput{StackId: aws.String(v.ARN()), OperationId: aws.String(v.Operation.ID)},
			err
	}
	if err := checkUpdatable(v); err != nil {
		return nil, err
	}
	if err := checkPolicy(in.StackPolicyBody, in.StackPolicyURL); err != nil {
		return nil, err
	}
	if err := checkPolicy(in.StackPolicyDuringUpdateBody, in.StackPolicyDuringUpdateURL); err != nil {
		return nil, err
	}
	role, err := s.roleFor(ctx, v, in.RoleARN)
	if err != nil {
		return nil, err
	}
	tags := in.Tags
	if tags != nil {
		tags = own(ctx, tags)
	}
	p, err := s.prepare(ctx, v, wanted{
		body: in.TemplateBody, url: in.TemplateURL, usePrevious: in.UsePreviousTemplate, parameters: in.Parameters,
		capabilities: in.Capabilities, tags: tags, topics: in.NotificationARNs, types: in.ResourceTypes,
		roleARN: role, triggers: in.RollbackConfiguration,
	})
	if err != nil {
		return nil, err
	}
	changes, err := s.hasChanges(ctx, v, p)
	if err != nil {
		return nil, err
	}
	if !changes && v.status() != types.StackStatusCreateFailed && v.status() != types.StackStatusUpdateFailed {
		return nil, validation("No updates are to be performed.")
	}
	op := s.newOperation(ctx, record.StackUpdate, types.StackStatusUpdateInProgress, in.ClientRequestToken)
	op.Fingerprint, op.Revision, op.RoleARN, op.OnFailure = fingerprint, p.id, role, types.OnFailureRollback
	if aws.ToBool(in.DisableRollback) {
		op.OnFailure = types.OnFailureDoNothing
	}
	op.RetainExceptOnCreate = aws.ToBool(in.RetainExceptOnCreate)
	op.PolicyDuringUpdate = aws.ToString(in.StackPolicyDuringUpdateBody)
	if err := s.saveRevision(ctx, v, p); err != nil {
		return nil, err
	}
	err = s.begin(ctx, v, op, func(stack *record.Stack) {
		if in.StackPolicyBody != nil {
			stack.Policy = *in.StackPolicyBody
		}
	})
	if err != nil {
		return nil, err
	}
	return &cloudformation.UpdateStackOutput{StackId: aws.String(v.ARN()), OperationId: aws.String(op.ID)}, nil
}

// roleFor returns the service role of an operation: the one in the request, which the caller must be allowed to pass,
// or that of the last operation, for which they need no permission, as on AWS.
func (s *Service) roleFor(ctx context.Context, v view, asked *string) (string, error) {
	if aws.ToString(asked) == "" {
		return v.roleARN(), nil
	}
	return *asked, s.passRole(ctx, asked, v.ARN())
}

// begin records an operation on a stack that was viewed. It fails if the stack has changed meanwhile.
func (s *Service) begin(ctx context.Context, v view, op record.StackOperation, change func(*record.Stack),
	more ...store.Op) error {
	row := v.row
	row.Value.Operation = op
	if change != nil {
		change(&row.Value)
	}
	began := v
	began.Stack = row.Value
	ops := append([]store.Op{s.stacks.UpdateOp(row), s.checkState(v), s.firstEvent(began)}, more...)
	err := s.store.Txn(ctx, ops...)
	if isLost(err) {
		return validation("Stack:%s was changed by another request at the same time and can not be updated.", v.ARN())
	}
	return err
}

// CancelUpdateStack ends an update, which is then rolled back.
func (s *Service) CancelUpdateStack(ctx context.Context, in *cloudformation.CancelUpdateStackInput) (
	*cloudformation.CancelUpdateStackOutput, error) {
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		v, err := s.getLive(ctx, in.StackName)
		if err != nil {
			return nil, err
		}
		if v.status() != types.StackStatusUpdateInProgress {
			return nil, validation("CancelUpdateStack cannot be called from current stack status")
		}
		row := v.row
		row.Value.Operation.Canceled = true
		return []store.Op{s.stacks.UpdateOp(row), s.checkState(v)}, nil
	})
	if err != nil {
		return nil, err
	}
	return &cloudformation.CancelUpdateStackOutput{}, nil
}
