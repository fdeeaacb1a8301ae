package nodegroup

import (
	"context"
	"time"
)

// bring is the story of a node group. Each step makes what is missing, and finds what was made before.
func (g *group) bring(ctx context.Context) (after time.Duration, err error) {
	if err := g.describe(ctx); err != nil {
		return 0, err
	}
	for _, step := range []func(context.Context) (time.Duration, error){g.roll, g.depart, g.repair} {
		wait, err := step(ctx)
		if err != nil {
			return 0, err
		}
		after = sooner(after, wait)
	}
	return after, nil
}
