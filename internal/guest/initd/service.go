//go:build linux

package initd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/unit"
)

// service is a unit with its state. A target or a slice is one that has no processes.
type service struct {
	m    *manager
	name string
	op   chan struct{} // held by who changes the unit: a job, or the one that sees it end

	// Guarded by m.mu.
	def                               *unit.Unit
	loadError                         error
	active, sub, result               string
	since, activeSince, inactiveSince time.Time
	run                               *run
	controlPID, lastPID               int
	exit                              syscall.WaitStatus // of the last main process
	exited                            bool
	commands                          []string // the ended commands of this start, for status
	text                              string   // STATUS= of the service
	restarts                          int
	starts                            []time.Time // within the start limit's interval
	cancelRestart                     context.CancelFunc

	// Held with op.
	outputs map[string]*os.File // the write ends that its commands get, by setting
}

// run is one life of a service's main process.
type run struct {
	main  *child
	ready chan struct{} // closed when the service has said READY=1
	// Guarded by m.mu.
	said    bool
	mainPID int // differs from main's when the service says MAINPID=
	notify  *net.UnixConn
}

func (u *service) displayName() string {
	if d := u.def.Last("Unit", "Description"); d != "" {
		return u.name + " - " + d
	}
	return u.name
}

func (u *service) serviceType() string {
	if filepath.Ext(u.name) != ".service" {
		return strings.TrimPrefix(filepath.Ext(u.name), ".")
	}
	if t := u.def.Last("Service", "Type"); t != "" {
		return t
	}
	if len(u.def.All("Service", "ExecStart")) == 0 {
		return "oneshot"
	}
	return "simple"
}

// notMet is the result of a unit whose ExecCondition= ends with 1 to 254: it is not started, and has not failed.
const notMet = "exec-condition"

// failure is a result of systemd's ("exit-code", "timeout", ...) with what happened.
type failure struct {
	result string
	err    error
}

func (f failure) Error() string { return f.err.Error() }

// start takes a unit to where it is up, or has failed; op is held.
func (u *service) start(ctx context.Context) error {
	m := u.m
	m.mu.Lock()
	if u.cancelRestart != nil {
		u.cancelRestart()
		u.cancelRestart = nil
	}
	def := u.def
	m.mu.Unlock()
	if unmet := condition(def); unmet != "" {
		m.logUnit(u.name, "%s was skipped because of an unmet condition check (%s).", u.displayName(), unmet)
		m.setState(u, "inactive", "dead")
		return nil
	}
	if u.serviceType() == "target" || u.serviceType() == "slice" {
		m.setState(u, "active", "active")
		if u.serviceType() == "target" {
			m.printStatus("  OK  ", "Reached target "+u.displayName()+".")
		}
		return nil
	}
	if !u.withinStartLimit() {
		m.logUnit(u.name, "Start request repeated too quickly.")
		u.markFailed("start-limit-hit", fmt.Errorf("Start request repeated too quickly."))
		return fmt.Errorf("Job for %s failed because start of the service was attempted too often.", u.name)
	}
	m.mu.Lock()
	u.commands, u.exited, u.text, u.result = nil, false, "", "success"
	m.mu.Unlock()
	m.setState(u, "activating", "start-pre")
	m.logMessage(u.name, "Starting "+u.displayName()+"...")

	limit := def.Duration("Service", "TimeoutStartSec", def.Duration("Service", "TimeoutSec",
		m.startTimeout(u.serviceType())))
	timed, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		timed, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	err := u.bringUp(timed, def)
	if err == nil {
		return nil
	}
	if timed.Err() == context.DeadlineExceeded && ctx.Err() == nil {
		m.logUnit(u.name, "start operation timed out. Terminating.")
		err = failure{"timeout", errors.New("a timeout was exceeded")}
	}
	u.takeDown(context.WithoutCancel(ctx), def)
	if ctx.Err() != nil { // a stop takes over
		m.setState(u, "inactive", "dead")
		return ctx.Err()
	}
	var f failure
	if !errors.As(err, &f) {
		f = failure{"resources", err}
	}
	if f.result == notMet {
		m.mu.Lock()
		u.result, u.run = notMet, nil
		m.mu.Unlock()
		u.closeOutputs()
		m.logUnit(u.name, "Skipped due to 'exec-condition'.")
		m.setState(u, "inactive", "dead")
		return nil
	}
	if u.willRestart(def, f.result) {
		u.markFailed(f.result, f.err)
		u.restartLater(def)
	} else {
		u.markFailed(f.result, f.err)
	}
	return fmt.Errorf(
		"Job for %s failed because %w.\nSee \"systemctl status %s\" and \"journalctl -xeu %s\" for details.", u.name,
		f.err, u.name, u.name)
}

