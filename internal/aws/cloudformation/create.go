package cloudformation

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/cloudformation/stackpolicy"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// createHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) createHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateStack, func(
			ctx context.Context, action string, in *cloudformation.CreateStackInput,
		) ([]wire.Target, error) {
			targets, err := s.onStack(ctx, action, in.StackName, func(c conditions) {
				c.set("cloudformation:RoleArn", in.RoleARN)
				c.set("cloudformation:TemplateUrl", in.TemplateURL)
				c.set("cloudformation:StackPolicyUrl", in.StackPolicyURL)
				c.resourceTypes(in.ResourceTypes)
				c.tags(in.Tags)
			})
			if err == nil && len(in.Tags) > 0 {
				tag := targets[0]
				tag.Action = "cloudformation:TagResource"
				targets = append(targets, tag)
			}
			return targets, err
		}),
	}
}

var stackName = regexp.MustCompile(`^[a-zA-Z][-a-zA-Z0-9]*$`)

func checkStackName(name string) error {
	const constraint = "1 validation error detected: Value '%s' at 'stackName' failed to satisfy constraint: Member must "
	switch {
	case len(name) > 128:
		return validation(constraint+"have length less than or equal to 128", name)
	case !stackName.MatchString(name):
		return validation(constraint+"satisfy regular expression pattern: [a-zA-Z][-a-zA-Z0-9]*", name)
	}
	return nil
}

// CreateStack records a stack and its creation; the controller makes its resources.
func (s *Service) CreateStack(ctx context.Context, in *cloudformation.CreateStackInput) (
	*cloudformation.CreateStackOutput, error) {
	name := aws.ToString(in.StackName)
	if err := checkStackName(name); err != nil {
		return nil, err
	}
	fingerprint := wire.Fingerprint(in)
	if v, err := s.find(ctx, name); err == nil && v.Operation.ID != "" {
		if again, err := s.isRepeated(ctx, in.ClientRequestToken, fingerprint, v, record.StackCreate); again || err != nil {
			return &cloudformation.CreateStackOutput{StackId: aws.String(v.ARN()),
				OperationId: aws.String(v.Operation.ID)}, err
		}
		return nil, alreadyExists(name)
	}
	at := scopeOf(ctx)
	if s.countStacks(ctx, at) >= maxStacks {
		return nil, limitExceeded("Limit for stack has been exceeded")
	}
	onFailure, err := failureMode(in.OnFailure, in.DisableRollback)
	if err != nil {
		return nil, err
	}
	if err := checkPolicy(in.StackPolicyBody, in.StackPolicyURL); err != nil {
		return nil, err
	}
	if in.TimeoutInMinutes != nil && *in.TimeoutInMinutes < 1 {
		return nil, validation("1 validation error detected: Value '%d' at 'timeoutInMinutes' failed to satisfy "+
			"constraint: Member must have value greater than or equal to 1", *in.TimeoutInMinutes)
	}
	v := view{Stack: record.Stack{
		Account: at.account, Region: at.region, Name: name, ID: newID(), CreatedAt: s.timestamp(),
		TerminationProtection: aws.ToBool(in.EnableTerminationProtection), Policy: aws.ToString(in.StackPolicyBody),
	}}
	if err := s.passRole(ctx, in.RoleARN, v.ARN()); err != nil {
		return nil, err
	}
	if err := s.adopt(ctx, &v, in.Tags); err != nil {
		return nil, err
	}
	tags := in.Tags
	if tags == nil {
		tags = []types.Tag{}
	}
	p, err := s.prepare(ctx, v, wanted{
		body: in.TemplateBody, url: in.TemplateURL, parameters: in.Parameters, capabilities: in.Capabilities,
		tags: own(ctx, tags), topics: in.NotificationARNs, types: in.ResourceTypes, roleARN: aws.ToString(in.RoleARN),
		triggers: in.RollbackConfiguration,
	})
	if err != nil {
		return nil, err
	}
	v.Operation = s.newOperation(ctx, record.StackCreate, types.StackStatusCreateInProgress, in.ClientRequestToken)
	op := &v.Operation
	op.Fingerprint, op.Revision, op.RoleARN, op.OnFailure = fingerprint, p.id, aws.ToString(in.RoleARN), onFailure
	op.Timeout = time.Duration(aws.ToInt32(in.TimeoutInMinutes)) * time.Minute
	op.RetainExceptOnCreate = aws.ToBool(in.RetainExceptOnCreate)
	if err := s.saveRevision(ctx, v, p); err != nil {
		return nil, err
	}
	if err := s.recordNew(ctx, v); err != nil {
		return nil, err
	}
	return &cloudformation.CreateStackOutput{StackId: aws.String(v.ARN()), OperationId: aws.String(op.ID)}, nil
}

