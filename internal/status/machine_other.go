//go:build !linux

package status

// machineUsage returns nothing: machines need Linux.
func machineUsage(string, string) (memory int64, processes int) { return 0, 0 }

func machineProblem(string, string) string { return "" }
