package controlplane

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/record"
)

// All clusters share one etcd. Each sees the keys below its own prefix only: its API server's
// client certificate names an etcd user with a role that is granted nothing else. For an external
// etcd whose CA key the daemon does not have ([etcd.Connection.Separates]) all clusters use the
// daemon's own certificate, and only their API servers' prefixes keep them apart.

func etcdUser(clusterID string) string   { return "cluster-" + clusterID }
func etcdPrefix(clusterID string) string { return "/clusters/" + clusterID }

// ensureEtcdUser creates the etcd user and role of the cluster. Each step is idempotent.
func (c *Controller) ensureEtcdUser(ctx context.Context, cluster record.Cluster) error {
	if !c.o.Etcd.Separates() {
		return nil
	}
	name, account, from := etcdUser(cluster.ID), etcd.AccountRole(cluster.Account), etcdPrefix(cluster.ID)+"/"
	client := c.o.Etcd.Client
	if user, err := client.UserGet(ctx, name); err == nil && len(user.Roles) == 2 {
		return nil // the roles are given last
	}
	if _, err := client.RoleAdd(ctx, name); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return fmt.Errorf("add etcd role %s: %w", name, err)
	}
	if _, err := client.RoleGrantPermission(ctx, name, from, clientv3.GetPrefixRangeEnd(from),
		clientv3.PermissionType(authpb.READWRITE)); err != nil {
		return fmt.Errorf("grant etcd role %s its prefix: %w", name, err)
	}
	crashEtcdRole.Here()
	if _, err := client.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true}); err != nil &&
		!errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		return fmt.Errorf("add etcd user %s: %w", name, err)
	}
	// The role of the account permits nothing, and stays for the next cluster: etcd divides itself by accounts.
	if _, err := client.RoleAdd(ctx, account); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return fmt.Errorf("add etcd role %s: %w", account, err)
	}
	for _, role := range []string{account, name} {
		if _, err := client.UserGrantRole(ctx, name, role); err != nil {
			return fmt.Errorf("grant etcd user %s the role %s: %w", name, role, err)
		}
	}
	return nil
}

// removeEtcdUser removes the cluster's keys, user and role.
func (c *Controller) removeEtcdUser(ctx context.Context, clusterID string) error {
	client := c.o.Etcd.Client
	if _, err := client.Delete(ctx, etcdPrefix(clusterID)+"/", clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("delete the cluster's keys from etcd: %w", err)
	}
	if !c.o.Etcd.Separates() {
		return nil
	}
	name := etcdUser(clusterID)
	if _, err := client.UserDelete(ctx, name); err != nil && !errors.Is(err, rpctypes.ErrUserNotFound) {
		return fmt.Errorf("delete etcd user %s: %w", name, err)
	}
	if _, err := client.RoleDelete(ctx, name); err != nil && !errors.Is(err, rpctypes.ErrRoleNotFound) {
		return fmt.Errorf("delete etcd role %s: %w", name, err)
	}
	return nil
}
