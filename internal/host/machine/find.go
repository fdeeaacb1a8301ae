//go:build linux

package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/process"
)

// Named returns the running instance whose private DNS name, the whole or its first part, is name, among those whose
// disks are in dir (Options.Dir). It returns name itself when no instance has it. Instances of other VPCs and accounts
// may have the same name: then it returns an error that lists their IDs.
func Named(dir, name string, isRunning func(instanceID string) bool) (string, error) {
	specs, _ := filepath.Glob(filepath.Join(dir, "i-*", launch.SpecFile))
	var named []string
	for _, file := range specs {
		spec, err := launch.Read(file)
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(spec.Hostname, ".")
		if (spec.Hostname == name || first == name) && isRunning(spec.InstanceID) {
			named = append(named, spec.InstanceID)
		}
	}
	switch len(named) {
	case 0:
		return name, nil
	case 1:
		return named[0], nil
	}
	return "", fmt.Errorf("%d instances are named %s (%s): give the ID of one of them", len(named), name,
		strings.Join(named, ", "))
}

// IsRunning reports whether an instance has a machine of the daemon of id.
func IsRunning(id process.Identity, instanceID string) bool {
	init, err := findInit(id, instanceID)
	if err != nil {
		return false
	}
	init.Close()
	return true
}

// Usage returns what the machine of an instance takes, the containers of its pods included: bytes of memory, and
// processes. It asks the kernel about groups alone: how long it takes to read what there is of the memory of a process
// is up to the process.
func Usage(owner, instanceID string) (memory int64, processes int, err error) {
	host, err := cgroup.Open()
	if err != nil {
		return 0, 0, err
	}
	group := host.Group(owner, instanceID)
	pids, err := group.Processes()
	return group.WorkingSet(), len(pids), err
}

// LimitsIO reports whether the machine of an instance can stop writes of the host, since an earlier version of this
// program has started it.
func LimitsIO(owner, instanceID string) (bool, error) {
	host, err := cgroup.Open()
	if err != nil {
		return false, err
	}
	return host.Group(owner, instanceID).LimitsIO(), nil
}

// machineInit is process 1 of a machine.
type machineInit struct {
	pid   int // on the host
	pidfd *os.File
	dir   string // the machine's own on the host; empty where the launcher does not say
}

func (i *machineInit) Close() error { return i.pidfd.Close() }

// findInit finds the init of a machine, by the process that launched it.
func findInit(id process.Identity, instanceID string) (*machineInit, error) {
	init, err := openInit(id, namePrefix+instanceID)
	if !errors.Is(err, process.ErrNotRunning) {
		return init, err
	}
	found, err := process.Find(id)
	if err != nil {
		return nil, err
	}
	e := &NotRunningError{InstanceID: instanceID}
	for _, f := range found {
		other, ok := strings.CutPrefix(f.Name, namePrefix)
		if !ok || !f.Leader || other == instanceID {
			continue
		}
		if _, ok := initChild(f.PID); ok {
			e.Running = append(e.Running, other)
		}
	}
	slices.Sort(e.Running)
	e.Running = slices.Compact(e.Running)
	return nil, e
}

// openInit returns the init that the process of a name launched.
func openInit(id process.Identity, name string) (*machineInit, error) {
	launcher, err := process.Hold(id, name)
	if err != nil {
		return nil, err
	}
	defer launcher.Close()
	pid, ok := initChild(launcher.PID())
	if !ok {
		return nil, process.ErrNotRunning
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, process.ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	init := &machineInit{pid: pid, pidfd: os.NewFile(uintptr(fd), "pidfd"), dir: launchDir(launcher.PID())}
	// The number may have passed to another process before it was opened. A child of the launcher that is what init has
	// to be cannot be that; and while the launcher lives, its number cannot have passed on either.
	if again, ok := initChild(launcher.PID()); !ok || again != pid || !launcher.Alive() {
		init.Close()
		return nil, process.ErrNotRunning
	}
	return init, nil
}

// launchDir returns the directory of the machine that a launch process stands for.
func launchDir(launcher int) string {
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", launcher))
	if err != nil {
		return ""
	}
	fields := strings.Split(string(arguments), "\x00")
	if at := slices.Index(fields, "--spec"); at >= 0 && at+1 < len(fields) {
		return filepath.Dir(fields[at+1])
	}
	return ""
}

// initChild returns the child of a launch process that is the first in a PID namespace, once it has become init.
func initChild(launch int) (int, bool) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", launch))
	if err != nil {
		return 0, false
	}
	for _, task := range tasks {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", launch, task.Name()))
		if err != nil {
			continue
		}
		for child := range bytes.FieldsSeq(children) {
			pid, err := strconv.Atoi(string(child))
			if err == nil && isInitProcess(pid, launch) {
				return pid, true
			}
		}
	}
	return 0, false
}

func isInitProcess(pid, launcher int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			all := strings.Fields(ids)
			if len(all) < 2 || all[len(all)-1] != "1" {
				return false
			}
		}
	}
	// Until it becomes init it is a program of the host, and sees files of the host.
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(arguments) == 0 || launch.Assembles(arguments) {
		return false
	}
	outer, err1 := os.Stat(fmt.Sprintf("/proc/%d/root/.", launcher))
	inner, err2 := os.Stat(fmt.Sprintf("/proc/%d/root/.", pid))
	return err1 == nil && err2 == nil && !os.SameFile(outer, inner)
}
