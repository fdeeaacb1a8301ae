//go:build linux

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/coracle-eks/coracle/internal/host/filetree"
)

const (
	top   = "coracle" // the group of all daemons' machines in each hierarchy
	inner = "machine" // what a machine sees of its group
	// helpers is for processes of the host that act for the machine.
	helpers = "helpers"
)

// Hierarchy is a mounted hierarchy of the host.
type Hierarchy struct {
	Mount string // "/sys/fs/cgroup/memory"
	// Controllers are the controllers of a version 1 hierarchy ("cpu", "cpuacct"), or its name ("name=systemd"). Those
	// of the version 2 hierarchy are in its own files.
	Controllers []string
	V2          bool
}

func (h Hierarchy) hasController(controller string) bool {
	return slices.Contains(h.Controllers, controller)
}

// IsIO reports whether the hierarchy limits input and output, which machines must not: a limit holds for any device of
// the host, and a file system waits for the slowest write to it, whoever syncs.
func (h Hierarchy) IsIO() bool { return h.hasController("blkio") }

// Host is all hierarchies of a host.
type Host []Hierarchy

// ErrUnavailable is the error of Open on a host that cannot bound the memory of machines.
var ErrUnavailable = errors.New("this host has no memory cgroups: mount cgroup2 on /sys/fs/cgroup, or start " +
	"the kernel with cgroup_enable=memory")

// Open finds the hierarchies of this host. The error is ErrUnavailable when it has none for memory.
func Open() (Host, error) {
	f, err := os.Open("/proc/thread-self/mountinfo") // the first thread may be in a machine, see machine.Exec
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMountinfo(bufio.NewScanner(f))
}

// parseMountinfo reads proc_pid_mountinfo(5).
func parseMountinfo(lines *bufio.Scanner) (Host, error) {
	var host Host
	seen := map[string]bool{}
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(rest) < 3 {
			continue
		}
		h := Hierarchy{Mount: fields[4]}
		switch rest[0] {
		case "cgroup2":
			h.V2 = true
		case "cgroup":
			for option := range strings.SplitSeq(rest[2], ",") {
				if strings.HasPrefix(option, "name=") || isController(option) {
					h.Controllers = append(h.Controllers, option)
				}
			}
			slices.Sort(h.Controllers)
		default:
			continue
		}
		if id := fmt.Sprint(h.V2, h.Controllers); !seen[id] { // a hierarchy may be mounted more than once
			seen[id] = true
			host = append(host, h)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !host.hasController("memory") && !host.V2() {
		return nil, ErrUnavailable
	}
	return host, nil
}

// isController reports whether an option of a cgroup v1 mount is a controller.
func isController(option string) bool {
	return slices.Contains([]string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids",
		"net_cls", "net_prio", "perf_event", "hugetlb", "rdma", "misc"}, option)
}

func (host Host) hasController(controller string) bool {
	return slices.ContainsFunc(host, func(h Hierarchy) bool { return h.hasController(controller) })
}

// V2 reports whether the controllers are those of cgroup v2; beside those of cgroup v1, the unified hierarchy has none.
func (host Host) V2() bool {
	return !host.hasController("memory") && slices.ContainsFunc(host, func(h Hierarchy) bool { return h.V2 })
}

// ChargesSockets reports whether the buffers of sockets count for the machine whose they are. Version 1 charges those
// of processes in a group with a limit of its own for them, and not in the groups below, which containers have.
func (host Host) ChargesSockets() bool { return host.V2() && !isDisabled("nosocket") }

// ChargesKernelMemory reports whether objects of the kernel, such as open files, count for the machine that has them.
func ChargesKernelMemory() bool { return !isDisabled("nokmem") }

// isDisabled reports whether the kernel was started without a part of memory cgroups, or does not tell.
func isDisabled(part string) bool {
	commandLine, err := readFile("/proc", "cmdline")
	return err != nil || disables(commandLine, part)
}

// disables reports whether a command line starts the kernel without a part of memory cgroups.
func disables(commandLine, part string) bool {
	for option := range strings.FieldsSeq(commandLine) {
		if list, ok := strings.CutPrefix(option, "cgroup.memory="); ok &&
			slices.Contains(strings.Split(list, ","), part) {
			return true
		}
	}
	return false
}

// Group is a machine's group in all hierarchies.
type Group struct {
	Host Host
	Path string // below each Mount: "coracle/<owner>/<instance ID>"
}