func (m *manager) startTimeout(kind string) time.Duration {
	if kind == "oneshot" {
		return 0
	}
	return 90 * time.Second
}

// markFailed is the end of a unit that did not go well.
func (u *service) markFailed(result string, err error) {
	m := u.m
	m.mu.Lock()
	u.result = result
	u.run = nil
	m.mu.Unlock()
	u.closeOutputs()
	m.logUnit(u.name, "Failed with result '%s'.", result)
	if err != nil {
		m.logMessage(u.name, "Failed to start "+u.displayName()+".")
		m.printStatus("FAILED", "Failed to start "+u.displayName()+". See 'systemctl status "+u.name+"' for details.")
	}
	m.setState(u, "failed", "failed")
}

// withinStartLimit counts a start; false when there were too many of late.
func (u *service) withinStartLimit() bool {
	interval := u.def.Duration("Unit", "StartLimitIntervalSec", u.def.Duration("Service", "StartLimitInterval",
		10*time.Second))
	burst := 5
	for _, s := range []string{u.def.Last("Service", "StartLimitBurst"), u.def.Last("Unit", "StartLimitBurst")} {
		if n, err := strconv.Atoi(s); err == nil {
			burst = n
		}
	}
	if interval <= 0 || burst <= 0 {
		return true
	}
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	now := time.Now()
	u.starts = slices.DeleteFunc(u.starts, func(t time.Time) bool { return now.Sub(t) > interval })
	if len(u.starts) >= burst {
		return false
	}
	u.starts = append(u.starts, now)
	return true
}

// condition is the first condition of a unit that does not hold; "" when all do.
func condition(def *unit.Unit) string {
	for name, holds := range conditions {
		for _, value := range def.All("Unit", name) {
			value := def.Expand(value)
			text, negated := strings.CutPrefix(strings.TrimPrefix(value, "|"), "!")
			if holds(text) == negated {
				return name + "=" + value
			}
		}
	}
	return ""
}

var conditions = map[string]func(string) bool{
	"ConditionPathExists":      func(p string) bool { _, err := os.Stat(p); return err == nil },
	"ConditionPathIsDirectory": func(p string) bool { i, err := os.Stat(p); return err == nil && i.IsDir() },
	"ConditionFileIsExecutable": func(p string) bool {
		i, err := os.Stat(p)
		return err == nil && i.Mode().IsRegular() && i.Mode()&0o111 != 0
	},
	"ConditionFileNotEmpty":      func(p string) bool { i, err := os.Stat(p); return err == nil && i.Size() > 0 },
	"ConditionDirectoryNotEmpty": func(p string) bool { e, _ := os.ReadDir(p); return len(e) > 0 },
	"ConditionPathExistsGlob":    func(p string) bool { f, _ := filepath.Glob(p); return len(f) > 0 },
}

