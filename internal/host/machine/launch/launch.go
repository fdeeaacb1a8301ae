// Package launch is the host's side of one machine: the program "coracle-node launch" that stands for the hardware.
package launch

import (
	"fmt"
	"os"
)

// Main is the program "coracle-node launch --spec FILE"; args are those after "launch". It returns the exit status.
//
// SIGTERM is the power button: it is passed on to init, which is to end its units and then call reboot(2) with
// LINUX_REBOOT_CMD_POWER_OFF (or LINUX_REBOOT_CMD_RESTART to begin again). SIGKILL is the power cord: it takes init with it.
func Main(args []string) int {
	fmt.Fprintln(os.Stderr, "coracle-node launch: usage: coracle-node launch --spec FILE")
	return 2
}
