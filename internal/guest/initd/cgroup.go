//go:build linux

package initd

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroups holds the cgroups of services below the machine's own: SLICE/UNIT in every hierarchy of cgroup v1, or in the
// one of cgroup v2. The kubelet's are beside them (/kubepods).
type cgroups struct {
	roots []string // the mounted hierarchies; none: there are no cgroups, and services run without
	v2    bool
}

func findCgroups(root string) cgroups {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return cgroups{[]string{root}, true}
	}
	var c cgroups
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		if e.Type()&os.ModeSymlink != 0 {
			continue // cpu -> cpu,cpuacct
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			c.roots = append(c.roots, dir)
		}
	}
	return c
}

// cgroupPath returns the path of a unit's group below a hierarchy: "a-b.slice" is within "a.slice".
func (u *service) cgroupPath() string {
	slice := u.def.Last("Service", "Slice")
	if slice == "" {
		slice = "system.slice"
	}
	path := ""
	if slice != "-.slice" {
		parts := strings.Split(strings.TrimSuffix(slice, ".slice"), "-")
		for i := range parts {
			path = filepath.Join(path, strings.Join(parts[:i+1], "-")+".slice")
		}
	}
	return filepath.Join(path, u.name)
}

// createGroup makes a group with its parents and returns the files that take processes.
func (c cgroups) createGroup(path string) ([]string, error) {
	var procs []string
	for _, root := range c.roots {
		dir := root
		for _, part := range strings.Split(path, "/") {
			if c.v2 {
				c.delegate(dir)
			}
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return nil, err
			}
			if !c.v2 {
				inherit(parent, dir)
			}
		}
		procs = append(procs, filepath.Join(dir, "cgroup.procs"))
	}
	return procs, nil
}

// delegate enables all controllers of dir for the groups below it. It leaves out a controller that cannot be delegated
// (it has processes in the parent, or the host uses it).
func (c cgroups) delegate(dir string) {
	for _, controller := range strings.Fields(readFile(filepath.Join(dir, "cgroup.controllers"))) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0)
	}
}

// inherit gives a new cpuset the processors of its parent: without any it takes no process. Groups of other controllers
// have no such files.
func inherit(parent, dir string) {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if now, err := os.ReadFile(filepath.Join(dir, file)); err == nil && strings.TrimSpace(string(now)) == "" {
			_ = os.WriteFile(filepath.Join(dir, file), []byte(readFile(filepath.Join(parent, file))), 0)
		}
	}
}

// listPIDs returns the processes of a group and of those below it.
func (c cgroups) listPIDs(path string) []int {
	seen := map[int]bool{}
	for _, root := range c.roots {
		_ = filepath.WalkDir(filepath.Join(root, path), func(dir string, e os.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return nil
			}
			for _, line := range strings.Fields(readFile(filepath.Join(dir, "cgroup.procs"))) {
				if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
					seen[pid] = true
				}
			}
			return nil
		})
	}
	pids := make([]int, 0, len(seen))
	for pid := range seen {
		pids = append(pids, pid)
	}
	return pids
}

// signalAll sends a signal to all processes of a group.
func (c cgroups) signalAll(path string, s syscall.Signal) {
	for _, pid := range c.listPIDs(path) {
		_ = syscall.Kill(pid, s)
	}
}

// removeGroup removes a group with those below it; one with processes stays.
func (c cgroups) removeGroup(path string) {
	for _, root := range c.roots {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(root, path), func(dir string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, dir)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			_ = os.Remove(dirs[i])
		}
	}
}

// readUsage returns the usage of a group: bytes of memory, processor time, and the number of tasks. What is not counted
// is 0.
func (c cgroups) readUsage(path string) (memory uint64, cpu time.Duration, tasks int) {
	read := func(controller, file string) uint64 {
		for _, root := range c.roots {
			name := filepath.Base(root)
			if c.v2 || name == controller || strings.HasPrefix(name, controller+",") || strings.HasSuffix(name,
				","+controller) {
				if n, err := strconv.ParseUint(strings.TrimSpace(readFile(filepath.Join(root, path, file))), 10,
					64); err == nil {
					return n
				}
			}
		}
		return 0
	}
	tasks = len(c.listPIDs(path))
	if !c.v2 {
		return read("memory", "memory.usage_in_bytes"), time.Duration(read("cpuacct", "cpuacct.usage")), tasks
	}
	for _, line := range strings.Split(readFile(filepath.Join(c.roots[0], path, "cpu.stat")), "\n") {
		if v, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, _ := strconv.ParseUint(v, 10, 64)
			cpu = time.Duration(n) * time.Microsecond
		}
	}
	return read("memory", "memory.current"), cpu, tasks
}
