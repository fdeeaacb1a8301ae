//go:build linux

package disks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

// Options configures a Server.
type Options struct {
	Dir        string // the machine's own directory on the host
	Owner      string
	InstanceID string
	// UserID is root of the machine, on the host.
	UserID uint32
	// RootVolume is the volume with the files of the machine, which is in no table; empty when it has none.
	RootVolume string
	// Remote mounts network file systems (optional).
	Remote Remote
}

// Server is the part of a machine's launcher.
type Server struct {
	o     Options
	slots chan struct{} // of system calls that are made at once
	calls *rate.Limiter // of all listeners
	// starts are the processes that mount something, and mounting those that mount a disk now.
	starts   *rate.Limiter
	mounting chan struct{}
	growing  chan struct{} // holds something while an XFS grows: what the kernel takes for that counts for nobody
	// remoteSlots are those of mounts of network file systems, which may wait long for packets; others wait for them.
	remoteSlots chan struct{}
	remoteQueue atomic.Int32

	mu   sync.Mutex
	init int // process 1 of the machine; 0: there is none
	// root and users are the root directory and the user namespace of process 1, by descriptor: its number may be that of
	// a process of the host as soon as it has ended. users is nil where that is the host's.
	root, users *os.File
	attached    map[int]*attached // by loop number
	holders     map[int]*holder   // those that freeze, by loop number
	ending      bool              // nothing is frozen any more
	unable      error             // why a boot has begun without disks

	applying sync.Mutex    // one table at a time
	nodes    chan struct{} // holds something while nodes are changed
}

type attached struct {
	disk   Disk
	mounts int // that are being made
}

