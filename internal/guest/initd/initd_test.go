//go:build linux

package initd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/initd"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// The test binary is the machine's init, and what init starts becomes a service by it.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CORACLE_TEST_INIT"); dir != "" && os.Getpid() == 1 {
		if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			fmt.Println("mount proc:", err)
		}
		for _, bind := range strings.Fields(os.Getenv("CORACLE_TEST_CGROUPS")) {
			source, target, _ := strings.Cut(bind, ":")
			if err := os.MkdirAll(target, 0o755); err != nil {
				fmt.Println(err)
			}
			if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
				fmt.Println("mount", bind, err)
			}
		}
		grace, _ := time.ParseDuration(os.Getenv("CORACLE_TEST_GRACE"))
		os.Exit(initd.Main(initd.Options{
			UnitPath: []string{dir + "/etc", dir + "/lib"}, Config: dir + "/config", Run: dir + "/run", Journal: dir +
				"/journal", Cgroup: dir + "/cgroup",
			Report: dir + "/report", Stub: []string{"/proc/self/exe", "exec-unit"}, Grace: grace, Stable: 300 * time.Millisecond,
		}))
	}
	if len(os.Args) == 3 && os.Args[1] == "exec-unit" {
		os.Exit(initd.ExecUnit(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// machine is an init in a pid and mount namespace of its own.
type machine struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd

	mu      sync.Mutex
	console bytes.Buffer
	ended   chan struct{}
	err     error
}

func (m *machine) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.console.Write(p)
}

func (m *machine) output() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.console.String()
}

// bootMachine starts a machine with unit files by their names below etc (or "config/…" for init's own configuration).
//
// Each of cgroups is a directory of the host and one of the machine's, "/sys/fs/cgroup/cpu/x:DIR/cgroup/cpu".
func bootMachine(t *testing.T, units map[string]string, cgroups ...string) *machine {
	t.Helper()
	testenv.NeedsRoot(t)
	dir, err := os.MkdirTemp("", "init") // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &machine{t: t, dir: dir, ended: make(chan struct{})}
	if _, ok := units["default.target"]; !ok {
		m.write("etc/default.target", "[Unit]\nDescription=Everything\n")
	}
	for name, text := range units {
		if !strings.HasPrefix(name, "config/") {
			name = "etc/" + name
		}
		m.write(name, text)
	}
	m.cmd = exec.Command("/proc/self/exe")
	m.cmd.Env = []string{"CORACLE_TEST_INIT=" + dir, "CORACLE_TEST_GRACE=" + eventually.Limit.String(),
		"CORACLE_TEST_CGROUPS=" + strings.ReplaceAll(strings.Join(cgroups, " "), "DIR", dir),
		"PATH=" + os.Getenv("PATH")}
	m.cmd.Stdout, m.cmd.Stderr = m, m
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { m.err = m.cmd.Wait(); close(m.ended) }()
	t.Cleanup(func() {
		_ = m.cmd.Process.Kill()
		<-m.ended
		if t.Failed() {
			t.Logf("console:\n%s", m.output())
		}
	})
	eventually.True(t, "it answers", func() bool {
		_,
			err := initd.Call(dir+"/run", initd.Request{Verb: "status"})
		return err == nil
	})
	return m
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", m.dir)), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(m.dir, name))
	return string(data)
}

func (m *machine) call(verb string, units ...string) initd.Response {
	m.t.Helper()
	r, err := initd.Call(m.dir+"/run", initd.Request{Verb: verb, Units: units})
	if err != nil {
		m.t.Fatalf("%s %v: %v", verb, units, err)
	}
	return r
}

func (m *machine) unit(name string) initd.UnitStatus {
	m.t.Helper()
	r := m.call("status", name)
	if len(r.Units) != 1 {
		m.t.Fatalf("status %s: %+v", name, r)
	}
	return r.Units[0]
}

func (m *machine) untilState(name, active, sub string) {
	m.t.Helper()
	eventually.True(m.t, name+" is "+active+" ("+sub+")", func() bool {
		u := m.unit(name)
		return u.Active == active &&
			(sub == "" || u.Sub == sub)
	})
}

