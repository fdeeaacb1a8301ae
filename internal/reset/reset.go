// Package reset removes every process, mount, namespace and file that the daemon of a data directory made.
//
// It needs nothing to work: the daemon may be dead, hung or running, and any file may be missing or broken.
package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/filetree"
	"github.com/coracle-eks/coracle/internal/host/hostsfile"
	"github.com/coracle-eks/coracle/internal/host/preflight"
	"github.com/coracle-eks/coracle/internal/host/trust"
	"github.com/coracle-eks/coracle/internal/process"
)

// Run removes what the daemon of dir made, and dir. It passes each step to progress.
func Run(ctx context.Context, dir datadir.Dir, progress func(string)) error {
	// Half a reset helps nobody.
	signal.Ignore(os.Interrupt)
	defer signal.Reset(os.Interrupt)

	if err := checkDataDir(dir); err != nil {
		return err
	}
	if err := end(ctx, dir, progress); err != nil {
		return err
	}
	if err := removeTrust(ctx, dir.Owner(), progress); err != nil {
		return err
	}
	if !dir.Exists() {
		progress("nothing was left in " + string(dir))
		return nil
	}
	if err := removeTree(string(dir)); err != nil {
		return err
	}
	progress("removed " + string(dir))
	return nil
}

// End ends the daemon of dir and everything that it runs, as a reboot does: the next daemon starts again what should
// run. It passes each step to progress.
func End(ctx context.Context, dir datadir.Dir, progress func(string)) error {
	signal.Ignore(os.Interrupt)
	defer signal.Reset(os.Interrupt)
	return end(ctx, dir, progress)
}

func end(ctx context.Context, dir datadir.Dir, progress func(string)) error {
	if err := endDaemon(ctx, dir, progress); err != nil {
		return err
	}
	killed, err := process.Kill(dir.Owner())
	if errors.Is(err, process.ErrStuck) && mayHaveMachines() { // a launcher may wait for its machine
		if _, err := removeMachines(dir.Owner()); err != nil {
			return err
		}
		var more int
		more, err = process.Kill(dir.Owner())
		killed += more
	}
	if err != nil {
		return err
	}
	if killed > 0 {
		progress(fmt.Sprintf("ended %d processes", killed))
	}
	if os.Geteuid() == 0 {
		if err := removeHost(ctx, dir.Owner(), progress); err != nil {
			return err
		}
	}
	unmounted, err := unmount(string(dir))
	if err != nil {
		return err
	}
	if unmounted > 0 {
		progress(fmt.Sprintf("unmounted %d file systems", unmounted))
	}
	return nil
}

// mayHaveMachines reports whether a daemon of this user can have launched machines: root can, unless it is root of a
// user namespace, as in rootless containers, which may not even look for what machines leave.
func mayHaveMachines() bool { return os.Geteuid() == 0 && !preflight.Here().Rootless }

// removeHost removes what only root can have made outside the data directory: cgroups, namespaces, links, devices,
// names.
func removeHost(ctx context.Context, owner string, progress func(string)) error {
	// What cannot be removed does not keep the rest.
	n, err := 0, error(nil)
	if mayHaveMachines() {
		n, err = removeMachines(owner)
	}
	named, err2 := hostsfile.Remove(ctx, owner)
	if n > 0 {
		progress(fmt.Sprintf("removed %d namespaces, links, cgroups and loop devices", n))
	}
	if named {
		progress("removed the names of clusters from " + hostsfile.File)
	}
	return errors.Join(err, err2)
}

// removeTrust removes the daemon's certificate authority from the system's trust store.
func removeTrust(ctx context.Context, owner string, progress func(string)) error {
	removed, err := trust.RemoveAll(ctx, owner)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the system's trust store has the daemon's certificate authority, and only root may remove it: "+
			"run \"coracle trust --remove\" as root with the same --data-dir first: %w", err)
	}
	if removed {
		progress("removed the daemon's certificate authority from the system's trust store")
	}
	return err
}

// checkDataDir guards against "coracle reset --yes --data-dir /home": a daemon creates its lock first, and its settings
// second.
func checkDataDir(dir datadir.Dir) error {
	entries, err := os.ReadDir(string(dir))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	lock, lockErr := os.Lstat(dir.LockFile())
	_, settingsErr := os.Lstat(dir.SettingsFile())
	_, etcdErr := os.Lstat(dir.Etcd())
	// "coracle up" makes its log before the daemon makes anything.
	logOnly := len(entries) == 1 && entries[0].Name() == filepath.Base(dir.ServeLog())
	locked := lockErr == nil && lock.Mode().IsRegular()
	if logOnly || locked && (settingsErr == nil || etcdErr == nil || len(entries) <= 2) ||
		settingsErr == nil && etcdErr == nil {
		return nil
	}
	return fmt.Errorf(
		"%s does not look like a data directory of coracle (it has no lock and settings.json); nothing was removed",
		dir,
	)
}

// endDaemon ends the daemon of dir, so that it starts no processes while they are removed.
func endDaemon(ctx context.Context, dir datadir.Dir, progress func(string)) error {
	pid, held, err := dir.Holder()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if !held {
		return nil
	}
	if pid <= 0 {
		return fmt.Errorf(
			"%s is held by a process that it does not name: find it with \"fuser %s\" and end it",
			dir.LockFile(), dir.LockFile(),
		)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end the daemon (process %d): %w", pid, err)
		}
		if waitForEnd(ctx, dir, 10*time.Second) {
			progress(fmt.Sprintf("ended the daemon (process %d)", pid))
			return nil
		}
	}
	return fmt.Errorf(
		"the daemon (process %d) does not end on SIGKILL; it is stuck in the kernel: see /proc/%d/stack", pid, pid,
	)
}

// waitForEnd reports whether the daemon of dir ends in time.
func waitForEnd(ctx context.Context, dir datadir.Dir, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		if _, held, err := dir.Holder(); err == nil && !held {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-poll.C:
		}
	}
}

// removeTree deletes dir with all that is in it; a mount point loses its content only.
func removeTree(dir string) error {
	err := filetree.RemoveAll(dir)
	if err == nil || !errors.Is(err, syscall.EBUSY) {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := filetree.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
