package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Lifecycle updates the records of instances when the observed state of their machines changes. The controller
// internal/controller/instance calls it, because only this package writes these records.
type Lifecycle struct{ s *Service }

// NewLifecycle returns the lifecycle of the instances of a service.
func NewLifecycle(s *Service) Lifecycle { return Lifecycle{s} }

// KeepTerminated is the time for which a terminated instance is still shown. Those that nobody sees are not kept.
const KeepTerminated = time.Hour

// scopeFor returns the scope of work that no request asked for.
func (l Lifecycle) scopeFor(ctx context.Context, r record.Instance) resource.Scope {
	return resource.Scope{Context: ctx, Account: r.Account, Region: r.Region}
}

// Reconcile reconciles the instance with the given key. again is the delay until the next time-driven step, 0 when
// there is none; gone reports whether nothing is left of the instance.
func (l Lifecycle) Reconcile(ctx context.Context, key string) (again time.Duration, gone bool, err error) {
	row, err := l.s.Instances.Table.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	r, sc := row.Value, l.scopeFor(ctx, row.Value)
	machine := l.s.Machine(sc, r)
	now := l.s.Now().UTC()
	switch {
	case machine.State == types.InstanceStateNameTerminated:
		return l.releaseTerminated(sc, r, machine, now)
	case r.Wanted == types.InstanceStateNameRunning && machine.PoweredOff && machine.Boot >= r.Boot:
		return 0, false, l.shutDown(sc, r)
	case r.Wanted == types.InstanceStateNameRunning && !r.SpotInterruption.IsZero():
		if due := r.SpotInterruption.Sub(now); due > 0 {
			return due, false, nil
		}
		return 0, false, l.interrupt(sc, r)
	}
	return 0, false, nil
}

// shutDown applies the instance's shutdown behavior after a user has shut it down from inside.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-initiated-shutdown-behavior.html
func (l Lifecycle) shutDown(sc resource.Scope, r record.Instance) error {
	const code, message, who = "Client.InstanceInitiatedShutdown", "Instance initiated shutdown",
		"Client.InstanceInitiatedShutdown"
	return l.edit(sc, r, func(c *resource.Change, r *record.Instance) error {
		// Between the looks another start may have been wanted.
		if m := c.Machine(c.Scope, *r); r.Wanted != types.InstanceStateNameRunning || !m.PoweredOff ||
			m.Boot < r.Boot {
			return nil
		}
		if r.ShutdownBehavior == types.ShutdownBehaviorTerminate || r.Lifecycle == types.InstanceLifecycleTypeSpot {
			Terminate(c, r, code, message, who)
			return nil
		}
		return stopInstance(c, r, code, message, who)
	})
}

// SpotNotice is the time before a spot interruption at which the metadata of the instance announces it.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
const SpotNotice = 2 * time.Minute

// Interrupt gives a spot instance, of whichever account and region it is, notice that it is taken away: at the time
// that is given back. Nothing changes for one that has notice already.
func (l Lifecycle) Interrupt(ctx context.Context, id string) (at time.Time, err error) {
	rows, err := l.s.Instances.Table.List(ctx, "")
	if err != nil {
		return at, err
	}
	i := slices.IndexFunc(rows, func(row store.Row[record.Instance]) bool {
		return row.Value.ID == id && row.Value.Fargate == nil
	})
	if i < 0 {
		return at, wire.Errorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
	}
	r := rows[i].Value
	err = l.edit(l.scopeFor(ctx, r), r, func(c *resource.Change, r *record.Instance) error {
		switch {
		case r.Lifecycle != types.InstanceLifecycleTypeSpot:
			return wire.Errorf("UnsupportedOperation",
				"The instance '%s' is not a Spot Instance: EC2 interrupts no other", id)
		case r.Wanted != types.InstanceStateNameRunning:
			return wire.Errorf("IncorrectInstanceState", "The instance '%s' is not in the 'running' state", id)
		}
		if r.SpotInterruption.IsZero() {
			r.SpotInterruption = l.s.Now().UTC().Add(SpotNotice).Truncate(time.Second)
		}
		at = r.SpotInterruption
		return nil
	})
	return at, err
}

