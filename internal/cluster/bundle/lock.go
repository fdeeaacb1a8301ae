package bundle

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock takes the lock of a version's directory, which it makes when it is missing. If another holds
// the lock, it calls waiting once and waits. The kernel drops the lock of a process that dies.
func lock(ctx context.Context, dir string, waiting func()) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	release := func() { file.Close() }
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return release, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		release()
		return nil, &os.PathError{Op: "lock", Path: file.Name(), Err: err}
	}
	waiting()

	// flock(2) cannot be interrupted from Go, so after a cancellation the goroutine stays until the
	// lock is free, and frees it at once.
	acquired := make(chan error, 1)
	go func() {
		for {
			err := unix.Flock(int(file.Fd()), unix.LOCK_EX)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			acquired <- err
			return
		}
	}()
	select {
	case err := <-acquired:
		if err != nil {
			release()
			return nil, &os.PathError{Op: "lock", Path: file.Name(), Err: err}
		}
		return release, nil
	case <-ctx.Done():
		go func() {
			<-acquired
			release()
		}()
		return nil, context.Cause(ctx)
	}
}
