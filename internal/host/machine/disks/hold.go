//go:build linux

package disks

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
)

// patience bounds how long a machine can keep its launcher waiting, for the end of its writes or the file systems that
// it has put in the way.
const patience = 10 * time.Second

// holder is a process that runs HolderMain.
type holder struct {
	cmd         *exec.Cmd
	read, input *os.File // of its input
	once        sync.Once
	reports     chan report // closed when it has ended
	last        report      // of it, once it has ended
	asked       atomic.Bool // to freeze
}

func newHolder() (*holder, error) {
	h := &holder{reports: make(chan report, 8)}
	var err error
	h.read, h.input, err = os.Pipe()
	return h, err
}

// start starts the process. The launcher's end is the end of its input, and not its own. Once it has ended, ended is
// called.
func (s *Server) start(h *holder, t task, ended func()) error {
	defer h.read.Close()
	t.Owner, t.InstanceID = s.o.Owner, s.o.InstanceID
	h.cmd = exec.Command("/proc/self/exe", "launch", Holder)
	h.cmd.Args[0] = "coracle-node"
	h.cmd.Stdin, h.cmd.Stderr, h.cmd.Env = h.read, os.Stderr, []string{}
	h.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true} // a signal to the launcher's group is none to it
	users, err := s.userNamespace()
	if err != nil {
		return err
	}
	if users != nil {
		defer users.Close()
		h.cmd.ExtraFiles, t.Users = []*os.File{users}, 3
	}
	line, err := json.Marshal(t)
	if err != nil {
		return err
	}
	output, err := h.cmd.StdoutPipe()
	if err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the process that looks for mounts: %w", err)
	}
	go func() {
		defer ended()
		defer close(h.reports)
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if json.Unmarshal(lines.Bytes(), &h.last) == nil {
				h.reports <- h.last
			}
		}
		_ = h.cmd.Wait() // how it ended is what it has reported
	}()
	_, _ = h.input.Write(append(line, '\n')) // when it has been stopped it reports that it has failed
	return nil
}

// stop makes it thaw.
func (h *holder) stop() { h.once.Do(func() { _ = h.input.Close() }) }

// next returns its next report. It reports false when it has ended, and when there is none in time.
func (h *holder) next() (r report, ok bool) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case r, ok = <-h.reports:
	case <-limit.C:
	}
	return r, ok
}

// userNamespace returns a copy of the descriptor of the machine's user namespace; nil when it has none.
func (s *Server) userNamespace() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == nil {
		return nil, nil
	}
	fd, err := unix.FcntlInt(s.users.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), s.users.Name()), nil
}

// freeze holds writes of the file system on a volume until the connection ends.
func (s *Server) freeze(c *net.UnixConn, volumeID string) {
	h, err := s.freezeVolume(volumeID)
	var r response
	if err != nil {
		r.Error = err.Error()
	}
	if h != nil {
		r.Disks = []State{{VolumeID: volumeID, State: Attached}}
		defer func() {
			h.stop()
			for ok := true; ok; { // the end of the connection says that writes go on
				_, ok = h.next()
			}
		}()
	}
	if err := json.NewEncoder(c).Encode(r); err != nil || h == nil {
		return
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, c)
	}()
	select {
	case <-closed:
	case <-h.reports: // it has thawed before it was asked to
	}
}

// freezeVolume holds writes of the file system on a volume, if one is mounted, until the holder is stopped.
func (s *Server) freezeVolume(volumeID string) (*holder, error) {
	h, loop, err := s.register(volumeID)
	if h == nil || err != nil {
		return nil, err
	}
	err = s.start(h, task{Freeze: true, Loops: []int{loop}}, func() { s.unregister(h, loop, volumeID) })
	if err != nil {
		h.stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.holders, loop)
		return nil, err
	}
	r, ok := h.next()
	if !ok {
		_ = h.cmd.Process.Kill() // it freezes nothing yet
		return nil, errors.New("the machine has put something before its mounts that does not answer")
	}
	if r.State == found {
		if err := os.WriteFile(s.heldFile(loop), []byte(volumeID), 0o600); err != nil {
			h.stop()
			return nil, err
		}
		h.asked.Store(true)
		_, _ = h.input.Write([]byte{'\n'}) // when it has been stopped it reports that it has failed
		if r, ok = h.next(); !ok {
			h.stop() // it thaws as soon as it has frozen
			return nil, errors.New("programs in the machine do not end their writes")
		}
	}
	switch r.State {
	case frozen:
		return h, nil
	case nothing:
		return nil, nil
	}
	return nil, errors.New(r.Error)
}

// register makes a holder that Thaw stops, before there is anything to thaw; nil when the machine lacks the volume.
func (s *Server) register(volumeID string) (h *holder, loop int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	loop = -1
	if s.init != 0 && volumeID != "" && volumeID == s.o.RootVolume {
		if loop, err = rootvolume.Find(s.name(Disk{VolumeID: volumeID})); err != nil {
			return nil, 0, err
		}
	}
	for number, a := range s.attached {
		if a.disk.VolumeID == volumeID {
			loop = number
		}
	}
	switch {
	case loop < 0:
		return nil, 0, nil
	case s.ending:
		return nil, 0, errors.New("the machine is about to end, and has its last writes")
	case s.holders[loop] != nil:
		return nil, 0, errors.New("writes of the volume are held already, or wait to be")
	}
	if h, err = newHolder(); err == nil {
		s.holders[loop] = h
	}
	return h, loop, err
}

// unregister forgets a holder that has ended, and thaws what one has left that was killed.
func (s *Server) unregister(h *holder, loop int, volumeID string) {
	h.stop()
	if h.asked.Load() {
		var err error
		if done := h.last.State; done != finished && done != nothing && done != failed {
			err = loopdevice.Thaw(loop, s.name(Disk{VolumeID: volumeID}))
		}
		if err == nil {
			err = os.Remove(s.heldFile(loop))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "coracle-node launch: %v\n", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holders, loop)
}

// Thaw lets all writes go on, and holds none any more until the next boot: the machine is to end, and writes what it
// has.
func (s *Server) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for _, h := range s.holders {
		h.stop()
	}
}

// unmountAll takes the mounts of disks from the machine, for a while.
func (s *Server) unmountAll(loops []int) {
	h, err := newHolder()
	if err == nil {
		defer h.stop()
		err = s.start(h, task{Loops: loops}, func() {})
	}
	if err == nil {
		r, ok := h.next()
		if !ok {
			_ = h.cmd.Process.Kill()
			r.Error = "it takes too long"
		}
		if r.Error != "" {
			err = errors.New(r.Error)
		}
	}
	if err != nil { // who uses them has a disk that is gone
		fmt.Fprintf(os.Stderr, "coracle-node launch: unmount disks that are taken away: %v\n", err)
	}
}
