//go:build linux

package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/confine"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
)

// runSecondStage runs the second stage: process 1 of new namespaces, which makes them a machine and becomes its init.
func runSecondStage() error {
	// A cgroup namespace belongs to a thread until exec makes that thread the only one.
	runtime.LockOSThread()
	var spec Spec
	if err := readSpec(&spec); err != nil {
		return err
	}
	if _, err := unix.Setsid(); err != nil {
		return fmt.Errorf("begin a session: %w", err)
	}
	host, err := cgroup.Open()
	if err != nil {
		return err
	}
	group := host.Group(spec.Owner, spec.InstanceID) // this process is in it, see awaitInit
	if spec.UserID != 0 {
		if err := dieWithLaunch(); err != nil {
			return err
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	if err := group.EnableControllers(); err != nil {
		return err
	}
	if err := resetNetwork(); err != nil {
		return fmt.Errorf("reset the network interfaces: %w", err)
	}
	if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("set the host name %q: %w", spec.Hostname, err)
	}
	if spec.UserID == 0 {
		// What is mounted from here on is the machine's alone.
		if err := mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		var disk *os.File
		if spec.RootVolume != "" {
			disk = os.NewFile(diskFD, "disk")
		}
		if err := assemble(spec, nil, disk); err != nil {
			return err
		}
		disk.Close() // of a nil file is an error and nothing else
		raiseLimits()
	} else if err := enterAssembled(); err != nil { // what the first stage has assembled
		return err
	}
	if err := mountAssembled(spec, host); err != nil {
		return err
	}
	o := confine.Options{UserNamespace: spec.UserID != 0, CgroupV2: host.V2()}
	if o.UserNamespace { // otherwise its root mounts its disks itself
		o.Listener = func(listener *os.File) error { return disks.Send(callsFD, listener) }
	}
	if err := confine.Thread(o); err != nil {
		return err
	}
	if err := disks.Assembled(callsFD); err != nil {
		return err
	}
	for _, fd := range []int{specFD, errorsFD, callsFD} {
		syscall.CloseOnExec(fd)
	}
	if err := readNothing(); err != nil {
		return err
	}
	err = unix.Exec(spec.Init[0], spec.Init, environment)
	return fmt.Errorf("start %s: %w", spec.Init[0], err)
}

// readNothing puts the machine's /dev/null in the place of the host's, which init would hand out: one inode for all
// machines.
func readNothing() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup3(int(null.Fd()), 0, 0)
}

// dieWithLaunch makes the kernel kill this process when the first stage ends. Other processes get this setting at their
// creation.
func dieWithLaunch() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	// It may have ended before: nobody reads what this process says then.
	reader := []unix.PollFd{{Fd: errorsFD}}
	if _, err := unix.Poll(reader, 0); err != nil {
		return err
	}
	if reader[0].Revents&unix.POLLERR != 0 {
		return fmt.Errorf("coracle-node launch has ended")
	}
	return nil
}

func readSpec(spec *Spec) error {
	f := os.NewFile(specFD, "spec")
	if f == nil {
		return fmt.Errorf("this stage is started by \"coracle-node launch --spec FILE\"")
	}
	data, err := io.ReadAll(io.LimitReader(f, 16<<20))
	if err != nil {
		return fmt.Errorf("this stage is started by \"coracle-node launch --spec FILE\": %w", err)
	}
	return json.Unmarshal(data, spec)
}

// raiseLimits gives the machine what init has on a host of its own. Without CAP_SYS_RESOURCE the host's own limits
// hold.
func raiseLimits() {
	for resource, want := range map[int]uint64{
		unix.RLIMIT_NOFILE:  1 << 20,
		unix.RLIMIT_NPROC:   unix.RLIM_INFINITY,
		unix.RLIMIT_MEMLOCK: unix.RLIM_INFINITY,
		unix.RLIMIT_CORE:    unix.RLIM_INFINITY,
	} {
		l := unix.Rlimit{Cur: want, Max: want}
		if unix.Setrlimit(resource, &l) == nil {
			continue
		}
		if err := unix.Getrlimit(resource, &l); err == nil && l.Cur != l.Max {
			l.Cur = l.Max
			_ = unix.Setrlimit(resource, &l) // within the hard limit this cannot fail
		}
	}
}
