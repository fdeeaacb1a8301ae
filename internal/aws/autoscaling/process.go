package autoscaling

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// processes are the processes of a group that can be suspended.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-suspend-resume-processes.html
var processes = []string{
	"AZRebalance", "AddToLoadBalancer", "AlarmNotification", "HealthCheck", "InstanceRefresh", "Launch",
	"ReplaceUnhealthy", "ScheduledActions", "Terminate",
}

// processesOf returns the processes of a request: all when it names none.
func processesOf(asked []string) ([]string, error) {
	if len(asked) == 0 {
		return processes, nil
	}
	for _, p := range asked {
		if !slices.Contains(processes, p) {
			return nil, validation("Invalid scaling process %s. Valid processes: [%s]", p,
				strings.Join(processes, ", "))
		}
	}
	return asked, nil
}

func (s *Service) setProcesses(ctx context.Context, group *string, asked []string, set func(suspended map[string]string,
	process string)) error {
	names, err := processesOf(asked)
	if err != nil {
		return err
	}
	err = s.updateGroup(ctx, group, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		after := maps.Clone(g.Suspended)
		if after == nil {
			after = make(map[string]string)
		}
		for _, p := range names {
			set(after, p)
		}
		g.Suspended = after
		return nil, nil
	})
	return err
}

// processHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) processHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.SuspendProcesses, func(
			ctx context.Context, action string, in *autoscaling.SuspendProcessesInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.ResumeProcesses, func(
			ctx context.Context, action string, in *autoscaling.ResumeProcessesInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.DescribeScalingProcessTypes, wire.OnAll),
	}
}

// SuspendProcesses stops processes of a group, or all.
func (s *Service) SuspendProcesses(ctx context.Context, in *autoscaling.SuspendProcessesInput) (
	*autoscaling.SuspendProcessesOutput, error) {
	err := s.setProcesses(ctx, in.AutoScalingGroupName, in.ScalingProcesses, func(
		suspended map[string]string, p string,
	) {
		if suspended[p] == "" {
			suspended[p] = "User suspended at " + formatTime(s.timestamp())
		}
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.SuspendProcessesOutput{}, nil
}

// ResumeProcesses lets processes of a group run again, or all.
func (s *Service) ResumeProcesses(ctx context.Context, in *autoscaling.ResumeProcessesInput) (
	*autoscaling.ResumeProcessesOutput, error) {
	err := s.setProcesses(ctx, in.AutoScalingGroupName, in.ScalingProcesses, func(
		suspended map[string]string, p string,
	) {
		delete(suspended, p)
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.ResumeProcessesOutput{}, nil
}

// DescribeScalingProcessTypes lists the processes.
func (s *Service) DescribeScalingProcessTypes(context.Context, *autoscaling.DescribeScalingProcessTypesInput) (
	*autoscaling.DescribeScalingProcessTypesOutput, error) {
	out := &autoscaling.DescribeScalingProcessTypesOutput{}
	for _, p := range processes {
		out.Processes = append(out.Processes, types.ProcessType{ProcessName: &p})
	}
	return out, nil
}