// bringUp runs the commands of a start and leaves the unit active, or a oneshot done.
func (u *service) bringUp(ctx context.Context, def *unit.Unit) error {
	m := u.m
	env, err := u.environment(def)
	if err != nil {
		m.logUnit(u.name, "%v", err)
		return failure{"resources", errors.New("of unavailable resources or another system error")}
	}
	for setting, parent := range map[string]string{"RuntimeDirectory": "/run", "StateDirectory": "/var/lib",
		"LogsDirectory": "/var/log", "CacheDirectory": "/var/cache", "ConfigurationDirectory": "/etc"} {
		for _, dir := range def.Names("Service", setting) {
			if err := os.MkdirAll(filepath.Join(parent, dir), 0o755); err != nil {
				return failure{"resources", err}
			}
		}
	}
	for _, setting := range []string{"ExecCondition", "ExecStartPre"} {
		if err := u.control(ctx, def, setting, env); err != nil {
			return err
		}
	}
	commands, err := def.Commands("ExecStart")
	if err != nil {
		m.logUnit(u.name, "%v", err)
		return failure{"resources", errors.New("of an invalid command line")}
	}
	kind := u.serviceType()
	if len(commands) == 0 && kind != "oneshot" {
		m.logUnit(u.name, "Service has no ExecStart= setting. Refusing.")
		return failure{"resources", errors.New("its unit file has no ExecStart=")}
	}
	if len(commands) > 1 && kind != "oneshot" {
		m.logUnit(u.name,
			"Service has more than one ExecStart= setting, which is only allowed for Type=oneshot services. Refusing.")
		return failure{"resources", errors.New("its unit file has more than one ExecStart=")}
	}
	m.setState(u, "activating", "start")
	r := &run{ready: make(chan struct{})}
	switch kind {
	case "oneshot":
		for _, c := range commands {
			if err := u.oneshot(ctx, def, c, env); err != nil {
				return err
			}
		}
	case "forking":
		if r.main, err = u.forking(ctx, def, commands[0], env); err != nil {
			return err
		}
	default:
		if kind == "notify" || kind == "notify-reload" || def.Last("Service", "NotifyAccess") != "" {
			if err := u.listenNotify(r, env); err != nil {
				return failure{"resources", err}
			}
		}
		if r.main, err = u.startCommand(def, commands[0], env); err != nil {
			return failure{"resources", err}
		}
		m.mu.Lock()
		u.run, r.mainPID, u.lastPID = r, r.main.pid, r.main.pid
		m.mu.Unlock()
		if kind == "notify" || kind == "notify-reload" {
			select {
			case <-r.ready:
			case <-ctx.Done():
				return ctx.Err()
			case <-r.main.done:
				// It may have said READY=1 and ended before we looked.
				select {
				case <-r.ready:
				default:
					u.recordExit(r.main)
					return failure{"protocol", errors.New("the control process exited before it was ready")}
				}
			}
		}
	}
	m.mu.Lock()
	if r.main != nil {
		u.run, r.mainPID = r, r.main.pid
	}
	m.mu.Unlock()
	if len(def.All("Service", "ExecStartPost")) > 0 {
		m.setState(u, "activating", "start-post")
		if r.main != nil {
			env["MAINPID"] = strconv.Itoa(r.main.pid)
		}
		if err := u.control(ctx, def, "ExecStartPost", env); err != nil {
			return err
		}
	}
	if r.main == nil {
		m.logMessage(u.name, "Finished "+u.displayName()+".")
		m.printStatus("  OK  ", "Finished "+u.displayName()+".")
		if def.Bool("Service", "RemainAfterExit", false) {
			m.setState(u, "active", "exited")
			return nil
		}
		u.killRest(context.WithoutCancel(ctx), def)
		u.closeOutputs()
		m.cgroups.removeGroup(u.cgroupPath())
		m.logUnit(u.name, "Deactivated successfully.")
		m.setState(u, "inactive", "dead")
		return nil
	}
	m.setState(u, "active", "running")
	m.logMessage(u.name, "Started "+u.displayName()+".")
	m.printStatus("  OK  ", "Started "+u.displayName()+".")
	go u.watchMain(r)
	return nil
}

// environment are the variables of the service's commands.
func (u *service) environment(def *unit.Unit) (map[string]string, error) {
	u.m.mu.Lock()
	base := u.m.env
	u.m.mu.Unlock()
	return def.Environment(base)
}

// control runs the commands of a setting one by one, until one fails.
func (u *service) control(ctx context.Context, def *unit.Unit, setting string, env map[string]string) error {
	commands, err := def.Commands(setting)
	if err != nil {
		u.m.logUnit(u.name, "%v", err)
		return failure{"resources", err}
	}
	for _, c := range commands {
		child, err := u.startCommand(def, c, env)
		if err != nil {
			return failure{"resources", err}
		}
		if err := u.waitForControl(ctx, child, setting, c); err != nil && !c.IgnoreFailure {
			return err
		}
	}
	return nil
}

