package controlplane

import (
	"context"
	"fmt"

	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// startComponents starts the components of a new cluster and applies the objects of EKS to it.
func (c *Controller) startComponents(
	ctx context.Context, p plane, specs components,
) (apiServer process.Spec, err error) {
	// Many at once would only be in each other's way.
	if err := c.starts.Acquire(ctx, 1); err != nil {
		return apiServer, err
	}
	defer c.starts.Release(1)
	group := recovery.Group(ctx)
	group.Go(func(ctx context.Context) (err error) {
		if apiServer, err = c.runAPIServer(ctx, p, specs, c.o.StartTimeout); err != nil {
			return err
		}
		crashAPIServerReady.Here()
		return c.startControllers(ctx, p, specs.others)
	})
	// The API server takes objects a second before it counts as ready: time enough for EKS's.
	group.Go(func(ctx context.Context) error {
		if err := c.awaitServing(ctx, p, specs.apiServer.Name); err != nil {
			return err
		}
		return c.bootstrap(ctx, p)
	})
	return apiServer, group.Wait()
}

// startControllers starts the controller manager and then, once it has made what users and tools
// look for first, the others: on few cores they would only be in its way.
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

// awaitServing waits until the API server answers at all.
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

// prepare takes the steps that every control plane stands on, and records where it is to be found.
func (c *Controller) prepare(ctx context.Context, cluster record.Cluster, minor string) (plane, error) {
	p := plane{cluster: cluster, minor: minor}
	group := recovery.Group(ctx)
	group.Go(func(ctx context.Context) (err error) {
		p.keys, err = c.ensureKeys(ctx, cluster)
		return err
	})
	group.Go(func(ctx context.Context) error { return c.ensureEtcdUser(ctx, cluster) })
	group.Go(func(ctx context.Context) (err error) {
		p.network, err = c.ensureNetwork(ctx, cluster)
		return err
	})
	group.Go(func(ctx context.Context) (err error) {
		p.program, err = c.ensureBundle(ctx, cluster, minor)
		return err
	})
	if err := group.Wait(); err != nil {
		return p, err
	}
	var err error
	if p.kms, err = c.ensureSecretsPlugin(cluster); err != nil {
		return p, err
	}
	if err = c.choosePorts(ctx, &p); err != nil {
		return p, err
	}
	return p, c.issueCertificates(p)
}

// unbuiltError reports that there is no bundle of the version and that none can be built.
type unbuiltError struct{ err error }

func (e *unbuiltError) Error() string { return e.err.Error() }
func (e *unbuiltError) Unwrap() error { return e.err }

func (c *Controller) ensureBundle(ctx context.Context, cluster record.Cluster, minor string) (string, error) {
	path, err := c.o.Bundles.Ensure(ctx, minor, upstream.Milestones(func(p upstream.Progress) {
		c.log.Info("building the Kubernetes programs that the cluster needs", "cluster", cluster.Name, "progress", p)
	}))
	if err != nil && ctx.Err() == nil {
		return "", &unbuiltError{fmt.Errorf("the Kubernetes %s programs cannot be had: %w", minor, err)}
	}
	return path, err
}

// exposeEndpoint exposes the API server as the endpoint access of the cluster requires.
func (c *Controller) exposeEndpoint(ctx context.Context, cluster record.Cluster) error {
	if err := c.o.Endpoints.Apply(ctx, cluster); err != nil {
		return fmt.Errorf("make the cluster's endpoint reachable: %w", err)
	}
	return nil
}
