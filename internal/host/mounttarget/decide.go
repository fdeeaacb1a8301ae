//go:build linux

package mounttarget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/filesystem"
	"github.com/coracle-eks/coracle/internal/host/mountgrant"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// refuse returns a grant of nothing.
func refuse(errno unix.Errno, format string, args ...any) mountgrant.Grant {
	return mountgrant.Grant{Refused: &mountgrant.Refusal{Errno: uint32(errno), Message: fmt.Sprintf(format, args...)}}
}

// mostRead is how many bytes of records are read to decide about a mount: it is more than what a VPC may have of mount
// targets, and a principal of policies.
const mostRead = 8 << 20

// How many mounts of an account are decided about at a time, and how long others wait for them: less than a launcher
// waits for the answer. They are no requests of the APIs, which have a bound of their own, and what a decision takes
// depends on policies of the account.
const (
	mostDeciding = 8
	decisionWait = 10 * time.Second
)

// decide decides about a request that has come from one address of a VPC to another.
func (c *Controller) decide(ctx context.Context, vpc string, local, remote netip.Addr, asked *mountgrant.Asked,
) mountgrant.Grant {
	ctx = store.Bounded(ctx, mostRead)
	target, err := c.targetAt(ctx, vpc, local)
	if errors.Is(err, store.ErrNotFound) {
		return refuse(unix.ECONNREFUSED, "%s is the address of no mount target any more", local)
	}
	if err != nil {
		return c.fail(asked, err)
	}
	state, err := c.available(ctx, target)
	if err != nil {
		return c.fail(asked, err)
	}
	if state != efstypes.LifeCycleStateAvailable {
		return refuse(unix.ECONNREFUSED, "the mount target %s is %s", target.ID, state)
	}
	// The machine is the one that it claims to be. Its packets have to come from an address of its own: a client behind
	// another instance's is that instance's.
	if !c.o.Network.Carries(vpc, remote, record.EC2Key(target.Account, target.Region, asked.InstanceID)) {
		return refuse(unix.EACCES, "%s, from which the mount target %s was reached, is no address of %s in its VPC",
			remote, target.ID, asked.InstanceID)
	}
	if want := asked.Request.FileSystemID; want != "" && want != target.FileSystemID {
		return refuse(unix.EACCES, "%s is the address of a mount target of %s, not of %s", local, target.FileSystemID, want)
	}
	waiting, cancel := context.WithTimeout(ctx, decisionWait)
	defer cancel()
	_, end, err := c.turns.Acquire(waiting, target.Account)
	if err != nil {
		return refuse(unix.ETIMEDOUT, "%d other mounts of account %s are being decided about: try again", mostDeciding,
			target.Account)
	}
	defer end()
	grant, err := c.o.Authorizer.AuthorizeMount(ctx, filesystem.MountRequest{
		Account: target.Account, Region: target.Region, FileSystemID: target.FileSystemID, MountTargetID: target.ID,
		AccessPointID: asked.Request.AccessPointID, TLS: asked.Request.TLS, Signed: asked.Request.Signed,
	})
	var refused *filesystem.RefusedError
	if errors.As(err, &refused) {
		return refuse(errnoOf(refused.Code), "%s", refused.Error())
	}
	if err != nil {
		return c.fail(asked, err)
	}
	if a := grant.AccessPoint; a != nil {
		if id := invalidID(*a); id != 0 {
			return refuse(unix.EACCES, "the access point %s has the ID %d, which no user or group can have: create another one",
				a.ID, id)
		}
	}
	return c.grant(target, grant)
}

// invalidID returns an ID of an access point that no user or group can have; 0 if it has none. The last one stands for
// none, and the one before owns what is being deleted.
func invalidID(a record.AccessPoint) uint32 {
	var ids []uint32
	if u := a.User; u != nil {
		ids = append(slices.Clone(u.SecondaryGIDs), u.UID, u.GID)
	}
	if c := a.Creation; c != nil {
		ids = append(ids, c.UID, c.GID)
	}
	if highest := slices.Max(append(ids, 0)); highest >= math.MaxUint32-1 {
		return highest
	}
	return 0
}

// fail returns the answer when something does not work here.
func (c *Controller) fail(asked *mountgrant.Asked, err error) mountgrant.Grant {
	c.o.Log.Error("cannot decide about a mount of an EFS file system", "instance", asked.InstanceID, "error", err)
	return refuse(unix.EIO, "the daemon could not decide about this mount; its log says why")
}

// errnoOf returns the error of mount(2) for a refusal.
func errnoOf(code string) unix.Errno {
	switch code {
	case "IncorrectFileSystemLifeCycleState", "IncorrectMountTargetState", "MountTargetNotFound", "FileSystemNotFound":
		return unix.ECONNREFUSED
	}
	return unix.EACCES
}

func (c *Controller) targetAt(ctx context.Context, vpc string, address netip.Addr) (record.MountTarget, error) {
	rows, err := c.byVPC.List(ctx, vpc)
	if err != nil {
		return record.MountTarget{}, err
	}
	for _, row := range rows {
		for _, text := range []string{row.Value.IPAddress, row.Value.IPv6Address} {
			if own, err := netip.ParseAddr(text); err == nil && own == address {
				return row.Value, nil
			}
		}
	}
	return record.MountTarget{}, store.ErrNotFound
}

func (c *Controller) grant(target record.MountTarget, g filesystem.MountGrant) mountgrant.Grant {
	grant := mountgrant.Grant{FileSystemID: target.FileSystemID, Root: c.o.Root(target.FileSystemID),
		ReadOnly: g.ReadOnly, SquashRoot: g.SquashRoot}
	if a := g.AccessPoint; a != nil {
		point := &mountgrant.AccessPoint{ID: a.ID, Path: a.Path}
		if u := a.User; u != nil {
			point.User = &mountgrant.User{UID: u.UID, GID: u.GID, Groups: slices.Clone(u.SecondaryGIDs)}
			if g.SquashRoot {
				squash(point.User)
			}
		}
		if m := a.Creation; m != nil {
			point.Creation = &mountgrant.Creation{UID: m.UID, GID: m.GID, Mode: m.Mode}
		}
		grant.AccessPoint = point
	}
	return grant
}

// squash makes root nobody.
func squash(u *mountgrant.User) {
	ids := []*uint32{&u.UID, &u.GID}
	for i := range u.Groups {
		ids = append(ids, &u.Groups[i])
	}
	for _, id := range ids {
		if *id == 0 {
			*id = filesystem.Nobody
		}
	}
}
