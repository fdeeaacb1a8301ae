//go:build linux

package disks

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Remote mounts network file systems for machines.
type Remote interface {
	// Serves reports whether file systems of that type, as mount(2) has it, are mounted.
	Serves(kind string) bool
	// Mount mounts one. The error is that of the system call: a unix.Errno, or ErrNotRemote for what it does not serve.
	// It keeps none of the files.
	Mount(m RemoteMount) error
}

// ErrNotRemote is the error of what a Remote leaves to the kernel.
var ErrNotRemote = errors.New("the mount is the kernel's")

// RemoteMount is what a thread of the machine asks for by mount(2).
type RemoteMount struct {
	Type, Source, Options string
	Flags                 uint64 // without the magic number
	// Target is what to mount on, in the mount namespace Mounts. Network is the network namespace of the thread, Users the
	// user namespace of the machine.
	Target, Mounts, Network, Users *os.File
}

// How many mounts of network file systems are made at once for a machine, and how many may wait.
const (
	remotesAtOnce  = 32
	remotesWaiting = 2048
)

func (s *Server) isRemote(kind string) bool { return s.o.Remote != nil && s.o.Remote.Serves(kind) }

// mountRemote mounts a network file system. Its turn is another than that of other calls, because the machine decides
// how long it takes.
func (s *Server) mountRemote(c *caller, kind string, flags uint64) error {
	c.release()
	defer s.remoteQueue.Add(-1)
	if s.remoteQueue.Add(1) > remotesWaiting {
		return unix.EAGAIN
	}
	s.remoteSlots <- struct{}{}
	defer func() { <-s.remoteSlots }()
	if err := s.awaitStart(c); err != nil {
		return err
	}
	target, err := c.text(c.n.args[1], unix.PathMax)
	if err != nil {
		return err
	}
	options, err := c.text(c.n.args[4], os.Getpagesize())
	if err != nil {
		return err
	}
	source, err := c.text(c.n.args[0], unix.PathMax)
	if err != nil {
		return err
	}
	w, err := c.lookup(target)
	if err != nil {
		return err
	}
	defer w.close()
	if may, err := s.mayMount(w.mounts); err != nil || !may {
		return errContinue
	}
	if flags&^mountFlags != 0 {
		return unix.EINVAL
	}
	users, err := s.userNamespace()
	if err != nil {
		return err
	}
	if users == nil {
		return unix.EPERM // the machine has ended
	}
	defer users.Close()
	network, err := c.network(users)
	if err != nil {
		return err
	}
	defer network.Close()
	return s.o.Remote.Mount(RemoteMount{Type: kind, Source: source, Options: options, Flags: flags,
		Target: w.target, Mounts: w.mounts, Network: network, Users: users})
}

// network opens the network namespace of the thread, which has to be the machine's.
func (c *caller) network(users *os.File) (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", c.n.pid))
	if err != nil {
		return nil, err
	}
	if !c.waits() {
		f.Close()
		return nil, unix.ENOENT
	}
	if !ofMachine(f, users) {
		f.Close()
		return nil, unix.EPERM
	}
	return f, nil
}
