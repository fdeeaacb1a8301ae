//go:build linux

package initd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/unit"
)

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
	u.began = time.Now()
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
	err := u.runStartCommands(timed, def)
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
		u.countLife(f.err.Error())
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

// markFailed records that a unit failed.
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

// condition returns the first condition of a unit that does not hold; "" when all do.
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

// runStartCommands runs the commands of a start and leaves the unit active, or a oneshot done.
func (u *service) runStartCommands(ctx context.Context, def *unit.Unit) error {
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

// environment returns the variables of the service's commands.
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

// startCommand starts one command of the service, in its cgroup.
func (u *service) startCommand(def *unit.Unit, c unit.Command, env map[string]string) (*child, error) {
	m := u.m
	procs, err := m.cgroups.createGroup(u.cgroupPath())
	if err != nil {
		return nil, fmt.Errorf("make the cgroup %s: %w", u.cgroupPath(), err)
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
