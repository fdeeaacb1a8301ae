package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
)

func interruptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "interrupt INSTANCE",
		Short: "Take a spot instance away, two minutes from now",
		Long: `Give a spot instance notice that it is taken away, as EC2 does when it wants its capacity back.

Its metadata has a recommendation to rebalance and the instance action at once; two minutes later it is terminated. An
Auto Scaling group with capacity rebalancing replaces it before that, and a managed node group drains it. On AWS the
Fault Injection Service does the same.`,
		Example: "  coracle interrupt i-0123456789abcdef0",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			return interrupt(cmd.Context(), cmd.OutOrStdout(), dir, args[0])
		},
	}
}

// interrupt asks the daemon of dir to give a spot instance notice of its interruption.
func interrupt(ctx context.Context, w io.Writer, dir datadir.Dir, instance string) error {
	i, err := admin.NewClient(dir.Socket()).Interrupt(ctx, instance)
	if errors.Is(err, admin.ErrNotRunning) {
		return notRunning(dir)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s has notice: it is terminated at %s.\n", i.Instance, i.At.Local().Format(time.TimeOnly))
	return err
}
