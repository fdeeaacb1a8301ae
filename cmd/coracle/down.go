package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/reset"
)

func downCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the daemon; clusters keep running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			if all {
				return reset.End(cmd.Context(), dir, progressPrinter(cmd.ErrOrStderr()))
			}
			running, err := stopDaemon(cmd.Context(), dir)
			switch {
			case errors.Is(err, admin.ErrNotRunning):
				fmt.Fprintf(cmd.OutOrStdout(), "The daemon of %s was not running.\n", dir)
			case err != nil:
				return err
			default:
				fmt.Fprintf(cmd.OutOrStdout(), "The daemon of %s has stopped.\n", dir)
			}
			if running > 0 {
				fmt.Fprintf(
					cmd.OutOrStdout(),
					"Clusters keep running (%d processes with etcd). \"coracle up\" takes them over again, "+
						"\"coracle reset\" removes them.\n",
					running,
				)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "end clusters and machines, too; \"coracle up\" starts them again")
	return cmd
}

// stopDaemon ends the daemon of dir and waits until it is gone. It returns the number of processes
// that keep running, and admin.ErrNotRunning when there is no daemon.
func stopDaemon(ctx context.Context, dir datadir.Dir) (running int, err error) {
	count := func() (int, error) {
		left, _, err := findProcesses(dir)
		return len(left), err
	}
	pid, held, err := dir.Holder()
	if err != nil {
		return 0, err
	}
	if !held {
		running, err := count()
		return running, errors.Join(err, admin.ErrNotRunning)
	}
	stopping := admin.NewClient(dir.Socket()).Stop(ctx)
	if stopping != nil && pid != 0 {
		// It does not take commands (yet, or any more): ask it as the system does.
		stopping = syscall.Kill(pid, syscall.SIGTERM)
	}
	if stopping != nil {
		return 0, fmt.Errorf("stop the daemon (process %d): %w", pid, stopping)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		_, held, err := dir.Holder()
		if err != nil {
			return 0, err
		}
		if !held {
			return count()
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf(
				"the daemon (process %d) was told to stop and still runs: kill -9 %d ends it; clusters keep running", pid, pid,
			)
		case <-poll.C:
		}
	}
}
