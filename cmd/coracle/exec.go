package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/daemon"
)

func execCommand() *cobra.Command {
	var interactive, tty bool
	cmd := &cobra.Command{
		Use:   "exec [-it] INSTANCE [--] [COMMAND [ARGUMENT...]]",
		Short: "Run a command inside a machine",
		Long: `Run a command as root inside the machine of an EC2 instance, beside its init and within its limits.

INSTANCE is an instance ID, or the private DNS name that a node is called by. Without a command it is a shell. The exit status is that of
the command; 127 says that the machine has no such command. It takes root, and works while the daemon is down.`,
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
				command, interactive, tty = []string{"bash", "-l"}, true, tty || daemon.IsTerminal(os.Stdin)
			}
			c := daemon.MachineCommand{Args: command, TTY: tty, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
			if interactive {
				c.Stdin = io.Reader(os.Stdin)
			}
			exit, err := daemon.Exec(cmd.Context(), dir, instance, c)
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