// oneshot runs one ExecStart= of a service of that type.
func (u *service) oneshot(ctx context.Context, def *unit.Unit, c unit.Command, env map[string]string) error {
	child, err := u.startCommand(def, c, env)
	if err != nil {
		return failure{"resources", err}
	}
	err = u.waitForControl(ctx, child, "ExecStart", c)
	u.m.mu.Lock()
	if ctx.Err() == nil {
		u.exit, u.exited = child.status, true
	}
	u.m.mu.Unlock()
	if err != nil && !c.IgnoreFailure && (ctx.Err() != nil || !u.isCleanExit(def, child.status, false)) {
		return err
	}
	return nil
}

// waitForControl waits for a control process.
func (u *service) waitForControl(ctx context.Context, c *child, setting string, command unit.Command) error {
	m := u.m
	m.mu.Lock()
	u.controlPID, u.lastPID = c.pid, c.pid
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		u.controlPID = 0
		m.mu.Unlock()
	}()
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = syscall.Kill(c.pid, syscall.SIGTERM)
		return ctx.Err()
	}
	code, status := describe(c.status)
	m.mu.Lock()
	u.commands = append(u.commands, fmt.Sprintf("Process: %d %s=%s (code=%s, status=%s)", c.pid, setting, command, code,
		status))
	m.mu.Unlock()
	if c.status.Exited() && c.status.ExitStatus() == 0 {
		return nil
	}
	if setting == "ExecCondition" && c.status.Exited() && c.status.ExitStatus() < 255 {
		return failure{notMet, errors.New("a condition is not met")}
	}
	what := "Control process"
	if setting == "ExecStart" {
		what = "Main process"
	}
	m.logUnit(u.name, "%s exited, code=%s, status=%s", what, code, status)
	return failure{resultOf(c.status), errors.New("the control process exited with error code")}
}

// forking starts a service that leaves its main process behind.
func (u *service) forking(ctx context.Context, def *unit.Unit, c unit.Command, env map[string]string) (*child, error) {
	starter, err := u.startCommand(def, c, env)
	if err != nil {
		return nil, failure{"resources", err}
	}
	if err := u.waitForControl(ctx, starter, "ExecStart", c); err != nil {
		return nil, err
	}
	pid := 0
	if file := def.Last("Service", "PIDFile"); file != "" {
		if !strings.HasPrefix(file, "/") {
			file = filepath.Join("/run", file)
		}
		for pid == 0 {
			pid, _ = strconv.Atoi(strings.TrimSpace(readFile(file)))
			if pid == 0 && !sleepContext(ctx, 10*time.Millisecond) {
				return nil, ctx.Err()
			}
		}
	} else if pids := u.m.cgroups.listPIDs(u.cgroupPath()); len(pids) > 0 {
		pid = slices.Min(pids)
	}
	if pid == 0 {
		return nil, failure{"protocol", errors.New("it left no process behind")}
	}
	u.m.childMu.Lock()
	defer u.m.childMu.Unlock()
	main := &child{pid: pid, done: make(chan struct{})}
	if syscall.Kill(pid, 0) != nil {
		close(main.done)
	} else {
		u.m.children[pid] = main
	}
	return main, nil
}

// startCommand starts one command of the service, in its control group.
func (u *service) startCommand(def *unit.Unit, c unit.Command, env map[string]string) (*child, error) {
	m := u.m
	procs, err := m.cgroups.createGroup(u.cgroupPath())
	if err != nil {
		return nil, fmt.Errorf("make the control group %s: %w", u.cgroupPath(), err)
	}
	s := spawn{
		Path: c.Path, Argv: c.Argv(env), Cgroups: procs, Dir: def.Last("Service", "WorkingDirectory"),
		User: def.Last("Service", "User"), Group: def.Last("Service", "Group"), Umask: 0o022,
		Limits: map[string]string{},
	}
	if s.User == "root" {
		s.User = ""
	}
	if n, err := strconv.ParseInt(def.Last("Service", "UMask"), 8, 32); err == nil {
		s.Umask = int(n)
	}
	if n, err := strconv.Atoi(def.Last("Service", "OOMScoreAdjust")); err == nil {
		s.OOMScore = &n
	}
	for name := range limits {
		if v := def.Last("Service", "Limit"+name); v != "" {
			s.Limits[name] = v
		}
	}
	for k, v := range env {
		s.Env = append(s.Env, k+"="+v)
	}
	slices.Sort(s.Env)
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out := def.Last("Service", "StandardOutput")
	stdout, err := u.openOutput(out)
	if err != nil {
		return nil, err
	}
	stderr := stdout
	if setting := def.Last("Service", "StandardError"); setting != "" && setting != "inherit" {
		if stderr, err = u.openOutput(setting); err != nil {
			return nil, err
		}
	}
	return m.startStub(s, stdin, stdout, stderr)
}

