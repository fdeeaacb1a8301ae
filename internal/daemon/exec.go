package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/mattn/go-isatty"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/machine"
)

// MachineCommand is what Exec runs.
type MachineCommand = machine.Command

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) }

// Exec runs a command in the machine of an instance of dir's daemon, which need not run, and returns its exit status. The instance is named
// by its ID or its private DNS name.
func Exec(ctx context.Context, dir datadir.Dir, instance string, c MachineCommand) (exit int, err error) {
	if s, err := dir.ReadSettings(); err == nil && s.Machines == "simulated" {
		return 0, fmt.Errorf("the machines of %s are simulated: nothing runs in them; \"coracle up --machines namespace\" as root makes real ones", dir)
	}
	exit, err = machine.Exec(ctx, dir.Owner(), machine.Named(dir.Join("machines"), instance), c)
	var none *machine.NotRunningError
	if errors.As(err, &none) {
		if !dir.Exists() {
			return 0, notRunning(dir)
		}
		none.InstanceID = instance
		return 0, fmt.Errorf("%w (coracle status%s shows all instances)", none, dataDirFlag(dir))
	}
	return exit, err
}
