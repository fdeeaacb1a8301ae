//go:build linux

package cgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

// A connection of a machine is aborted whose server has kept a worker of the kernel waiting for one answer for
// writebackPatience. There are at least 256 workers for all file systems of the host: a machine that has more than
// mostFlushes of them busy in two passes, one after the other, loses all its connections. Other connections may be
// those that keep them busy each time: a server that answers after seconds makes its connection wait for its next turn,
// and those that wait hold up what the host writes as well.
const (
	writebackInterval = 5 * time.Second
	writebackPatience = 2 * time.Minute
	mostFlushes       = 16
)

// GuardWriteback keeps a machine from holding up what the kernel writes to the disks of the host. The kernel's workers
// also write what has changed in FUSE file systems, for which they wait without an end: those whose servers are in the
// machine, and do not answer. first is the first of the host's user IDs of the machine. GuardWriteback does not return.
//
// It sees workers in the first PID namespace only: in a container it does nothing, unless that has the host's.
func GuardWriteback(first uint32, log func(text string)) {
	g := writebackGuard{first: first, proc: "/proc", patience: writebackPatience}
	for {
		aborted, err := g.pass(<-time.After(nextPass()))
		if len(aborted) > 0 {
			log(fmt.Sprintf("aborted FUSE connections (%s): their servers do not answer, and keep the host from writing",
				strings.Join(aborted, " ")))
		}
		if err != nil {
			log(err.Error())
		}
	}
}

// nextPass returns the time until the next pass, which a machine cannot know: it would let all workers go for that one.
func nextPass() time.Duration {
	var random [1]byte
	_, _ = rand.Read(random[:]) // which never fails
	return writebackInterval/2 + writebackInterval*time.Duration(random[0])/256
}

type writebackGuard struct {
	first    uint32
	proc     string
	patience time.Duration
	flushes  map[string]flush // of the last pass, by connection
}

// flush is what a worker does for a FUSE connection.
type flush struct {
	pid      string
	switches string // how often the worker has waited: as long as it stays the same, it waits for one thing
	since    time.Time
}

// pass aborts the connections that keep workers waiting, and returns them.
func (g *writebackGuard) pass(now time.Time) (aborted []string, err error) {
	control, err := openControl()
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOSYS) { // without FUSE, or before Linux 5.2
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mount the control of FUSE: %w", err)
	}
	defer control.Close()
	own, err := g.connections(control)
	if err != nil {
		return nil, err
	}
	var flushes map[string]flush
	if slices.Contains(slices.Collect(maps.Values(own)), true) {
		flushes = g.listFlushes(own, now)
	}
	for _, name := range g.judge(own, flushes, now) {
		if abortErr := abortConnection(control, name); abortErr != nil {
			err = errors.Join(err, abortErr)
			continue
		}
		aborted = append(aborted, name)
	}
	return aborted, err
}

// connections returns the machine's connections, and whether each has requests that are not answered yet.
func (g *writebackGuard) connections(control *os.File) (map[string]bool, error) {
	names, err := control.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list FUSE connections: %w", err)
	}
	own := connections{owners: []uint32{g.first - g.first%usernamespace.Size}}
	waiting := map[string]bool{}
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(int(control.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil ||
			!own.include(st, name, nil) {
			continue
		}
		n, err := readFile(fmt.Sprintf("/proc/self/fd/%d/%s", control.Fd(), name), "waiting")
		waiting[name] = err == nil && n != "0"
	}
	return waiting, nil
}

// listFlushes returns what workers do for the connections.
func (g *writebackGuard) listFlushes(of map[string]bool, now time.Time) map[string]flush {
	all := map[string]flush{}
	for _, pid := range g.threads() {
		// "kworker/u8:2+flush-0:53" while it works for the device 0:53. Names of others have 15 bytes at most.
		name, err := readFile(filepath.Join(g.proc, pid), "comm")
		_, connection, ok := strings.Cut(name, "+flush-0:")
		connection, _, _ = strings.Cut(connection, "-") // "-fuseblk"
		if err != nil || !ok || !strings.HasPrefix(name, "kworker/") || !of[connection] {
			continue
		}
		status, err := readFile(filepath.Join(g.proc, pid), "status")
		if _, switches, ok := strings.Cut(status, "\nvoluntary_ctxt_switches:"); err == nil && ok {
			all[connection] = flush{pid, switches, now}
		}
	}
	return all
}

// threads returns the threads of the kernel, or all processes where it does not tell those apart.
func (g *writebackGuard) threads() (pids []string) {
	const parent = "2"
	if name, err := readFile(filepath.Join(g.proc, parent), "comm"); err == nil && name == "kthreadd" {
		children, err := readFile(filepath.Join(g.proc, parent, "task", parent), "children")
		if err == nil {
			return strings.Fields(children)
		}
	}
	found, _ := filepath.Glob(filepath.Join(g.proc, "[0-9]*")) // of a pattern that is none
	for _, dir := range found {
		pids = append(pids, filepath.Base(dir))
	}
	return pids
}

// judge returns which of the machine's connections to abort.
func (g *writebackGuard) judge(own map[string]bool, flushes map[string]flush, now time.Time) (abort []string) {
	for name, f := range flushes {
		before, ok := g.flushes[name]
		if ok && f.pid == before.pid && f.switches == before.switches {
			flushes[name] = before
			if now.Sub(before.since) >= g.patience {
				abort = append(abort, name)
			}
		}
	}
	if len(flushes) > mostFlushes && len(g.flushes) > mostFlushes {
		abort = slices.Collect(maps.Keys(own))
	}
	g.flushes = flushes
	return abort
}

// abortConnection aborts a connection, unless it is gone.
func abortConnection(control *os.File, name string) error {
	fd, err := unix.Openat(int(control.Fd()), name+"/abort", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte("1"))
		unix.Close(fd)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("abort FUSE connection %s: %w", name, err)
	}
	return nil
}