// interrupt takes a spot instance away.
func (l Lifecycle) interrupt(sc resource.Scope, r record.Instance) error {
	return l.edit(sc, r, func(c *resource.Change, r *record.Instance) error {
		if r.Wanted == types.InstanceStateNameRunning {
			Terminate(c, r, spotTermination, "Spot instance termination", spotTermination)
		}
		return nil
	})
}

func (l Lifecycle) edit(
	sc resource.Scope, r record.Instance, edit func(c *resource.Change, r *record.Instance) error,
) error {
	return l.s.CommitPlan(sc, nil, func(c *resource.Change) error {
		return l.s.Instances.WithHidden().UpdateRecord(c, r.ID, func(r *record.Instance) error { return edit(c, r) })
	})
}

// releaseTerminated detaches or deletes what is attached to a terminated instance, and deletes its records when
// KeepTerminated has passed.
func (l Lifecycle) releaseTerminated(sc resource.Scope, r record.Instance, machine record.Machine,
	now time.Time) (again time.Duration, gone bool, err error) {
	attached, releasing, err := l.hasAttachments(sc, r)
	if err != nil {
		return 0, false, err
	}
	if r.Wanted != types.InstanceStateNameTerminated { // it ended, or never began, by itself
		return 0, false, l.edit(sc, r, func(c *resource.Change, r *record.Instance) error {
			code, message := machine.FailureCode, machine.Failure
			if code == "" {
				code, message = "Server.InternalError", "The machine has ended"
			}
			Terminate(c, r, code, message, code)
			return nil
		})
	}
	if attached {
		return 0, false, l.detachAll(sc, r)
	}
	if releasing { // the end of an attachment changes the record
		return 0, false, l.dropMissing(sc, r)
	}
	if left := r.WantedSince.Add(KeepTerminated).Sub(now); left > 0 && r.Fargate == nil {
		return left, false, nil
	}
	err = l.s.CommitPlan(sc, nil, func(c *resource.Change) error {
		fleet := resource.MustRead(l.s.Tags.Get(c, r.Key())).Value.Tags["aws:ec2:fleet-id"]
		r, err := l.s.Instances.WithHidden().DeleteRecord(c, r.ID)
		if err != nil {
			return err
		}
		if len(r.BlockDevices) > 0 {
			return fmt.Errorf("delete the record of instance %s: it still has volumes", r.ID)
		}
		if r.SpotInstanceRequestID != "" {
			if _, err := l.s.SpotRequests.Table.Get(c, c.Key(r.SpotInstanceRequestID)); err == nil {
				if _, err := l.s.SpotRequests.DeleteRecord(c, r.SpotInstanceRequestID); err != nil {
					return err
				}
			}
		}
		if err := forgetFleet(c, fleet, r); err != nil {
			return err
		}
		return forgetReservation(c, r)
	})
	return 0, err == nil, err
}

// hasAttachments reports whether anything is attached to an instance, and whether volumes are being detached, which
// their lifecycle ends once their disks were seen detached.
func (l Lifecycle) hasAttachments(sc resource.Scope, r record.Instance) (attached, releasing bool, err error) {
	for _, b := range r.BlockDevices {
		if b.Detaching.IsZero() || !b.Force {
			attached = true
		} else {
			releasing = true
		}
	}
	if attached {
		return attached, releasing, nil
	}
	interfaces, err := l.s.InterfacesOf(sc, r.ID)
	return len(interfaces) > 0, releasing, err
}

// dropMissing removes the volumes from an instance that has ended which are gone, or do not know it.
func (l Lifecycle) dropMissing(sc resource.Scope, r record.Instance) error {
	isMissing := func(b record.InstanceBlockDevice) bool {
		v, err := l.s.Volumes.Table.Get(sc, sc.Key(b.VolumeID))
		return errors.Is(err, store.ErrNotFound) || err == nil && !slices.Contains(v.Value.InstanceIDs(), r.ID)
	}
	if !slices.ContainsFunc(r.BlockDevices, isMissing) {
		return nil
	}
	return l.edit(sc, r, func(_ *resource.Change, r *record.Instance) error {
		r.BlockDevices = slices.DeleteFunc(slices.Clone(r.BlockDevices), isMissing)
		return nil
	})
}

