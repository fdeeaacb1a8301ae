package nodegroup

import (
	"context"
	"time"
)

// roll carries on the version update under way.
func (g *group) roll(ctx context.Context) (time.Duration, error) { return 0, nil }
