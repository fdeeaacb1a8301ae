package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/daemon"
)

func upCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the daemon in the background and wait until it is healthy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			if _, err := f.level(); err != nil {
				return err
			}
			started, err := daemon.Up(cmd.Context(), dir, f.args(cmd.Flags()), steps(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			if !started && len(f.args(cmd.Flags())) > 0 {
				return errors.New("the daemon was running before, so the given flags have no effect: \"coracle down\" first")
			}
			return daemon.PrintNext(cmd.OutOrStdout(), dir, f.bundles, self())
		},
	}
	f.define(cmd.Flags())
	return cmd
}

// self is how the user called this program.
func self() string { return os.Args[0] }

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the daemon; clusters keep running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			running, err := daemon.Down(cmd.Context(), dir)
			switch {
			case errors.Is(err, admin.ErrNotRunning):
				fmt.Fprintf(cmd.OutOrStdout(), "The daemon of %s was not running.\n", dir)
			case err != nil:
				return err
			default:
				fmt.Fprintf(cmd.OutOrStdout(), "The daemon of %s has stopped.\n", dir)
			}
			if running > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "Clusters keep running (%d processes with etcd). \"coracle up\" takes them over again, \"coracle reset\" removes them.\n", running)
			}
			return nil
		},
	}
}
