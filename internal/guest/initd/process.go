//go:build linux

package initd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// child is a process that init started; done is closed when it has been reaped.
type child struct {
	pid    int
	done   chan struct{}
	status syscall.WaitStatus // valid after done
}

// spawn describes the process that the stub becomes.
type spawn struct {
	Path     string
	Argv     []string
	Env      []string
	Cgroups  []string // files cgroup.procs to write itself into
	Dir      string
	User     string
	Group    string
	Umask    int
	OOMScore *int              // nil: as it is
	Limits   map[string]string // LimitNOFILE= and the like, by name ("NOFILE")
}

// startStub starts the stub that becomes the service. Descriptors 0, 1 and 2 are those of files.
//
// The reaper is kept out until the process is known, so that the end of a process that is faster than us is not lost.
func (m *manager) startStub(s spawn, stdin, stdout, stderr *os.File) (*child, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	m.childMu.Lock()
	defer m.childMu.Unlock()
	argv := append(m.o.Stub[:len(m.o.Stub):len(m.o.Stub)], string(data))
	pid, err := syscall.ForkExec(m.o.Stub[0], argv, &syscall.ProcAttr{
		Dir: "/", Env: append(s.Env[:len(s.Env):len(s.Env)], "GOMAXPROCS=1", "GOGC=off"),
		Files: []uintptr{stdin.Fd(), stdout.Fd(), stderr.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	runtime.KeepAlive(stdin)
	runtime.KeepAlive(stdout)
	runtime.KeepAlive(stderr)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Path, err)
	}
	c := &child{pid: pid, done: make(chan struct{})}
	m.children[pid] = c
	select {
	case m.sigchld <- unix.SIGCHLD: // there is a child to wait for
	default:
	}
	return c, nil
}

// reapChildren waits for every process that ends: our own, and those whose parents ended before them.
func (m *manager) reapChildren() {
	for {
		var status syscall.WaitStatus
		// WNOWAIT first: the number of a process stays taken until we hold the lock.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			m.childMu.Lock()
			none := len(m.children) == 0
			m.childMu.Unlock()
			if none {
				m.waitForChild()
			}
			continue
		}
		m.childMu.Lock()
		for {
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
			if c := m.children[pid]; c != nil {
				delete(m.children, pid)
				c.status = status
				close(c.done)
			}
		}
		m.childMu.Unlock()
	}
}

// waitForChild returns when there may be a child again: fork tells of our own, and the signal of orphans that have
// ended.
func (m *manager) waitForChild() { <-m.sigchld }

// ExecUnit runs the program "exec-unit": it sets up the process as its argument describes and executes the service's
// program. It returns only when that fails, with systemd's exit status for the step.
func ExecUnit(args []string) int {
	var s spawn
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &s) != nil {
		fmt.Fprintln(os.Stderr, "exec-unit: only init calls this")
		return 2
	}
	step, err := s.becomeService()
	fmt.Fprintf(os.Stderr, "Failed at step %s spawning %s: %v\n", step.name, s.Path, err)
	return step.status
}

// step is a step of becoming a service, with the exit status by which systemd tells its failure.
type step struct {
	name   string
	status int
}

func (s spawn) becomeService() (step, error) {
	for _, file := range s.Cgroups {
		if err := os.WriteFile(file, []byte("0"), 0); err != nil {
			return step{"CGROUP", 219}, err
		}
	}
	if s.OOMScore != nil {
		// Lowering it needs CAP_SYS_RESOURCE, which a host in a container may not have: a service runs without as well.
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(*s.OOMScore)), 0)
	}
	for name, value := range s.Limits {
		if err := setResourceLimit(name, value); err != nil && !errors.Is(err, unix.EPERM) {
			return step{"LIMITS", 205}, fmt.Errorf("Limit%s=%s: %w", name, value, err)
		}
	}
	unix.Umask(s.Umask)
	if s.User != "" || s.Group != "" {
		if at, err := s.identity(); err != nil {
			return at, err
		}
	}
	dir, optional := strings.CutPrefix(s.Dir, "-")
	if dir == "~" {
		dir = os.Getenv("HOME")
	}
	if dir != "" {
		if err := os.Chdir(dir); err != nil && !optional {
			return step{"CHDIR", 200}, err
		}
	}
	env := make([]string, 0, len(s.Env))
	home := os.Getenv("HOME")
	for _, e := range s.Env {
		if !(strings.HasPrefix(e, "HOME=") && home != "") {
			env = append(env, e)
		}
	}
	if home != "" {
		env = append(env, "HOME="+home)
	}
	err := syscall.Exec(s.Path, s.Argv, env)
	if errors.Is(err, unix.ENOEXEC) {
		return step{"EXEC", 203}, fmt.Errorf("%w (a script needs a first line such as #!/bin/bash)", err)
	}
	return step{"EXEC", 203}, err
}

