package doctor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/preflight"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/process"
)

// kernelChecks are those of what the host's kernel offers.
var kernelChecks = []check{
	{"environment", checkEnvironment},
	{"kernel", checkKernel},
	{"user", checkUser},
	{"machines", checkMachines},
	{"isolation", isolation},
	{"connections", checkConnections},
	{"volumes", checkVolumes},
	{"firewall", checkFirewall},
	{"limits", checkLimits},
	{"memory", checkMemory},
}

func checkEnvironment(context.Context, Host) []Finding { return describeEnvironment(preflight.Here()) }

// describeEnvironment returns the finding about where this program runs.
func describeEnvironment(here preflight.Environment) []Finding {
	if lack, fix := here.Lacks(); lack != "" {
		return warnFinding(fix, "%s: %s", here, lack)
	}
	return okFinding("%s", here)
}

func checkKernel(context.Context, Host) []Finding {
	release, err := preflight.Release()
	if err != nil {
		return warnFinding("", "%v", err)
	}
	if err := preflight.CheckKernel(release); err != nil {
		return failFinding(preflight.KernelFix, "%v", err)
	}
	return okFinding("Linux %s", release)
}

func checkUser(context.Context, Host) []Finding {
	if os.Geteuid() != 0 {
		return warnFinding("sudo coracle up",
			"you are user %d, not root: control planes run, and instances are simulated; "+
				"machines and VPCs with packets need root", os.Geteuid())
	}
	return okFinding("root")
}

// simulated explains why a host needs nothing that machines take; empty when it has.
func simulated(h Host) string {
	switch {
	case h.Simulated:
		return "machines are simulated, as --machines says"
	case os.Geteuid() != 0:
		return "machines are simulated: real ones need root"
	}
	return ""
}

func checkMachines(_ context.Context, h Host) (all []Finding) {
	if reason := simulated(h); reason != "" {
		return okFinding("%s", reason)
	}
	for _, p := range h.problems() {
		all = append(all, warnFinding(p.Fix, "%s: clusters work; instances and nodes are simulated, and machines of "+
			"earlier starts do not boot again", p.Text)...)
	}
	if all == nil {
		return okFinding("cgroups, overlayfs and networks can be made")
	}
	return all
}

func checkFirewall(_ context.Context, h Host) (all []Finding) {
	if reason := simulated(h); reason != "" {
		return okFinding("%s", reason)
	}
	if len(h.problems()) > 0 {
		return okFinding("simulated machines send no packets")
	}
	problems, err := preflight.CheckFirewall(h.Dir.Owner())
	if err != nil {
		return warnFinding("nft list ruleset   # look for what drops forwarded packets",
			"it is not known whether the firewall forwards: %v", err)
	}
	for _, p := range problems {
		all = append(all, warnFinding(p.Fix, "%s", p.Text)...)
	}
	if all == nil {
		return okFinding("nothing drops what this host forwards for machines")
	}
	return all
}

func isolation(_ context.Context, h Host) (all []Finding) {
	dir := machinesDir(h)
	if simulated(h) != "" || len(h.problems()) > 0 {
		return okFinding("simulated machines run nothing")
	}
	if err := usernamespace.Check(dir); err != nil {
		all = warnFinding("run coracle on Linux 5.19 or newer, outside of containers, "+
			"with the data directory on ext4, xfs or btrfs",
			"machines have no user namespaces: root in a machine can become root of this host (%v)", err)
	}
	if p := preflight.CheckRootVolumes(); p != nil {
		all = append(all, warnFinding(p.Fix, "root volumes have no size: a machine can fill the disk of %s (%s)", dir,
			p.Text)...)
	}
	if all != nil {
		return all
	}
	return okFinding("machines have user namespaces: root in a machine is an unprivileged user of this host")
}

func checkConnections(context.Context, Host) []Finding {
	return describeConfinement(process.CheckConfinement())
}

