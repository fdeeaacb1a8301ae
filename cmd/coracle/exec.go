package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/machine"
	"github.com/coracle-eks/coracle/internal/process"
)

func execCommand() *cobra.Command {
	var interactive, tty bool
	cmd := &cobra.Command{
		Use:   "exec [-it] INSTANCE [--] [COMMAND [ARGUMENT...]]",
		Short: "Run a command inside a machine",
		Long: `Run a command as root inside the machine of an EC2 instance, beside its init and within its limits.

INSTANCE is an instance ID, or the private DNS name that a node is called by. Without a command it is a shell. The exit
status is that of the command; 127 says that the machine has no such command. It takes root, and works while the daemon
is down.`,
		Example: `  coracle exec i-0123456789abcdef0 -- crictl ps
  coracle exec -it ip-192-168-65-212.eu-west-1.compute.internal -- bash`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			instance, command := args[0], args[1:]
			if len(command) > 0 && command[0] == "--" {
				command = command[1:]
			}
			if len(command) == 0 {
				command, interactive, tty = []string{"bash", "-l"}, true, tty || isatty.IsTerminal(os.Stdin.Fd())
			}
			c := machine.Command{Args: command, TTY: tty, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
			if interactive {
				c.Stdin = io.Reader(os.Stdin)
			}
			exit, err := execInMachine(cmd.Context(), dir, instance, c)
			switch {
			case err != nil && exit == 0:
				return err
			case err != nil:
				fmt.Fprintf(cmd.ErrOrStderr(), "coracle: %v\n", err)
			}
			if exit != 0 {
				return exitCode(exit)
			}
			return nil
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the instance is the command's
	cmd.Flags().BoolVarP(&interactive, "stdin", "i", false, "pass standard input to the command")
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "give the command a terminal")
	return cmd
}

// processIdentity returns what identifies the processes of dir's daemon. The error is fs.ErrNotExist before the first
// start.
func processIdentity(dir datadir.Dir) (process.Identity, error) {
	key, err := dir.ReadProcessKey()
	return process.Identity{Owner: dir.Owner(), Key: key}, err
}

// execInMachine runs a command in the machine of an instance of dir's daemon, which need not run, and returns its exit
// status. instance is an instance ID or a private DNS name.
func execInMachine(ctx context.Context, dir datadir.Dir, instance string, c machine.Command) (exit int, err error) {
	s, err := dir.ReadSettings()
	if err == nil && s.Simulated != "" {
		return 0, fmt.Errorf("the machines of %s are simulated: nothing runs in them, as this host cannot have machines: "+
			"%s; \"coracle doctor\" tells how it can", dir, s.Simulated)
	}
	if err == nil && s.Machines == "simulated" {
		return 0, fmt.Errorf(
			"the machines of %s are simulated: nothing runs in them; "+
				"\"coracle up --machines namespace\" as root makes real ones",
			dir,
		)
	}
	id, err := processIdentity(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !dir.Exists():
		return 0, notRunning(dir)
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf(
			"%s, by which machines are known, is missing: "+
				"\"coracle down%[2]s; coracle up%[2]s\" makes another and restarts them",
			dir.ProcessKeyFile(),
			dataDirFlag(dir),
		)
	case err != nil:
		return 0, err
	}
	running := func(instanceID string) bool { return machine.IsRunning(id, instanceID) }
	named, err := machine.Named(dir.Join("machines"), instance, running)
	if err != nil {
		return 0, err
	}
	exit, err = machine.Exec(ctx, id, named, c)
	var none *machine.NotRunningError
	if errors.As(err, &none) {
		none.InstanceID = instance
		return 0, fmt.Errorf("%w (coracle status%s shows all instances)", none, dataDirFlag(dir))
	}
	return exit, err
}