func (s spawn) identity() (step, error) {
	uid, gid, groups := 0, 0, []int{}
	if s.User != "" {
		u, err := user.Lookup(s.User)
		if err != nil {
			if u, err = user.LookupId(s.User); err != nil {
				return step{"USER", 217}, err
			}
		}
		uid, _ = strconv.Atoi(u.Uid)
		gid, _ = strconv.Atoi(u.Gid)
		ids, _ := u.GroupIds()
		for _, id := range ids {
			n, _ := strconv.Atoi(id)
			groups = append(groups, n)
		}
		os.Setenv("HOME", u.HomeDir)
	}
	if s.Group != "" {
		g, err := user.LookupGroup(s.Group)
		if err != nil {
			if g, err = user.LookupGroupId(s.Group); err != nil {
				return step{"GROUP", 216}, err
			}
		}
		gid, _ = strconv.Atoi(g.Gid)
	}
	if err := syscall.Setgroups(groups); err != nil {
		return step{"GROUP", 216}, err
	}
	if err := syscall.Setgid(gid); err != nil {
		return step{"GROUP", 216}, err
	}
	if err := syscall.Setuid(uid); err != nil {
		return step{"USER", 217}, err
	}
	return step{}, nil
}

var limits = map[string]int{
	"CPU": unix.RLIMIT_CPU, "FSIZE": unix.RLIMIT_FSIZE, "DATA": unix.RLIMIT_DATA, "STACK": unix.RLIMIT_STACK,
	"CORE": unix.RLIMIT_CORE,
	"RSS":  unix.RLIMIT_RSS, "NOFILE": unix.RLIMIT_NOFILE, "AS": unix.RLIMIT_AS, "NPROC": unix.RLIMIT_NPROC,
	"MEMLOCK": unix.RLIMIT_MEMLOCK,
	"LOCKS":   unix.RLIMIT_LOCKS, "SIGPENDING": unix.RLIMIT_SIGPENDING, "MSGQUEUE": unix.RLIMIT_MSGQUEUE,
	"NICE": unix.RLIMIT_NICE, "RTPRIO": unix.RLIMIT_RTPRIO,
}

// setResourceLimit sets a resource limit: "1024", "1024:4096", "infinity". What the machine itself may not exceed is
// the most that is set.
func setResourceLimit(name, value string) error {
	resource, ok := limits[name]
	if !ok {
		return nil
	}
	soft, hard, both := strings.Cut(value, ":")
	if !both {
		hard = soft
	}
	cur, err := parseLimit(soft)
	if err != nil {
		return err
	}
	most, err := parseLimit(hard)
	if err != nil {
		return err
	}
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	if most > now.Max {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: min(cur, most), Max: most}); err == nil {
			return nil
		}
		most = now.Max // not permitted, or beyond fs.nr_open
	}
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: min(cur, most), Max: most})
}

func parseLimit(s string) (uint64, error) {
	if s == "infinity" {
		return unix.RLIM_INFINITY, nil
	}
	scale := uint64(1)
	if i := strings.IndexByte("KMGT", s[len(s)-1]); len(s) > 1 && i >= 0 {
		s, scale = s[:len(s)-1], 1<<(10*(i+1))
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n * scale, err
}
