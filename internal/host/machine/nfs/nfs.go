//go:build linux

package nfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/host/mountgrant"
)

// patience bounds how long a mount waits for packets of the mount target, for the connection and for the grant.
const patience = 15 * time.Second

// Options configures a Server.
type Options struct {
	Dir        string // the machine's own directory on the host
	Owner      string
	InstanceID string
	// UserID is root of the machine, on the host.
	UserID uint32
}

// Server is the part of a machine's launcher. It implements disks.Remote.
type Server struct{ o Options }

// NewServer returns a Server. It has nothing to end: what serves file systems ends with the calling process.
func NewServer(o Options) *Server { return &Server{o} }

// Serves reports whether file systems of a type are mounted.
func (s *Server) Serves(kind string) bool {
	return kind == TypeNFS || kind == TypeNFS4 || kind == TypeEFS
}

// Mount mounts a file system for a machine.
func (s *Server) Mount(m disks.RemoteMount) error {
	w, err := parse(m.Type, m.Source, m.Options)
	if errors.Is(err, errVersion) { // mount.nfs4 tries another one then
		return unix.EPROTONOSUPPORT
	}
	if err != nil {
		s.log(m, err.Error())
		return unix.EINVAL
	}
	key, err := mountgrant.ReadKey(s.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return disks.ErrNotRemote // a daemon that knows no EFS has started the machine
	}
	if err != nil {
		return err
	}
	grant, err := ask(m.Network, w, key, s.o.InstanceID)
	switch {
	case errors.Is(err, mountgrant.ErrForeign):
		return disks.ErrNotRemote
	case errors.Is(err, os.ErrDeadlineExceeded):
		return unix.ETIMEDOUT
	case err != nil:
		s.log(m, err.Error())
		return err
	case grant.Refused != nil:
		s.log(m, grant.Refused.Message)
		return unix.Errno(grant.Refused.Errno)
	}
	return s.share(m, order{Grant: grant, Path: w.path, Source: m.Source, Flags: m.Flags, FirstID: s.o.UserID})
}

// log writes a line to the console of the machine, where its users look for why a mount has failed.
func (s *Server) log(m disks.RemoteMount, text string) {
	fmt.Fprintf(os.Stderr, "coracle-node launch: mount %.200q of type %s: %.500s\n", m.Source, m.Type, text)
}

// ask asks the mount target for a grant.
func ask(network *os.File, w wish, key []byte, instanceID string) (mountgrant.Grant, error) {
	deadline := time.Now().Add(patience)
	c, err := dial(network, w.server, deadline)
	if err != nil {
		return mountgrant.Grant{}, err
	}
	defer c.Close()
	if err := c.SetDeadline(deadline); err != nil {
		return mountgrant.Grant{}, err
	}
	return mountgrant.Ask(c, key, instanceID, w.request)
}

// share lets a process of its own mount what was granted.
func (s *Server) share(m disks.RemoteMount, o order) error {
	host, err := cgroup.Open()
	if err != nil {
		return err
	}
	groups, err := host.Group(s.o.Owner, s.o.InstanceID).OpenHelpers()
	defer func() {
		for _, g := range groups {
			g.Close()
		}
	}()
	if err != nil {
		return err
	}
	o.Target, o.Mounts, o.Users = 3, 4, 5
	for i := range groups {
		o.Groups = append(o.Groups, 6+i)
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	// The process lives as long as a mount that it serves. Its input ends with the launcher.
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd := exec.Command("/proc/self/exe", "launch", Share)
	cmd.Args[0] = "coracle-node"
	cmd.Stdin, cmd.Stderr, cmd.Env = read, os.Stderr, []string{"GOGC=50", "GOMAXPROCS=4"}
	cmd.ExtraFiles = append([]*os.File{m.Target, m.Mounts, m.Users}, groups...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true} // a signal to the launcher's group is none to it
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		write.Close()
		return fmt.Errorf("start the process that mounts file systems: %w", err)
	}
	_, err = write.Write(append(data, '\n'))
	var r result
	if err == nil {
		err = json.NewDecoder(io.LimitReader(output, 64<<10)).Decode(&r)
	}
	go func() {
		defer write.Close()
		_, _ = io.Copy(io.Discard, output)
		_ = cmd.Wait() // how it ended is what programs see of the mount
	}()
	if err != nil {
		_ = cmd.Process.Kill() // it may have ended
		return fmt.Errorf("run the process that mounts file systems: %w", err)
	}
	if r.Error != "" {
		s.log(m, r.Error)
		if r.Errno == 0 {
			r.Errno = unix.EIO
		}
	}
	if r.Errno != 0 {
		return r.Errno
	}
	return nil
}
