//go:build linux

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/hostmemory"
)

// charges says what the kernel counts as a machine's memory.
type charges struct{ kernelMemory, sockets bool }

// kernelLimits returns the kernel limits that machines need, by file. A limit that is already higher stays unchanged.
func kernelLimits(memory int, machines charges) map[string][]int {
	limits := map[string][]int{
		// Each machine has a kubelet, containerd and pods that watch files. It has the share of one user, and all machines
		// without user namespaces share that of the host's root.
		"/proc/sys/fs/inotify/max_user_instances": {8192},
		"/proc/sys/fs/inotify/max_user_watches":   {1 << 20},
		"/proc/sys/kernel/keys/root_maxkeys":      {1 << 20},
		"/proc/sys/kernel/keys/root_maxbytes":     {25 << 20},
		// Filters of seccomp and sockets, which each container has, take of one part of the kernel's memory for all.
		"/proc/sys/net/core/bpf_jit_limit": {128 << 20},
	}
	// What follows are limits of the whole host, one of which a single machine could reach: then the kernel drops UDP for
	// all, delays TCP, resets connections, and opens files for the host's root alone. The memory of the machine is to be
	// the limit that it reaches first.
	const socket = 1 << 10 // bytes; no TCP socket takes less
	limits["/proc/sys/net/ipv4/tcp_max_orphans"] = []int{min(memory/socket, math.MaxInt32/4)}
	if machines.kernelMemory {
		const file = 128 // bytes; no open file takes less
		limits["/proc/sys/fs/file-max"] = []int{memory / file}
	}
	if machines.sockets { // otherwise they are what keeps the host's memory from machines
		pages := memory / os.Getpagesize()
		limits["/proc/sys/net/ipv4/tcp_mem"] = []int{pages, pages, pages}
		limits["/proc/sys/net/ipv4/udp_mem"] = []int{pages, pages, pages}
	}
	return limits
}

// RaiseKernelLimits raises the limits of the kernel that a host with many machines reaches. It logs what it cannot
// raise.
func RaiseKernelLimits(log *slog.Logger) {
	host, err := cgroup.Open()
	limits := kernelLimits(int(hostmemory.Total()), charges{
		kernelMemory: err == nil && cgroup.ChargesKernelMemory(), sockets: err == nil && host.ChargesSockets(),
	})
	for _, file := range slices.Sorted(maps.Keys(limits)) {
		if err := raiseKernelLimit(file, limits[file], log); err != nil {
			log.Warn("could not raise a limit of the kernel, which a host with many machines reaches",
				"limit", file, "want", limits[file], "error", err)
		}
	}
	if err := boundCoreDumps("/proc/sys/kernel"); err != nil {
		log.Warn("could not bound the programs of this host that read core dumps of machines", "error", err)
	}
}

// coreDumps is how many programs of the host may read core dumps at a time: as many as systemd has.
const coreDumps = "16"

// boundCoreDumps bounds the programs that the kernel starts for core dumps, where it starts any. They are of the host,
// as root and beside all limits of machines, and a machine can have as many processes crash at once as it has.
func boundCoreDumps(settings string) error {
	pattern, err := os.ReadFile(filepath.Join(settings, "core_pattern"))
	if err != nil || !strings.HasPrefix(string(pattern), "|") {
		return err
	}
	file := filepath.Join(settings, "core_pipe_limit")
	limit, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(limit)) != "0" { // which is none
		return err
	}
	return os.WriteFile(file, []byte(coreDumps), 0)
}

// raiseKernelLimit raises those numbers of a file that are lower than wanted.
func raiseKernelLimit(file string, want []int, log *slog.Logger) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // of another kernel, or of the host's network, in a container
	}
	if err != nil {
		return err
	}
	has := strings.Fields(string(text))
	if len(has) != len(want) {
		return fmt.Errorf("%s has %d numbers, not %d", file, len(has), len(want))
	}
	raised, lower := make([]string, len(want)), false
	for i, field := range has {
		n, err := strconv.Atoi(field)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		lower = lower || n < want[i]
		raised[i] = strconv.Itoa(max(n, want[i]))
	}
	if !lower {
		return nil
	}
	to := strings.Join(raised, " ")
	if err := os.WriteFile(file, []byte(to), 0); err != nil {
		return err
	}
	log.Info("raised a limit of the kernel, for machines", "limit", file, "from", strings.Join(has, " "), "to", to)
	return nil
}