// Group returns the group of an instance's machine, whether it exists or not.
func (host Host) Group(owner, instanceID string) Group {
	return Group{host, filepath.Join(top, owner, instanceID)}
}

// groupDir returns the group's directory in a hierarchy. machineDir returns that of the child that the machine sees.
func (g Group) groupDir(h Hierarchy) string   { return filepath.Join(h.Mount, g.Path) }
func (g Group) machineDir(h Hierarchy) string { return filepath.Join(h.Mount, g.Path, inner) }

// Dir returns the directory of the group that the machine sees, in the hierarchy of a controller ("memory"), or in the
// only one.
func (g Group) Dir(controller string) string {
	for _, h := range g.Host {
		if h.hasController(controller) || h.V2 && g.Host.V2() {
			return g.machineDir(h)
		}
	}
	return ""
}

// limited returns the directories that limits of a controller are written to: the one that the machine sees, so that
// the limits show there, and its parent, which enforces them. The former comes first: its limit must not exceed that of
// the latter at any time.
func (g Group) limited(controller string) []string {
	if dir := g.Dir(controller); dir != "" {
		return []string{dir, filepath.Dir(dir)}
	}
	return nil
}

// MemoryUsed returns how many bytes of memory the group has taken; 0 when there is no such group.
func (g Group) MemoryUsed() int64 {
	file := "memory.usage_in_bytes"
	if g.Host.V2() {
		file = "memory.current"
	}
	dir := g.Dir("memory")
	if dir == "" {
		return 0
	}
	text, err := readFile(filepath.Dir(dir), file)
	if err != nil {
		return 0
	}
	used, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return used
}

// WorkingSet returns what MemoryUsed does without files that the kernel can forget, which is what a kubelet reports.
func (g Group) WorkingSet() int64 {
	field := "total_inactive_file "
	if g.Host.V2() {
		field = "inactive_file "
	}
	used := g.MemoryUsed()
	text, err := readFile(filepath.Dir(g.Dir("memory")), "memory.stat")
	if err != nil {
		return used
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field); ok {
			inactive, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return max(0, used-inactive)
		}
	}
	return used
}

// Create makes the group anew, with limits. Whatever still runs in it is killed.
func (g Group) Create(l Limits) error {
	if err := g.Remove(); err != nil {
		return err
	}
	for _, h := range g.Host {
		err := g.createIn(h)
		for range 10 {
			if !errors.Is(err, fs.ErrNotExist) {
				break
			}
			err = g.createIn(h) // another daemon has just removed what both have in common
		}
		if err != nil {
			return err
		}
	}
	if err := g.restrictDevices(); err != nil {
		return err
	}
	if err := errors.Join(g.limitProcesses(l), g.limitGroups(), g.limitHugePages()); err != nil {
		return err
	}
	if g.Host.V2() {
		return g.limitV2(l)
	}
	return g.limitV1(l)
}

// createIn makes the group and those above it in one hierarchy.
func (g Group) createIn(h Hierarchy) error { return g.createChild(h, inner) }

