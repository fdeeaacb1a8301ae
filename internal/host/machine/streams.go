//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// streams are the standard files of a command: pipes, with the caller's readers and writers at their other ends. A
// file of the host is never given to a machine itself, which could open it once more, for what it was not meant, or
// type into the terminal that it may be.
type streams struct {
	files  []*os.File // the command's
	ours   []*os.File // our ends
	copies sync.WaitGroup
	// begun and ended count writes to the caller.
	begun, ended atomic.Int64
}

func (s *streams) openPipes(c Command) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.files = append(s.files, r)
	if c.Stdin == nil {
		w.Close()
	} else {
		s.ours = append(s.ours, w)
		go func() { // it may wait for input when the command has long ended
			_, _ = io.Copy(w, c.Stdin)
			w.Close()
		}()
	}
	if err := s.addOutput(c.Stdout); err != nil {
		return err
	}
	if sameWriter(c.Stdout, c.Stderr) {
		s.files = append(s.files, s.files[1])
		return nil
	}
	return s.addOutput(c.Stderr)
}

func (s *streams) addOutput(to io.Writer) error {
	if to == nil {
		to = io.Discard
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.files, s.ours = append(s.files, w), append(s.ours, r)
	// It ends when nobody has the other end, or this one is closed.
	s.copies.Go(func() { _, _ = io.Copy(counted{s, to}, r) })
	return nil
}

// counted counts the writes to a writer.
type counted struct {
	s  *streams
	to io.Writer
}

func (c counted) Write(p []byte) (int, error) {
	c.s.begun.Add(1)
	defer c.s.ended.Add(1)
	return c.to.Write(p)
}

// sameWriter reports whether two writers are one, to which two must not write at once.
func sameWriter(a, b io.Writer) bool {
	defer func() { _ = recover() }() // of values that cannot be compared
	return a == b
}

// closeChildEnds closes what the command has.
func (s *streams) closeChildEnds() {
	for _, f := range s.files {
		f.Close()
	}
}

// drainOutput copies what is left of the output. Something in the background may keep it open, and say nothing more.
func (s *streams) drainOutput() {
	done := make(chan struct{})
	go func() { s.copies.Wait(); close(done) }()
	for {
		ended := s.ended.Load()
		select {
		case <-done:
			return
		case <-time.After(time.Second):
			if s.begun.Load() == ended {
				return
			}
		}
	}
}

func (s *streams) close() {
	s.closeChildEnds()
	for _, f := range s.ours {
		f.Close()
	}
}

// reopenFile opens for use what was opened to see what it is (O_PATH): to open a device is to use it, and the rules for
// devices of the machine do not hold for the calling thread. proc is the host's /proc.
func reopenFile(proc *os.File, seen, flags int, name string) (*os.File, error) {
	fd, err := unix.Openat(int(proc.Fd()), fmt.Sprintf("thread-self/fd/%d", seen), flags|unix.O_NOCTTY|unix.O_CLOEXEC,
		0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// withTerminal runs a command with a terminal of the machine, where the calling thread is.
func withTerminal(ctx context.Context, start starter, in *inside, c Command) (int, error) {
	master, slave, err := openTerminal(in.proc, "/dev/pts/ptmx")
	if err != nil {
		return 0, fmt.Errorf("open a terminal in the machine: %w", err)
	}
	defer master.Close()
	if err := slave.Chown(in.userID, -1); err != nil {
		slave.Close()
		return 0, fmt.Errorf("hand the terminal over: %w", err)
	}
	if outer, ok := c.Stdin.(*os.File); ok && term.IsTerminal(int(outer.Fd())) {
		resize := func() {
			if size, err := unix.IoctlGetWinsize(int(outer.Fd()), unix.TIOCGWINSZ); err == nil {
				_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, size)
			}
		}
		resize()
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, syscall.SIGWINCH)
		defer func() { signal.Stop(resized); close(resized) }()
		go func() {
			for range resized {
				resize()
			}
		}()
		before, err := term.MakeRaw(int(outer.Fd()))
		if err != nil {
			slave.Close()
			return 0, err
		}
		defer func() { _ = term.Restore(int(outer.Fd()), before) }()
	}
	p, err := start([]*os.File{slave, slave, slave})
	slave.Close()
	if err != nil {
		return notExecutable, err
	}
	if c.Stdin != nil {
		go func() { // it may wait for a key when the command has long ended
			_, _ = io.Copy(master, c.Stdin)
			_, _ = master.Write([]byte{4}) // the end of the input, for who has no terminal
		}()
	}
	shown := make(chan struct{})
	go func() {
		_, _ = io.Copy(c.Stdout, master) // ends with EIO when nothing has the other end open
		close(shown)
	}()
	exit, err := waitForProcess(ctx, p)
	select {
	case <-shown:
	case <-time.After(time.Second): // something in the background keeps the terminal
	}
	return exit, err
}

// openTerminal makes a terminal by the multiplexer at path.
func openTerminal(proc *os.File, path string) (master, slave *os.File, err error) {
	// The machine decides what lies there. The descriptors of a terminal are asked of the kernel, and nothing else is
	// used.
	seen, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(seen)
	if err := isTerminal(seen); err != nil {
		return nil, nil, err
	}
	master, err = reopenFile(proc, seen, os.O_RDWR|unix.O_NONBLOCK, path)
	if err != nil {
		return nil, nil, err
	}
	raw, err := master.SyscallConn()
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed != nil {
			return
		}
		peer, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCGPTPEER,
			uintptr(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC))
		if errno != 0 {
			failed = os.NewSyscallError("TIOCGPTPEER", errno)
			return
		}
		slave = os.NewFile(peer, "terminal")
	})
	if err = errors.Join(err, failed); err != nil {
		master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

// isTerminal refuses what is no file of the kernel's file system of terminals.
func isTerminal(fd int) error {
	var system unix.Statfs_t
	if err := unix.Fstatfs(fd, &system); err != nil {
		return err
	}
	if system.Type != unix.DEVPTS_SUPER_MAGIC {
		return errors.New("/dev/pts/ptmx of the machine is not that of a devpts file system")
	}
	return nil
}
