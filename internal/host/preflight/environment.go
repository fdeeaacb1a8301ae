// Package preflight tells where this program runs, and why machines cannot run there.
//
// [Detect] reads files of the host and variables of the environment. [CheckMachines] tries what a machine needs of the
// kernel, and leaves nothing behind: the daemon simulates machines where it finds a problem, and "coracle doctor" and
// "coracle up" print it with its fix. [CheckKernel] and [CheckFirewall] are for them, too.
package preflight

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Environment describes the host or container in which a program runs. A field is empty where there is no such thing.
type Environment struct {
	Container string // the runtime: "Docker", "Podman", "Kubernetes", "LXC", ...
	VM        string // "Docker Desktop", "WSL 2", "WSL 1", "Colima", "Lima", "Podman machine"
	CI        string // "GitHub Actions", "GitLab CI"
	Cgroups   string // "v1", "v2", or "hybrid": controllers of v1 and an empty hierarchy of v2
	SELinux   string // "enforcing" or "permissive"
	// Label is the SELinux context or the AppArmor profile of this process.
	Label string
	Init  string // the command name of process 1
	// Rootless is set in a user namespace: root is no root of the host, as in rootless containers.
	Rootless   bool
	Privileged bool // has the capabilities that machines take: CAP_SYS_ADMIN and CAP_NET_ADMIN
}

// Capabilities that machines take, as /proc/self/status numbers them.
const (
	netAdmin = 1 << 12
	sysAdmin = 1 << 21
)

// Detect returns the environment of the calling process. root is the root directory of the host, and getenv reads its
// environment.
func Detect(root fs.FS, getenv func(string) string) Environment {
	read := func(name string) string {
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return ""
		}
		return strings.TrimRight(string(data), "\x00\n")
	}
	exists := func(name string) bool {
		_, err := fs.Stat(root, name)
		return err == nil
	}
	mounts := parseMounts(read("proc/self/mountinfo"))
	e := Environment{
		Init: read("proc/1/comm"), Cgroups: mounts.cgroups(), Label: read("proc/self/attr/current"),
		Container: detectContainer(read, exists, getenv, mounts),
		VM:        detectVM(read, exists),
	}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		e.CI = "GitHub Actions"
	case getenv("GITLAB_CI") != "":
		e.CI = "GitLab CI"
	}
	switch read("sys/fs/selinux/enforce") {
	case "1":
		e.SELinux = "enforcing"
	case "0":
		e.SELinux = "permissive"
	}
	if e.Label == "unconfined" { // AppArmor has no profile for it
		e.Label = ""
	}
	for line := range strings.Lines(read("proc/self/status")) {
		if bits, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(bits), 16, 64)
			e.Privileged = err == nil && set&netAdmin != 0 && set&sysAdmin != 0
		}
	}
	if ids := strings.Fields(read("proc/self/uid_map")); len(ids) >= 3 {
		e.Rootless = ids[0] != "0" || ids[1] != "0" || ids[2] != "4294967295"
	}
	return e
}

func detectContainer(read func(string) string, exists func(string) bool, getenv func(string) string,
	m mounts) string {
	// systemd's interface for containers: https://systemd.io/CONTAINER_INTERFACE
	manager := ""
	for variable := range strings.SplitSeq(read("proc/1/environ"), "\x00") {
		if value, ok := strings.CutPrefix(variable, "container="); ok {
			manager = value
		}
	}
	if manager == "" {
		manager = read("run/systemd/container")
	}
	groups := read("proc/self/cgroup")
	switch {
	case getenv("KUBERNETES_SERVICE_HOST") != "", exists("var/run/secrets/kubernetes.io/serviceaccount"),
		strings.Contains(groups, "kubepods"):
		return "Kubernetes"
	case exists("run/.containerenv"), manager == "podman", strings.Contains(groups, "/libpod"):
		return "Podman"
	case strings.Contains(groups, "/docker"), manager == "docker":
		return "Docker"
	case exists(".dockerenv") && !m.wholeDisk():
		return "Docker"
	case strings.HasPrefix(manager, "lxc"), strings.Contains(groups, "/lxc"):
		return "LXC"
	case manager != "" && manager != "wsl":
		return manager
	}
	return ""
}

func detectVM(read func(string) string, exists func(string) bool) string {
	release := strings.ToLower(read("proc/sys/kernel/osrelease"))
	hostname := read("proc/sys/kernel/hostname")
	switch {
	case strings.Contains(release, "linuxkit"), hostname == "docker-desktop":
		return "Docker Desktop"
	case exists("etc/podman-machine"), exists("etc/containers/podman-machine"): // since Podman 6, and before
		return "Podman machine"
	case strings.Contains(release, "microsoft") && strings.Contains(release, "wsl2"):
		return "WSL 2"
	case strings.Contains(release, "microsoft"):
		return "WSL 1"
	case exists("run/lima-boot-done") && (hostname == "colima" || strings.HasPrefix(hostname, "colima-")):
		return "Colima"
	case exists("run/lima-boot-done"):
		return "Lima"
	}
	return ""
}

// mounts are lines of proc_pid_mountinfo(5), split into fields.
type mounts [][]string

