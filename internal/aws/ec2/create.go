package ec2

import (
	"context"

	"github.com/coracle-eks/coracle/internal/record"
)

// made carries out a plan that ends with the id of a resource, new or existing, and shows that resource.
func made[R interface{ Identity() record.EC2Resource }, V any](ctx context.Context, s *Service, dryRun *bool, k kind[R, V], plan func(*change) (string, error)) (*V, error) {
	var id string
	err := s.write(ctx, dryRun, func(c *change) (err error) {
		id, err = plan(c)
		return err
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
