//go:build !linux

package status

import "errors"

// machineProcesses returns an error: machines need Linux.
func machineProcesses(string, string) ([]int, error) { return nil, errors.New("machines need Linux") }

func machineProblem(string, string) string { return "" }
