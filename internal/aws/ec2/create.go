package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// creation is what the calls that create something have in common.
type creation struct {
	dryRun *bool
	tags   []types.TagSpecification
	// token makes the call idempotent: under the same token the request must be the same.
	token   *string
	request any
}

// createResource carries out a plan that makes the resource with the given id, tags it, and shows it. A client token
// that has been seen shows what it created then.
func createResource[R interface{ Identity() record.EC2Resource }, V any](ctx context.Context, s *Service, k kind[R, V],
	how creation, plan func(c *change, id string) error) (*V, error) {
	var id string
	err := s.applyChange(ctx, how.dryRun, func(c *change) error {
		id = newID(k.prefix)
		prior, err := c.checkClientToken(how.token, k.naming, id, how.request)
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
		return c.addTags(k.resource, id, how.tags)
	})
	if err != nil {
		return nil, err
	}
	in, err := scopeOf(ctx)
	if err != nil {
		return nil, err
	}
	row, err := k.get(in, id)
	if err != nil {
		return nil, err
	}
	view := k.view(in, row.Value)
	return &view, nil
}

// holdVPC is the VPC with that id, held for the change.
func (c *change) holdVPC(id *string) (record.VPC, error) {
	vpc, err := c.s.vpcs.getRecord(c.scope, id)
	if err == nil {
		err = c.requireUnchanged(vpc.ID)
	}
	return vpc, err
}

// checkQuota refuses one more resource of a kind where there are as many as may be.
func (k kind[R, V]) checkQuota(in scope, most int, fits func(R) bool, code, what string) error {
	all, err := k.list(in, fits)
	if err == nil && len(all) >= most {
		err = wire.Errorf(code, "The maximum number of %s has been reached.", what)
	}
	return err
}
