//go:build linux

package losetup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/filelock"
)

// Command is a call of losetup.
type Command struct {
	// Block and Dev are /sys/block and /dev. Lock is a file of root's: containers may see the others.
	Block, Dev, Lock string
	Stdout, Stderr   io.Writer
}

const usage = `usage: losetup -f [--show] DISK   keep a disk open
       losetup -d DEVICE...      let it go
       losetup -j DISK           show what keeps a disk open
       losetup [-a]              show what is kept open
This machine has no loop devices: only its disks are kept open, for the kubelet.
`

// Main runs the program and returns its exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	return Command{Block: "/sys/block", Dev: "/dev", Lock: "/run/losetup.lock", Stdout: stdout, Stderr: stderr}.Run(args)
}

// Run runs the program and returns its exit status.
func (c Command) Run(args []string) int {
	find, show := false, false
	var rest []string
	mode := ""
	for _, arg := range args {
		switch arg {
		case "-f", "--find":
			find = true
		case "--show":
			show = true
		case "-d", "--detach", "-j", "--associated", "-a", "--all":
			if mode != "" {
				return c.misuse()
			}
			mode = strings.TrimLeft(arg, "-")[:1]
		default:
			if strings.HasPrefix(arg, "-") {
				return c.misuse()
			}
			rest = append(rest, arg)
		}
	}
	var err error
	switch {
	case find && mode == "" && len(rest) == 1:
		err = c.attach(rest[0], show)
	case find || show:
		return c.misuse()
	case mode == "d" && len(rest) > 0:
		for _, device := range rest {
			err = errors.Join(err, c.detach(device))
		}
	case mode == "j" && len(rest) == 1:
		err = c.list(rest[0])
	case (mode == "a" || mode == "") && len(rest) == 0:
		err = c.list("")
	default:
		return c.misuse()
	}
	if err != nil {
		fmt.Fprintf(c.Stderr, "losetup: %v\n", err)
		return 1
	}
	return 0
}

func (c Command) misuse() int {
	fmt.Fprint(c.Stderr, usage)
	return 1
}

// Files in the directory of a device; the first is the kernel's.
const (
	backingFile = "loop/backing_file"
	holderFile  = "loop/holder" // the process that has the disk open: its number and when it started
)

// lock keeps other calls waiting until unlock is called.
func (c Command) lock() (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return filelock.Lock(ctx, c.Lock, nil)
}

// attach keeps a disk open.
func (c Command) attach(path string, show bool) error {
	path, err := resolve(path)
	if err != nil {
		return err
	}
	disk, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer disk.Close()
	info, err := disk.Stat()
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeDevice {
		return fmt.Errorf("%s: failed to set up loop device: it is not a disk, and this machine has no loop devices", path)
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	name, err := c.free()
	if err != nil {
		return err
	}
	holder, err := hold(disk, name)
	if err != nil {
		return fmt.Errorf("%s: keep it open: %w", path, err)
	}
	if err := c.publish(name, path, holder); err != nil {
		return errors.Join(err, syscall.Kill(holder.pid, syscall.SIGKILL))
	}
	if show {
		fmt.Fprintln(c.Stdout, filepath.Join(c.Dev, name))
	}
	return nil
}

// resolve returns the path of a file as the kernel shows it.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// free returns the lowest name that is taken neither in /sys/block nor in /dev.
func (c Command) free() (string, error) {
	for number := 0; ; number++ {
		name := "loop" + strconv.Itoa(number)
		_, inBlock := os.Lstat(filepath.Join(c.Block, name))
		_, inDev := os.Lstat(filepath.Join(c.Dev, name))
		if errors.Is(inBlock, fs.ErrNotExist) && errors.Is(inDev, fs.ErrNotExist) {
			return name, nil
		}
		if err := errors.Join(ignoreMissing(inBlock), ignoreMissing(inDev)); err != nil {
			return "", err
		}
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// publish makes the directory of a device at once, and its name in /dev.
func (c Command) publish(name, path string, holder process) error {
	next, err := os.MkdirTemp(c.Block, ".losetup-")
	if err != nil {
		return err
	}
	err = errors.Join(os.Chmod(next, 0o755), os.Mkdir(filepath.Join(next, "loop"), 0o755))
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(next, backingFile), []byte(path+"\n"), 0o444),
			os.WriteFile(filepath.Join(next, holderFile), []byte(holder.String()+"\n"), 0o444))
	}
	if err == nil {
		err = os.Symlink(path, filepath.Join(c.Dev, name))
	}
	if err == nil {
		err = os.Rename(next, filepath.Join(c.Block, name))
	}
	if err != nil {
		_ = os.Remove(filepath.Join(c.Dev, name)) // it was free
		return errors.Join(err, os.RemoveAll(next))
	}
	return nil
}