func TestBootOrderAndReport(t *testing.T) {
	t.Parallel()
	m := bootMachine(t, map[string]string{
		"default.target": "[Unit]\nWants=third.service\nRequires=first.service\n",
		"first.service": "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'sleep 0.1; " +
			"echo first >> DIR/order'\n",
		"second.service": "[Unit]\nAfter=first.service\nBefore=third.service\n[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo second >> DIR/order; echo said this'\nExecStart=-/bin/false\n",
		"third.service": "[Unit]\nRequires=second.service\nWants=missing.service " +
			"bad.service\n[Service]\nType=oneshot\nEnvironment=A=x 'B=y " +
			"z'\nEnvironmentFile=-DIR/nothing\nExecStart=/bin/sh -c 'echo $0 $1 $2 >> DIR/order' third ${A} $B\n",
		"bad.service":                                "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'exit 3'\n",
		"cloud-final.service":                        "[Service]\nType=oneshot\nExecStart=/bin/true\n",
		"network-online.target":                      "[Unit]\n",
		"default.target.wants/network-online.target": "[Unit]\n",
		"default.target.wants/cloud-final.service":   "[Unit]\n",
	})
	report := func() (boot.Report, error) {
		data, err := os.ReadFile(filepath.Join(m.dir, "report", boot.File))
		if err != nil {
			return boot.Report{}, err
		}
		return boot.Parse(data)
	}
	eventually.True(t, "it has booted", func() bool { r, _ := report(); return !r.FinishedAt.IsZero() })
	if got := m.read("order"); got != "first\nsecond\nthird x y\n" {
		t.Errorf("the order is %q", got)
	}
	r, err := report()
	if err != nil || !r.Network || r.UserData != boot.Succeeded || fmt.Sprint(r.FailedUnits) != "[bad.service]" {
		t.Errorf("the report is %+v, %v", r, err)
	}
	if u := m.unit("bad.service"); u.Active != "failed" || u.Result != "exit-code" ||
		u.MainStatus != "code=exited, status=3/NOTIMPLEMENTED" {
		t.Errorf("bad.service is %+v", u)
	}
	eventually.True(t, "the journal of second.service is there", func() bool {
		// what a process writes comes through a pipe
		log := m.read("journal/second.service.log")
		return strings.Contains(log, " sh[") && strings.Contains(log, "]: said this\n")
	})
	eventually.True(t, "the console tells of bad.service",
		func() bool { return strings.Contains(m.output(), "[FAILED] Failed to start bad.service.") })
}

func TestRestart(t *testing.T) {
	t.Parallel()
	m := bootMachine(t, map[string]string{
		"always.service": "[Service]\nExecStart=/bin/sh -c 'echo run >> DIR/runs; exec sleep " +
			"100'\nRestart=always\nRestartSec=10ms\n",
		"failure.service": "[Service]\nExecStart=/bin/sh -c 'test -e DIR/go || exit " +
			"1'\nRestart=on-failure\nRestartSec=20ms\n[Unit]\nStartLimitIntervalSec=0\n",
		"limited.service": "[Service]\nExecStart=/bin/false\nRestart=always\nRestartSec=1ms\n[Unit]\nStartLimitBurst=3\nStartLimitIntervalSec=1h\n",
		"forced.service": "[Service]\nExecStart=/bin/sh -c 'echo run >> DIR/forced; kill -PIPE " +
			"$$$$'\nRestart=on-failure\nRestartForceExitStatus=SIGPIPE\nRestartSec=1ms\n[Unit]\nStartLimitIntervalSec=1h\n",
		"needs.service": "[Unit]\nRequires=always.service\nAfter=always.service\n[Service]\nExecStart=/bin/sh -c " +
			"'echo up >> DIR/needs; exec sleep 100'\n",
	})
	if r := m.call("start", "needs.service", "failure.service", "limited.service",
		"forced.service"); len(r.Errors) != 0 {
		t.Fatalf("start: %+v", r.Errors)
	}
	eventually.True(t, "both have run", func() bool { return m.read("runs") == "run\n" && m.read("needs") == "up\n" })
	pid := m.unit("always.service").MainPID
	m.call("kill", "always.service")
	eventually.True(t, "it runs again, and what requires it", func() bool {
		u := m.unit("always.service")
		return u.Active == "active" && u.MainPID != pid && u.Restarts == 1 &&
			m.unit("needs.service").Active == "active" && strings.Count(m.read("needs"), "up") == 2
	})
	m.write("go", "")
	m.untilState("failure.service", "inactive", "dead")
	m.untilState("limited.service", "failed", "failed")
	if u := m.unit("limited.service"); u.Result != "start-limit-hit" {
		t.Errorf("limited.service: %+v", u)
	}
	eventually.True(t, "forced.service is run until the limit",
		func() bool { return strings.Count(m.read("forced"), "run") == 5 })

	if r := m.call("stop", "always.service"); len(r.Errors) != 0 {
		t.Fatalf("stop: %+v", r.Errors)
	}
	if a, n := m.unit("always.service").Active, m.unit("needs.service").Active; a != "inactive" || n != "inactive" {
		t.Errorf("after stop: always %s, needs %s", a, n)
	}
}

