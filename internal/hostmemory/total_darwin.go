package hostmemory

import "golang.org/x/sys/unix"

// Total returns the memory of this host in bytes, 0 where the kernel does not tell.
func Total() uint64 {
	bytes, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return bytes
}
