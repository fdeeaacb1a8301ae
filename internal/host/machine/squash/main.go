//go:build linux

package squash

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Config says what a process serves. Numbers of descriptors are those that it has inherited.
type Config struct {
	Fuse int // of /dev/fuse, with a file system that was created
	Root int // of the directory to serve
	Proc int // of the host's /proc
	// FirstID is the first of the 65536 user and group IDs of the host that the machine has.
	FirstID uint32
	// User is who all requests are served as; nil: each is as the user of the machine that makes it.
	User       *User `json:",omitempty"`
	SquashRoot bool  // without User: root is nobody
	ReadOnly   bool
}

// User is a user of the file system, with its groups.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// Argument makes "coracle-node launch" run Main. The next argument is a Config, in JSON.
const Argument = "squash"

// Main serves a file system until it is unmounted, or its standard input ends. It writes a line when it has begun. It
// returns the exit status.
func Main(argument string) int {
	// Nobody of the same user reads its memory or takes its descriptors: the user may be one of the host, too.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	unix.Umask(0) // the kernel has applied the one of the caller
	if err := serve(argument); err != nil {
		fmt.Fprintln(os.Stderr, "coracle-node launch: serve a file system:", err)
		return 1
	}
	return 0
}

func serve(argument string) error {
	var c Config
	if err := json.Unmarshal([]byte(argument), &c); err != nil {
		return err
	}
	for _, fd := range []int{c.Root, c.Proc} {
		unix.CloseOnExec(fd)
	}
	if c.User != nil {
		if err := c.User.assume(); err != nil {
			return fmt.Errorf("act as user %d: %w", c.User.UID, err)
		}
	}
	fs, err := newFileSystem(c)
	if err != nil {
		return err
	}
	go fs.endWithDirectory()
	server, err := fuse.NewServer(fs, fmt.Sprintf("/dev/fd/%d", c.Fuse), &fuse.MountOptions{
		EnableLocks: true, DisableXAttrs: true, DisableReadDirPlus: true, MaxBackground: 64,
		DisableSplice: true, // it needs /dev/null, and there is nothing but the directory
	})
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // the launcher has ended
	}()
	if _, err := fmt.Println("{}"); err != nil {
		return err
	}
	server.Serve()
	return nil
}
