package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// maxWait is the maximum duration of a lifecycle action: 48 hours, or 100 times its heartbeat timeout if that is less.
const maxWait = 48 * 60 * 60

var hookName = regexp.MustCompile(`^[A-Za-z0-9\-_/]{1,255}$`)

// hookRequest is the common part of the requests about a hook.
type hookRequest struct {
	name, transition, defaultResult       *string
	heartbeat                             *int32
	metadata, notificationTarget, roleARN *string
}

// buildHook returns the hook that a request makes, perhaps of one that is there.
func buildHook(before *record.AutoScalingHook, r hookRequest) (record.AutoScalingHook, error) {
	h := record.AutoScalingHook{DefaultResult: "ABANDON", HeartbeatTimeout: 3600}
	if before != nil {
		h = *before
	}
	h.Name = cmp.Or(aws.ToString(r.name), h.Name)
	h.Transition = cmp.Or(aws.ToString(r.transition), h.Transition)
	h.DefaultResult = cmp.Or(aws.ToString(r.defaultResult), h.DefaultResult)
	if r.heartbeat != nil {
		h.HeartbeatTimeout = *r.heartbeat
	}
	if r.metadata != nil {
		h.Metadata = *r.metadata
	}
	switch {
	case !hookName.MatchString(h.Name):
		return h, validation("Lifecycle hook name %s is invalid: it has letters, digits, - _ and /", h.Name)
	case h.Transition == "":
		return h, validation("LifecycleTransition is required for new lifecycle hook %s", h.Name)
	case h.Transition != launching && h.Transition != terminating:
		return h, validation("Lifecycle transition %s is invalid. Valid values: [%s, %s]", h.Transition, launching,
			terminating)
	case h.DefaultResult != "CONTINUE" && h.DefaultResult != "ABANDON":
		return h, validation("Default result %s is invalid. Valid values: [CONTINUE, ABANDON]", h.DefaultResult)
	case h.HeartbeatTimeout < 30 || h.HeartbeatTimeout > 7200:
		return h, validation("Heartbeat timeout must be between 30 and 7200 seconds, but is %d", h.HeartbeatTimeout)
	case aws.ToString(r.notificationTarget) != "":
		return h,
			validation(
				"Unable to publish test message to notification target %s: coracle serves neither Amazon SNS nor "+
					"Amazon SQS. Watch the lifecycle state of the instances instead.", *r.notificationTarget)
	case aws.ToString(r.roleARN) != "":
		return h, validation("RoleARN is for a NotificationTargetARN, which coracle does not support")
	}
	return h, nil
}

func putHook(g *record.AutoScalingGroup, h record.AutoScalingHook) error {
	i, found := slices.BinarySearchFunc(g.Hooks, h.Name, func(h record.AutoScalingHook,
		name string) int {
		return cmp.Compare(h.Name, name)
	})
	if found {
		g.Hooks = slices.Clone(g.Hooks)
		g.Hooks[i] = h
		return nil
	}
	if len(g.Hooks) >= maxHooks {
		return limitExceeded("You have already reached your limit of lifecycle hooks (%d) for group %s", maxHooks,
			g.Name)
	}
	g.Hooks = slices.Insert(slices.Clone(g.Hooks), i, h)
	return nil
}

func findHook(g record.AutoScalingGroup, name string) *record.AutoScalingHook {
	i := slices.IndexFunc(g.Hooks, func(h record.AutoScalingHook) bool { return h.Name == name })
	if i < 0 {
		return nil
	}
	return &g.Hooks[i]
}

// hookHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) hookHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutLifecycleHook, func(
			ctx context.Context, action string, in *autoscaling.PutLifecycleHookInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.DeleteLifecycleHook, func(
			ctx context.Context, action string, in *autoscaling.DeleteLifecycleHookInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.DescribeLifecycleHooks, wire.OnAll),
		wire.Handle(s.DescribeLifecycleHookTypes, wire.OnAll),
		wire.Handle(s.CompleteLifecycleAction, func(
			ctx context.Context, action string, in *autoscaling.CompleteLifecycleActionInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName, instance: in.InstanceId})
		}),
		wire.Handle(s.RecordLifecycleActionHeartbeat, func(
			ctx context.Context, action string, in *autoscaling.RecordLifecycleActionHeartbeatInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName, instance: in.InstanceId})
		}),
	}
}

// PutLifecycleHook makes or changes a hook: instances wait in Pending:Wait or Terminating:Wait until the action is
// completed.
func (s *Service) PutLifecycleHook(ctx context.Context, in *autoscaling.PutLifecycleHookInput) (
	*autoscaling.PutLifecycleHookOutput, error) {
	err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		hook, err := buildHook(findHook(*g, *in.LifecycleHookName), hookRequest{
			in.LifecycleHookName, in.LifecycleTransition, in.DefaultResult, in.HeartbeatTimeout,
			in.NotificationMetadata, in.NotificationTargetARN, in.RoleARN,
		})
		if err != nil {
			return nil, err
		}
		return nil, putHook(g, hook)
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.PutLifecycleHookOutput{}, nil
}