// openOutput is where a command's output goes, by the setting; the journal unless it says otherwise.
func (u *service) openOutput(setting string) (*os.File, error) {
	setting = strings.Replace(setting, "syslog", "journal", 1)
	switch setting {
	case "", "inherit", "socket", "kmsg":
		setting = "journal"
	case "tty", "kmsg+console":
		setting = "journal+console"
	}
	if f := u.outputs[setting]; f != nil {
		return f, nil
	}
	var f *os.File
	var err error
	how, file, _ := strings.Cut(setting, ":")
	switch how {
	case "null":
		f, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	case "file":
		f, err = os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o644)
	case "append":
		f, err = os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	case "truncate":
		f, err = os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	default:
		var console io.Writer
		if how == "journal+console" {
			console = u.m.o.Console
		}
		var r *os.File
		if r, f, err = os.Pipe(); err == nil {
			// It ends with the last process that has the other end, which may be after the service's own.
			go func() {
				u.m.journal.copyLines(r, u.name, u.logSource, console)
				r.Close()
			}()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the output %q: %w", setting, err)
	}
	if u.outputs == nil {
		u.outputs = map[string]*os.File{}
	}
	u.outputs[setting] = f
	return f, nil
}

func (u *service) closeOutputs() {
	for _, f := range u.outputs {
		f.Close()
	}
	u.outputs = nil
}

// logSource is who writes, as the journal names it.
func (u *service) logSource() (identifier string, pid int) {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	identifier = u.def.Last("Service", "SyslogIdentifier")
	if pid = u.controlPID; pid == 0 && u.run != nil {
		pid = u.run.mainPID
	}
	if pid == 0 {
		pid = u.lastPID // what it wrote last may be read after it has ended
	}
	if identifier == "" {
		if commands, err := u.def.Commands("ExecStart"); err == nil && len(commands) > 0 {
			identifier = filepath.Base(commands[0].Path)
		} else {
			identifier = u.name
		}
	}
	return identifier, pid
}

// listenNotify opens the socket over which the service says that it is ready.
func (u *service) listenNotify(r *run, env map[string]string) error {
	path := filepath.Join(u.m.o.Run, "notify.d", u.name)
	_ = os.Remove(path)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	_ = os.Chmod(path, 0o666)
	env["NOTIFY_SOCKET"] = path
	r.notify = conn
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			for _, line := range strings.Split(string(buf[:n]), "\n") {
				key, value, _ := strings.Cut(line, "=")
				u.m.mu.Lock()
				switch key {
				case "READY":
					if value == "1" && !r.said {
						r.said = true
						close(r.ready)
					}
				case "STATUS":
					u.text = value
				case "MAINPID":
					if pid, err := strconv.Atoi(value); err == nil {
						r.mainPID = pid
					}
				}
				u.m.mu.Unlock()
			}
		}
	}()
	return nil
}

