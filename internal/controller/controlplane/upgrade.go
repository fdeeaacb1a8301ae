package controlplane

import (
	"context"

	"github.com/coracle-eks/coracle/internal/process"
)

// replace replaces the components of a cluster by those of another minor version, the API server first, as Kubernetes'
// version skew policy wants it. It fails when one does not become healthy in time.
func (c *Controller) replace(ctx context.Context, p plane, specs components) (apiServer process.Spec, err error) {
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
