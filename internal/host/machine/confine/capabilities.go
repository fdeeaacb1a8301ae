//go:build linux

package confine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// DropCapabilities removes the unneeded capabilities from everything that the calling thread will execute.
func DropCapabilities() error {
	for _, c := range unneeded {
		// A kernel that is older than a capability has nothing to drop.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d from the bounding set: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	// What is inheritable passes by the bounding set.
	for _, c := range unneeded {
		sets[c/32].Inheritable &^= 1 << (c % 32)
	}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("drop inheritable capabilities: %w", err)
	}
	return nil
}

// Dropped reports whether the calling thread has none of the unneeded capabilities, and cannot get them by executing
// a program.
func Dropped() (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false, fmt.Errorf("read the capabilities: %w", err)
	}
	for _, c := range unneeded {
		bounding, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read capability %d of the bounding set: %w", c, err)
		}
		if bounding != 0 || sets[c/32].Permitted&(1<<(c%32)) != 0 {
			return false, nil
		}
	}
	return true, nil
}
