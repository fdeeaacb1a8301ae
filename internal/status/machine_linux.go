package status

import "github.com/coracle-eks/coracle/internal/host/machine"

// machineProcesses returns the process IDs, on the host, of everything in the machine of an instance.
func machineProcesses(owner, instanceID string) ([]int, error) {
	return machine.PIDs(owner, instanceID)
}
