package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// upgrade replaces the components of a cluster by those of another minor version, the API
// server first, as Kubernetes' version skew policy wants it. When one does not become healthy in
// time the update fails; that makes the former version the wanted one again, and maintain
// brings back whatever of it was replaced.
func (c *Controller) upgrade(ctx context.Context, cluster record.Cluster, seen record.ControlPlane, minor string) error {
	open, err := c.openUpdates(ctx, cluster)
	if err != nil {
		return err
	}
	open = slices.DeleteFunc(open, func(r store.Row[record.Update]) bool { return r.Value.Type != ekstypes.UpdateTypeVersionUpdate })
	c.log.Info("upgrading a cluster", "cluster", cluster.Name, "from", seen.Version, "to", minor)

	failure := c.replace(ctx, cluster, minor)
	if failure != nil {
		if ctx.Err() != nil || len(open) == 0 {
			return failure
		}
		c.log.Error("upgrade failed; the former version serves", "cluster", cluster.Name, "from", seen.Version, "to", minor, "error", failure)
		crashUpgradeFailing.Here()
		failure = fmt.Errorf("the upgrade from %s to %s failed, and %s serves again: %w", seen.Version, minor, seen.Version, failure)
		return errors.Join(c.endUpdates(ctx, open, failure), c.maintain(ctx, cluster, seen.Version))
	}
	return c.maintain(ctx, cluster, minor)
}

// replace brings every component to the minor version and records that it serves.
func (c *Controller) replace(ctx context.Context, cluster record.Cluster, minor string) error {
	p, err := c.prepare(ctx, cluster, minor)
	if err != nil {
		return err
	}
	components, err := c.specify(p)
	if err != nil {
		return err
	}
	if components.apiServer, err = c.runAPIServer(ctx, p, components, c.o.UpgradeTimeout); err != nil {
		return err
	}
	for _, spec := range components.others {
		if _, err := c.o.Host.Ensure(ctx, spec); err != nil {
			return err
		}
		if err := c.awaitHealthy(ctx, p, spec.Name); err != nil {
			return err
		}
	}
	crashUpgraded.Here()
	if err := c.bootstrap(ctx, p); err != nil {
		return err
	}
	version, err := c.serverVersion(p)
	if err != nil {
		return err
	}
	err = c.observe(ctx, cluster, func(o *record.ControlPlane) { o.Version, o.FullVersion = minor, version })
	crashUpgradeRecorded.Here()
	return err
}

// awaitHealthy waits until a component other than the API server says that it is well.
func (c *Controller) awaitHealthy(ctx context.Context, p plane, name string) error {
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: p.keys.ca.pem}}
	clients, err := client.New(config, "")
	if err != nil {
		return err
	}
	defer clients.Close()
	return c.await(ctx, name, c.o.UpgradeTimeout, func(ctx context.Context) error {
		_, err := get(ctx, clients.HTTP, healthURL(p, componentOf(name)))
		return err
	})
}
