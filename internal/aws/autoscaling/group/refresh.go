package group

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// refreshing is an instance refresh under way.
type refreshing struct {
	target *types.DesiredConfiguration
}

func (c *Controller) refresh(ctx context.Context, v *view) error { return nil }
