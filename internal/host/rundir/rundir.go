// Package rundir is the directory of this host in which all daemons of root keep what ends with the host: /run/coracle.
//
//	lock          is taken to choose a range of public addresses
//	hosts.lock    is taken to change /etc/hosts
//	userids.lock  is taken to choose user IDs of a machine
//	ranges/       which data directory has chosen which range
//	<owner>/      network namespaces and sockets of one daemon
//
// It is closed to everybody else (mode 0700), and so are its directories: nobody else can hold a lock in it, connect to
// a socket in it, or enter a namespace by it.
package rundir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/filelock"
)

const root = "/run/coracle"

// lockTime bounds the wait for a lock, which nobody holds for longer than it takes to write a file.
const lockTime = 10 * time.Second

// Path returns the path of something in the directory.
func Path(elements ...string) string { return filepath.Join(append([]string{root}, elements...)...) }

// Create creates a directory in the directory, and what of the path to it is missing, and returns its path. What is
// there and open to others, as earlier versions made it, is closed. The error says what to do where a directory is a
// symbolic link or belongs to another user.
func Create(elements ...string) (string, error) { return createPath(root, elements...) }

func createPath(root string, elements ...string) (string, error) {
	path := root
	for i := range len(elements) + 1 {
		if i > 0 {
			path = filepath.Join(path, elements[i-1])
		}
		if err := ensureDirectory(path); err != nil {
			return "", fmt.Errorf("create directory %s: %w", path, err)
		}
	}
	return path, nil
}

// ensureDirectory makes sure of one directory, whose parent is sure.
func ensureDirectory(path string) error {
	if err := unix.Mkdir(path, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	// By its descriptor, so that all of this is about the same directory.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return errors.New("there is a file or a symbolic link of that name, which coracle has not made: remove it")
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return err
	}
	if int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, and coracle runs as user %d: remove it", s.Uid, os.Geteuid())
	}
	if s.Mode&0o077 != 0 {
		return unix.Fchmod(fd, 0o700)
	}
	return nil
}

// Lock takes the lock of that name in the directory. It waits for ten seconds at most; the error then names the process
// that holds the lock. The caller calls unlock.
func Lock(ctx context.Context, name string) (unlock func(), err error) {
	dir, err := Create()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockTime, errors.New("it was not free within "+lockTime.String()+
		": end that process, or try again"))
	defer cancel()
	return filelock.Lock(ctx, filepath.Join(dir, name), nil)
}
