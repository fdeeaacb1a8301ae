package ec2

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// InstanceLifecycle updates the records of instances when the observed state of their machines changes. The controller
// internal/controller/instance calls it, because only this package writes these records.
type InstanceLifecycle struct{ s *Service }

// NewInstanceLifecycle returns the lifecycle of the instances of a service.
func NewInstanceLifecycle(s *Service) InstanceLifecycle { return InstanceLifecycle{s} }

// KeepTerminated is how long a terminated instance is still shown.
const KeepTerminated = time.Hour

// within is the scope of work that nobody asked for.
func (l InstanceLifecycle) within(ctx context.Context, r record.Instance) scope {
	return scope{Context: ctx, account: r.Account, region: r.Region}
}

// Reconcile reconciles the instance with the given key. again is the delay until the next time-driven step, 0 when
// there is none; gone reports whether nothing is left of the instance.
func (l InstanceLifecycle) Reconcile(ctx context.Context, key string) (again time.Duration, gone bool, err error) {
	row, err := l.s.instances.table.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	r, in := row.Value, l.within(ctx, row.Value)
	machine := l.s.machine(in, r)
	now := l.s.now().UTC()
	switch {
	case machine.State == types.InstanceStateNameTerminated:
		return l.bury(in, r, machine, now)
	case r.Wanted == types.InstanceStateNameRunning && machine.PoweredOff && machine.Boot >= r.Boot:
		return 0, false, l.shutDown(in, r)
	case r.Wanted == types.InstanceStateNameRunning && !r.SpotInterruption.IsZero():
		if due := r.SpotInterruption.Sub(now); due > 0 {
			return due, false, nil
		}
		return 0, false, l.interrupt(in, r)
	}
	return 0, false, nil
}

// shutDown does what the instance's shutdown behavior says after somebody has shut it down from inside.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-initiated-shutdown-behavior.html
func (l InstanceLifecycle) shutDown(in scope, r record.Instance) error {
	const code, message, who = "Client.InstanceInitiatedShutdown", "Instance initiated shutdown",
		"Client.InstanceInitiatedShutdown"
	return l.edit(in, r, func(c *change, r *record.Instance) error {
		// Between the looks another start may have been wanted.
		if m := c.s.machine(c.scope, *r); r.Wanted != types.InstanceStateNameRunning || !m.PoweredOff ||
			m.Boot < r.Boot {
			return nil
		}
		if r.ShutdownBehavior == types.ShutdownBehaviorTerminate || r.Lifecycle == types.InstanceLifecycleTypeSpot {
			c.terminate(r, code, message, who)
			return nil
		}
		return c.stopInstance(r, code, message, who)
	})
}

// SpotNotice is how long before a spot instance is taken away its metadata says so.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
const SpotNotice = 2 * time.Minute

// Interrupt gives a spot instance, of whichever account and region it is, notice that it is taken away: at the time
// that is given back. Nothing changes for one that has notice already.
func (l InstanceLifecycle) Interrupt(ctx context.Context, id string) (at time.Time, err error) {
	rows, err := l.s.instances.table.List(ctx, "")
	if err != nil {
		return at, err
	}
	i := slices.IndexFunc(rows, func(row store.Row[record.Instance]) bool { return row.Value.ID == id })
	if i < 0 {
		return at, wire.Errorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
	}
	r := rows[i].Value
	err = l.edit(l.within(ctx, r), r, func(c *change, r *record.Instance) error {
		switch {
		case r.Lifecycle != types.InstanceLifecycleTypeSpot:
			return wire.Errorf("UnsupportedOperation",
				"The instance '%s' is not a Spot Instance: EC2 interrupts no other", id)
		case r.Wanted != types.InstanceStateNameRunning:
			return wire.Errorf("IncorrectInstanceState", "The instance '%s' is not in the 'running' state", id)
		}
		if r.SpotInterruption.IsZero() {
			r.SpotInterruption = l.s.now().UTC().Add(SpotNotice).Truncate(time.Second)
		}
		at = r.SpotInterruption
		return nil
	})
	return at, err
}

// interrupt takes a spot instance away.
func (l InstanceLifecycle) interrupt(in scope, r record.Instance) error {
	return l.edit(in, r, func(c *change, r *record.Instance) error {
		if r.Wanted == types.InstanceStateNameRunning {
			c.terminate(r, spotTermination, "Spot instance termination", spotTermination)
		}
		return nil
	})
}

func (l InstanceLifecycle) edit(in scope, r record.Instance, edit func(c *change, r *record.Instance) error) error {
	return l.s.commitPlan(in, nil, func(c *change) error {
		return l.s.instances.updateRecord(c, r.ID, func(r *record.Instance) error { return edit(c, r) })
	})
}

