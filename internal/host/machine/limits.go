//go:build linux

package machine

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
)

// kernelLimits are the kernel limits that machines need: each has a kubelet, containerd and pods that watch files. A
// machine has the share of one user, and all machines without user namespaces share that of the host's root. A limit
// that is already higher stays unchanged.
var kernelLimits = map[string]int{
	"/proc/sys/fs/inotify/max_user_instances": 8192,
	"/proc/sys/fs/inotify/max_user_watches":   1 << 20,
	"/proc/sys/kernel/keys/root_maxkeys":      1 << 20,
	"/proc/sys/kernel/keys/root_maxbytes":     25 << 20,
}

// RaiseKernelLimits raises the limits of the kernel that a host with many machines reaches. It logs what it cannot
// raise.
func RaiseKernelLimits(log *slog.Logger) {
	for file, want := range kernelLimits {
		if err := raiseKernelLimit(file, want, log); err != nil {
			log.Warn("could not raise a limit of the kernel, which a host with many machines reaches",
				"limit", file, "want", want, "error", err)
		}
	}
}

func raiseKernelLimit(file string, want int, log *slog.Logger) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	has, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if has >= want {
		return nil
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(want)), 0); err != nil {
		return err
	}
	log.Info("raised a limit of the kernel, for machines", "limit", file, "from", has, "to", want)
	return nil
}
