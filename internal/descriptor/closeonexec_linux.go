package descriptor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CloseOnExec marks every file descriptor but the standard ones close-on-exec. A program calls it first of all; what
// it passes on by os.ProcAttr.Files or exec.Cmd.ExtraFiles is passed on still.
func CloseOnExec() error {
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep inherited file descriptors: close_range: %w (Linux 5.11 or newer is needed)", err)
	}
	return nil
}