// detachAll takes interfaces and volumes from an instance: those that go with it are deleted, the others detached. Each
// interface is a change of its own, because it may have many addresses.
func (l Lifecycle) detachAll(sc resource.Scope, r record.Instance) error {
	interfaces, err := l.s.InterfacesOf(sc, r.ID)
	if err != nil {
		return err
	}
	for _, ni := range interfaces {
		if err := l.s.CommitPlan(sc, nil, func(c *resource.Change) error {
			return endAttachment(c, ni.ID, r.ID)
		}); err != nil {
			return err
		}
	}
	return l.edit(sc, r, func(c *resource.Change, r *record.Instance) error { return detachVolumes(c, r) })
}

// endAttachment ends the attachment of an interface to an instance that has ended, if it is still attached to it.
func endAttachment(c *resource.Change, id, instanceID string) error {
	row, err := c.NetworkInterfaces.Table.Get(c, c.Key(id))
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
		_, err := networkinterface.Delete(c, id)
		return err
	}
	return c.NetworkInterfaces.UpdateRecord(c, id, func(ni *record.NetworkInterface) error {
		networkinterface.ReleasePublicIP(c, ni)
		ni.Attachment = nil
		return nil
	})
}

// detachVolumes takes the volumes without disks from an instance that has ended, and requests the detachment of the
// others.
func detachVolumes(c *resource.Change, r *record.Instance) error {
	var left []record.InstanceBlockDevice
	for _, b := range r.BlockDevices {
		v, err := c.Volumes.Table.Get(c, c.Key(b.VolumeID))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if !v.Value.Diskless {
			if b.Detaching.IsZero() {
				b.Detaching = c.Now().UTC()
			}
			b.Force = true
			left = append(left, b)
			continue
		}
		volumes := c.Volumes.WithHidden()
		if err := volumes.UpdateRecord(c, b.VolumeID, func(v *record.Volume) error {
			v.Detach(r.ID)
			return nil
		}); err != nil {
			return err
		}
		if b.DeleteOnTermination {
			if _, err := volumes.DeleteRecord(c, b.VolumeID); err != nil {
				return err
			}
		}
	}
	r.BlockDevices = left
	return nil
}

// forgetFleet deletes the row of an instant or deleted fleet with its last instance.
func forgetFleet(c *resource.Change, id string, r record.Instance) error {
	if id == "" {
		return nil
	}
	row, err := c.Fleets.Table.Get(c, c.Key(id))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || !row.Value.Done || row.Value.Type != types.FleetTypeInstant && !row.Value.Deleted {
		return err
	}
	for _, l := range row.Value.Launched {
		for _, other := range l.InstanceIDs {
			if _, err := c.Instances.Table.Get(c, c.Key(other)); other != r.ID && err == nil {
				return nil
			}
		}
	}
	_, err = c.Fleets.DeleteRecord(c, id)
	return err
}

// forgetReservation frees the client token of a launch with its last instance.
func forgetReservation(c *resource.Change, r record.Instance) error {
	if r.ClientToken == "" || r.Fargate != nil { // whose token is the instance's own
		return nil
	}
	all, err := c.Instances.List(c.Scope,
		func(other record.Instance) bool { return other.ReservationID == r.ReservationID })
	if err != nil || slices.ContainsFunc(all, func(other record.Instance) bool { return other.ID != r.ID }) {
		return err
	}
	key := record.EC2ClientTokenKey(c.Account, c.Region, reservationNames.Prefix, r.ClientToken)
	c.Add("token/"+r.ReservationID, func() store.Op { return c.ClientTokens.RemoveOp(key) })
	return nil
}
