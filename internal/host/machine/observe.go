//go:build linux

package machine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/time/rate"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/guestfile"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
)

// consoleLimit is the size of the console output that EC2 keeps, in bytes.
const consoleLimit = 64 << 10

// impairedAfter is the number of consecutive deaths after which a machine counts as impaired.
const impairedAfter = 3

// observe records the state of a machine whose process runs: its power state, status checks and console.
func (c *Controller) observe(ctx context.Context, key string, i record.Instance, m record.Machine,
	p process.Status) (reconcile.Result, error) {
	before := m
	dir := c.machineDir(i.ID)
	s, err := launch.ReadStatus(dir)
	if err != nil {
		return reconcile.Result{}, err
	}
	if s.Boot != i.Boot {
		return reconcile.Result{After: time.Second}, nil // launch has not read its spec yet
	}
	switch s.State {
	case launch.PoweredOff:
		m.PoweredOff = true
		return reconcile.Result{}, c.stopMachine(ctx, key, m)
	case launch.Failed:
		if m.LaunchedAt.IsZero() && i.Boot == 1 {
			return c.recordFailure(ctx, key, i, m, &Failure{internalError, errText(s.Error)})
		}
		m.FailureCode, m.Failure = internalError, record.Reason(s.Error)
	case launch.Running:
		if m.State != ec2types.InstanceStateNameRunning {
			m.State, m.LaunchedAt = ec2types.InstanceStateNameRunning, s.Since
		}
	}
	m = evaluateStatus(m, s, p, c.readReport(i.ID))
	if m != before {
		if !c.mayWrite(i.ID) {
			return reconcile.Result{After: writeEvery}, nil
		}
		if err := c.writeMachine(ctx, key, m); err != nil {
			return reconcile.Result{}, err
		}
	}
	pause := consoleEvery
	switch {
	case isStable(m) && !isStable(before):
		pause = 0 // it has booted
	case isStable(m):
		pause = consoleStable
	}
	after, err := c.consoleSoon(ctx, key, i.ID, pause)
	if !isStable(m) {
		after = time.Second // whatever becomes of the notices of files
	}
	return reconcile.Result{After: after}, err
}

// How many of a machine's changes are written: a boot makes few, but what the machine reports is up to its root, and
// each row stays in etcd's history for a while.
const (
	writesAtOnce = 30
	writeEvery   = 10 * time.Second
)

// mayWrite reports whether what was observed of a machine may be written now.
func (c *Controller) mayWrite(id string) bool {
	limit, _ := c.writes.LoadOrStore(id, rate.NewLimiter(rate.Every(writeEvery), writesAtOnce))
	return limit.(*rate.Limiter).Allow()
}

// readReport returns the boot report that the machine has written. An invalid report counts as none, and the machine
// fails its instance status check.
func (c *Controller) readReport(id string) boot.Report {
	data, err := guestfile.Read(filepath.Join(c.machineDir(id), launch.RunDir), boot.File, boot.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return boot.Report{}
	}
	var r boot.Report
	if err == nil {
		r, err = boot.Parse(data)
	}
	if err != nil {
		c.log.Warn("a machine's report of its boot is not used", "instance", id, "error", err)
	}
	return r
}

type errText string

func (e errText) Error() string { return string(e) }

// isStable reports whether nothing is expected to change soon.
func isStable(m record.Machine) bool {
	return m.State == ec2types.InstanceStateNameRunning && m.InstanceStatus == ec2types.SummaryStatusOk &&
		m.UserData != boot.Running
}

// evaluateStatus evaluates the two status checks and the result of the user data. A machine whose user data failed
// passes its checks, as on EC2.
func evaluateStatus(m record.Machine, s launch.Status, p process.Status, report boot.Report) record.Machine {
	m.SystemStatus, m.InstanceStatus = ec2types.SummaryStatusInitializing, ec2types.SummaryStatusInitializing
	broken := s.State == launch.Failed && m.Failure != "" || p.Deaths >= impairedAfter
	switch {
	case broken:
		m.InstanceStatus = ec2types.SummaryStatusImpaired
		if s.State == launch.Failed {
			m.SystemStatus = ec2types.SummaryStatusImpaired
		} else {
			m.SystemStatus = ec2types.SummaryStatusOk
		}
	case s.State == launch.Running:
		m.SystemStatus = ec2types.SummaryStatusOk
		m.FailureCode, m.Failure = "", ""
		if report.Network {
			m.InstanceStatus = ec2types.SummaryStatusOk
		}
	}
	if !broken {
		m.ImpairedSince = time.Time{}
	} else if m.ImpairedSince.IsZero() {
		m.ImpairedSince = time.Now().UTC()
	}
	m.UserData = report.UserData
	if report.UserData == boot.Failed && report.Failure != "" {
		m.UserData = report.UserData + ": " + report.Failure
	}
	if len(report.FailedUnits) > 0 {
		m.UserData = strings.TrimPrefix(m.UserData+"; units that did not start: "+strings.Join(report.FailedUnits,
			", "), "; ")
	}
	m.UserData = shorten(m.UserData)
	var failing []string
	for _, unit := range report.FailingUnits {
		failing = append(failing, unit.Name+" fails again and again: "+unit.Error)
	}
	m.Failing = shorten(strings.Join(failing, "; "))
	if m.Failing == "" {
		m.FailingSince = time.Time{}
	} else if m.FailingSince.IsZero() {
		m.FailingSince = time.Now().UTC()
	}
	return m
}

func shorten(text string) string {
	if len(text) > maxReport {
		return strings.ToValidUTF8(text[:maxReport], "") + " ..."
	}
	return text
}

// maxReport is the number of bytes of a machine's boot report that are kept.
const maxReport = 4 << 10

// How often a console that goes on is written: while the machine boots, and after.
const (
	consoleEvery  = 10 * time.Second
	consoleStable = 30 * time.Second
)

type consoleMark struct {
	size int64
	at   time.Time
}

// consoleSoon writes the console if it has grown, at most once in a pause; after is the time until the next check.
func (c *Controller) consoleSoon(ctx context.Context, key, id string, pause time.Duration) (
	after time.Duration, err error) {
	info, err := os.Lstat(filepath.Join(c.machineDir(id), consoleFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // nothing was written yet
	}
	if err != nil {
		return 0, err
	}
	last, _ := c.consoled.Load(id)
	mark, _ := last.(consoleMark)
	if mark.size == info.Size() {
		return 0, nil
	}
	if wait := pause - time.Since(mark.at); wait > 0 {
		return wait, nil
	}
	return 0, c.writeConsole(ctx, key, id)
}

// writeConsole writes the end of a machine's console down.
func (c *Controller) writeConsole(ctx context.Context, key, id string) error {
	output, size, err := guestfile.ReadTail(c.machineDir(id), consoleFile, consoleLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it never ran
	}
	if err != nil {
		return err
	}
	c.consoled.Store(id, consoleMark{size, time.Now()})
	if len(output) == 0 {
		return nil
	}
	_, err = c.consoles.Put(ctx, key, record.MachineConsole{Output: output, UpdatedAt: time.Now().UTC()})
	return err
}
