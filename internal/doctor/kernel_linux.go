package doctor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

// kernelChecks are those of what the host's kernel offers.
var kernelChecks = []check{
	{"kernel", checkKernel},
	{"user", checkUser},
	{"cgroups", cgroups},
	{"mounts", checkRoot},
	{"isolation", isolation},
	{"limits", checkLimits},
	{"memory", checkMemory},
}

func checkKernel(context.Context, Host) []Finding {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return warnFinding("", "the kernel does not tell its version: %v", err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err == nil && (major < 5 || major == 5 && minor < 10) {
		return failFinding(
			"upgrade to a distribution with Linux 5.10 or newer (Debian 11, Ubuntu 22.04, Amazon Linux 2023)",
			"Linux %s is too old: processes are followed by pidfd", release)
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

func cgroups(context.Context, Host) []Finding {
	var s unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &s); err != nil {
		return warnFinding("mount -t cgroup2 none /sys/fs/cgroup",
			"no cgroups at /sys/fs/cgroup (%v): machines need them, control planes do not", err)
	}
	if s.Type == unix.CGROUP2_SUPER_MAGIC {
		return okFinding("version 2")
	}
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		return warnFinding("mount -t cgroup2 none /sys/fs/cgroup",
			"cgroups have no memory controller: machines need it, control planes do not")
	}
	return okFinding("version 1")
}

// checkRoot looks for a chroot whose root is in the middle of a mount: the kernel lets nobody make mounts private
// there, or change the root, as machines do.
func checkRoot(context.Context, Host) []Finding {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_BASIC_STATS, &s)
	if err != nil || s.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return okFinding("not known") // before Linux 5.8
	}
	if s.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return failFinding("mount --bind DIRECTORY DIRECTORY   # outside, before chroot DIRECTORY",
			"this is a chroot whose / is no mount point: control planes run, machines cannot")
	}
	return okFinding("/ is a mount point")
}

func isolation(_ context.Context, h Host) []Finding {
	if os.Geteuid() != 0 {
		return okFinding("simulated machines run nothing")
	}
	dir := string(h.Dir)
	if _, err := os.Stat(dir); err != nil {
		dir = existing(dir)
	}
	if err := usernamespace.Check(dir); err != nil {
		return warnFinding("run coracle on Linux 5.19 or newer, outside of containers, "+
			"with the data directory on ext4, xfs or btrfs",
			"machines have no user namespaces: root in a machine can become root of this host (%v)", err)
	}
	return okFinding("machines have user namespaces: root in a machine is an unprivileged user of this host")
}

func checkLimits(context.Context, Host) []Finding {
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
	if all == nil {
		return okFinding("%d open files", l.Max)
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
