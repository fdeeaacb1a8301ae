package balancing

import (
	"time"

	"github.com/coracle-eks/coracle/internal/record"
)

// TargetState returns what was observed of an instance that is registered with a target group, at the group's port:
// empty where that is nothing yet, or it is not registered.
func TargetState(g record.TargetGroup, h record.TargetHealth, id string) string {
	for _, t := range g.Targets {
		if g.LoadBalancer != "" && t.ID == id && t.Port == g.Port && t.DeregisteredAt.IsZero() {
			return observedState(h, g.ID, TargetName(id, t.Port), t.RegisteredAt)
		}
	}
	return ""
}

// InstanceState returns the same of an instance of a Classic Load Balancer.
func InstanceState(b record.LoadBalancer, h record.TargetHealth, id string) string {
	for _, i := range b.Classic.Instances {
		if i.ID == id && i.DeregisteredAt.IsZero() {
			return observedState(h, b.ID, TargetName(id, 0), i.RegisteredAt)
		}
	}
	return ""
}

func observedState(h record.TargetHealth, owner, name string, at time.Time) string {
	if state, ok := h.Targets[name]; ok && h.Owner == owner && state.RegisteredAt.Equal(at) {
		return state.State
	}
	return ""
}

// TargetDrained returns when the connections of an instance that was deregistered from a target group have drained;
// zero if it has none.
func TargetDrained(g record.TargetGroup, id string) (at time.Time) {
	for _, t := range g.Targets {
		if g.LoadBalancer == "" || t.ID != id || t.DeregisteredAt.IsZero() {
			continue
		}
		if end := t.DeregisteredAt.Add(g.DeregistrationDelay()); end.After(at) {
			at = end
		}
	}
	return at
}

// InstanceDrained returns the same of an instance of a Classic Load Balancer.
func InstanceDrained(b record.LoadBalancer, id string) time.Time {
	for _, i := range b.Classic.Instances {
		if i.ID == id && !i.DeregisteredAt.IsZero() {
			return i.DeregisteredAt.Add(b.ConnectionDraining())
		}
	}
	return time.Time{}
}