// describeConfinement returns the finding about what holds programs of clusters to the ports that they need.
func describeConfinement(err error) []Finding {
	if err != nil {
		return warnFinding("run coracle on Linux 6.7 or newer, with landlock in /sys/kernel/security/lsm",
			"programs of control planes follow no redirects to other servers, but the kernel does not keep them from "+
				"connecting to any port of this host and its networks (%v)", err)
	}
	return okFinding("programs of control planes connect to the ports that they need alone")
}

func checkVolumes(_ context.Context, h Host) (all []Finding) {
	if simulated(h) != "" || len(h.problems()) > 0 {
		return okFinding("simulated machines have simulated disks")
	}
	for _, p := range preflight.CheckVolumes() {
		all = append(all, warnFinding(p.Fix, "machines can have no volumes: %s", p.Text)...)
	}
	if p := preflight.UnseenUdev(); p != nil && all == nil {
		return warnFinding(p.Fix, "machines can have volumes, but %s", p.Text)
	}
	if all == nil {
		return okFinding("machines can have volumes")
	}
	return all
}

func checkLimits(_ context.Context, h Host) []Finding {
	var all []Finding
	const files = 4096
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err == nil && l.Max < files {
		all = append(all, warnFinding("ulimit -Hn 65536",
			"a process may open %d files; an API server wants %d", l.Max, files)...)
	}
	for name, least := range map[string]int{"max_user_instances": 128, "max_user_watches": 8192} {
		text, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
		if err != nil {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && n < least {
			all = append(all, warnFinding(fmt.Sprintf("sysctl -w fs.inotify.%s=%d", name, 8*least),
				"fs.inotify.%s is %d; many clusters want %d", name, n, least)...)
		}
	}
	if p := preflight.SharedSocketMemory(); p != nil && simulated(h) == "" && len(h.problems()) == 0 {
		all = append(all, warnFinding(p.Fix, "%s", p.Text)...)
	}
	if simulated(h) == "" && len(h.problems()) == 0 {
		all = append(all, checkShared("/proc/sys")...)
	}
	if all == nil {
		return okFinding("%d open files", l.Max)
	}
	return all
}

// checkShared looks for settings of the kernel by which a machine could end the host, or take what all machines have in
// common.
func checkShared(settings string) (all []Finding) {
	for _, s := range []struct {
		name          string
		least, panics int // 0: none
		why           string
	}{
		{"fs.file-max", 1 << 20, 0, "one machine can open as many files, and then nobody but root opens any; " +
			"coracle raises it when it starts"},
		{"net.core.bpf_jit_limit", 128 << 20, 0, "the filters of one machine can take it, and then no container with a " +
			"seccomp profile starts in another; coracle raises it when it starts"},
		{"kernel.hung_task_panic", 0, 1, "a machine with a FUSE file system can end this host"},
		{"kernel.panic_on_warn", 0, 1, "a machine that finds a warning of the kernel can end this host"},
		{"vm.panic_on_oom", 0, 2, "a machine that uses up its memory ends this host"},
	} {
		text, err := os.ReadFile(filepath.Join(settings, strings.ReplaceAll(s.name, ".", "/")))
		if err != nil {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		switch {
		case err != nil:
		case n < s.least:
			all = append(all, warnFinding(fmt.Sprintf("sysctl -w %s=%d", s.name, s.least), "%s is %d: %s", s.name, n,
				s.why)...)
		case s.panics > 0 && n >= s.panics:
			all = append(all, warnFinding(fmt.Sprintf("sysctl -w %s=0", s.name), "%s is %d: %s", s.name, n, s.why)...)
		}
	}
	return all
}

func checkMemory(context.Context, Host) []Finding {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return warnFinding("", "the kernel does not tell how much memory there is: %v", err)
	}
	for line := range bytes.Lines(text) {
		var kib uint64
		if _, err := fmt.Sscanf(string(line), "MemAvailable: %d kB", &kib); err != nil {
			continue
		}
		available := humanize.IBytes(kib << 10)
		if kib < 768<<10 {
			return failFinding("end other programs, or give the host more memory",
				"%s of memory are available; a first cluster takes about half a gibibyte", available)
		}
		return okFinding("%s available", available)
	}
	return warnFinding("", "/proc/meminfo has no MemAvailable")
}
