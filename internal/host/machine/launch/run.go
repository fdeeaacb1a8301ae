//go:build linux

package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/coracle-eks/coracle/internal/host/filetree"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/host/machine/nfs"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
)

// second is the argument that makes the program its second stage. It finds the spec and a pipe for errors at these
// descriptors.
const (
	second   = "inside"
	specFD   = 3
	errorsFD = 4
	callsFD  = 5 // by which it passes the listener of its system calls on
	diskFD   = 6 // the mount of the root volume, where there is one that is not mounted yet
)

// environment is that of init. None of the marks by which processes of the daemon are known are in it: what runs inside
// is found by its PID namespace, ends with it, and must not learn the proof that tells launch from an impostor.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root",
	"TERM=linux",
	"container=coracle",
	disks.ClassicMount,
}

// runFirstStage runs the first stage.
func runFirstStage(spec Spec) error {
	// The thread that starts init must not end before this process does: with it would end init (PR_SET_PDEATHSIG).
	runtime.LockOSThread()
	buttons := make(chan os.Signal, 4)
	signal.Notify(buttons, syscall.SIGTERM, syscall.SIGINT)
	m := &machine{spec: spec, buttons: buttons, boots: rate.NewLimiter(rate.Every(bootEvery), bootsAtOnce)}
	if before, err := ReadStatus(spec.Dir); err == nil && before.Boot == spec.Boot {
		m.starts = before.Starts
		if spec.Once && before.hasRun() {
			return m.stayOff()
		}
	}
	served, err := disks.Serve(disks.Options{
		Dir: spec.Dir, Owner: spec.Owner, InstanceID: spec.InstanceID, UserID: spec.UserID, RootVolume: spec.RootVolume,
		Remote: nfs.NewServer(nfs.Options{Dir: spec.Dir, Owner: spec.Owner, InstanceID: spec.InstanceID,
			UserID: spec.UserID}),
	})
	if err != nil {
		return err
	}
	if spec.UserID != 0 { // otherwise its root is trusted with the host
		go cgroup.GuardWriteback(spec.UserID, func(text string) {
			fmt.Fprintf(os.Stderr, "coracle-node launch: %s\n", text)
		})
	}
	m.disks = served
	for {
		again, err := m.bootOnce()
		switch {
		case err == nil && again && spec.Once:
			return m.stayOff()
		case err == nil && again:
			again, err = m.awaitBoot()
		}
		if err != nil || !again {
			return err
		}
	}
}

type machine struct {
	spec    Spec
	buttons chan os.Signal
	starts  int
	boots   *rate.Limiter
	disks   *disks.Server
}

// How often a machine boots again that asks for it. To put one together takes the host some time, which counts for no
// machine, and its init may ask for the next boot at once.
const (
	bootsAtOnce = 10
	bootEvery   = 10 * time.Second
)

// awaitBoot waits until the machine may boot again. It reports false when its power button was pressed before.
func (m *machine) awaitBoot() (bool, error) {
	turn := time.NewTimer(m.boots.Reserve().Delay())
	defer turn.Stop()
	select {
	case <-turn.C:
		return true, nil
	case <-m.buttons:
		return false, m.writeStatus(PoweredOff, nil)
	}
}

// stayOff records that the machine is off, and waits for its power button: a machine that is off does not start by
// itself, as it would if this process ended.
func (m *machine) stayOff() error {
	if err := m.writeStatus(PoweredOff, nil); err != nil {
		return err
	}
	<-m.buttons
	return nil
}

func (m *machine) writeStatus(state string, err error) error {
	s := Status{Boot: m.spec.Boot, State: state, Since: time.Now().UTC(), Starts: m.starts}
	if err != nil {
		s.Error = err.Error()
	}
	return writeJSON(filepath.Join(m.spec.Dir, StatusFile), s)
}

// bootOnce boots the machine and waits for its end. again reports whether the machine has asked for a reboot.
func (m *machine) bootOnce() (again bool, err error) {
	m.starts++
	if err := m.writeStatus(Starting, nil); err != nil {
		return false, err
	}
	init, err := m.startInit()
	if err != nil {
		return false, errors.Join(err, m.writeStatus(Failed, err))
	}
	defer m.disks.Ended()
	if err := m.writeStatus(Running, nil); err != nil {
		return false, err
	}
	ended := make(chan syscall.WaitStatus, 1)
	go func() {
		state, err := init.Wait()
		if err != nil {
			fmt.Fprintf(os.Stderr, "coracle-node launch: wait for init: %v\n", err)
			ended <- syscall.WaitStatus(syscall.SIGKILL)
			return
		}
		ended <- state.Sys().(syscall.WaitStatus)
	}()
	off := false
	for {
		select {
		case <-m.buttons:
			off = true
			m.disks.Thaw()
			go pressPowerButton(init)
			continue
		case status := <-ended:
			switch {
			case status.Signaled() && status.Signal() == syscall.SIGHUP && !off:
				// reboot(LINUX_REBOOT_CMD_RESTART), see pid_namespaces(7)
				return true, nil
			case off:
				return false, m.writeStatus(PoweredOff, nil)
			case status.Signaled() && status.Signal() == syscall.SIGINT:
				// reboot(LINUX_REBOOT_CMD_POWER_OFF) or HALT
				return false, m.stayOff()
			}
			err := fmt.Errorf("init of %s ended: %s", m.spec.InstanceID, describeExit(status))
			return false, errors.Join(err, m.writeStatus(Crashed, err))
		}
	}
}

