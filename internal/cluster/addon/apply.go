package addon

import (
	"context"

	"github.com/coracle-eks/coracle/internal/record"
)

func (c *Controller) apply(ctx context.Context, cluster record.Cluster, plane record.ControlPlane) error {
	_, err := c.o.Config(ctx, cluster, user, group)
	return err
}