// detach lets the disk of a device go.
func (c Command) detach(device string) error {
	name := filepath.Base(device)
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	dir := filepath.Join(c.Block, name)
	text, err := os.ReadFile(filepath.Join(dir, holderFile))
	if errors.Is(err, fs.ErrNotExist) || filepath.Clean(device) != filepath.Join(c.Dev, name) {
		return fmt.Errorf("%s: detach failed: %w", device, unix.ENXIO)
	}
	if err != nil {
		return fmt.Errorf("%s: detach failed: %w", device, err)
	}
	if holder, ok := parseProcess(string(text)); ok {
		if err := holder.kill(); err != nil {
			return fmt.Errorf("%s: detach failed: %w", device, err)
		}
	}
	// Whoever looks for devices finds it whole or not at all.
	gone := filepath.Join(c.Block, ".detached-"+name)
	if err := errors.Join(os.RemoveAll(gone), os.Rename(dir, gone)); err != nil {
		return fmt.Errorf("%s: detach failed: %w", device, err)
	}
	if target, err := os.Readlink(filepath.Join(c.Dev, name)); err == nil && target != "" {
		_ = os.Remove(filepath.Join(c.Dev, name))
	}
	return os.RemoveAll(gone)
}

// list shows the devices, or those of one disk.
func (c Command) list(of string) error {
	if of != "" {
		var err error
		if of, err = resolve(of); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(c.Block, "loop*", backingFile))
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		path := strings.TrimSuffix(string(text), "\n")
		if err != nil || of != "" && path != of {
			continue
		}
		var st unix.Stat_t
		_ = unix.Stat(path, &st) // zeros for what is gone
		name := filepath.Base(filepath.Dir(filepath.Dir(file)))
		fmt.Fprintf(c.Stdout, "%s: [%d]:%d (%s)\n", filepath.Join(c.Dev, name), st.Dev, st.Ino, path)
	}
	return nil
}

// process is a process, which its number alone is not.
type process struct {
	pid     int
	started string // field 22 of proc_pid_stat(5)
}

func (p process) String() string { return strconv.Itoa(p.pid) + " " + p.started }

func parseProcess(text string) (p process, ok bool) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return p, false
	}
	pid, err := strconv.Atoi(fields[0])
	return process{pid, fields[1]}, err == nil && pid > 1
}

// startOf returns when a process started.
func startOf(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	_, after, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	if fields := strings.Fields(after); len(fields) > 19 {
		return fields[19], nil
	}
	return "", fmt.Errorf("/proc/%d/stat does not say when the process started", pid)
}

// hold starts a process that has a disk open, under a name that says so. It outlives the caller: the kubelet's unit
// stops the kubelet alone (KillMode=process).
func hold(disk *os.File, name string) (process, error) {
	path, err := exec.LookPath("sleep") // a small one
	if err != nil {
		return process{}, err
	}
	cmd := exec.Command(path, "infinity")
	cmd.Args[0] = "losetup-" + name
	cmd.Stdin, cmd.Dir, cmd.Env = disk, "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return process{}, err
	}
	started, err := startOf(cmd.Process.Pid)
	if err != nil {
		return process{}, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return process{cmd.Process.Pid, started}, nil
}

// kill ends a process, if it is there, and waits for its end: the disk is free then.
func (p process) kill() error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if started, err := startOf(p.pid); err != nil || started != p.started { // the number is another's
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return err
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(poll, -1); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