// Serve listens in the directory of the machine as long as the process lives.
func Serve(o Options) (*Server, error) {
	address, dir, err := socketAddress(o.Dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := os.Remove(filepath.Join(o.Dir, socketFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", address)
	if err != nil {
		return nil, fmt.Errorf("listen for disks of the machine: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(filepath.Join(o.Dir, socketFile), 0o600); err != nil {
		l.Close()
		return nil, err
	}
	s := &Server{o: o, slots: make(chan struct{}, callsAtOnce), calls: rate.NewLimiter(callRate, callBurst),
		starts: rate.NewLimiter(startRate, startBurst), mounting: make(chan struct{}, mountsAtOnce),
		growing:     make(chan struct{}, 1),
		remoteSlots: make(chan struct{}, remotesAtOnce), attached: map[int]*attached{}, holders: map[int]*holder{},
		nodes: make(chan struct{}, 1)}
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil { // there are too many files open, for a while
				fmt.Fprintf(os.Stderr, "coracle-node launch: listen for disks of the machine: %v\n", err)
				time.Sleep(time.Second)
				continue
			}
			go s.serve(c)
		}
	}()
	return s, nil
}

// Booted gives the machine its disks, whose process 1 is about to execute init. The error is about the disks alone.
func (s *Server) Booted(init int) error {
	users, err := usernamespace.OfProcess(init)
	if err != nil {
		return s.bootedWithout(err)
	}
	root, err := openPath(unix.AT_FDCWD, fmt.Sprintf("/proc/%d/root", init), 0)
	if err != nil {
		return s.bootedWithout(errors.Join(err, users.Close()))
	}
	s.mu.Lock()
	s.init, s.root, s.users, s.attached, s.ending = init, root, users, map[int]*attached{}, false
	s.mu.Unlock()
	states, err := s.apply()
	for _, state := range states {
		if state.Error != "" {
			err = errors.Join(err, errors.New(state.Error))
		}
	}
	return err
}

// bootedWithout tells that the machine has no disks as long as this boot lasts.
func (s *Server) bootedWithout(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unable = fmt.Errorf("the machine has started without its disks: stop and start it (%w)", err)
	return s.unable
}

// Ended tells that process 1 has ended.
func (s *Server) Ended() {
	s.Thaw()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root.Close() // of a nil file is an error and nothing else
	s.users.Close()
	s.init, s.root, s.users, s.attached, s.unable = 0, nil, nil, map[int]*attached{}, nil
}

func (s *Server) serve(c *net.UnixConn) {
	defer c.Close()
	var q request
	data, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := c.ReadMsgUnix(data, rights)
	if err != nil {
		return
	}
	listener := receiveFile(rights[:m])
	if err := json.Unmarshal(data[:n], &q); err != nil {
		return
	}
	var r response
	switch q.Op {
	case opApply:
		if r.Disks, err = s.apply(); err != nil {
			r.Error = err.Error()
		}
	case opListen:
		if listener == nil {
			r.Error = "no listener was passed"
			break
		}
		s.ServeCalls(listener)
		listener = nil
	case opFreeze:
		s.freeze(c, q.VolumeID)
		return
	default:
		r.Error = "there is no such operation"
	}
	listener.Close() // of a nil file is an error and nothing else
	_ = json.NewEncoder(c).Encode(r)
}

// receiveFile returns the file of a control message; nil when there is none.
func receiveFile(rights []byte) *os.File {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "listener")
}

// AwaitAssembled waits for the other end of a socket pair to call Assembled, and reports false when that has ended. The
// listener is that which the other end has sent before; nil when there is none.
func AwaitAssembled(socket *os.File) (listener *os.File, ok bool) {
	rights, data := make([]byte, unix.CmsgSpace(4)), make([]byte, 1)
	for {
		n, m, _, _, err := unix.Recvmsg(int(socket.Fd()), data, rights, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n == 0:
			listener.Close() // of a nil file is an error and nothing else
			return nil, false
		case data[0] == assembled:
			return listener, true
		default:
			listener = receiveFile(rights[:m])
		}
	}
}

// What the ends of the socket pair say.
const (
	listens = iota
	assembled
)

// Send passes a listener on through a socket pair.
func Send(socket int, listener *os.File) error {
	return unix.Sendmsg(socket, []byte{listens}, unix.UnixRights(int(listener.Fd())), nil, 0)
}

// Assembled tells the other end of a socket pair that the root directory of the calling process is that of the machine,
// and waits until it has the machine's disks.
func Assembled(socket int) error {
	if err := unix.Sendmsg(socket, []byte{assembled}, nil, nil, 0); err != nil {
		return fmt.Errorf("wait for the disks: %w", err)
	}
	for {
		_, err := unix.Read(socket, make([]byte, 1))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (s *Server) name(d Disk) loopdevice.Name {
	return loopdevice.Name{Owner: s.o.Owner, Volume: d.VolumeID, InstanceID: s.o.InstanceID}
}

// apply makes the machine have the disks of the table. What a detached disk was to the machine's cgroup is taken first,
// and counts: the rest is within the machine, which can keep whoever looks there waiting.
func (s *Server) apply() (states []State, err error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	table, err := ReadTable(s.o.Dir)
	if err != nil {
		return nil, err
	}
	states, lost, forced, root, err := s.decide(table)
	if err != nil || root == nil {
		return states, err
	}
	failed := s.nodesInTime(root, table, slices.Clone(states), lost)
	for i, d := range table.Disks {
		if err := failed[d.Loop]; err != nil && states[i].State == Attached {
			states[i].State, states[i].Error = Failed, err.Error()
		}
	}
	if len(forced) > 0 {
		s.unmountAll(forced)
	}
	return states, nil
}

// decide decides about the disks of the table, and makes the machine's cgroup allow those that it has from now on. lost
// are the disks whose nodes it is to lose, forced those of which it is to lose the mounts, and root is its root
// directory; nil when it does not run.
func (s *Server) decide(table Table) (states []State, lost []Disk, forced []int, root *os.File, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.init == 0 { // it gets them when it boots
		for _, d := range table.Disks {
			state := State{VolumeID: d.VolumeID, State: Attached}
			if d.Detaching {
				state.State = Detached
			}
			states = append(states, state)
		}
		return failAttached(states, s.unable), nil, nil, nil, nil
	}
	for _, d := range table.Disks {
		had := s.attached[d.Loop]
		states = append(states, s.prepare(d))
		if had != nil && s.attached[d.Loop] == nil {
			lost = append(lost, had.disk)
			if d.Force {
				forced = append(forced, d.Loop)
			}
		}
	}
	for loop, a := range s.attached { // those that the table has lost
		if !slices.ContainsFunc(table.Disks, func(d Disk) bool { return d.Loop == loop }) {
			lost = append(lost, a.disk)
			delete(s.attached, loop)
		}
	}
	group, err := s.group()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	if err := group.AllowDisks(s.minors()); errors.Is(err, cgroup.ErrNoDisks) {
		s.attached = map[int]*attached{}
		return failAttached(states, err), lost, forced, nil, nil
	} else if err != nil {
		return nil, nil, nil, nil, fmt.Errorf("let the machine open its disks: %w", err)
	}
	fd, err := unix.FcntlInt(s.root.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	return states, lost, forced, os.NewFile(uintptr(fd), "root of the machine"), nil
}

// failAttached returns the states where the machine can have no disks; as they are when there is no such error.
func failAttached(states []State, err error) []State {
	for i := range states {
		if err != nil && states[i].State == Attached {
			states[i].State, states[i].Error = Failed, err.Error()
		}
	}
	return states
}

// prepare decides about one disk.
func (s *Server) prepare(d Disk) State {
	state := State{VolumeID: d.VolumeID, State: Attached}
	a := s.attached[d.Loop]
	switch {
	case !d.Detaching:
		is, err := loopdevice.Is(d.Loop, s.name(d))
		if err != nil { // nobody can say: the machine keeps what it has
			state.State, state.Error = Failed, err.Error()
			return state
		}
		if !is {
			state.State, state.Error = Failed, fmt.Sprintf("loop device %d is not the disk %s", d.Loop, d.VolumeID)
			delete(s.attached, d.Loop)
			return state
		}
		if a == nil {
			s.attached[d.Loop] = &attached{disk: d}
		} else {
			a.disk = d
		}
		return state
	case a == nil:
		state.State = Detached
		return state
	}
	if !d.Force {
		mounted, err := loopdevice.Mounted(d.Loop)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENXIO) {
			state.State, state.Error = Failed, err.Error()
			return state
		}
		if mounted || a.mounts > 0 {
			state.State = Busy
			return state
		}
	}
	delete(s.attached, d.Loop)
	state.State = Detached
	return state
}

// nodesInTime calls changeNodes, which goes on alone where the machine keeps it waiting.
func (s *Server) nodesInTime(root *os.File, table Table, states []State, lost []Disk) map[int]error {
	done := make(chan map[int]error, 1)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case s.nodes <- struct{}{}:
		go func() {
			defer func() { <-s.nodes }()
			defer root.Close()
			done <- s.changeNodes(root, table, states, lost)
		}()
	default: // an earlier one waits
		root.Close()
		limit.Reset(0)
	}
	select {
	case failed := <-done:
		return failed
	case <-limit.C:
	}
	failed := map[int]error{}
	for _, d := range table.Disks {
		failed[d.Loop] = errors.New("/dev of the machine does not answer")
	}
	return failed
}

// changeNodes removes and makes the nodes of disks, and returns the errors of those that it could not make.
func (s *Server) changeNodes(root *os.File, table Table, states []State, lost []Disk) map[int]error {
	failed := map[int]error{}
	dev, err := openDev(root)
	if err == nil {
		defer dev.Close()
		for _, d := range lost {
			removeNodes(dev, d)
		}
	}
	for i, d := range table.Disks {
		if states[i].State != Attached {
			continue
		}
		if err == nil {
			failed[d.Loop] = s.makeNodes(dev, d)
		} else {
			failed[d.Loop] = err
		}
	}
	return failed
}

func (s *Server) minors() (minors []uint32) {
	for loop := range s.attached {
		minors = append(minors, uint32(loop))
	}
	slices.Sort(minors)
	return minors
}

func (s *Server) group() (cgroup.Group, error) {
	host, err := cgroup.Open()
	if err != nil {
		return cgroup.Group{}, err
	}
	return host.Group(s.o.Owner, s.o.InstanceID), nil
}

// hold returns the disk with that loop number, and keeps it from being detached until release is called.
func (s *Server) hold(loop int) (d Disk, release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.attached[loop]
	if a == nil {
		return Disk{}, nil, false
	}
	a.mounts++
	return a.disk, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		a.mounts--
	}, true
}
