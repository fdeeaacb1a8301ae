package resource

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Creation is the common part of the calls that create a resource.
type Creation struct {
	DryRun *bool
	Tags   []types.TagSpecification
	// Token makes the call idempotent: under the same token the request must be the same.
	Token   *string
	Request any
}

// Create carries out a plan that makes the resource with the given id, tags it, and shows it. A client token that has
// been seen shows what it created then.
func (k View[R, V]) Create(ctx context.Context, how Creation, plan func(c *Change, id string) error) (*V, error) {
	var id string
	err := k.records.ApplyChange(ctx, how.DryRun, func(c *Change) error {
		id = NewID(k.Prefix)
		prior, err := c.CheckClientToken(how.Token, k.Naming, id, how.Request)
		if err != nil {
			return err
		}
		if prior != "" {
			id = prior
			return nil
		}
		if err := plan(c, id); err != nil {
			return err
		}
		return c.AddTags(k.Resource, id, how.Tags)
	})
	if err != nil {
		return nil, err
	}
	sc, err := ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	row, err := k.Get(sc, id)
	if err != nil {
		return nil, err
	}
	view := k.Show(sc, row.Value)
	return &view, nil
}

// HoldVPC returns the VPC with that ID, held for the change.
func (c *Change) HoldVPC(id *string) (record.VPC, error) {
	vpc, err := c.VPCs.GetRecord(c.Scope, id)
	if err == nil {
		err = c.RequireUnchanged(vpc.ID)
	}
	return vpc, err
}

// CheckQuota refuses one more resource of a kind where there are as many as may be.
func (k Kind[R]) CheckQuota(sc Scope, most int, fits func(R) bool, code, what string) error {
	all, err := k.List(sc, fits)
	if err == nil && len(all) >= most {
		err = wire.Errorf(code, "The maximum number of %s has been reached.", what)
	}
	return err
}

// ReleaseToken frees the client token of a resource that is deleted, and whose record stays for some time.
func (c *Change) ReleaseToken(names Naming, r *record.EC2Resource) {
	if r.ClientToken == "" {
		return
	}
	key := record.EC2ClientTokenKey(c.Account, c.Region, names.Prefix, r.ClientToken)
	r.ClientToken = ""
	c.Add("token/"+r.ID, func() store.Op { return c.ClientTokens.RemoveOp(key) })
}