// bury takes a terminated instance's things away, and after a while its rows.
func (l InstanceLifecycle) bury(in scope, r record.Instance, machine record.Machine,
	now time.Time) (again time.Duration, gone bool, err error) {
	holds, err := l.holds(in, r)
	if err != nil {
		return 0, false, err
	}
	if r.Wanted != types.InstanceStateNameTerminated { // it ended, or never began, by itself
		return 0, false, l.edit(in, r, func(c *change, r *record.Instance) error {
			code, message := machine.FailureCode, machine.Failure
			if code == "" {
				code, message = "Server.InternalError", "The machine has ended"
			}
			c.terminate(r, code, message, code)
			return nil
		})
	}
	if holds {
		return 0, false, l.strip(in, r)
	}
	if left := r.WantedSince.Add(KeepTerminated).Sub(now); left > 0 {
		return left, false, nil
	}
	err = l.s.commitPlan(in, nil, func(c *change) error {
		fleet := mustRead(l.s.tags.Get(c, r.Key())).Value.Tags["aws:ec2:fleet-id"]
		r, err := l.s.instances.deleteRecord(c, r.ID)
		if err != nil {
			return err
		}
		if r.SpotInstanceRequestID != "" {
			if _, err := l.s.spotRequests.table.Get(c, c.key(r.SpotInstanceRequestID)); err == nil {
				if _, err := l.s.spotRequests.deleteRecord(c, r.SpotInstanceRequestID); err != nil {
					return err
				}
			}
		}
		if err := c.forgetFleet(fleet, r); err != nil {
			return err
		}
		return c.forgetReservation(r)
	})
	return 0, err == nil, err
}

// holds reports whether anything is attached to an instance.
func (l InstanceLifecycle) holds(in scope, r record.Instance) (bool, error) {
	if len(r.BlockDevices) > 0 {
		return true, nil
	}
	interfaces, err := l.s.interfacesOf(in, r.ID)
	return len(interfaces) > 0, err
}

// strip takes interfaces and volumes from an instance: those that go with it are deleted, the others detached. Each
// interface is a change of its own, because it may have many addresses.
func (l InstanceLifecycle) strip(in scope, r record.Instance) error {
	interfaces, err := l.s.interfacesOf(in, r.ID)
	if err != nil {
		return err
	}
	for _, ni := range interfaces {
		if err := l.s.commitPlan(in, nil, func(c *change) error { return c.endAttachment(ni.ID, r.ID) }); err != nil {
			return err
		}
	}
	return l.edit(in, r, func(c *change, r *record.Instance) error { return c.dropVolumes(r) })
}

// endAttachment ends the attachment of an interface to an instance that has ended, if it is still attached to it.
func (c *change) endAttachment(id, instanceID string) error {
	row, err := c.s.interfaces.table.Get(c, c.key(id))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	attachment := row.Value.Attachment
	switch {
	case attachment == nil || attachment.InstanceID != instanceID:
		return nil
	case attachment.DeleteOnTermination:
		_, err := c.removeInterface(id)
		return err
	}
	return c.s.interfaces.updateRecord(c, id, func(ni *record.NetworkInterface) error {
		c.takeBack(ni)
		ni.Attachment = nil
		return nil
	})
}

func (c *change) dropVolumes(r *record.Instance) error {
	for _, b := range r.BlockDevices {
		if _, err := c.s.volumes.table.Get(c, c.key(b.VolumeID)); errors.Is(err, store.ErrNotFound) {
			continue
		}
		if b.DeleteOnTermination {
			if _, err := c.s.volumes.deleteRecord(c, b.VolumeID); err != nil {
				return err
			}
			continue
		}
		if err := c.s.volumes.updateRecord(c, b.VolumeID, func(v *record.Volume) error {
			v.InstanceID = ""
			return nil
		}); err != nil {
			return err
		}
	}
	r.BlockDevices = nil
	return nil
}

// forgetFleet deletes the row of an instant or deleted fleet with its last instance.
func (c *change) forgetFleet(id string, r record.Instance) error {
	if id == "" {
		return nil
	}
	row, err := c.s.fleets.table.Get(c, c.key(id))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || !row.Value.Done || row.Value.Type != types.FleetTypeInstant && !row.Value.Deleted {
		return err
	}
	for _, l := range row.Value.Launched {
		for _, other := range l.InstanceIDs {
			if _, err := c.s.instances.table.Get(c, c.key(other)); other != r.ID && err == nil {
				return nil
			}
		}
	}
	_, err = c.s.fleets.deleteRecord(c, id)
	return err
}

// forgetReservation frees the client token of a launch with its last instance.
func (c *change) forgetReservation(r record.Instance) error {
	if r.ClientToken == "" {
		return nil
	}
	all, err := c.s.instances.list(c.scope,
		func(other record.Instance) bool { return other.ReservationID == r.ReservationID })
	if err != nil || slices.ContainsFunc(all, func(other record.Instance) bool { return other.ID != r.ID }) {
		return err
	}
	key := record.EC2ClientTokenKey(c.account, c.region, reservationNames.prefix, r.ClientToken)
	c.add("token/"+r.ReservationID, &pending{op: func() store.Op { return c.s.tokens.RemoveOp(key) }})
	return nil
}
