package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/sourcegraph/conc"

	"github.com/coracle-eks/coracle/internal/kube/componentlog"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// transition is the kind of change that Converge makes to a control plane.
type transition int

const (
	maintain transition = iota // run the same version, with the current configuration
	create                     // run the components of a new cluster, and mark it Ready
	upgrade                    // run the components of another minor version
)

func transitionOf(seen record.ControlPlane, minor string) transition {
	switch {
	case !seen.Ready:
		return create
	case seen.Version != minor:
		return upgrade
	}
	return maintain
}

// Converge creates, maintains or upgrades the control plane of a cluster: it runs the components of the minor version
// with the configuration of the cluster's record, and ends the updates that requested it. seen is the last observed
// state. Every step is idempotent; a cluster in which nothing has changed costs a few reads.
func (c *Controller) Converge(
	ctx context.Context, cluster record.Cluster, seen record.ControlPlane, minor string,
) error {
	began := c.clock.Now()
	open, err := c.openUpdates(ctx, cluster)
	if err != nil {
		return err
	}
	// Read the cluster after the updates: its record must be at least as new as the updates that are ended for it.
	row, err := c.clusters.Get(ctx, cluster.Key())
	if errors.Is(err, store.ErrNotFound) || err == nil && (row.Value.Deleting || row.Value.ID != cluster.ID) {
		return errUnwanted
	}
	if err != nil {
		return err
	}
	cluster = row.Value
	if wanted, err := c.wantedVersion(ctx, cluster); err != nil || wanted != minor {
		return err // a version update has come meanwhile, and queued the key
	}
	change := transitionOf(seen, minor)
	if change == upgrade {
		c.log.Info("changing the version of a cluster", "cluster", cluster.Name, "from", seen.Version, "to", minor)
	}

	p, components, err := c.runComponents(ctx, cluster, minor, change)
	if err != nil {
		return c.recordFailure(ctx, cluster, seen, minor, open, err)
	}
	if err := c.recordAccepted(ctx, p); err != nil {
		return err
	}
	if err := c.recordAuthorities(ctx, p); err != nil {
		return err
	}
	if err := c.exposeEndpoint(ctx, cluster); err != nil {
		return err
	}
	if change != maintain {
		version, err := c.recordVersion(ctx, p, change)
		if err != nil {
			return err
		}
		c.log.Info("cluster is ready", "cluster", cluster.Name, "version", version,
			"endpoint", p.endpoint(), "took", c.clock.Since(began))
	}
	if err := c.removeUnused(ctx, cluster, components); err != nil {
		return err
	}
	if err := c.encryptSecretsAgain(ctx, p, open); err != nil {
		return err
	}
	if err := c.endUpdates(ctx, open, nil); err != nil {
		return err
	}
	if change == create {
		return c.generateStandbyKeys()
	}
	return nil
}

// runComponents prepares the dependencies of the components, runs them, and applies the objects of EKS to the cluster.
func (c *Controller) runComponents(
	ctx context.Context, cluster record.Cluster, minor string, change transition,
) (plane, components, error) {
	p, err := c.prepare(ctx, cluster, minor)
	if err != nil {
		return p, components{}, err
	}
	specs, err := c.renderComponents(p)
	if err != nil {
		return p, specs, err
	}
	switch change {
	case create:
		crashPrepared.Here()
		specs.apiServer, err = c.startComponents(ctx, p, specs)
	case upgrade:
		specs.apiServer, err = c.replaceComponents(ctx, p, specs)
	case maintain:
		specs.apiServer, err = c.ensureComponents(ctx, p, specs)
	}
	return p, specs, err
}

// prepare ensures what the components need: keys, the network interfaces, the programs, the KMS plugin, the ports, the
// etcd user and certificates. It records the ports and addresses.
func (c *Controller) prepare(ctx context.Context, cluster record.Cluster, minor string) (plane, error) {
	p := plane{cluster: cluster, minor: minor}
	group := recovery.Group(ctx)
	group.Go(func(ctx context.Context) (err error) {
		p.keys, err = c.ensureKeys(ctx, cluster)
		return err
	})
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
	// After all that can fail: etcd divides itself among its users, and a cluster that cannot start is none.
	if err = c.ensureEtcdUser(ctx, cluster); err != nil {
		return p, err
	}
	return p, c.issueCertificates(p)
}

// unbuiltError reports that there is no bundle of the version and that none can be built.
type unbuiltError struct{ err error }

func (e *unbuiltError) Error() string { return e.err.Error() }
func (e *unbuiltError) Unwrap() error { return e.err }

