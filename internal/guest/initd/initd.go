//go:build linux

package initd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/guest/unit"
)

// Options are the paths of an init, which tests change; the zero value of a field is the path in a machine.
type Options struct {
	UnitPath []string  // unit.Path
	Config   string    // /etc/systemd
	Run      string    // /run/systemd: sockets
	Journal  string    // JournalDir
	Cgroup   string    // /sys/fs/cgroup
	Report   string    // boot.Dir
	Console  io.Writer // standard output
	Stub     []string  // the program that becomes a service: this one, as "exec-unit"
	// for stopping everything at the end; 15 seconds, less than the host has before it cuts the power
	Grace time.Duration
	// how long a service that was restarted has to stay up to have recovered; 30 seconds
	Stable time.Duration
}

func (o Options) withDefaults() Options {
	if o.UnitPath == nil {
		o.UnitPath = unit.Path
	}
	if o.Console == nil {
		o.Console = os.Stdout
	}
	if o.Stub == nil {
		o.Stub = []string{"/proc/self/exe", "exec-unit"}
	}
	if o.Grace == 0 {
		o.Grace = 15 * time.Second
	}
	if o.Stable == 0 {
		o.Stable = 30 * time.Second
	}
	for field, value := range map[*string]string{&o.Config: "/etc/systemd", &o.Run: "/run/systemd",
		&o.Journal: JournalDir, &o.Cgroup: "/sys/fs/cgroup", &o.Report: boot.Dir} {
		if *field == "" {
			*field = value
		}
	}
	return o
}

// Main runs the machine until its end, which it does not survive: reboot(2) ends process 1 of a pid namespace.
func Main(o Options) int {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: this is process", os.Getpid(),
			"and init is process 1 of a machine; a running machine is controlled by systemctl")
		return 1
	}
	// There is an init on every machine of a host, which does next to nothing once it has booted.
	debug.SetGCPercent(20)
	runtime.GOMAXPROCS(1)
	m := newManager(o.withDefaults())
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGPWR, unix.SIGHUP)
	signal.Ignore(unix.SIGPIPE)
	// Both need to be there before the first process: who ends, and who tells that it is ready.
	go m.reapChildren()
	m.reloadUnits()
	if err := m.openSockets(); err != nil {
		fmt.Fprintln(m.o.Console, "init:", err)
		m.rebootNow(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
	if err := m.cgroups.makeKubepods(readFile("/sys/devices/system/cpu/online")); err != nil {
		fmt.Fprintln(m.o.Console, "init:", err)
	}
	m.printBanner()
	m.updateReport(func(r *boot.Report) { // user data are to be run, as far as is known
		*r = boot.Report{StartedAt: time.Now(), UserData: boot.Running}
	})
	m.tmpfiles()
	go m.startDefaultTarget()
	for s := range signals {
		switch s {
		case unix.SIGHUP:
			m.reloadUnits()
		case unix.SIGINT: // ctrl-alt-del
			go m.shutdown(unix.LINUX_REBOOT_CMD_RESTART)
		default:
			go m.shutdown(unix.LINUX_REBOOT_CMD_POWER_OFF)
		}
	}
	return 0
}

// printBanner prints the first line of a console.
func (m *manager) printBanner() {
	name := "Linux"
	for _, line := range strings.Split(readFile("/etc/os-release"), "\n") {
		if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			name = strings.Trim(v, `"`)
		}
	}
	fmt.Fprintf(m.o.Console, "\nWelcome to %s!\n\n", name)
}

// startDefaultTarget starts the default target and reports how that goes.
func (m *manager) startDefaultTarget() {
	started, target := time.Now(), m.defaultTarget()
	jobs, err := m.startUnits([]string{target})
	if err != nil {
		m.printStatus("FAILED", "Failed to start "+target+": "+err.Error())
		m.updateReport(func(r *boot.Report) { r.FinishedAt, r.Failure, r.UserData = time.Now(), err.Error(), "" })
		return
	}
	for _, j := range jobs {
		<-j.done
	}
	var failed []string
	running := false // user data
	for _, u := range m.snapshot() {
		if u.Active == "failed" {
			failed = append(failed, u.Name)
		}
		running = running || u.Name == userDataUnit && u.Active == "activating"
	}
	slices.Sort(failed)
	m.updateReport(func(r *boot.Report) {
		r.FinishedAt, r.FailedUnits = time.Now(), failed
		if r.UserData == boot.Running && !running {
			r.UserData = "" // this machine runs none
		}
	})
	debug.FreeOSMemory()
	m.logMessage("", fmt.Sprintf("Startup finished in %s.", time.Since(started).Round(time.Millisecond)))
}

