package resource

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Change collects the operations of one transaction. A row that is edited twice is written once.
type Change struct {
	Scope
	*Records
	order   []string
	pending map[string]*pending // by table and key
	volumes map[types.VolumeType]PlannedVolumes
}

// PlannedVolumes is what a change adds of volumes with disks, for their quotas.
type PlannedVolumes struct {
	Count int
	Size  int64 // GiB
}

// PlanVolume counts volumes that the change adds, or makes larger by so many GiB. It returns how many volumes the
// change adds, and the storage of the type.
func (c *Change) PlanVolume(kind types.VolumeType, size int32, count int) PlannedVolumes {
	if c.volumes == nil {
		c.volumes = map[types.VolumeType]PlannedVolumes{}
	}
	planned := c.volumes[kind]
	planned.Count, planned.Size = planned.Count+count, planned.Size+int64(size)
	c.volumes[kind] = planned
	all := PlannedVolumes{Size: planned.Size}
	for _, p := range c.volumes {
		all.Count += p.Count
	}
	return all
}

// pending is the part of a change that concerns one record.
type pending struct {
	row any // *store.Row[R] of an edited row
	op  func() store.Op
	// weak operations only ask for a row's presence or revision, and give way to those that write it.
	weak bool
}

// ApplyChange carries out a plan: all that it collects, or nothing. The plan runs again when another writer came
// between its reading and the commit, so it has no effect but through its change. With dryRun nothing is committed.
func (s *Records) ApplyChange(ctx context.Context, dryRun *bool, plan func(*Change) error) error {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return err
	}
	return s.CommitPlan(sc, dryRun, plan)
}

// CommitPlan is like ApplyChange, in a given scope.
func (s *Records) CommitPlan(sc Scope, dryRun *bool, plan func(*Change) error) error {
	sc.DryRun = sc.DryRun || aws.ToBool(dryRun)
	for {
		c := NewChange(s, sc)
		if err := plan(c); err != nil {
			return err
		}
		if aws.ToBool(dryRun) {
			return ErrDryRun
		}
		ops := make([]store.Op, len(c.order))
		for i, name := range c.order {
			ops[i] = c.pending[name].op()
		}
		if len(ops) == 0 {
			return nil
		}
		err := s.Store.Txn(sc, ops...)
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrExists) &&
			!errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
}

// NewChange returns a change of the records in which nothing is planned yet.
func NewChange(s *Records, sc Scope) *Change {
	return &Change{Scope: sc, Records: s, pending: map[string]*pending{}}
}

// Reset forgets what has been planned.
func (c *Change) Reset() { c.order, c.pending, c.volumes = nil, map[string]*pending{}, nil }

// Add plans an operation on a row, which name identifies in the change.
func (c *Change) Add(name string, op func() store.Op) { c.add(name, &pending{op: op}) }

// AddRow plans an operation on a row that later steps of the plan may edit, too: they find it with PlannedRow.
func (c *Change) AddRow(name string, row any, op func() store.Op) {
	c.add(name, &pending{row: row, op: op})
}

// PlannedRow returns the row that an operation of the change writes; nil when none was given with it.
func (c *Change) PlannedRow(name string) (row any, planned bool) {
	p, planned := c.pending[name]
	if !planned {
		return nil, false
	}
	return p.row, true
}

// add puts an operation on a row into the change.
func (c *Change) add(name string, p *pending) {
	old, there := c.pending[name]
	if !there {
		c.order = append(c.order, name)
	}
	if !there || old.weak || !p.weak {
		c.pending[name] = p
	}
}

// Require demands that the resource is still there as it is now, and refuses an id that does not exist.
func (k Kind[R]) Require(c *Change, id string) error {
	row, err := k.Get(c.Scope, id)
	if err == nil {
		c.add(id, &pending{weak: true, op: func() store.Op { return k.Table.CheckOp(row) }})
	}
	return err
}

// Hold demands that the resource is still as it was read.
func (k Kind[R]) Hold(c *Change, row store.Row[R]) {
	c.add(row.Value.Identity().ID, &pending{weak: true, op: func() store.Op { return k.Table.CheckOp(row) }})
}

// CreateRecord adds a new resource.
func (k Kind[R]) CreateRecord(c *Change, row R) {
	key := row.Identity().Key()
	c.add(row.Identity().ID, &pending{op: func() store.Op { return k.Table.CreateOp(key, row) }})
}

