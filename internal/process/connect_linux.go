package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// landlockVersion asks for the version of Landlock instead of making rules (LANDLOCK_CREATE_RULESET_VERSION).
	landlockVersion = 1
	// landlockNetworks is the first version with rules of networks, that of Linux 6.7.
	landlockNetworks = 4
	// landlockPort is the type of a rule that has a port (LANDLOCK_RULE_NET_PORT), which package unix lacks.
	landlockPort = 2
)

// landlockPortRule is struct landlock_net_port_attr.
type landlockPortRule struct{ access, port uint64 }

// CheckConfinement returns why no process here is held to its Spec.ConnectPorts; nil where all are.
func CheckConfinement() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, landlockVersion)
	return checkLandlock(int(version), errno) //nolint:gosec // a small number, or -1
}

// checkLandlock returns what the kernel lacks that answers the question for its version of Landlock like this.
func checkLandlock(version int, errno unix.Errno) error {
	switch {
	case errno == unix.EPERM || errno == unix.EACCES:
		return errors.New("this container may not use Landlock: its seccomp profile refuses landlock_create_ruleset")
	case errno == unix.EOPNOTSUPP:
		return errors.New("the kernel has no security module Landlock: lsm= on its command line has no landlock")
	case errno != 0:
		return fmt.Errorf("the kernel has no Landlock: %w", errno)
	case version < landlockNetworks:
		return fmt.Errorf("version %d of Landlock has no rules of connections, which Linux 6.7 has", version)
	}
	return nil
}

// startConfined calls start, whose children may connect to TCP ports of Spec.ConnectPorts alone. Only the thread that
// starts them is confined, as children inherit that, and it ends afterwards: nothing frees it again.
// https://docs.kernel.org/userspace-api/landlock.html
func startConfined(ports []int, start func() error) error {
	if len(ports) == 0 {
		return start()
	}
	rules, err := connectRules(ports)
	if errors.Is(err, errors.ErrUnsupported) {
		return start()
	}
	if err != nil {
		return fmt.Errorf("confine to the ports %v: %w", ports, err)
	}
	defer rules.Close()
	var thread sync.WaitGroup
	thread.Go(func() {
		runtime.LockOSThread() // and not unlocked: Go ends the thread with the goroutine
		if err = confineThread(rules); err == nil {
			err = start()
		}
	})
	thread.Wait()
	return err
}

// connectRules returns the rules that allow connections to ports. The error is errors.ErrUnsupported where the kernel
// has no such rules, or does not let us make any.
func connectRules(ports []int) (*os.File, error) {
	if err := CheckConfinement(); err != nil {
		return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	handled := unix.LandlockRulesetAttr{Handled_access_net: unix.LANDLOCK_ACCESS_NET_CONNECT_TCP}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0) //nolint:gosec // as package unix would
	if errno != 0 {
		return nil, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	rules := os.NewFile(fd, "landlock")
	for _, port := range ports {
		rule := landlockPortRule{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)} //nolint:gosec // a port
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, landlockPort,
			uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 { //nolint:gosec // as package unix would
			return nil, errors.Join(os.NewSyscallError("landlock_add_rule", errno), rules.Close())
		}
	}
	return rules, nil
}

// confineThread holds the calling thread and its children to the rules. They get no privileges by what they execute.
func confineThread(rules *os.File) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules.Fd(), 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return nil
}
