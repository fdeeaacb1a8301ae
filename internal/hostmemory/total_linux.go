package hostmemory

import "golang.org/x/sys/unix"

// Total returns the memory of this host in bytes, 0 where the kernel does not tell.
func Total() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}
