package controlplane

import (
	"context"
	"errors"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/cluster/logging"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maintain keeps a working cluster as it should be, and ends the updates that asked for what is
// now so. A cluster in which nothing has to change costs a few reads.
func (c *Controller) maintain(ctx context.Context, cluster record.Cluster, minor string) error {
	open, err := c.openUpdates(ctx, cluster)
	if err != nil {
		return err
	}
	// Read again: what is wanted must be at least as new as the updates that are ended for it.
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
	}
	if err := c.stopSuperfluous(ctx, cluster, components); err != nil {
		return err
	}
	if err := c.bootstrap(ctx, p); err != nil {
		return err
	}
	if err := c.sweep(cluster.ID, components.configurations); err != nil {
		return err
	}
	if err := logging.RetireAuditLogs(c.dir(cluster.ID, "log"), instanceOf(components.apiServer.Name), c.clock.Now()); err != nil {
		return err
	}
	if err := c.reach(ctx, cluster); err != nil {
		return err
	}
	return c.endUpdates(ctx, open, nil)
}

// stopSuperfluous ends the cluster's processes that no component is any more: a cloud controller
// manager where there was one, a component of an older Coracle.
func (c *Controller) stopSuperfluous(ctx context.Context, cluster record.Cluster, wanted components) error {
	names := map[string]bool{}
	for _, spec := range wanted.all() {
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

// health says what is wrong with a cluster, after a look at it that ended with err, and when
// to look again because of it.
func (c *Controller) health(cluster record.Cluster, err error) (issues []ekstypes.ClusterIssue, after time.Duration) {
	add := func(code ekstypes.ClusterIssueCode, message string, resources ...string) {
		issues = append(issues, ekstypes.ClusterIssue{Code: code, Message: &message, ResourceIds: resources})
	}
	for _, s := range c.o.Host.List(cluster.ID + "/") {
		if s.Deaths == 0 || s.Running && c.clock.Since(s.Started) > recovered {
			continue
		}
		after = recovered + time.Second
		if s.Deaths >= tooOften {
			add(ekstypes.ClusterIssueCodeInternalFailure, c.broken(s).Error(), componentOf(s.Name))
		}
	}
	if err != nil {
		add(issueCode(err), err.Error(), cluster.Name)
	}
	return issues, after
}

// recovered is how long a process that died must run for its deaths not to matter any more.
const recovered = 20 * time.Second

// issueCode is EKS's word for what an error comes from.
func issueCode(err error) ekstypes.ClusterIssueCode {
	switch code(err) {
	case "InvalidSubnetID.NotFound":
		return ekstypes.ClusterIssueCodeEc2SubnetNotFound
	case "InvalidGroup.NotFound", "InvalidSecurityGroupID.NotFound":
		return ekstypes.ClusterIssueCodeEc2SecurityGroupNotFound
	case "InvalidVpcID.NotFound":
		return ekstypes.ClusterIssueCodeVpcNotFound
	case "InsufficientFreeAddressesInSubnet":
		return ekstypes.ClusterIssueCodeInsufficientFreeAddresses
	case "UnauthorizedOperation", "AccessDenied":
		return ekstypes.ClusterIssueCodeAccessDenied
	}
	return ekstypes.ClusterIssueCodeInternalFailure
}
