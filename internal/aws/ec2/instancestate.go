package ec2

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// changeStates changes what is wanted of instances and says how their states changed.
func (s *Service) changeStates(ctx context.Context, dryRun *bool, ids []string, edit func(c *change, r *record.Instance,
	state types.InstanceStateName) error) ([]types.InstanceStateChange, error) {
	if len(ids) == 0 {
		return nil, missing("InstanceId")
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	all := []types.InstanceStateChange{}
	for some := range slices.Chunk(ids, instancesPerChange) {
		var changes []types.InstanceStateChange
		if err := s.applyChange(ctx, dryRun, func(c *change) error {
			changes = nil
			// Nothing happens to any of them unless it can to all.
			if err := c.eachInstance(ids, func(r *record.Instance, state types.InstanceStateName) error {
				return edit(c, r, state)
			}); err != nil {
				return err
			}
			*c = change{scope: c.scope, s: s, pending: map[string]*pending{}}
			return c.eachInstance(some, func(r *record.Instance, state types.InstanceStateName) error {
				if err := edit(c, r, state); err != nil {
					return err
				}
				changes = append(changes, types.InstanceStateChange{
					InstanceId: aws.String(r.ID), PreviousState: viewState(state),
					CurrentState: viewState(record.InstanceState(*r, s.machine(c.scope, *r))),
				})
				return nil
			})
		}); err != nil {
			return nil, err
		}
		ids = ids[len(some):]
		all = append(all, changes...)
	}
	return all, nil
}

// terminate wants an instance gone.
func (c *change) terminate(r *record.Instance, code, message, who string) {
	transition(r, types.InstanceStateNameTerminated, code, message, who, c.s.now().UTC())
}

const (
	userInitiated         = "User initiated"
	userInitiatedShutdown = "Client.UserInitiatedShutdown"
	userInitiatedReason   = "User initiated shutdown"
)

// instanceStateHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) instanceStateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.TerminateInstances, touching[ec2.TerminateInstancesInput](s)),
		wire.Handle(s.StopInstances, touching[ec2.StopInstancesInput](s)),
		wire.Handle(s.StartInstances, touching[ec2.StartInstancesInput](s)),
		wire.Handle(s.RebootInstances, touching[ec2.RebootInstancesInput](s)),
		wire.Handle(s.MonitorInstances, touching[ec2.MonitorInstancesInput](s)),
		wire.Handle(s.UnmonitorInstances, touching[ec2.UnmonitorInstancesInput](s)),
		wire.Handle(s.GetConsoleOutput, touching[ec2.GetConsoleOutputInput](s)),
	}
}

// TerminateInstances terminates instances, all of which must exist and none of which may be protected.
func (s *Service) TerminateInstances(ctx context.Context, in *ec2.TerminateInstancesInput) (
	*ec2.TerminateInstancesOutput, error) {
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds, func(c *change, r *record.Instance,
		state types.InstanceStateName) error {
		switch {
		case r.Wanted == types.InstanceStateNameTerminated || state == types.InstanceStateNameTerminated:
			return nil
		case r.DisableAPITermination:
			return wire.Errorf("OperationNotPermitted",
				"The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and "+
					"try again.", r.ID)
		}
		c.terminate(r, userInitiatedShutdown, userInitiatedReason, userInitiated)
		return nil
	})
	return &ec2.TerminateInstancesOutput{TerminatingInstances: changes}, err
}

// StopInstances stops instances. Their network interfaces and volumes stay; a public address that was lent goes.
func (s *Service) StopInstances(ctx context.Context, in *ec2.StopInstancesInput) (*ec2.StopInstancesOutput, error) {
	if aws.ToBool(in.Hibernate) {
		return nil, wire.Errorf("UnsupportedHibernationConfiguration",
			"The instances are not configured for hibernation.")
	}
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds, func(c *change, r *record.Instance,
		state types.InstanceStateName) error {
		switch {
		case state == types.InstanceStateNameStopping || state == types.InstanceStateNameStopped:
			return nil
		case state != types.InstanceStateNameRunning:
			return incorrectState(r.ID, "stopped")
		case r.Lifecycle == types.InstanceLifecycleTypeSpot:
			return wire.Errorf("UnsupportedOperation",
				"You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance "+
					"request. You can only stop Spot Instances associated with persistent Spot Instance requests.",
				r.ID)
		case r.DisableAPIStop:
			return wire.Errorf("OperationNotPermitted",
				"The instance '%s' may not be stopped. Modify its 'disableApiStop' instance attribute and try again.",
				r.ID)
		}
		return c.stopInstance(r, userInitiatedShutdown, userInitiatedReason, userInitiated)
	})
	return &ec2.StopInstancesOutput{StoppingInstances: changes}, err
}

