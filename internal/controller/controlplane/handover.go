package controlplane

import (
	"context"
	"slices"
	"time"

	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/turn"
)

// An API server is replaced without an outage. The new one listens on the standby port, and as long as both run they
// are two API servers of one highly available cluster, which Kubernetes supports for neighboring minor versions. Once
// the new one is ready the two ports are swapped in the cluster's record: at that moment it takes over. New
// connections are forwarded to it, and the old one finishes its requests and is stopped.
//
// The record decides at any moment which one is to run: the desired one on the server port, if it already runs there,
// or else the desired one on the standby port.

// runAPIServer ensures that the desired API server is the cluster's only one, and returns which of its two
// specifications runs. It returns once that is ready and any other has stopped; when it does not get ready within
// timeout, the other still serves.
func (c *Controller) runAPIServer(ctx context.Context, p plane, specs components, timeout time.Duration) (
	process.Spec, error) {
	spec, port := specs.apiServer, p.server
	all := c.o.Host.List(apiServers(p.cluster.ID))
	handover := len(all) > 0 && !slices.ContainsFunc(all, func(s process.Status) bool { return s.Name == spec.Name })
	if handover {
		spec, port = specs.successor, p.standby
	}
	if handover && !turn.IsHeld(ctx) { // many at once would only slow each other down; a start has a place already
		held, release, err := c.handovers.Acquire(ctx, p.cluster.Account)
		if err != nil {
			return spec, err
		}
		defer release()
		ctx = held
	}
	was, err := c.o.Host.Ensure(ctx, spec)
	if err != nil {
		return spec, err
	}
	if handover {
		crashHandoverStarted.Here()
	} else {
		crashAPIServerStarted.Here()
	}
	if handover || !was.Running || c.clock.Since(was.Started) < readyAfter {
		if err := c.awaitReady(ctx, p, spec.Name, port, timeout); err != nil {
			return spec, err
		}
	}
	if handover {
		crashHandoverReady.Here()
		if err := c.observe(ctx, p.cluster, func(o *record.ControlPlane) {
			o.ServerPort, o.StandbyPort = p.standby,
				p.server
		}); err != nil {
			return spec, err
		}
		if err := c.o.Endpoints.ForwardPort(ctx, p.cluster); err != nil {
			return spec, err
		}
	}
	for _, old := range all {
		if old.Name == spec.Name {
			continue
		}
		c.log.Info("the API server is ready; stopping the other one", "cluster", p.cluster.Name, "serves", spec.Name,
			"stops", old.Name)
		if err := c.o.Host.Stop(ctx, old.Name); err != nil {
			return spec, err
		}
	}
	if handover {
		crashHandoverDone.Here()
	}
	return spec, nil
}

// readyAfter is the time that an API server must have run to be taken as ready without a check.
const readyAfter = time.Minute

// awaitReady waits for the very API server that listens on the port.
func (c *Controller) awaitReady(ctx context.Context, p plane, name string, port int, timeout time.Duration) error {
	clients, err := c.bootstrapClient(p)
	if err != nil {
		return err
	}
	defer clients.Close()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	return c.waitForAnswer(ctx, name, timeout, func(ctx context.Context) error {
		_, err := getHealth(ctx, clients.HTTP, localURL(port)+"/readyz")
		if unusable := c.secretsKeyError(p.cluster); err != nil && unusable != nil {
			giveUp(unusable) // without its key it does not get ready
		}
		return err
	})
}

// runningAPIServers returns the running API servers of the cluster.
func (c *Controller) runningAPIServers(clusterID string) []process.Status {
	return slices.DeleteFunc(c.o.Host.List(apiServers(clusterID)), func(s process.Status) bool { return !s.Running })
}