func TestUnitsThatFailAgainAndAgain(t *testing.T) {
	t.Parallel()
	const restarts = "Restart=always\nRestartSec=10ms\n[Unit]\nStartLimitIntervalSec=0\n"
	m := bootMachine(t, map[string]string{
		"kubelet.service": "[Service]\nExecStart=/bin/sh -c 'test -e DIR/go && exec sleep 100; echo \"E1124 " +
			"00:26:02.000001     123 run.go:72] command failed: no such flag\"; echo bye; exit 1'\n" + restarts,
		"missing.service": "[Service]\nExecStartPre=/no/such/program\nExecStart=/bin/true\n" + restarts,
	})
	if r := m.call("start", "kubelet.service"); len(r.Errors) != 0 {
		t.Fatalf("start: %+v", r.Errors)
	}
	m.call("start", "missing.service")
	report := func() map[string]string {
		data, err := os.ReadFile(filepath.Join(m.dir, "report", boot.File))
		if err != nil {
			return nil
		}
		r, err := boot.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		failing := map[string]string{}
		for _, unit := range r.FailingUnits {
			failing[unit.Name] = unit.Error
		}
		return failing
	}
	eventually.True(t, "both are reported", func() bool { return len(report()) == 2 })
	got := report()
	if want := "the main process exited, code=exited, status=1/FAILURE: command failed: no such flag"; got["kubelet.service"] !=
		want {
		t.Errorf("kubelet.service: %s", got["kubelet.service"])
	}
	if !strings.Contains(got["missing.service"], "/no/such/program") {
		t.Errorf("missing.service: %s", got["missing.service"])
	}
	m.write("go", "")
	eventually.True(t, "kubelet.service has recovered", func() bool { return report()["kubelet.service"] == "" })
	if m.unit("kubelet.service").Active != "active" {
		t.Error("it is not up")
	}
	m.call("stop", "missing.service")
	eventually.True(t, "one that was stopped fails no more", func() bool { return len(report()) == 0 })
}

func TestNotify(t *testing.T) {
	t.Parallel()
	notify := `python3 -c 'import os,socket,sys,time
s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)
while not os.path.exists("DIR/ready"): time.sleep(.01)
s.sendto(b"READY=1\nSTATUS=at work",os.environ["NOTIFY_SOCKET"])
time.sleep(100)'`
	m := bootMachine(t, map[string]string{
		"slow.service":    "[Service]\nType=notify\nExecStart=/bin/sh DIR/slow.sh\n",
		"never.service":   "[Service]\nType=notify\nExecStart=/bin/sleep 100\nTimeoutStartSec=200ms\n",
		"leaves.service":  "[Service]\nType=notify\nExecStart=/bin/true\n",
		"missing.service": "[Service]\nExecStart=/nonexistent/program\n",
		"masked.service":  "",
	})
	m.write("slow.sh", notify)
	if _, err := initd.Call(m.dir+"/run", initd.Request{Verb: "start", Units: []string{"slow.service"},
		NoBlock: true}); err != nil {
		t.Fatal(err)
	}
	m.untilState("slow.service", "activating", "start")
	m.write("ready", "")
	eventually.True(t, "it is ready", func() bool {
		u := m.unit("slow.service")
		return u.Active == "active" &&
			u.StatusText == "at work"
	})
	for name, want := range map[string]string{"never.service": "a timeout was exceeded",
		"leaves.service": "before it was ready", "masked.service": "is masked", "unknown.service": "not found"} {
		if r := m.call("start", name); len(r.Errors) != 1 || !strings.Contains(r.Errors[0].Message, want) {
			t.Errorf("start %s: %+v, want %q", name, r.Errors, want)
		}
	}
	m.call("start", "missing.service")
	m.untilState("missing.service", "failed", "failed")
	eventually.True(t, "the journal says why missing.service failed", func() bool {
		// what a process writes comes through a pipe
		log := m.read("journal/missing.service.log")
		return strings.Contains(log, "Failed at step EXEC spawning /nonexistent/program: no such file or directory") &&
			strings.Contains(log, "status=203/EXEC")
	})
}

