package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mattn/go-isatty"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/machine"
	"github.com/coracle-eks/coracle/internal/process"
)

// MachineCommand is what Exec runs.
type MachineCommand = machine.Command

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) }

// processIdentity is by which the processes of dir's daemon are known; it is fs.ErrNotExist before the first start.
func processIdentity(dir datadir.Dir) (process.Identity, error) {
	key, err := dir.ReadProcessKey()
	return process.Identity{Owner: dir.Owner(), Key: key}, err
}

// Exec runs a command in the machine of an instance of dir's daemon, which need not run, and returns its exit status. The instance is named
// by its ID or its private DNS name.
func Exec(ctx context.Context, dir datadir.Dir, instance string, c MachineCommand) (exit int, err error) {
	if s, err := dir.ReadSettings(); err == nil && s.Machines == "simulated" {
		return 0, fmt.Errorf("the machines of %s are simulated: nothing runs in them; \"coracle up --machines namespace\" as root makes real ones", dir)
	}
	id, err := processIdentity(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !dir.Exists():
		return 0, notRunning(dir)
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("%s, by which machines are known, is missing: \"coracle down%[2]s; coracle up%[2]s\" makes another and restarts them", dir.ProcessKeyFile(), dataDirFlag(dir))
	case err != nil:
		return 0, err
	}
	exit, err = machine.Exec(ctx, id, machine.Named(dir.Join("machines"), instance), c)
	var none *machine.NotRunningError
	if errors.As(err, &none) {
		none.InstanceID = instance
		return 0, fmt.Errorf("%w (coracle status%s shows all instances)", none, dataDirFlag(dir))
	}
	return exit, err
}
