package instance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/ec2/volume"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// changeStates changes what is wanted of instances and says how their states changed.
func (s *Service) changeStates(
	ctx context.Context,
	dryRun *bool,
	ids []string,
	edit func(c *resource.Change, r *record.Instance,
		state types.InstanceStateName) error,
) ([]types.InstanceStateChange, error) {
	if len(ids) == 0 {
		return nil, resource.MissingParameter("InstanceId")
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	all := []types.InstanceStateChange{}
	for some := range slices.Chunk(ids, PerChange) {
		var changes []types.InstanceStateChange
		if err := s.ApplyChange(ctx, dryRun, func(c *resource.Change) error {
			changes = nil
			// Nothing happens to any of them unless it can to all.
			if err := eachInstance(c, ids, func(r *record.Instance, state types.InstanceStateName) error {
				return edit(c, r, state)
			}); err != nil {
				return err
			}
			c.Reset()
			return eachInstance(c, some, func(r *record.Instance, state types.InstanceStateName) error {
				if err := edit(c, r, state); err != nil {
					return err
				}
				changes = append(changes, types.InstanceStateChange{
					InstanceId: aws.String(r.ID), PreviousState: viewState(state),
					CurrentState: viewState(record.InstanceState(*r, s.Machine(c.Scope, *r))),
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

// Terminate sets the desired state of an instance to terminated.
func Terminate(c *resource.Change, r *record.Instance, code, message, who string) {
	transition(r, types.InstanceStateNameTerminated, code, message, who, c.Now().UTC())
}

// What instances say of their state when a user has stopped or terminated them.
const (
	UserInitiated         = "User initiated"
	UserInitiatedShutdown = "Client.UserInitiatedShutdown"
	UserInitiatedReason   = "User initiated shutdown"
)

// instanceStateHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) instanceStateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.TerminateInstances, resource.Touching[ec2.TerminateInstancesInput](s.Records)),
		wire.Handle(s.StopInstances, resource.Touching[ec2.StopInstancesInput](s.Records)),
		wire.Handle(s.StartInstances, resource.Touching[ec2.StartInstancesInput](s.Records)),
		wire.Handle(s.RebootInstances, resource.Touching[ec2.RebootInstancesInput](s.Records)),
		wire.Handle(s.MonitorInstances, resource.Touching[ec2.MonitorInstancesInput](s.Records)),
		wire.Handle(s.UnmonitorInstances, resource.Touching[ec2.UnmonitorInstancesInput](s.Records)),
		wire.Handle(s.GetConsoleOutput, resource.Touching[ec2.GetConsoleOutputInput](s.Records)),
	}
}

// TerminateInstances terminates instances, all of which must exist and none of which may be protected.
func (s *Service) TerminateInstances(ctx context.Context, in *ec2.TerminateInstancesInput) (
	*ec2.TerminateInstancesOutput, error) {
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds, func(c *resource.Change, r *record.Instance,
		state types.InstanceStateName) error {
		switch {
		case r.Wanted == types.InstanceStateNameTerminated || state == types.InstanceStateNameTerminated:
			return nil
		case r.DisableAPITermination:
			return wire.Errorf("OperationNotPermitted",
				"The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and "+
					"try again.", r.ID)
		}
		Terminate(c, r, UserInitiatedShutdown, UserInitiatedReason, UserInitiated)
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
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds, func(c *resource.Change, r *record.Instance,
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
		return stopInstance(c, r, UserInitiatedShutdown, UserInitiatedReason, UserInitiated)
	})
	return &ec2.StopInstancesOutput{StoppingInstances: changes}, err
}

// stopInstance sets the desired state of an instance to stopped.
func stopInstance(c *resource.Change, r *record.Instance, code, message, who string) error {
	transition(r, types.InstanceStateNameStopped, code, message, who, c.Now().UTC())
	interfaces, err := c.InterfacesOf(c.Scope, r.ID)
	if err != nil {
		return err
	}
	for _, ni := range interfaces {
		if ni.PublicIP == "" {
			continue
		}
		if err := c.NetworkInterfaces.UpdateRecord(c, ni.ID, func(ni *record.NetworkInterface) error {
			networkinterface.ReleasePublicIP(c, ni)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// StartInstances starts stopped instances.
func (s *Service) StartInstances(ctx context.Context, in *ec2.StartInstancesInput) (*ec2.StartInstancesOutput, error) {
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds, func(c *resource.Change, r *record.Instance,
		state types.InstanceStateName) error {
		switch state {
		case types.InstanceStateNameRunning, types.InstanceStateNamePending:
			return nil
		case types.InstanceStateNameStopped:
		default:
			return incorrectState(r.ID, "started")
		}
		if err := authorizeDisks(c, *r); err != nil {
			return err
		}
		now := s.Now().UTC()
		r.Wanted, r.WantedSince, r.LaunchTime = types.InstanceStateNameRunning, now, now
		r.Boot++
		r.StateReasonCode, r.StateReasonMessage, r.TransitionReason = "", "", ""
		interfaces, err := s.InterfacesOf(c.Scope, r.ID)
		if err != nil {
			return err
		}
		if len(interfaces) == 1 { // an instance with more gets no address of Amazon's
			return lendAgain(c, interfaces[0])
		}
		return nil
	})
	return &ec2.StartInstancesOutput{StartingInstances: changes}, err
}

// authorizeDisks demands that the caller may use the keys of the encrypted volumes of an instance, which its machine
// will read. It asks about each volume, also where several have one key: policies and grants may allow a key for some
// volumes alone. AWS stops the instance again when the caller may not.
func authorizeDisks(c *resource.Change, r record.Instance) error {
	for _, b := range r.BlockDevices {
		v, err := c.Volumes.Table.Get(c, c.Key(b.VolumeID))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if !v.Value.Encrypted {
			continue
		}
		if _, err := c.UseKey(c.Scope, v.Value.KMSKeyID, b.VolumeID, volume.AttachActions...); err != nil {
			return err
		}
	}
	return nil
}

// lendAgain lends a public address to an interface that is to have one and has none.
func lendAgain(c *resource.Change, ni record.NetworkInterface) error {
	if !ni.AutoPublicIP || ni.PublicIP != "" {
		return nil
	}
	if _, elastic := c.AddressesOf(c.Scope, ni.ID)[ni.PrivateIPs[0]]; elastic {
		return nil
	}
	return c.NetworkInterfaces.UpdateRecord(c, ni.ID, func(ni *record.NetworkInterface) error {
		return networkinterface.AssignPublicIP(c, ni)
	})
}

// RebootInstances restarts running instances.
func (s *Service) RebootInstances(ctx context.Context, in *ec2.RebootInstancesInput) (
	*ec2.RebootInstancesOutput, error) {
	_, err := s.changeStates(ctx, in.DryRun, in.InstanceIds, func(c *resource.Change, r *record.Instance,
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
func (s *Service) MonitorInstances(ctx context.Context, in *ec2.MonitorInstancesInput) (
	*ec2.MonitorInstancesOutput, error) {
	monitored, err := s.monitor(ctx, in.DryRun, in.InstanceIds, true)
	return &ec2.MonitorInstancesOutput{InstanceMonitorings: monitored}, err
}

// UnmonitorInstances turns detailed monitoring off.
func (s *Service) UnmonitorInstances(ctx context.Context, in *ec2.UnmonitorInstancesInput) (
	*ec2.UnmonitorInstancesOutput, error) {
	monitored, err := s.monitor(ctx, in.DryRun, in.InstanceIds, false)
	return &ec2.UnmonitorInstancesOutput{InstanceMonitorings: monitored}, err
}

func (s *Service) monitor(ctx context.Context, dryRun *bool, ids []string, detailed bool) (
	[]types.InstanceMonitoring, error) {
	var monitored []types.InstanceMonitoring
	err := s.ApplyChange(ctx, dryRun, func(c *resource.Change) error {
		monitored = nil
		return eachInstance(c, ids, func(r *record.Instance, _ types.InstanceStateName) error {
			r.DetailedMonitoring = detailed
			monitored = append(monitored, types.InstanceMonitoring{InstanceId: aws.String(r.ID),
				Monitoring: viewMonitoring(detailed)})
			return nil
		})
	})
	return monitored, err
}

// GetConsoleOutput returns the end of what an instance has written to its console.
func (s *Service) GetConsoleOutput(ctx context.Context, in *ec2.GetConsoleOutputInput) (
	*ec2.GetConsoleOutputOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.Instances.GetRecord(sc, in.InstanceId)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, resource.ErrDryRun
	}
	console := resource.MustRead(s.Consoles.Get(sc, r.Key())).Value
	at := console.UpdatedAt
	if at.IsZero() {
		at = s.Now().UTC().Truncate(time.Second)
	}
	return &ec2.GetConsoleOutputOutput{InstanceId: in.InstanceId, Output: resource.Base64(console.Output),
		Timestamp: aws.Time(at)}, nil
}
