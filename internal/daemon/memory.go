package daemon

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/coracle-eks/coracle/internal/hostmemory"
	"github.com/coracle-eks/coracle/internal/process"
)

// minMemoryLimit is the least soft limit of the daemon's memory.
const minMemoryLimit = 512 << 20

// limitMemory makes Go collect garbage more often when this daemon has a quarter of the host's memory, unless
// GOMEMLIMIT is set, and protects it from the kernel when memory runs out, where the kernel lets it: the clusters of
// all tenants depend on it.
func limitMemory(log *slog.Logger) {
	if total := hostmemory.Total(); os.Getenv("GOMEMLIMIT") == "" && total > 0 {
		debug.SetMemoryLimit(max(int64(total)/4, minMemoryLimit))
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := process.ProtectSelf(process.DaemonOOMScoreAdj); err != nil {
		log.Debug("the daemon is not protected when memory runs out", "error", err)
	}
}
