package nodeimage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncFiles writes everything that a file system holds to its disk.
func syncFiles(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd()))), f.Close())
}
