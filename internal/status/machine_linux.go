package status

import "github.com/coracle-eks/coracle/internal/host/machine"

// machineUsage returns the memory and the processes of the machine of an instance, as far as they can be found out.
func machineUsage(owner, instanceID string) (memory int64, processes int) {
	memory, processes, _ = machine.Usage(owner, instanceID)
	return memory, processes
}

// machineProblem returns what is wrong with how the machine of an instance runs.
func machineProblem(owner, instanceID string) string {
	if limits, err := machine.LimitsIO(owner, instanceID); err != nil || !limits {
		return ""
	}
	return "an earlier version of coracle has started it: its root can stop the host's disk; stop and start it"
}
