package launch

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// InCgroups is the program "in-cgroups PATH ARGUMENTS", which "coracle exec" runs inside a machine with control groups of version 2: it enters the
// namespace of control groups that it gets as its first file beside the standard ones, and becomes the program PATH. The arguments begin
// with the program's own name.
const InCgroups = "in-cgroups"

// EnterCgroups is that program; it returns its exit status if it fails.
func EnterCgroups(args []string) int {
	if len(args) < 2 {
		fmt.Fprintf(os.Stderr, "usage: %s PATH NAME [ARGUMENT...]\n", InCgroups)
		return 2
	}
	runtime.LockOSThread()
	const namespace = 3
	err := unix.Setns(namespace, unix.CLONE_NEWCGROUP)
	if err == nil {
		unix.CloseOnExec(namespace)
		err = unix.Exec(args[0], args[1:], os.Environ())
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", args[1], err)
	return 126
}
