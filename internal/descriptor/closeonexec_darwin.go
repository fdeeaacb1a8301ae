package descriptor

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseOnExec marks every file descriptor but the standard ones close-on-exec. A program calls it first of all; what
// it passes on by os.ProcAttr.Files or exec.Cmd.ExtraFiles is passed on still.
func CloseOnExec() error {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("keep inherited file descriptors: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