// UpdateRecord changes a resource. What edit returns an error about is not changed.
func (k Kind[R]) UpdateRecord(c *Change, id string, edit func(*R) error) error {
	if err := k.Validate(id); err != nil {
		return err
	}
	if p, ok := c.pending[id]; ok {
		if row, ok := p.row.(*store.Row[R]); ok && !k.isHidden(row.Value) {
			return edit(&row.Value)
		}
	}
	row, err := k.Table.Copy(c, c.Key(id))
	if errors.Is(err, store.ErrNotFound) || err == nil && k.isHidden(row.Value) {
		return k.Missing(id)
	}
	if err != nil {
		return err
	}
	if err := edit(&row.Value); err != nil {
		return err
	}
	c.add(id, &pending{row: &row, op: func() store.Op { return k.Table.UpdateOp(row) }})
	return nil
}

// ClaimRecord writes a resource as it is, so that of two changes which rely on it only one goes through unseen by the
// other.
func (k Kind[R]) ClaimRecord(c *Change, id string) error {
	return k.UpdateRecord(c, id, func(*R) error { return nil })
}

// DeleteRecord deletes a resource, as it returns it, with its tags and its client token.
func (k Kind[R]) DeleteRecord(c *Change, id string) (R, error) {
	row, err := k.Get(c.Scope, id)
	if err != nil {
		return row.Value, err
	}
	c.add(id, &pending{op: func() store.Op { return k.Table.DeleteOp(row) }})
	c.RemoveTags(id)
	if token := row.Value.Identity().ClientToken; token != "" {
		key := record.EC2ClientTokenKey(c.Account, c.Region, k.Prefix, token)
		c.add("token/"+id, &pending{op: func() store.Op { return c.ClientTokens.RemoveOp(key) }})
	}
	return row.Value, nil
}

// TouchVPC records that something in a VPC is created or refers to something else: changes that require the VPC to be
// unchanged are then planned again. The change must also require or write something that keeps the VPC from being
// deleted.
func (c *Change) TouchVPC(vpcID string) {
	c.add("contents/"+vpcID, &pending{weak: true, op: func() store.Op {
		return c.VPCContents.PutOp(c.Key(vpcID), record.VPCContents{})
	}})
}

// RequireUnchanged makes the change fail, and be planned again, when something in the VPC changes from now on.
func (c *Change) RequireUnchanged(vpcID string) error {
	row, err := c.VPCContents.Get(c, c.Key(vpcID))
	if errors.Is(err, store.ErrNotFound) {
		return c.VPCs.Missing(vpcID)
	}
	if err != nil {
		return err
	}
	c.add("contents/"+vpcID, &pending{row: &row, op: func() store.Op { return c.VPCContents.UpdateOp(row) }})
	return nil
}

// ReleaseVPC deletes the contents row of a VPC that is held and goes.
func (c *Change) ReleaseVPC(vpcID string) {
	held := c.pending["contents/"+vpcID]
	row := held.row.(*store.Row[record.VPCContents])
	held.op = func() store.Op { return c.VPCContents.DeleteOp(*row) }
}

// CheckClientToken makes a creation idempotent. It returns the id of what the token's first request created, or
// remembers in the change that the request creates id. token may be nil; request are the parameters.
func (c *Change) CheckClientToken(token *string, kind Naming, id string, request any) (prior string, err error) {
	if aws.ToString(token) == "" {
		return "", nil
	}
	hash := wire.Fingerprint(request)
	key := record.EC2ClientTokenKey(c.Account, c.Region, kind.Prefix, *token)
	row, err := c.ClientTokens.Get(c, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		c.add("token/"+id, &pending{op: func() store.Op {
			return c.ClientTokens.CreateOp(key, record.EC2ClientToken{RequestHash: hash, ResourceID: id})
		}})
		return "", nil
	case err != nil:
		return "", err
	}
	if _, err := wire.Repeated(c, token, hash, *token, row.Value.RequestHash); err != nil {
		return "", err
	}
	return row.Value.ResourceID, nil
}

// NewResource returns what the record of a new resource begins with.
func (c *Change) NewResource(id string, token *string) record.EC2Resource {
	return record.EC2Resource{Account: c.Account, Region: c.Region, ID: id, CreatedAt: c.Now().UTC(),
		ClientToken: aws.ToString(token)}
}
