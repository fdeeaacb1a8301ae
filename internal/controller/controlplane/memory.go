package controlplane

import "fmt"

// The memory of a component is bounded: the administrator of a cluster decides what its components read, for example by
// registering an APIService of a built-in group that leads to a program of their own, whose small compressed answers
// unpack to gigabytes. Without
// a bound one tenant's component would take the memory of the host from all others. Beyond its bound a component ends
// with "out of memory" and is started again; see process.Spec.MemoryLimit. An idle API server has about 400 MiB of such
// memory,
// the others about 100 MiB.
const (
	minAPIServerMemory = 2 << 30
	minMemory          = 1 << 30
	// memoryStep makes the bound, and with it the hash of a specification, the same after a start with another kernel.
	memoryStep = 256 << 20
)

// memoryLimit returns the bound of a component on a host with so much memory: a quarter of it for an API server, an
// eighth for others.
func memoryLimit(component string, host uint64) uint64 {
	if component == kubeAPIServer {
		return max(host/4/memoryStep*memoryStep, minAPIServerMemory)
	}
	return max(host/8/memoryStep*memoryStep, minMemory)
}

// goMemoryLimit returns the setting with which Go collects garbage more often before a component reaches its bound.
func goMemoryLimit(bound uint64) string { return fmt.Sprintf("GOMEMLIMIT=%dMiB", bound>>20/10*8) }
