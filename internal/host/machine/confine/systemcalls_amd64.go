//go:build linux

package confine

import "golang.org/x/sys/unix"

const (
	architecture = unix.AUDIT_ARCH_X86_64
	// firstForeign is the lowest number of the calls of x32, which have the architecture of the others.
	firstForeign = 0x40000000
	lowWord      = 0
)

// ofArchitecture are refusals of calls that other architectures do not have.
var ofArchitecture = []refusal{
	{calls: []uint32{unix.SYS_IOPL, unix.SYS_IOPERM}},
	{calls: []uint32{
		unix.SYS_CREATE_MODULE, unix.SYS_QUERY_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_NFSSERVCTL, unix.SYS_USELIB,
		unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	}, errno: unix.ENOSYS},
}