// watchMain sees a running service end by itself.
func (u *service) watchMain(r *run) {
	<-r.main.done
	u.op <- struct{}{}
	defer func() { <-u.op }()
	m := u.m
	m.mu.Lock()
	current, def := u.run == r, u.def
	m.mu.Unlock()
	if !current {
		return // it was stopped
	}
	u.recordExit(r.main)
	result := "success"
	if !u.isCleanExit(def, r.main.status, true) {
		result = resultOf(r.main.status)
	}
	if result == "success" && def.Bool("Service", "RemainAfterExit", false) {
		m.setState(u, "active", "exited")
		return
	}
	m.setState(u, "deactivating", "stop-post")
	u.takeDown(context.Background(), def)
	switch {
	case u.willRestart(def, result):
		if result != "success" {
			m.logUnit(u.name, "Failed with result '%s'.", result)
		}
		m.mu.Lock()
		u.run, u.result = nil, result
		m.mu.Unlock()
		u.closeOutputs()
		u.restartLater(def)
	case result != "success":
		u.markFailed(result, nil)
	default:
		u.markInactive()
	}
}

// recordExit notes how the main process ended.
func (u *service) recordExit(c *child) {
	u.m.mu.Lock()
	u.exit, u.exited = c.status, true
	u.m.mu.Unlock()
	code, status := describe(c.status)
	if c.status.Exited() && c.status.ExitStatus() == 0 {
		return
	}
	u.m.logUnit(u.name, "Main process exited, code=%s, status=%s", code, status)
}

// markInactive is the end of a unit that went well.
func (u *service) markInactive() {
	u.m.mu.Lock()
	u.run, u.result = nil, "success"
	u.m.mu.Unlock()
	u.closeOutputs()
	u.m.logUnit(u.name, "Deactivated successfully.")
	u.m.setState(u, "inactive", "dead")
}

// isCleanExit reports whether a main process ended as it should; being ended by a polite signal is clean for a daemon.
func (u *service) isCleanExit(def *unit.Unit, s syscall.WaitStatus, daemon bool) bool {
	for _, word := range strings.Fields(strings.Join(def.All("Service", "SuccessExitStatus"), " ")) {
		if matches(word, s) {
			return true
		}
	}
	if s.Exited() {
		return s.ExitStatus() == 0
	}
	switch s.Signal() {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE:
		return daemon
	}
	return false
}

// matches compares an end with a word of SuccessExitStatus= and its like: "143", "SIGPIPE".
func matches(word string, s syscall.WaitStatus) bool {
	if n, err := strconv.Atoi(word); err == nil {
		return s.Exited() && s.ExitStatus() == n
	}
	return s.Signaled() && unix.SignalNum(word) == s.Signal()
}

// resultOf is systemd's word for an end that was not clean.
func resultOf(s syscall.WaitStatus) string {
	switch {
	case s.Exited():
		return "exit-code"
	case s.CoreDump():
		return "core-dump"
	}
	return "signal"
}

// describe is an end as systemd writes it: "exited", "1/FAILURE".
func describe(s syscall.WaitStatus) (code, status string) {
	if s.Exited() {
		name, ok := exitNames[s.ExitStatus()]
		if !ok {
			name = "n/a"
		}
		return "exited", fmt.Sprintf("%d/%s", s.ExitStatus(), name)
	}
	code = "killed"
	if s.CoreDump() {
		code = "dumped"
	}
	return code, fmt.Sprintf("%d/%s", s.Signal(), strings.TrimPrefix(unix.SignalName(s.Signal()), "SIG"))
}

var exitNames = map[int]string{
	0: "SUCCESS", 1: "FAILURE", 2: "INVALIDARGUMENT", 3: "NOTIMPLEMENTED", 4: "NOPERMISSION", 5: "NOTINSTALLED",
	6: "NOTCONFIGURED", 7: "NOTRUNNING",
	200: "CHDIR", 203: "EXEC", 205: "LIMITS", 216: "GROUP", 217: "USER", 219: "CGROUP",
}

// willRestart is what Restart= says about a result.
func (u *service) willRestart(def *unit.Unit, result string) bool {
	u.m.mu.Lock()
	exit, exited, ending := u.exit, u.exited, u.m.ending
	u.m.mu.Unlock()
	if ending {
		return false
	}
	if exited {
		for _, word := range strings.Fields(strings.Join(def.All("Service", "RestartPreventExitStatus"), " ")) {
			if matches(word, exit) {
				return false
			}
		}
		for _, word := range strings.Fields(strings.Join(def.All("Service", "RestartForceExitStatus"), " ")) {
			if matches(word, exit) {
				return true
			}
		}
	}
	abnormal := result == "signal" || result == "core-dump" || result == "timeout" || result == "watchdog" ||
		result == "protocol"
	switch def.Last("Service", "Restart") {
	case "always":
		return true
	case "on-success":
		return result == "success"
	case "on-failure":
		return result != "success"
	case "on-abnormal":
		return abnormal
	case "on-abort":
		return result == "signal" || result == "core-dump"
	}
	return false
}

