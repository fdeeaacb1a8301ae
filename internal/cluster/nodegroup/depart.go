package nodegroup

import (
	"context"
	"time"
)

// depart drains nodes that leave the group for another reason than an update.
func (g *group) depart(ctx context.Context) (time.Duration, error) { return 0, nil }