func TestCondition(t *testing.T) {
	t.Parallel()
	m := bootMachine(t, map[string]string{
		"met.service": "[Service]\nExecCondition=/bin/true\nExecStart=/bin/sleep 100\n",
		"unmet.service": "[Service]\nExecCondition=/bin/sh -c 'test -e DIR/go'\nExecStart=/bin/sleep " +
			"100\nRestart=always\nRestartSec=1ms\n",
		"broken.service": "[Service]\nExecCondition=/bin/sh -c 'exit 255'\nExecStart=/bin/sleep 100\n",
	})
	if r := m.call("start", "met.service", "unmet.service"); len(r.Errors) != 0 {
		t.Fatalf("start: %+v", r.Errors)
	}
	if u := m.unit("met.service"); u.Active != "active" {
		t.Errorf("met.service is %+v", u)
	}
	if u := m.unit("unmet.service"); u.Active != "inactive" || u.Result != "exec-condition" || u.Restarts != 0 {
		t.Errorf("unmet.service is %+v", u)
	}
	if r := m.call("start", "broken.service"); len(r.Errors) != 1 || m.unit("broken.service").Active != "failed" {
		t.Errorf("broken.service starts: %+v, and is %+v", r.Errors, m.unit("broken.service"))
	}
	m.write("go", "")
	if r := m.call("start", "unmet.service"); len(r.Errors) != 0 || m.unit("unmet.service").Active != "active" {
		t.Errorf("unmet.service does not start once its condition is met: %+v", r.Errors)
	}
}

func TestReloadChangesUnits(t *testing.T) {
	t.Parallel()
	m := bootMachine(t, map[string]string{
		"a.service":                    "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo $0 $X >> DIR/out' one\n",
		"config/system.conf.d/10.conf": "[Manager]\nDefaultEnvironment=\"X=from the manager\"\n",
	})
	m.call("start", "a.service")
	m.write("etc/a.service.d/10.conf",
		"[Service]\nExecStart=\nExecStart=/bin/sh -c 'echo $0 $X >> DIR/out' two\nEnvironment=X=unit\n")
	m.call("daemon-reload")
	m.call("start", "a.service")
	if got := m.read("out"); got != "one from the manager\ntwo unit\n" {
		t.Errorf("out is %q", got)
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	trap := "[Service]\nExecStart=/bin/sh -c 'trap \"echo NAME >> DIR/stopped; exit 0\" TERM; echo NAME >> DIR/up; " +
		"while :; do sleep 0.01; done'\n"
	for _, how := range []struct {
		name   string
		end    func(m *machine)
		signal syscall.Signal // by which reboot(2) ends process 1
	}{
		{"poweroff", func(m *machine) { m.call("poweroff") }, syscall.SIGINT},
		{"reboot", func(m *machine) { m.call("reboot") }, syscall.SIGHUP},
		{"power button", func(m *machine) { _ = m.cmd.Process.Signal(unix.SIGTERM) }, syscall.SIGINT},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			m := bootMachine(t, map[string]string{
				"default.target": "[Unit]\nWants=base.service top.service stubborn.service\n",
				"base.service":   strings.ReplaceAll(trap, "NAME", "base"),
				"top.service":    "[Unit]\nAfter=base.service\n" + strings.ReplaceAll(trap, "NAME", "top"),
				"stubborn.service": "[Service]\nExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 0.01; " +
					"done'\nTimeoutStopSec=100ms\n",
			})
			m.untilState("top.service", "active", "running")
			m.untilState("stubborn.service", "active", "running")
			eventually.True(t, "they handle the signal", func() bool { return len(m.read("up")) == len("base\ntop\n") })
			how.end(m)
			<-m.ended
			status := m.cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !status.Signaled() || status.Signal() != how.signal {
				t.Errorf("init ended with %v (%v), want the signal %v", status, m.err, how.signal)
			}
			if got := m.read("stopped"); got != "top\nbase\n" {
				t.Errorf("stopped %q, want top before base", got)
			}
		})
	}
}