// recordNew records a new stack under its name.
func (s *Service) recordNew(ctx context.Context, v view) error {
	at := scope{v.Account, v.Region}
	nameKey := record.StackNameKey(at.account, at.region, v.Name)
	return s.retryWrite(ctx, func() ([]store.Op, error) {
		ops := []store.Op{s.stacks.CreateOp(v.key(), v.Stack)}
		named := record.StackName{Account: v.Account, ID: v.ID}
		row, err := s.names.Get(ctx, nameKey)
		switch {
		case errors.Is(err, store.ErrNotFound):
			ops = append(ops, s.names.CreateOp(nameKey, named))
		case err != nil:
			return nil, err
		default:
			other, err := s.load(ctx, record.StackKey(at.account, at.region, row.Value.ID))
			if err == nil && !other.isDeleted() {
				return nil, alreadyExists(v.Name)
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
			row.Value = named
			ops = append(ops, s.names.UpdateOp(row))
		}
		if v.Operation.ID != "" {
			ops = append(ops, s.firstEvent(v))
		}
		return ops, nil
	})
}

// firstEvent returns the event with which an operation begins.
func (s *Service) firstEvent(v view) store.Op {
	op := v.Operation
	e := record.StackEvent{Account: v.Account, ID: newID(), LogicalID: v.Name, PhysicalID: v.ARN(),
		Type: "AWS::CloudFormation::Stack", Status: types.ResourceStatus(op.Status), Reason: "User Initiated",
		Token: op.Token, At: s.now().UTC()}
	return s.events.CreateOp(record.StackEventKey(v.Account, v.Region, v.ID, e.At, e.ID), e)
}

// newOperation returns an operation of the caller.
func (s *Service) newOperation(ctx context.Context, kind record.StackOperationKind, status types.StackStatus,
	token *string) record.StackOperation {
	return record.StackOperation{ID: newID(), Kind: kind, Status: status, StartedAt: s.timestamp(),
		Token: aws.ToString(token), Caller: s.options.Identity.Forward(wire.CallerFrom(ctx))}
}

// isRepeated reports whether a request is another attempt of the operation that a stack is in, or was last.
func (s *Service) isRepeated(ctx context.Context, token *string, fingerprint string, v view,
	kind record.StackOperationKind) (bool, error) {
	if v.Operation.Kind != kind {
		return false, nil
	}
	return wire.Repeated(ctx, token, fingerprint, v.Operation.Token, v.Operation.Fingerprint)
}

func (s *Service) countStacks(ctx context.Context, at scope) int {
	rows, err := s.names.List(ctx, at.prefix())
	if err != nil {
		return 0
	}
	n := 0
	for _, row := range rows {
		if v, err := s.load(ctx, record.StackKey(at.account, at.region, row.Value.ID)); err == nil && !v.isDeleted() {
			n++
		}
	}
	return n
}

// failureMode returns what happens when a creation fails.
func failureMode(mode types.OnFailure, disableRollback *bool) (types.OnFailure, error) {
	switch {
	case mode != "" && disableRollback != nil:
		return "", validation("You may not specify both OnFailure and DisableRollback")
	case aws.ToBool(disableRollback):
		return types.OnFailureDoNothing, nil
	case mode == "":
		return types.OnFailureRollback, nil
	}
	return mode, nil
}

// checkPolicy refuses a stack policy that is none.
func checkPolicy(body, url *string) error {
	if aws.ToString(url) != "" {
		return validation("A stack policy by its URL is not supported by coracle, which has no Amazon S3: pass its text")
	}
	if len(aws.ToString(body)) > stackpolicy.MaxSize {
		return validation("The stack policy must have at most %d bytes", stackpolicy.MaxSize)
	}
	if _, err := stackpolicy.Parse(aws.ToString(body)); err != nil {
		return validation("Error validating stack policy: Invalid stack policy: %v", err)
	}
	return nil
}

// adopt records the parent of a nested stack, which CloudFormation itself creates: its tags name the parent.
func (s *Service) adopt(ctx context.Context, v *view, tags []types.Tag) error {
	if wire.CalledVia(ctx) != wire.CloudFormationPrincipal {
		return nil
	}
	for _, t := range tags {
		if aws.ToString(t.Key) != "aws:cloudformation:stack-id" {
			continue
		}
		parent, err := s.get(ctx, t.Value)
		if err != nil {
			return err
		}
		v.ParentID, v.RootID = parent.ARN(), parent.RootID
		if v.RootID == "" {
			v.RootID = parent.ARN()
		}
	}
	return nil
}

// own returns tags without those with which CloudFormation says whose nested stack it creates.
func own(ctx context.Context, tags []types.Tag) []types.Tag {
	if wire.CalledVia(ctx) != wire.CloudFormationPrincipal {
		return tags
	}
	list := []types.Tag{}
	for _, t := range tags {
		if !wire.IsReservedTag(aws.ToString(t.Key)) {
			list = append(list, t)
		}
	}
	return list
}

func alreadyExists(name string) error {
	return &types.AlreadyExistsException{Message: aws.String("Stack [" + name + "] already exists")}
}

func limitExceeded(message string) error {
	return &types.LimitExceededException{Message: aws.String(message)}
}
