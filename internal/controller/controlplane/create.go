package controlplane

import (
	"context"

	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/recovery"
)

// startComponents starts the components of a new cluster and applies the objects of EKS to it.
func (c *Controller) startComponents(
	ctx context.Context, p plane, specs components,
) (apiServer process.Spec, err error) {
	// Many at once would only slow each other down.
	ctx, release, err := c.starts.Acquire(ctx, p.cluster.Account)
	if err != nil {
		return apiServer, err
	}
	defer release()
	group := recovery.Group(ctx)
	group.Go(func(ctx context.Context) (err error) {
		if apiServer, err = c.runAPIServer(ctx, p, specs, c.o.StartTimeout); err != nil {
			return err
		}
		crashAPIServerReady.Here()
		return c.startControllers(ctx, p, specs.others)
	})
	// The API server accepts objects a second before it is ready: use that second.
	group.Go(func(ctx context.Context) error {
		if err := c.awaitServing(ctx, p, specs.apiServer.Name); err != nil {
			return err
		}
		return c.bootstrap(ctx, p)
	})
	return apiServer, group.Wait()
}

// startControllers starts the controller manager and, once it has created the default service account, the others. All
// at once they would only slow each other down on a few cores.
func (c *Controller) startControllers(ctx context.Context, p plane, specs []process.Spec) error {
	if _, err := c.o.Host.Ensure(ctx, specs[0]); err != nil {
		return err
	}
	if err := c.awaitDefaultServiceAccount(ctx, p, specs[0].Name); err != nil {
		return err
	}
	for _, spec := range specs[1:] {
		if _, err := c.o.Host.Ensure(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

// awaitServing waits until the API server answers requests, before it is ready.
func (c *Controller) awaitServing(ctx context.Context, p plane, name string) error {
	clients, err := c.bootstrapClient(p)
	if err != nil {
		return err
	}
	defer clients.Close()
	return c.waitForAnswer(ctx, name, c.o.StartTimeout, func(ctx context.Context) error {
		_, err := getHealth(ctx, clients.HTTP, p.serverURL()+"/version")
		return err
	})
}