// stopInstance wants an instance stopped.
func (c *change) stopInstance(r *record.Instance, code, message, who string) error {
	transition(r, types.InstanceStateNameStopped, code, message, who, c.s.now().UTC())
	interfaces, err := c.s.interfacesOf(c.scope, r.ID)
	if err != nil {
		return err
	}
	for _, ni := range interfaces {
		if ni.PublicIP == "" {
			continue
		}
		if err := c.s.interfaces.updateRecord(c, ni.ID, func(ni *record.NetworkInterface) error {
			c.takeBack(ni)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// StartInstances starts stopped instances.
func (s *Service) StartInstances(ctx context.Context, in *ec2.StartInstancesInput) (*ec2.StartInstancesOutput, error) {
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds, func(c *change, r *record.Instance,
		state types.InstanceStateName) error {
		switch state {
		case types.InstanceStateNameRunning, types.InstanceStateNamePending:
			return nil
		case types.InstanceStateNameStopped:
		default:
			return incorrectState(r.ID, "started")
		}
		now := s.now().UTC()
		r.Wanted, r.WantedSince, r.LaunchTime = types.InstanceStateNameRunning, now, now
		r.Boot++
		r.StateReasonCode, r.StateReasonMessage, r.TransitionReason = "", "", ""
		interfaces, err := s.interfacesOf(c.scope, r.ID)
		if err != nil {
			return err
		}
		if len(interfaces) == 1 { // an instance with more gets no address of Amazon's
			return c.lendAgain(interfaces[0])
		}
		return nil
	})
	return &ec2.StartInstancesOutput{StartingInstances: changes}, err
}

// lendAgain lends a public address to an interface that is to have one and has none.
func (c *change) lendAgain(ni record.NetworkInterface) error {
	if !ni.AutoPublicIP || ni.PublicIP != "" {
		return nil
	}
	if _, elastic := c.s.addressesOf(c.scope, ni.ID)[ni.PrivateIPs[0]]; elastic {
		return nil
	}
	return c.s.interfaces.updateRecord(c, ni.ID, c.assignPublicIP)
}

// RebootInstances restarts running instances.
func (s *Service) RebootInstances(ctx context.Context, in *ec2.RebootInstancesInput) (*ec2.RebootInstancesOutput,
	error) {
	_, err := s.changeStates(ctx, in.DryRun, in.InstanceIds, func(c *change, r *record.Instance,
		state types.InstanceStateName) error {
		if state != types.InstanceStateNameRunning {
			return incorrectState(r.ID, "rebooted")
		}
		r.Boot++
		return nil
	})
	return &ec2.RebootInstancesOutput{}, err
}

// MonitorInstances turns detailed monitoring on.
func (s *Service) MonitorInstances(ctx context.Context, in *ec2.MonitorInstancesInput) (*ec2.MonitorInstancesOutput,
	error) {
	monitored, err := s.monitor(ctx, in.DryRun, in.InstanceIds, true)
	return &ec2.MonitorInstancesOutput{InstanceMonitorings: monitored}, err
}

// UnmonitorInstances turns detailed monitoring off.
func (s *Service) UnmonitorInstances(ctx context.Context, in *ec2.UnmonitorInstancesInput) (
	*ec2.UnmonitorInstancesOutput, error) {
	monitored, err := s.monitor(ctx, in.DryRun, in.InstanceIds, false)
	return &ec2.UnmonitorInstancesOutput{InstanceMonitorings: monitored}, err
}

func (s *Service) monitor(ctx context.Context, dryRun *bool, ids []string, detailed bool) ([]types.InstanceMonitoring,
	error) {
	var monitored []types.InstanceMonitoring
	err := s.applyChange(ctx, dryRun, func(c *change) error {
		monitored = nil
		return c.eachInstance(ids, func(r *record.Instance, _ types.InstanceStateName) error {
			r.DetailedMonitoring = detailed
			monitored = append(monitored, types.InstanceMonitoring{InstanceId: aws.String(r.ID),
				Monitoring: viewMonitoring(detailed)})
			return nil
		})
	})
	return monitored, err
}

// GetConsoleOutput is the end of what an instance has written to its console.
func (s *Service) GetConsoleOutput(ctx context.Context, in *ec2.GetConsoleOutputInput) (*ec2.GetConsoleOutputOutput,
	error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.instances.getRecord(sc, in.InstanceId)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, errDryRun
	}
	console := mustRead(s.consoles.Get(sc, r.Key())).Value
	at := console.UpdatedAt
	if at.IsZero() {
		at = s.now().UTC().Truncate(time.Second)
	}
	return &ec2.GetConsoleOutputOutput{InstanceId: in.InstanceId, Output: base64Text(console.Output),
		Timestamp: aws.Time(at)}, nil
}
