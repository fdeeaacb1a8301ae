package nodegroup

import (
	"context"
	"strings"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The keys of groups that a row of another table concerns.

func (c *Controller) ofUpdate(key string) []string {
	row, err := c.updates.Get(context.Background(), key)
	if err != nil || row.Value.NodegroupName == "" {
		return nil
	}
	at := store.Parts(key)
	return []string{record.NodegroupKey(at[0], at[1], at[2], row.Value.NodegroupName)}
}

// hasGroups reports whether a cluster has node groups.
func (c *Controller) hasGroups(_ context.Context, key string) bool { return len(c.ofCluster(key)) > 0 }

// ofScalingGroup takes the key of an Auto Scaling group, or of a row that belongs to one.
func (c *Controller) ofScalingGroup(key string) []string {
	at := store.Parts(key)
	if len(at) < 3 {
		return nil
	}
	return c.keyByScalingGroup(at[2])
}

// depends returns the source of the groups that something of a table may concern that its users take away, or put back:
// all of the account when it is gone, otherwise those with which something is wrong.
func depends[T any](c *Controller, t store.Table[T]) reconcile.Source {
	return reconcile.Mapped(t, "", func(key string) []string {
		ctx := context.Background()
		_, err := t.Get(ctx, key)
		rows, listed := c.groups.List(ctx, store.Prefix(store.Parts(key)[0]))
		if listed != nil {
			return nil // the resync looks again
		}
		var keys []string
		for _, row := range rows {
			state, unknown := c.states.Get(ctx, row.Key)
			if err != nil || unknown == nil && len(state.Value.Issues) > 0 {
				keys = append(keys, row.Key)
			}
		}
		return keys
	})
}

func (c *Controller) ofMember(key string) []string {
	row, err := c.members.Get(context.Background(), key)
	if err != nil {
		return nil // it left: the group's activity tells
	}
	return c.keyByScalingGroup(row.Value.GroupName)
}

func (c *Controller) ofInterrupted(key string) []string {
	row, err := c.instances.Get(context.Background(), key)
	if err != nil || row.Value.SpotInterruption.IsZero() {
		return nil
	}
	return c.ofMember(key)
}

func (c *Controller) ofFailing(key string) []string {
	row, err := c.machines.Get(context.Background(), key)
	if err != nil || row.Value.Failing == "" {
		return nil // one that fails no more is seen when the group's issues are looked at again
	}
	return c.ofMember(key)
}

// keyByScalingGroup returns the key of the group whose Auto Scaling group has that name: "eks-<name>-<UUID>".
func (c *Controller) keyByScalingGroup(scaling string) []string {
	const uuid = 36
	if !strings.HasPrefix(scaling, "eks-") || len(scaling) < uuid {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if key, ok := c.keys[scaling[len(scaling)-uuid:]]; ok {
		return []string{key}
	}
	return nil // not looked at yet: it will be
}

// rememberGroup remembers which key a group's ID stands for.
func (c *Controller) rememberGroup(id, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[id] = key
}

func (c *Controller) forgetGroup(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.keys, id)
}