func TestControlGroups(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	// What the host has: a hierarchy for each controller (version 1), and one of version 2, which may be without
	// controllers.
	var v1, v2 []string
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || !strings.HasPrefix(f[1], "/sys/fs/cgroup") {
			continue
		}
		dir := filepath.Join(f[1], "coracle-initd-"+strconv.Itoa(os.Getpid()))
		if f[2] == "cgroup" && !strings.Contains(f[1], "cpuset") {
			v1 = append(v1, dir+":DIR/cgroup/"+filepath.Base(f[1]))
		} else if f[2] == "cgroup2" {
			v2 = append(v2, dir+":DIR/cgroup")
		} else {
			continue
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for _, g := range []string{"runtime.slice/kind.service", "system.slice/whole.service", "runtime.slice",
				"system.slice", "."} {
				_ = syscall.Rmdir(filepath.Join(dir, g))
			}
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s is left", dir)
			}
		})
	}
	for name, binds := range map[string][]string{"version 1": v1, "version 2": v2} {
		t.Run(name, func(t *testing.T) {
			if len(binds) == 0 {
				t.Skip("this host has none")
			}
			family := "[Service]\nExecStart=/bin/sh -c 'sleep 1000 & sleep 1000 & wait'\n"
			m := bootMachine(t, map[string]string{"whole.service": family, "kind.service": family +
				"KillMode=process\nSlice=runtime.slice\n"}, binds...)
			m.call("start", "whole.service", "kind.service")
			eventually.True(t, "all run", func() bool {
				return m.unit("whole.service").Tasks == 3 &&
					m.unit("kind.service").Tasks == 3
			})
			if got := m.unit("kind.service").Cgroup; got != "/runtime.slice/kind.service" {
				t.Errorf("the group of kind.service is %s", got)
			}
			for _, b := range binds {
				dir, _, _ := strings.Cut(b, ":")
				data, err := os.ReadFile(dir + "/runtime.slice/kind.service/cgroup.procs")
				if pids := strings.Fields(string(data)); err != nil || len(pids) != 3 {
					t.Errorf("%s has the processes %v, %v", dir, pids, err)
				}
			}
			m.call("stop", "whole.service", "kind.service")
			if u := m.unit("whole.service"); u.Active != "inactive" || len(u.PIDs) != 0 {
				t.Errorf("whole.service: %+v", u)
			}
			if u := m.unit("kind.service"); u.Active != "inactive" || len(u.PIDs) != 2 {
				t.Errorf("kind.service has %v, want the two that its KillMode spares", u.PIDs)
			}
			_ = m.cmd.Process.Kill()
			<-m.ended
			for _, b := range slices.Clone(binds) { // the last processes go with their namespace, which takes a moment
				dir, _, _ := strings.Cut(b, ":")
				eventually.True(t, "its processes are gone", func() bool {
					data, _ := os.ReadFile(dir + "/runtime.slice/kind.service/cgroup.procs")
					return len(data) == 0
				})
			}
		})
	}
}

func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	m := bootMachine(t, map[string]string{
		"orphans.service": "[Service]\nType=oneshot\nKillMode=process\nExecStart=/bin/sh -c '(sleep 0.05; echo late " +
			"> DIR/late) & echo left'\n"})
	m.call("start", "orphans.service")
	eventually.True(t, "the orphan has run", func() bool { return m.read("late") == "late\n" })
	eventually.True(t, "no process is left but init", func() bool {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", m.cmd.Process.Pid, m.cmd.Process.Pid))
		return len(strings.Fields(string(data))) == 0
	})
	data, _ := json.Marshal(m.unit("orphans.service"))
	if !strings.Contains(string(data), `"Active":"inactive"`) {
		t.Errorf("orphans.service: %s", data)
	}
}
