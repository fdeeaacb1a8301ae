package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/process"
)

// etcdProcess is the name of the embedded etcd among the processes of a data directory.
const etcdProcess = "etcd"

// startTime bounds the wait at start for an external etcd.
const startTime = 60 * time.Second

// waitReport is the interval at which the daemon logs that it still waits for its own etcd.
const waitReport = 5 * time.Second

// connect connects to etcd, and starts the embedded one unless it runs already.
func (d *daemon) connect(ctx context.Context) (err error) {
	if len(d.config.Etcd.Endpoints) > 0 {
		ctx, cancel := context.WithTimeout(ctx, startTime)
		defer cancel()
		d.etcd, err = d.config.Etcd.Connect(ctx)
		return err
	}
	if d.embedded, err = etcd.Prepare(d.dir.Etcd()); err != nil {
		return err
	}
	d.embedded.Log = d.log
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start etcd with: %w", err)
	}
	spec := process.Spec{
		Name:     etcdProcess,
		Path:     self,
		Args:     d.embedded.Args(),
		Env:      []string{"PATH=" + os.Getenv("PATH")},
		Dir:      string(d.dir),
		Log:      d.dir.Join("etcd", "etcd.log"),
		Grace:    20 * time.Second,
		Revision: "1",
	}
	if os.Geteuid() == 0 {
		spec.OOMScoreAdj = process.EtcdOOMScoreAdj
	}
	if err := d.checkEtcdDisk(); err != nil {
		return err
	}
	if _, err := d.processes.Ensure(ctx, spec); err != nil {
		return err
	}
	// An etcd that cannot serve dies at once and says why in its log: no need to wait for the time to run out.
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	unsubscribe := d.events.subscribe(func(e process.Event) {
		if e.Name == etcdProcess && e.Died && e.Status.Deaths >= 3 {
			abandon(fmt.Errorf("etcd does not start: %s", failureReason(spec.Log)))
		}
	})
	defer unsubscribe()
	// One that is alive may be busy for minutes: it defragments a large database before it serves.
	stopReports := d.reportWait(ctx)
	d.etcd, err = d.embedded.Connect(ctx)
	stopReports()
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) &&
		!errors.Is(cause, context.DeadlineExceeded) {
		if stop := d.processes.Stop(context.WithoutCancel(ctx), etcdProcess); stop != nil {
			d.log.Warn("could not stop etcd", "error", stop)
		}
		return fmt.Errorf("%w (its log is %s)", cause, spec.Log)
	}
	if err != nil {
		return fmt.Errorf("%w; its log is %s", err, spec.Log)
	}
	return nil
}

// reportWait logs every few seconds that etcd does not serve yet, until stop is called.
func (d *daemon) reportWait(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(waitReport)
		defer ticker.Stop()
		started := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			running := false
			for _, p := range d.processes.List(etcdProcess) {
				running = running || p.Name == etcdProcess && p.Running
			}
			d.log.Info("waiting for etcd; a large database takes minutes to open, defragment or repair",
				"running", running, "for", time.Since(started).Round(time.Second), "log",
				d.dir.Join("etcd", "etcd.log"))
		}
	}()
	return func() { cancel(); <-done }
}

// checkEtcdDisk refuses to start an etcd that would die of a full disk. One that runs is left alone.
func (d *daemon) checkEtcdDisk() error {
	for _, p := range d.processes.List(etcdProcess) {
		if p.Running {
			return nil
		}
	}
	free, err := diskspace.Free(string(d.dir))
	if err != nil {
		return err
	}
	if free < diskspace.Start {
		return fmt.Errorf(
			"the disk of %s is full: %d MiB are free and etcd needs %d MiB: free some space (df -h %s), or give "+
				"--data-dir a directory on another disk",
			d.dir, free>>20, diskspace.Start>>20, d.dir)
	}
	return nil
}

// failureReason reads from the end of its log why a program has died: what it told the user, or the last entry of the
// level error, panic or fatal.
func failureReason(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const end = 64 << 10 // what is before may be gone; see process.Trim
	if info, err := f.Stat(); err == nil && info.Size() > end {
		if _, err := f.Seek(-end, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range slices.Backward(lines) {
		if said, ok := strings.CutPrefix(line, "coracle: "); ok {
			return said
		}
		if said, ok := strings.CutPrefix(line, "panic: "); ok {
			return said
		}
		var entry struct{ Level, Msg, Error string }
		if json.Unmarshal([]byte(line), &entry) == nil &&
			slices.Contains([]string{"error", "panic", "fatal"}, entry.Level) {
			return strings.TrimSuffix(entry.Msg+": "+entry.Error, ": ")
		}
	}
	return lines[len(lines)-1]
}