// createChild makes a child of the group and those above it in one hierarchy.
func (g Group) createChild(h Hierarchy, child string) error {
	at := h.Mount
	for name := range strings.SplitSeq(filepath.Join(g.Path, child), "/") {
		if h.V2 && g.Host.V2() {
			if err := delegate(at, at == g.groupDir(h)); err != nil {
				return err
			}
		}
		parent := at
		at = filepath.Join(at, name)
		if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make a cgroup: %w", err)
		}
		if h.hasController("cpuset") { // a new one has no CPU and takes no process
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				if now, err := readFile(at, file); err != nil || now != "" {
					continue
				}
				all, err := readFile(parent, file)
				if err != nil {
					return err
				}
				if err := writeFile(at, file, all); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// delegate enables all controllers of cgroup v2 for the children of a group; of those that a machine sees, all but io
// (see Hierarchy.IsIO).
func delegate(dir string, toMachine bool) error {
	available, err := readFile(dir, "cgroup.controllers")
	if err != nil {
		return err
	}
	enabled, err := readFile(dir, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	on := strings.Fields(enabled)
	for controller := range strings.FieldsSeq(available) {
		if slices.Contains(on, controller) || toMachine && controller == "io" {
			continue
		}
		err := writeFile(dir, "cgroup.subtree_control", "+"+controller)
		switch {
		case err == nil:
		case errors.Is(err, syscall.EBUSY):
			return fmt.Errorf(
				"%w: processes run in the root of this cgroup namespace; move them into a child (mkdir "+
					"%s/init; xargs -n1 < %s/cgroup.procs > %s/init/cgroup.procs), or start the container with "+
					"--cgroupns=host", err, dir, dir, dir)
		case slices.Contains([]string{"cpu", "memory", "pids", "cpuset"}, controller):
			return err // the kubelet needs them
		}
	}
	return nil
}

// Add puts a process into the group.
func (g Group) Add(pid int) error {
	for _, h := range g.Host {
		if err := writeFile(g.machineDir(h), "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("enter the machine's cgroup: %w", err)
		}
	}
	return nil
}

// Delegate lets a user of the host make groups below this one and move processes between them, but not in the hierarchy
// of blkio. The group's own limits stay out of reach. The machine has a user namespace then, and the host's console is
// none of its devices.
// https://docs.kernel.org/admin-guide/cgroup-v2.html#delegation
func (g Group) Delegate(uid int) error {
	for _, h := range g.Host {
		if h.IsIO() {
			if len(h.Controllers) > 1 {
				return fmt.Errorf("the cgroup controller blkio is mounted with others on %s: mount it alone, or cgroup2",
					h.Mount)
			}
			continue
		}
		files := []string{"", "cgroup.procs", "tasks"}
		if h.V2 {
			files = []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"}
		}
		for _, file := range files {
			if err := os.Chown(filepath.Join(g.machineDir(h), file), uid, uid); err != nil {
				return fmt.Errorf("delegate the machine's cgroup: %w", err)
			}
		}
		if h.hasController("devices") { // no runtime there can write rules, and want to allow it
			if err := writeFile(g.groupDir(h), "devices.deny", console.rule()); err != nil {
				return fmt.Errorf("deny the host's console: %w", err)
			}
		}
	}
	return nil
}

// OpenHelpers opens the files through which a process of the host enters a group beside the one that the machine sees,
// by writing "0" to each: it may open the devices that the machine may, and the machine cannot stop it.
func (g Group) OpenHelpers() (files []*os.File, err error) {
	for _, h := range g.Host {
		if err := g.createChild(h, helpers); err != nil {
			return files, err
		}
		f, err := os.OpenFile(filepath.Join(g.groupDir(h), helpers, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			return files, fmt.Errorf("open the cgroup of helpers: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// OpenProcesses opens the files through which a process enters the group, by writing "0" to each. With version 2 it is
// a child of the group, leaf, which is made if there is none: where controllers are enabled for children there may be
// no processes.
func (g Group) OpenProcesses(leaf string) (files []*os.File, err error) {
	for _, h := range g.Host {
		dir := g.machineDir(h)
		if h.V2 && g.Host.V2() {
			dir = filepath.Join(dir, leaf)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return files, fmt.Errorf("make a cgroup: %w", err)
			}
		}
		f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			return files, fmt.Errorf("open the machine's cgroup: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// EnableControllers prepares the cgroup of a machine for children with controllers: with version 2, the calling
// process, which is in it, moves into the child init.scope.
func (g Group) EnableControllers() error {
	if !g.Host.V2() {
		return nil
	}
	leaf := filepath.Join(g.Dir(""), "init.scope")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return err
	}
	if err := writeFile(leaf, "cgroup.procs", "0"); err != nil {
		return err
	}
	return delegate(g.Dir(""), true)
}

// Processes returns the process IDs, as the caller sees them, of everything that runs in the group and below.
func (g Group) Processes() (pids []int, err error) {
	err = eachGroup(g.Dir("memory"), func(group string) { pids = append(pids, processesIn(group)...) })
	return pids, err
}

// eachGroup calls f with a path of each group from dir on, which is good for that call only: that from the root may be
// longer than a path can be.
func eachGroup(dir string, f func(group string)) error {
	err := filetree.Walk(dir, filetree.Visitor{Enter: func(at int) error {
		f(fmt.Sprintf("/proc/self/fd/%d", at))
		return nil
	}})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// processesIn returns the processes of one group that the caller can see; none when the group is gone.
func processesIn(group string) (pids []int) {
	procs, _ := readFile(group, "cgroup.procs")
	for text := range strings.FieldsSeq(procs) {
		if pid, err := strconv.Atoi(text); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

func readFile(dir, file string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	return strings.TrimSpace(string(b)), err
}

func writeFile(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