// DeleteLifecycleHook deletes a hook. Actions that wait for it are completed: launches are abandoned, terminations go
// on.
func (s *Service) DeleteLifecycleHook(ctx context.Context, in *autoscaling.DeleteLifecycleHookInput) (
	*autoscaling.DeleteLifecycleHookOutput, error) {
	err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		if findHook(*g, *in.LifecycleHookName) == nil {
			return nil, hookNotFound(*in.LifecycleHookName)
		}
		g.Hooks = slices.DeleteFunc(slices.Clone(g.Hooks),
			func(h record.AutoScalingHook) bool { return h.Name == *in.LifecycleHookName })
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.DeleteLifecycleHookOutput{}, nil
}

func hookNotFound(name string) error { return validation("Lifecycle Hook %s not found.", name) }

// DescribeLifecycleHooks returns the hooks of a group.
func (s *Service) DescribeLifecycleHooks(ctx context.Context, in *autoscaling.DescribeLifecycleHooksInput) (
	*autoscaling.DescribeLifecycleHooksOutput, error) {
	row, err := s.getGroup(ctx, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeLifecycleHooksOutput{LifecycleHooks: []types.LifecycleHook{}}
	for _, name := range in.LifecycleHookNames {
		if findHook(row.Value, name) == nil {
			return nil, hookNotFound(name)
		}
	}
	for _, h := range row.Value.Hooks {
		if len(in.LifecycleHookNames) > 0 && !slices.Contains(in.LifecycleHookNames, h.Name) {
			continue
		}
		out.LifecycleHooks = append(out.LifecycleHooks, types.LifecycleHook{
			AutoScalingGroupName: &row.Value.Name, LifecycleHookName: &h.Name, LifecycleTransition: &h.Transition,
			DefaultResult:    &h.DefaultResult,
			HeartbeatTimeout: &h.HeartbeatTimeout, GlobalTimeout: new(min(maxWait, 100*h.HeartbeatTimeout)),
			NotificationMetadata: optional(h.Metadata),
		})
	}
	return out, nil
}

// DescribeLifecycleHookTypes lists the transitions for which there are hooks.
func (s *Service) DescribeLifecycleHookTypes(context.Context, *autoscaling.DescribeLifecycleHookTypesInput) (
	*autoscaling.DescribeLifecycleHookTypesOutput, error) {
	return &autoscaling.DescribeLifecycleHookTypesOutput{LifecycleHookTypes: []string{launching, terminating}}, nil
}

// findAction finds the lifecycle action that a request names by its token, or by the instance that waits.
func (s *Service) findAction(ctx context.Context, group, hook, token, instance *string) (
	record.AutoScalingInstance, record.AutoScalingAction, error) {
	row, err := s.getGroup(ctx, group)
	if err != nil {
		return record.AutoScalingInstance{}, record.AutoScalingAction{}, err
	}
	if token == nil && instance == nil {
		return record.AutoScalingInstance{}, record.AutoScalingAction{},
			validation("Either LifecycleActionToken or InstanceId is required")
	}
	members, err := s.members(ctx, row.Value)
	if err != nil {
		return record.AutoScalingInstance{}, record.AutoScalingAction{}, err
	}
	for _, i := range members {
		if instance != nil && i.ID != *instance {
			continue
		}
		for _, a := range i.Actions {
			if a.Hook == *hook && (token == nil || a.Token == *token) {
				return i, a, nil
			}
		}
	}
	who := "token: " + aws.ToString(token)
	if instance != nil {
		who = fmt.Sprintf("instance ID: %s", *instance)
	}
	return record.AutoScalingInstance{}, record.AutoScalingAction{},
		validation("No active Lifecycle Action found with %s", who)
}

// CompleteLifecycleAction lets an instance that waits go on (CONTINUE) or not (ABANDON).
func (s *Service) CompleteLifecycleAction(ctx context.Context, in *autoscaling.CompleteLifecycleActionInput) (
	*autoscaling.CompleteLifecycleActionOutput, error) {
	if r := *in.LifecycleActionResult; r != "CONTINUE" && r != "ABANDON" {
		return nil, validation("Lifecycle action result %s is invalid. Valid values: [CONTINUE, ABANDON]", r)
	}
	i, action, err := s.findAction(ctx, in.AutoScalingGroupName, in.LifecycleHookName, in.LifecycleActionToken,
		in.InstanceId)
	if err != nil {
		return nil, err
	}
	err = s.command(ctx, i.ID, func(record.AutoScalingInstance) error { return nil }, func(o *record.AutoScalingOrder) {
		actions := maps.Clone(o.Actions)
		if actions == nil {
			actions = make(map[string]string)
		}
		actions[action.Token] = *in.LifecycleActionResult
		o.Actions = actions
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.CompleteLifecycleActionOutput{}, nil
}

// RecordLifecycleActionHeartbeat gives an action its heartbeat timeout again.
func (s *Service) RecordLifecycleActionHeartbeat(ctx context.Context,
	in *autoscaling.RecordLifecycleActionHeartbeatInput) (*autoscaling.RecordLifecycleActionHeartbeatOutput, error) {
	i, action, err := s.findAction(ctx, in.AutoScalingGroupName, in.LifecycleHookName, in.LifecycleActionToken,
		in.InstanceId)
	if err != nil {
		return nil, err
	}
	err = s.command(ctx, i.ID, func(record.AutoScalingInstance) error { return nil }, func(o *record.AutoScalingOrder) {
		beats := maps.Clone(o.Heartbeats)
		if beats == nil {
			beats = make(map[string]time.Time)
		}
		beats[action.Token] = s.timestamp()
		o.Heartbeats = beats
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.RecordLifecycleActionHeartbeatOutput{}, nil
}