// restartLater starts the unit again after RestartSec=, and with it the active units that require it.
func (u *service) restartLater(def *unit.Unit) {
	m := u.m
	ctx, cancel := context.WithCancel(context.Background())
	m.mu.Lock()
	u.cancelRestart = cancel
	u.restarts++
	count := u.restarts
	m.mu.Unlock()
	m.setState(u, "activating", "auto-restart")
	wait := def.Duration("Service", "RestartSec", 100*time.Millisecond)
	go func() {
		if !sleepContext(ctx, wait) {
			return
		}
		m.logUnit(u.name, "Scheduled restart job, restart counter is at %d.", count)
		var dependents []string
		m.mu.Lock()
		for _, other := range m.units {
			if other != u && other.active == "active" && slices.Contains(requires(other.def), u.name) {
				dependents = append(dependents, other.name)
			}
		}
		m.mu.Unlock()
		if len(dependents) > 0 {
			jobs, stopped, err := m.stopUnits(dependents)
			if err == nil {
				for _, j := range jobs {
					<-j.done
				}
				dependents = stopped
			}
		}
		if ctx.Err() != nil {
			return
		}
		if _, err := m.startUnits(append([]string{u.name}, dependents...)); err != nil {
			m.logUnit(u.name, "Failed to schedule restart job: %v", err)
		}
	}()
}

// stop takes a unit down; op is held.
func (u *service) stop(ctx context.Context) error {
	m := u.m
	m.mu.Lock()
	if u.cancelRestart != nil {
		u.cancelRestart()
		u.cancelRestart = nil
	}
	u.restarts = 0
	def, r, active := u.def, u.run, u.active
	m.mu.Unlock()
	if active == "inactive" || active == "failed" {
		return nil
	}
	if kind := u.serviceType(); kind == "target" || kind == "slice" {
		m.setState(u, "inactive", "dead")
		return nil
	}
	m.setState(u, "deactivating", "stop")
	m.logMessage(u.name, "Stopping "+u.displayName()+"...")
	limit := def.Duration("Service", "TimeoutStopSec", def.Duration("Service", "TimeoutSec", 90*time.Second))
	timed, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		timed, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	if env, err := u.environment(def); err == nil && len(def.All("Service", "ExecStop")) > 0 {
		if r != nil {
			env["MAINPID"] = strconv.Itoa(r.mainPID)
		}
		if err := u.control(timed, def, "ExecStop", env); err != nil && timed.Err() == nil {
			m.logUnit(u.name, "ExecStop: %v", err)
		}
	}
	u.takeDown(timed, def)
	m.cgroups.removeGroup(u.cgroupPath())
	if r != nil && r.main != nil && !u.isCleanExit(def, r.main.status, true) && timed.Err() == nil {
		m.mu.Lock()
		u.run, u.exit, u.exited = nil, r.main.status, true
		m.mu.Unlock()
		u.markFailed(resultOf(r.main.status), nil)
		m.logMessage(u.name, "Stopped "+u.displayName()+".")
		return nil
	}
	u.markInactive()
	m.logMessage(u.name, "Stopped "+u.displayName()+".")
	m.printStatus("  OK  ", "Stopped "+u.displayName()+".")
	return nil
}

