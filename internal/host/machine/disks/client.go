//go:build linux

package disks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotServed is the error when no launcher listens: the machine is off, or was started by a version of Coracle that
// had no volumes.
var ErrNotServed = errors.New("the machine has nobody who gives it disks")

// Operations of the socket.
const (
	opApply  = "apply"
	opListen = "listen" // the descriptor that comes with it
	opFreeze = "freeze" // until the connection ends
)

type request struct {
	Op       string
	VolumeID string `json:",omitempty"`
}

type response struct {
	Disks []State `json:",omitempty"`
	Error string  `json:",omitempty"`
}

// socketAddress returns the address of the socket in dir, whose path may be longer than an address can be: it is good
// as long as the file is open.
func socketAddress(dir string) (*net.UnixAddr, *os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	name := fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), socketFile)
	return &net.UnixAddr{Name: name, Net: "unix"}, f, nil
}

// Connection is a connection to the launcher of a machine.
type Connection struct{ c *net.UnixConn }

// Connect connects to the launcher of the machine in dir.
func Connect(dir string) (*Connection, error) {
	address, f, err := socketAddress(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotServed
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := net.DialUnix("unix", nil, address)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, ErrNotServed
	}
	if err != nil {
		return nil, err
	}
	return &Connection{c}, nil
}

// Close ends the connection.
func (c *Connection) Close() error { return c.c.Close() }

// PassListener makes the launcher serve the listener of a filter of system calls (confine.Options).
func (c *Connection) PassListener(listener *os.File) error {
	data, err := json.Marshal(request{Op: opListen})
	if err != nil {
		return err
	}
	_, _, err = c.c.WriteMsgUnix(append(data, '\n'), unix.UnixRights(int(listener.Fd())), nil)
	if err != nil {
		return fmt.Errorf("pass the listener of a machine on: %w", err)
	}
	var r response
	return c.read(&r)
}

func (c *Connection) read(r *response) error {
	if err := json.NewDecoder(c.c).Decode(r); err != nil {
		return fmt.Errorf("ask the launcher of the machine: %w", err)
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

func (c *Connection) ask(ctx context.Context, q request) (r response, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := json.NewEncoder(c.c).Encode(q); err != nil {
		return r, fmt.Errorf("ask the launcher of the machine: %w", err)
	}
	err = c.read(&r)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return r, err
}

// Apply makes the launcher of the machine in dir give it the disks of the table, and returns their states.
func Apply(ctx context.Context, dir string) ([]State, error) {
	c, err := Connect(dir)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r, err := c.ask(ctx, request{Op: opApply})
	return r.Disks, err
}

// Freeze makes the file system on a volume consistent and holds writes of it, until thaw is called or the calling
// process ends. It reports false when no file system of the volume is mounted in the machine.
func Freeze(ctx context.Context, dir, volumeID string) (thaw func(), frozen bool, err error) {
	c, err := Connect(dir)
	if err != nil {
		return nil, false, err
	}
	r, err := c.ask(ctx, request{Op: opFreeze, VolumeID: volumeID})
	if err != nil || len(r.Disks) == 0 {
		c.Close()
		return func() {}, false, err
	}
	return func() {
		_ = c.c.CloseWrite()
		_, _ = c.c.Read(make([]byte, 1)) // its end says that writes go on
		c.Close()
	}, true, nil
}
