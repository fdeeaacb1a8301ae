package ec2

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// change collects the operations of one transaction. A row that is edited twice is written once.
type change struct {
	scope
	s       *Service
	order   []string
	pending map[string]*pending // by table and key
}

// pending is what the change does to one row.
type pending struct {
	row any // *store.Row[R] of an edited row
	op  func() store.Op
	// weak operations only ask for a row's presence or revision, and give way to those that write it.
	weak bool
}

// applyChange carries out a plan: all that it collects, or nothing. The plan runs again when another writer came
// between its reading and the commit, so it has no effect but through its change. With dryRun nothing is committed.
func (s *Service) applyChange(ctx context.Context, dryRun *bool, plan func(*change) error) error {
	in, err := s.requestScope(ctx)
	if err != nil {
		return err
	}
	return s.commitPlan(in, dryRun, plan)
}

func (s *Service) commitPlan(in scope, dryRun *bool, plan func(*change) error) error {
	for {
		c := &change{scope: in, s: s, pending: map[string]*pending{}}
		if err := plan(c); err != nil {
			return err
		}
		if aws.ToBool(dryRun) {
			return errDryRun
		}
		ops := make([]store.Op, len(c.order))
		for i, name := range c.order {
			ops[i] = c.pending[name].op()
		}
		if len(ops) == 0 {
			return nil
		}
		err := s.store.Txn(in, ops...)
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrExists) &&
			!errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
}

// add puts an operation on a row into the change.
func (c *change) add(name string, p *pending) {
	old, there := c.pending[name]
	if !there {
		c.order = append(c.order, name)
	}
	if !there || old.weak || !p.weak {
		c.pending[name] = p
	}
}

// require demands that the resource is still there as it is now, and refuses an id that does not exist.
func (k kind[R, V]) require(c *change, id string) error {
	row, err := k.get(c.scope, id)
	if err == nil {
		c.add(id, &pending{weak: true, op: func() store.Op { return k.table.CheckOp(row) }})
	}
	return err
}

// createRecord adds a new resource.
func (k kind[R, V]) createRecord(c *change, row R) {
	key := row.Identity().Key()
	c.add(row.Identity().ID, &pending{op: func() store.Op { return k.table.CreateOp(key, row) }})
}

// updateRecord changes a resource. What edit returns an error about is not changed.
func (k kind[R, V]) updateRecord(c *change, id string, edit func(*R) error) error {
	if err := k.validate(id); err != nil {
		return err
	}
	if p, ok := c.pending[id]; ok {
		if row, ok := p.row.(*store.Row[R]); ok {
			return edit(&row.Value)
		}
	}
	row, err := k.table.Copy(c, c.key(id))
	if errors.Is(err, store.ErrNotFound) {
		return k.missing(id)
	}
	if err != nil {
		return err
	}
	if err := edit(&row.Value); err != nil {
		return err
	}
	c.add(id, &pending{row: &row, op: func() store.Op { return k.table.UpdateOp(row) }})
	return nil
}

// claimRecord writes a resource as it is, so that of two changes which rely on it only one goes through unseen by the
// other.
func (k kind[R, V]) claimRecord(c *change, id string) error {
	return k.updateRecord(c, id, func(*R) error { return nil })
}

// deleteRecord deletes a resource, as it returns it, with its tags and its client token.
func (k kind[R, V]) deleteRecord(c *change, id string) (R, error) {
	row, err := k.get(c.scope, id)
	if err != nil {
		return row.Value, err
	}
	c.add(id, &pending{op: func() store.Op { return k.table.DeleteOp(row) }})
	c.removeTags(id)
	if token := row.Value.Identity().ClientToken; token != "" {
		key := record.EC2ClientTokenKey(c.account, c.region, k.prefix, token)
		c.add("token/"+id, &pending{op: func() store.Op { return c.s.tokens.RemoveOp(key) }})
	}
	return row.Value, nil
}

// touchVPC tells those who hold a VPC that something in it comes or refers to something else. The change must also
// require or write something that keeps the VPC from being deleted.
func (c *change) touchVPC(vpcID string) {
	c.add("contents/"+vpcID, &pending{weak: true, op: func() store.Op {
		return c.s.contents.PutOp(c.key(vpcID), record.VPCContents{})
	}})
}

// requireUnchanged makes the change fail, and be planned again, when something in the VPC changes from now on.
func (c *change) requireUnchanged(vpcID string) error {
	row, err := c.s.contents.Get(c, c.key(vpcID))
	if errors.Is(err, store.ErrNotFound) {
		return c.s.vpcs.missing(vpcID)
	}
	if err != nil {
		return err
	}
	c.add("contents/"+vpcID, &pending{row: &row, op: func() store.Op { return c.s.contents.UpdateOp(row) }})
	return nil
}

// release deletes the contents row of a VPC that is held and goes.
func (c *change) release(vpcID string) {
	held := c.pending["contents/"+vpcID]
	row := held.row.(*store.Row[record.VPCContents])
	held.op = func() store.Op { return c.s.contents.DeleteOp(*row) }
}

// checkClientToken makes a creation idempotent. It returns the id of what the token's first request created, or
// remembers in the change that the request creates id. token may be nil; request are the parameters.
func (c *change) checkClientToken(token *string, kind naming, id string, request any) (prior string, err error) {
	if aws.ToString(token) == "" {
		return "", nil
	}
	hash := wire.Fingerprint(request)
	key := record.EC2ClientTokenKey(c.account, c.region, kind.prefix, *token)
	row, err := c.s.tokens.Get(c, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		c.add("token/"+id, &pending{op: func() store.Op {
			return c.s.tokens.CreateOp(key, record.EC2ClientToken{RequestHash: hash, ResourceID: id})
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

// identity is what a new resource of the kind begins with.
func (c *change) identity(id string, token *string) record.EC2Resource {
	return record.EC2Resource{Account: c.account, Region: c.region, ID: id, CreatedAt: c.s.now().UTC(),
		ClientToken: aws.ToString(token)}
}