func parseMounts(text string) (all mounts) {
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if rest := strings.Fields(after); ok && len(fields) >= 5 && len(rest) >= 3 {
			all = append(all, []string{fields[3], fields[4], rest[0], rest[2]})
		}
	}
	return all
}

// cgroups returns which versions of cgroups are mounted.
func (m mounts) cgroups() string {
	var v1, v2 bool
	for _, f := range m {
		v1 = v1 || f[2] == "cgroup" && strings.Contains(","+f[3]+",", ",memory,")
		v2 = v2 || f[2] == "cgroup2"
	}
	switch {
	case v1 && v2:
		return "hybrid"
	case v1:
		return "v1"
	case v2:
		return "v2"
	}
	return ""
}

// wholeDisk reports whether / is a whole file system of a disk: no container has one, but a virtual machine that boots
// the image of one has, with the file /.dockerenv in it.
func (m mounts) wholeDisk() bool {
	whole := false
	for _, f := range m {
		if f[1] == "/" {
			whole = f[0] == "/" && (strings.HasPrefix(f[2], "ext") || f[2] == "xfs")
		}
	}
	return whole
}

// String describes the environment in a line.
func (e Environment) String() string {
	var where []string
	if e.CI != "" {
		where = append(where, e.CI)
	}
	if e.Container != "" {
		privileged := "unprivileged"
		if e.Privileged {
			privileged = "privileged"
		}
		if e.Rootless {
			privileged = "rootless"
		}
		where = append(where, fmt.Sprintf("a %s container (%s)", e.Container, privileged))
	}
	if e.VM != "" {
		where = append(where, e.VM)
	}
	text := "a host of its own"
	if len(where) > 0 {
		text = strings.Join(where, " in ")
	}
	if e.Rootless && e.Container == "" {
		text += ", in a user namespace"
	}
	init := "process 1 is " + e.Init
	if e.Init == "systemd" {
		init = "systemd"
	}
	if e.Init != "" {
		text += ", " + init
	}
	if e.Cgroups != "" {
		text += ", cgroup " + e.Cgroups
	}
	if e.SELinux != "" {
		text += ", SELinux " + e.SELinux
	}
	if e.Label != "" {
		text += ", label " + e.Label
	}
	return text
}

// Lacks returns what of machines does not work in this environment whatever is in the container or virtual machine, and
// how to change it there; empty when nothing is known to be lacking.
func (e Environment) Lacks() (lack, fix string) {
	switch {
	case e.VM == "WSL 1":
		return "WSL 1 has no Linux kernel: neither clusters nor machines work", "wsl --set-version DISTRIBUTION 2"
	case e.Rootless:
		return "root is an unprivileged user of the host here: clusters work, machines are simulated", e.Fix()
	case e.Container != "" && !e.Privileged:
		return "the container is not privileged: clusters work, machines are simulated", e.Fix()
	case e.Container != "" && e.SELinux == "enforcing" && strings.Contains(e.Label, ":container_t:"):
		return "SELinux confines this container: clusters work, machines are simulated", e.Fix()
	case e.Container != "" && (strings.Contains(e.Label, "docker-default") ||
		strings.Contains(e.Label, "containers-default") || strings.Contains(e.Label, "cri-containerd.apparmor.d")):
		return "AppArmor keeps this container from mounting: clusters work, machines are simulated", e.Fix()
	}
	return "", ""
}

// Fix returns how to give the daemon what machines need in this environment.
func (e Environment) Fix() string {
	switch {
	case e.CI == "GitLab CI" && e.Container == "Kubernetes":
		return "in the runner's config.toml: [runners.kubernetes] privileged = true"
	case e.CI == "GitLab CI" && e.Container != "":
		return "in the runner's config.toml: [runners.docker] privileged = true"
	case e.CI == "GitHub Actions" && e.Container != "":
		return "in the workflow, for the job's container: options: --privileged   # or run the job without a container"
	case e.Container == "Kubernetes":
		return "in the pod: securityContext: {privileged: true}"
	case e.Container == "Podman" && e.Rootless, e.VM == "Podman machine" && e.Rootless:
		return "podman machine stop; podman machine set --rootful; podman machine start   # on Linux: sudo podman; " +
			"then: podman run --privileged"
	case e.Container == "Podman":
		return "podman run --privileged --volume coracle:/var/lib/coracle"
	case e.Container == "Docker" && e.Rootless:
		return "use a Docker daemon of root, with: docker run --privileged"
	case e.Container == "LXC":
		return "make the container privileged: lxc config set CONTAINER security.privileged=true security.nesting=true"
	case e.Container != "":
		fix := "docker run --privileged --volume coracle:/var/lib/coracle"
		if e.SELinux == "enforcing" {
			fix += " --security-opt label=disable"
		}
		return fix
	case strings.HasPrefix(e.VM, "WSL"):
		return "in PowerShell: wsl --update; wsl --shutdown   # then as root: coracle up"
	case e.VM == "Colima", e.VM == "Lima", e.VM == "Podman machine":
		return "run coracle as root of the virtual machine: sudo coracle up"
	}
	return "run coracle as root of a Linux host, outside of containers and sandboxes"
}
