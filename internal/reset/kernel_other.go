//go:build !linux

package reset

// removeMachines removes nothing: no daemon has machines here, which need Linux.
func removeMachines(string) (int, error) { return 0, nil }

// unmount unmounts nothing: no daemon has mounted anything here.
func unmount(string) (int, error) { return 0, nil }
