//go:build linux

package confine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Options say what a machine is.
type Options struct {
	// UserNamespace is set for a machine in a user namespace of its own.
	UserNamespace bool
	// CgroupV2 is set where the machine has cgroup v2: containers need eBPF then, for their devices.
	CgroupV2 bool
	// Listener gets the listener of the filter, by which the host makes system calls for the machine, and has to pass it
	// on to who serves it before it returns; nil: there is none.
	Listener func(listener *os.File) error
}

// Thread confines what the calling thread will execute, and everything that descends from it. The goroutine must be
// locked to its thread, and stay so.
func Thread(o Options) error {
	if err := beginSession(); err != nil { // the filter refuses it
		return err
	}
	if !o.UserNamespace { // in one, capabilities hold for what belongs to the machine alone
		if err := DropCapabilities(); err != nil {
			return err
		}
	}
	return refuseSystemCalls(o)
}

// beginSession gives the calling thread a session keyring of its own: the keys of whoever started the daemon, or of the
// caller of a command, are not the machine's to use.
func beginSession() error {
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil &&
		!errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("begin a session keyring: %w", err)
	}
	return nil
}

// unneeded are the capabilities that no machine has in the host's user namespace. Those that kubelets, container
// runtimes and network plugins use are not among them, and neither are those that CAP_SYS_ADMIN, which they need,
// includes.
var unneeded = []uintptr{
	unix.CAP_DAC_READ_SEARCH, // opens any file of a file system by its handle; CAP_DAC_OVERRIDE is enough to read
	unix.CAP_LINUX_IMMUTABLE, // makes files that the host cannot remove
	unix.CAP_SYS_MODULE,
	unix.CAP_SYS_RAWIO, // memory, ports and disks of the host
	unix.CAP_SYS_PACCT,
	unix.CAP_SYS_TIME, // there is one clock
	unix.CAP_SYS_TTY_CONFIG,
	unix.CAP_AUDIT_CONTROL, // CAP_AUDIT_WRITE is among those that every container gets
	unix.CAP_AUDIT_READ,
	unix.CAP_MAC_ADMIN,
	unix.CAP_MAC_OVERRIDE,
	unix.CAP_SYSLOG,
	unix.CAP_WAKE_ALARM,
	unix.CAP_BLOCK_SUSPEND,
}
