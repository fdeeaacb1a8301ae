package stack

import (
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// wakeups returns sources of the stacks that wait for resources, whenever one of the records changes that tell whether
// resources are stable. All of them have keys that begin with an account and a region.
func (c *Controller) wakeups() []reconcile.Source {
	return []reconcile.Source{
		reconcile.Mapped(record.Clusters(c.store), "", c.waitingIn),
		reconcile.Mapped(record.ControlPlanes(c.store), "", c.waitingIn),
		reconcile.Mapped(record.AddonStates(c.store), "", c.waitingIn),
		reconcile.Mapped(record.NodegroupStates(c.store), "", c.waitingIn),
		reconcile.Mapped(record.Instances(c.store), "", c.waitingIn),
		reconcile.Mapped(record.Machines(c.store), "", c.waitingIn),
		reconcile.Mapped(record.NATGateways(c.store), "", c.waitingIn),
		reconcile.Mapped(record.AutoScalingInstances(c.store), "", c.waitingIn),
		reconcile.Mapped(record.LoadBalancerStatuses(c.store), "", c.waitingIn),
		reconcile.Mapped(c.states, "", c.waitingIn), // of nested stacks
	}
}

// waitingIn returns the stacks of an account and a region that wait for resources, which are to be examined at once.
func (c *Controller) waitingIn(key string) (stacks []string) {
	parts := store.Parts(key)
	if len(parts) < 3 {
		return nil
	}
	prefix := store.Prefix(parts[0], parts[1])
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for stack, all := range c.waiting {
		if len(stack) < len(prefix) || stack[:len(prefix)] != prefix || stack == key {
			continue
		}
		for _, w := range all {
			if soon := w.called.Add(minDelay); soon.Before(w.due) && w.first.IsZero() {
				w.due = soon
				if soon.Before(now) {
					w.due = now
				}
			}
		}
		stacks = append(stacks, stack)
	}
	return stacks
}