func (c *Controller) ensureBundle(ctx context.Context, cluster record.Cluster, minor string) (string, error) {
	// Whoever builds waits for nobody: the newest report is recorded when the store has taken the one before.
	reports := make(chan upstream.Progress, 1)
	var recording conc.WaitGroup
	recording.Go(func() {
		for p := range reports {
			c.recordBuilding(ctx, cluster, fmt.Sprintf("%s (%d%%)", p, p.Percent()))
		}
	})
	path, err := c.o.Bundles.Ensure(ctx, minor, upstream.Milestones(func(p upstream.Progress) {
		c.log.Info("building the Kubernetes programs that the cluster needs", "cluster", cluster.Name, "progress", p,
			"percent", p.Percent())
		select {
		case <-reports:
		default:
		}
		reports <- p
	}))
	close(reports)
	recording.Wait()
	c.recordBuilding(context.WithoutCancel(ctx), cluster, "")
	if err != nil && ctx.Err() == nil {
		return "", &unbuiltError{fmt.Errorf("the Kubernetes %s programs cannot be had: %w", minor, err)}
	}
	return path, err
}

// recordBuilding records how far the programs are that the cluster waits for. It is for those who look on: the cluster
// comes up without it.
func (c *Controller) recordBuilding(ctx context.Context, cluster record.Cluster, progress string) {
	err := c.observe(ctx, cluster, func(p *record.ControlPlane) { p.Building = progress })
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
		c.log.Warn("the progress of a build is not recorded", "cluster", cluster.Name, "error", err)
	}
}

// exposeEndpoint exposes the API server as the endpoint access of the cluster requires.
func (c *Controller) exposeEndpoint(ctx context.Context, cluster record.Cluster) error {
	if err := c.o.Endpoints.Apply(ctx, cluster); err != nil {
		return fmt.Errorf("make the cluster's endpoint reachable: %w", err)
	}
	return nil
}

// ensureComponents starts the components that do not run.
func (c *Controller) ensureComponents(
	ctx context.Context, p plane, specs components,
) (apiServer process.Spec, err error) {
	if apiServer, err = c.runAPIServer(ctx, p, specs, c.o.UpgradeTimeout); err != nil {
		return apiServer, err
	}
	for _, spec := range specs.others {
		if _, err := c.o.Host.Ensure(ctx, spec); err != nil {
			return apiServer, err
		}
	}
	return apiServer, c.bootstrap(ctx, p)
}

// recordVersion records that a new cluster is ready, or that the version of an upgrade serves, and returns that in
// full.
func (c *Controller) recordVersion(ctx context.Context, p plane, change transition) (string, error) {
	version, err := c.serverVersion(ctx, p)
	if err != nil {
		return "", err
	}
	if change == create {
		crashBeforeReady.Here()
	}
	err = c.observe(ctx, p.cluster, func(o *record.ControlPlane) {
		o.Ready = true
		o.Version, o.FullVersion = p.minor, version
	})
	if err != nil {
		return "", err
	}
	if change == create {
		crashReady.Here()
	} else {
		crashUpgradeRecorded.Here()
	}
	return version, nil
}

// recordFailure records why a cluster cannot be created, or ends the version updates of an upgrade that failed and
// restores the version that serves. Any other failure is returned, and the step is tried again.
func (c *Controller) recordFailure(
	ctx context.Context, cluster record.Cluster, seen record.ControlPlane, minor string,
	open []store.Row[record.Update], failure error,
) error {
	var unbuilt *unbuiltError
	change := transitionOf(seen, minor)
	if change == create && errors.As(failure, &unbuilt) { // trying again will not help
		return c.observe(ctx, cluster, func(o *record.ControlPlane) { o.Failed = record.Reason(unbuilt.Error()) })
	}
	open = slices.DeleteFunc(open, func(r store.Row[record.Update]) bool {
		return !r.Value.ChangesVersion()
	})
	if change != upgrade || ctx.Err() != nil || len(open) == 0 {
		return failure
	}
	what := "upgrade"
	if open[0].Value.Type == ekstypes.UpdateTypeVersionRollback {
		what = "rollback"
	}
	c.log.Error(what+" failed; the former version serves", "cluster", cluster.Name,
		"from", seen.Version, "to", minor, "error", failure)
	crashUpgradeFailing.Here()
	failure = fmt.Errorf("the %s from %s to %s failed, and %s serves again: %w",
		what, seen.Version, minor, seen.Version, failure)
	// The end of the update makes the former version the wanted one.
	return errors.Join(c.endUpdates(ctx, open, failure), c.Converge(ctx, cluster, seen, seen.Version))
}

// removeUnused stops processes and removes files that no component uses any more.
func (c *Controller) removeUnused(ctx context.Context, cluster record.Cluster, used components) error {
	if err := c.stopSuperfluous(ctx, cluster, used); err != nil {
		return err
	}
	if err := c.removeConfigurations(cluster.ID, used.configurations); err != nil {
		return err
	}
	return componentlog.RotateOtherAuditLogs(c.clusterDir(cluster.ID, "log"), instanceOf(used.apiServer.Name),
		c.clock.Now())
}

// stopSuperfluous ends the cluster's processes that no component is any more: a cloud controller
// manager where there was one, a component of an older Coracle.
func (c *Controller) stopSuperfluous(ctx context.Context, cluster record.Cluster, wanted components) error {
	names := map[string]bool{}
	for _, spec := range wanted.allSpecs() {
		names[spec.Name] = true
	}
	for _, s := range c.o.Host.List(cluster.ID + "/") {
		if !names[s.Name] {
			if err := c.o.Host.Stop(ctx, s.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
