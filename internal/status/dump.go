package status

import (
	"context"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/version"
)

// Dump returns what a developer asks first about a daemon.
func (r *Reporter) Dump(context.Context) (admin.Dump, error) {
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return admin.Dump{}, err
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return admin.Dump{}, err
	}
	dump := admin.Dump{
		Time: time.Now(), Version: version.String(), Go: runtime.Version(), Started: r.o.Started,
		Goroutines: runtime.NumGoroutine(), HeapBytes: heap.HeapAlloc, OpenFiles: len(files), MaxOpenFiles: limit.Cur,
		Settings: r.o.Settings, Controllers: r.o.Controllers,
	}
	for _, f := range reconcile.Failures() {
		dump.Failures = append(dump.Failures, admin.Failure(f))
	}
	for _, p := range r.o.Processes.List("") {
		dump.Processes = append(dump.Processes, componentStatus(p, p.Name))
	}
	return dump, nil
}
