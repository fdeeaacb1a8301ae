package controlplane

import (
	"context"

	"github.com/coracle-eks/coracle/internal/process"
)

// replaceComponents replaces the components of a cluster with those of another minor version, the API server first, as
// the version skew policy of Kubernetes requires. It fails when one does not become healthy in time.
func (c *Controller) replaceComponents(
	ctx context.Context, p plane, specs components,
) (apiServer process.Spec, err error) {
	if apiServer, err = c.runAPIServer(ctx, p, specs, c.o.UpgradeTimeout); err != nil {
		return apiServer, err
	}
	for _, spec := range specs.others {
		if _, err := c.o.Host.Ensure(ctx, spec); err != nil {
			return apiServer, err
		}
		if err := c.awaitHealthy(ctx, p, spec.Name); err != nil {
			return apiServer, err
		}
	}
	crashUpgraded.Here()
	return apiServer, c.bootstrap(ctx, p)
}