// takeDown ends what is left of a service as KillMode= says, and runs ExecStopPost. It returns when the processes are
// gone, at the latest a moment after ctx, when they are killed.
func (u *service) takeDown(ctx context.Context, def *unit.Unit) {
	m := u.m
	m.mu.Lock()
	r := u.run
	m.mu.Unlock()
	mode := def.Last("Service", "KillMode")
	if r != nil && r.main != nil && mode != "none" {
		sig := unix.SignalNum(def.Last("Service", "KillSignal"))
		if sig == 0 {
			sig = syscall.SIGTERM
		}
		select {
		case <-r.main.done:
		default:
			if r.mainPID != r.main.pid && r.mainPID > 1 {
				_ = syscall.Kill(r.mainPID, sig)
			}
			_ = syscall.Kill(r.main.pid, sig)
			if mode == "" || mode == "control-group" {
				m.cgroups.signalAll(u.cgroupPath(), sig)
			}
			if def.Bool("Service", "SendSIGHUP", false) {
				_ = syscall.Kill(r.main.pid, syscall.SIGHUP)
			}
			select {
			case <-r.main.done:
			case <-ctx.Done():
				m.logUnit(u.name, "State 'stop-sigterm' timed out. Killing.")
				m.logUnit(u.name, "Killing process %d with signal SIGKILL.", r.main.pid)
				_ = syscall.Kill(r.main.pid, syscall.SIGKILL)
				<-r.main.done
			}
		}
		if r.notify != nil {
			r.notify.Close()
		}
	}
	u.killRest(ctx, def)
	if len(def.All("Service", "ExecStopPost")) > 0 {
		if env, err := u.environment(def); err == nil {
			timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), 90*time.Second)
			defer cancel()
			if err := u.control(timed, def, "ExecStopPost", env); err != nil {
				m.logUnit(u.name, "ExecStopPost: %v", err)
			}
		}
	}
}

// killRest ends the processes of the control group beside the main one, unless KillMode= spares them.
func (u *service) killRest(ctx context.Context, def *unit.Unit) {
	m := u.m
	mode := def.Last("Service", "KillMode")
	if mode == "process" || mode == "none" || len(m.cgroups.roots) == 0 {
		return
	}
	path := u.cgroupPath()
	if len(m.cgroups.listPIDs(path)) == 0 {
		return
	}
	if mode == "mixed" {
		m.cgroups.signalAll(path, syscall.SIGKILL)
	} else {
		m.cgroups.signalAll(path, syscall.SIGTERM)
	}
	for wait := 5 * time.Millisecond; len(m.cgroups.listPIDs(path)) > 0; wait = min(2*wait, 100*time.Millisecond) {
		if !sleepContext(ctx, wait) {
			m.cgroups.signalAll(path, syscall.SIGKILL)
			for range 100 {
				if len(m.cgroups.listPIDs(path)) == 0 {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			return
		}
	}
}

// unitStatus is the unit as systemctl shows it; m.mu is held.
func (u *service) unitStatus() UnitStatus {
	s := UnitStatus{
		Name: u.name, Description: u.def.Last("Unit", "Description"), Fragment: u.def.Fragment, DropIns: u.def.DropIns,
		Load:   "loaded",
		Active: u.active, Sub: u.sub, Result: u.result, Type: u.serviceType(), Since: u.since,
		ActiveSince: u.activeSince, Inactive: u.inactiveSince,
		Restarts: u.restarts, Processes: u.commands, StatusText: u.text, ControlPID: u.controlPID,
	}
	if s.Description == "" {
		s.Description = u.name
	}
	if u.def.Masked {
		s.Load = "masked"
	}
	if u.loadError != nil {
		s.Load, s.LoadError = "error", u.loadError.Error()
		var gone unit.NotFoundError
		if errors.As(u.loadError, &gone) {
			s.Load = "not-found"
		}
	}
	if j := u.m.jobs[u]; j != nil {
		if s.Job = "start"; j.stop {
			s.Job = "stop"
		}
	}
	if u.run != nil {
		s.MainPID = u.run.mainPID
	}
	if u.exited {
		code, status := describe(u.exit)
		s.MainStatus = fmt.Sprintf("code=%s, status=%s", code, status)
		s.ExitCode, s.ExitStatus = 1, u.exit.ExitStatus() // CLD_EXITED
		if u.exit.Signaled() {
			s.ExitCode, s.ExitStatus = 2, int(u.exit.Signal())
		}
	}
	if filepath.Ext(u.name) == ".service" {
		s.Cgroup = "/" + u.cgroupPath()
	}
	return s
}
