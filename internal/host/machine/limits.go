//go:build linux

package machine

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/hostmemory"
)

// kernelLimits returns the kernel limits that machines need, by file. A limit that is already higher stays unchanged.
func kernelLimits(memory int, socketsAreCharged bool) map[string][]int {
	limits := map[string][]int{
		// Each machine has a kubelet, containerd and pods that watch files. It has the share of one user, and all machines
		// without user namespaces share that of the host's root.
		"/proc/sys/fs/inotify/max_user_instances": {8192},
		"/proc/sys/fs/inotify/max_user_watches":   {1 << 20},
		"/proc/sys/kernel/keys/root_maxkeys":      {1 << 20},
		"/proc/sys/kernel/keys/root_maxbytes":     {25 << 20},
	}
	// What follows are limits of the whole host, one of which a single machine could reach: then the kernel drops UDP for
	// all, delays TCP, and resets connections. The memory of the machine is to be the limit that it reaches first.
	const socket = 1 << 10 // bytes; no TCP socket takes less
	limits["/proc/sys/net/ipv4/tcp_max_orphans"] = []int{min(memory/socket, math.MaxInt32/4)}
	if socketsAreCharged { // otherwise they are what keeps the host's memory from machines
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
	limits := kernelLimits(int(hostmemory.Total()), err == nil && host.ChargesSockets())
	for _, file := range slices.Sorted(maps.Keys(limits)) {
		if err := raiseKernelLimit(file, limits[file], log); err != nil {
			log.Warn("could not raise a limit of the kernel, which a host with many machines reaches",
				"limit", file, "want", limits[file], "error", err)
		}
	}
}

// raiseKernelLimit raises those numbers of a file that are lower than wanted.
func raiseKernelLimit(file string, want []int, log *slog.Logger) error {
	text, err := os.ReadFile(file)
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
