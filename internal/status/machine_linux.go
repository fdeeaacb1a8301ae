package status

import "github.com/coracle-eks/coracle/internal/host/machine"

// machineProcesses returns the process IDs, on the host, of everything in the machine of an instance.
func machineProcesses(owner, instanceID string) ([]int, error) {
	return machine.PIDs(owner, instanceID)
}

// machineProblem returns what is wrong with how the machine of an instance runs.
func machineProblem(owner, instanceID string) string {
	if limits, err := machine.LimitsIO(owner, instanceID); err != nil || !limits {
		return ""
	}
	return "an earlier version of coracle has started it: its root can stop the host's disk; stop and start it"
}