// fargateTarget is the target of the machine of a Fargate pod, which has neither user data nor users.
const fargateTarget = "fargate.target"

// defaultTarget returns the unit to which the machine boots.
func (m *manager) defaultTarget() string {
	if m.o.Run == "/run/systemd" && boot.IsFargate("/") {
		return fargateTarget
	}
	return "default.target"
}

// The units whose end is reported to the host.
const (
	networkUnit  = "network-online.target"
	userDataUnit = "cloud-final.service"
	// userDataResult has the errors of user data, as cloud-init writes it.
	userDataResult = "/run/cloud-init/result.json"
)

// observe reports what a change of a unit means for the boot.
func (m *manager) observe(name, active string) {
	switch {
	case name == networkUnit && active == "active":
		m.updateReport(func(r *boot.Report) { r.Network = true })
	case name == userDataUnit:
		state := map[string]string{"activating": boot.Running, "active": boot.Succeeded, "inactive": boot.Succeeded,
			"failed": boot.Failed}[active]
		if state == "" {
			return
		}
		m.updateReport(func(r *boot.Report) {
			if r.UserData == boot.Failed && active == "inactive" {
				return
			}
			r.UserData, r.Failure = state, ""
			if state == boot.Failed {
				r.Failure = userDataFailure()
			}
		})
	}
}

// updateReport changes the report; a machine whose host cannot be told runs on.
func (m *manager) updateReport(change func(*boot.Report)) {
	m.reportMu.Lock()
	defer m.reportMu.Unlock()
	change(&m.bootReport)
	if err := boot.Write(m.o.Report, m.bootReport); err != nil {
		fmt.Fprintln(m.o.Console, "init: report the boot:", err)
	}
}

// tmpfiles makes the directories that a machine has from its first moment, below /run and /var.
func (m *manager) tmpfiles() {
	if m.o.Run != "/run/systemd" {
		return // a test
	}
	for _, dir := range []string{"/run/lock", "/run/user", "/run/containerd", "/var/log/journal", "/var/log/containers",
		"/var/log/pods", "/var/lib/cloud", "/var/tmp"} {
		_ = os.MkdirAll(dir, 0o755)
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		_ = os.Chmod(dir, 0o777|os.ModeSticky)
	}
	m.applySysctls()
}

func readFile(name string) string {
	data, _ := os.ReadFile(name)
	return string(data)
}

// environment returns the initial environment of every service: DefaultEnvironment= of the init's own configuration.
func (m *manager) environment() map[string]string {
	env := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
	files := []string{filepath.Join(m.o.Config, "system.conf")}
	more, _ := filepath.Glob(filepath.Join(m.o.Config, "system.conf.d", "*.conf"))
	for _, file := range append(files, more...) {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		options, err := unit.Parse(f)
		f.Close()
		if err != nil {
			m.logMessage("", fmt.Sprintf("%s: %v", file, err))
			continue
		}
		for _, o := range options {
			if o.Section != "Manager" || o.Name != "DefaultEnvironment" {
				continue
			}
			assignments, err := unit.Assignments(o.Value)
			if err != nil {
				m.logMessage("", fmt.Sprintf("%s: DefaultEnvironment=%s: %v", file, o.Value, err))
			}
			for k, v := range assignments {
				env[k] = v
			}
		}
	}
	return env
}

// printStatus writes a line as systemd has it on the console while a machine boots or ends; in between it is quiet.
func (m *manager) printStatus(word, text string) {
	m.reportMu.Lock()
	booted := !m.bootReport.FinishedAt.IsZero()
	m.reportMu.Unlock()
	m.mu.Lock()
	ending := m.ending
	m.mu.Unlock()
	if !booted || ending {
		fmt.Fprintf(m.o.Console, "[%s] %s\n", word, text)
	}
}

// sleepContext waits, or returns false when ctx ends first.
func sleepContext(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// userDataFailure returns the error that cloud-init reports.
func userDataFailure() string {
	var result struct {
		V1 struct{ Errors []string }
	}
	if json.Unmarshal([]byte(readFile(userDataResult)), &result) != nil || len(result.V1.Errors) == 0 {
		return "the user data failed: see /var/log/cloud-init-output.log"
	}
	return strings.Join(result.V1.Errors, "; ")
}