// pressPowerButton presses the power button. Process 1 does not get signals that it has no handler for, and a new one
// has none yet.
func pressPowerButton(init *os.Process) {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", init.Pid))
		if err != nil || catches(string(status), syscall.SIGTERM) {
			_ = init.Signal(syscall.SIGTERM) // it may have ended
			return
		}
		<-poll.C
	}
}

// catches reports whether a process with the given proc_pid_status(5) has a handler for a signal.
func catches(status string, sig syscall.Signal) bool {
	_, rest, _ := strings.Cut(status, "\nSigCgt:")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err == nil && mask&(1<<(sig-1)) != 0
}

func describeExit(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "signal: " + s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}

// startInit creates the cgroup and the directories, enters the network namespace, starts the second stage, and returns
// the process of init, which the second stage has become.
func (m *machine) startInit() (*os.Process, error) {
	host, err := cgroup.Open()
	if err != nil {
		return nil, err
	}
	// An earlier launcher may have been killed with the process that held writes for it.
	if err := disks.ThawLeft(m.spec.Dir, m.spec.Owner, m.spec.InstanceID); err != nil {
		fmt.Fprintf(os.Stderr, "coracle-node launch: %v\n", err)
	}
	group := host.Group(m.spec.Owner, m.spec.InstanceID)
	if err := group.Create(m.spec.Size); err != nil {
		return nil, err
	}
	if m.spec.UserID != 0 {
		if err := group.Delegate(int(m.spec.UserID)); err != nil {
			return nil, err
		}
	}
	dirs := []string{rootDir, RunDir}
	if m.spec.RootVolume == "" {
		dirs = append(dirs, UpperDirs...)
	}
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(m.spec.Dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	// What an earlier boot has reported is not about this one.
	if err := filetree.Clear(filepath.Join(m.spec.Dir, RunDir)); err != nil {
		return nil, err
	}
	if err := enterNetwork(m.spec.Network); err != nil {
		return nil, err
	}
	if err := checkUserID(m.spec); err != nil {
		return nil, err
	}
	return m.startSecondStage(group)
}

// startSecondStage starts the second stage, and returns when it has become init.
func (m *machine) startSecondStage(group cgroup.Group) (*os.Process, error) {
	spec, send, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer spec.Close()
	defer send.Close()
	said, failures, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer said.Close()
	calls, childCalls, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer calls.Close() // again, and nothing comes of it
	var disk *os.File
	if id := m.spec.RootVolume; id != "" {
		if disk, err = rootvolume.Mount(loopdevice.Name{Owner: m.spec.Owner, Volume: id,
			InstanceID: m.spec.InstanceID}); err != nil {
			return nil, err
		}
		defer disk.Close()
	}
	start := m.startWithoutUserNamespace
	if m.spec.UserID != 0 {
		start = m.startWithUserNamespace
	}
	p, err := start(disk, []*os.File{os.Stdin, os.Stdout, os.Stderr, spec, failures, childCalls})
	failures.Close()
	childCalls.Close()
	if err != nil {
		err = fmt.Errorf("make the machine's namespaces: %w", err)
	} else {
		err = m.awaitInit(p, group, send, calls, said)
	}
	if err != nil && p != nil {
		_ = p.Kill() // it may have ended
		_, _ = p.Wait()
		m.disks.Ended()
	}
	return p, err
}

// socketPair returns two sockets that are connected.
func socketPair() (own, child *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "calls"), os.NewFile(uintptr(pair[1]), "calls"), nil
}

// namespaces are those of a machine, beside its network's, its user namespace if it has one, and that of its cgroups.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// insideArgs are the arguments of the second stage.
var insideArgs = []string{"coracle-node", "launch", second}

// Assembles reports whether a process with such arguments, as /proc has them, is a second stage that has not become
// init.
func Assembles(arguments []byte) bool {
	return string(arguments) == strings.Join(insideArgs, "\x00")+"\x00"
}

func (m *machine) startWithoutUserNamespace(disk *os.File, files []*os.File) (*os.Process, error) {
	if disk != nil {
		files = append(files, disk)
	}
	// Not by its path, where a newer version may be now.
	return os.StartProcess("/proc/self/exe", insideArgs, &os.ProcAttr{
		Dir: "/", Env: environment, Files: files,
		Sys: &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL},
	})
}

// awaitInit adds the second stage to the cgroup, sends it the spec, gives the machine its disks, and returns when the
// second stage has become init.
func (m *machine) awaitInit(p *os.Process, group cgroup.Group, send io.WriteCloser, calls *os.File,
	said io.Reader,
) error {
	if err := group.Add(p.Pid); err != nil {
		return err
	}
	if err := json.NewEncoder(send).Encode(m.spec); err != nil {
		return err
	}
	if err := send.Close(); err != nil {
		return err
	}
	if listener, ok := disks.AwaitAssembled(calls); ok {
		if listener != nil {
			m.disks.ServeCalls(listener)
		}
		if err := m.disks.Booted(p.Pid); err != nil { // the daemon asks again, and records why
			fmt.Fprintf(os.Stderr, "coracle-node launch: disks of the machine: %v\n", err)
		}
	}
	if err := calls.Close(); err != nil { // the second stage goes on
		return err
	}
	text, err := io.ReadAll(said) // ends when the pipe closes: by exec, or by death
	if err == nil && len(text) > 0 {
		err = errors.New(string(text))
	}
	return err
}
