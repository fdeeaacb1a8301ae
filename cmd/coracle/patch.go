package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
)

// patchDeadline is the time from a failed eviction to the scheduled termination in Amazon's example of the event.
const patchDeadline = 72 * time.Hour

func patchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "patch",
		Short: "Patch machines that EKS manages",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(patchFargateCommand())
	return cmd
}

func patchFargateCommand() *cobra.Command {
	var q admin.PatchRequest
	cmd := &cobra.Command{
		Use:   "fargate",
		Short: "Move Fargate pods to patched machines",
		Long: `Move Fargate pods to patched machines, as EKS does when there is a patch of their operating system.

The pods are evicted, one availability zone after the other, and their controllers replace them. Evictions that a
PodDisruptionBudget refuses are retried until the deadline; then the pods are deleted. An event of the pod, and the
daemon's log, say when that is. The command does not wait for any of it.`,
		Example: `  coracle patch fargate --cluster demo
  coracle patch fargate --cluster demo --profile web --deadline 10m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Deadline < 0 {
				return fmt.Errorf("--deadline %s: it is a time from now", q.Deadline)
			}
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			return patchFargate(cmd.Context(), cmd.OutOrStdout(), dir, q)
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Cluster, "cluster", "", "`name` or ARN of the cluster (default the only one)")
	f.StringVar(&q.Profile, "profile", "", "`name` of the Fargate profile whose pods are meant (default all)")
	f.DurationVar(&q.Deadline, "deadline", patchDeadline, "`time` after which pods are deleted that cannot be evicted")
	return cmd
}

// patchFargate asks the daemon of dir to move Fargate pods.
func patchFargate(ctx context.Context, w io.Writer, dir datadir.Dir, q admin.PatchRequest) error {
	s, err := dir.ReadSettings()
	if errors.Is(err, fs.ErrNotExist) {
		return notRunning(dir)
	}
	if err != nil {
		return err
	}
	q.Account, q.Region = s.Account, s.Region
	p, err := admin.NewClient(dir.Socket()).PatchFargate(ctx, q)
	if errors.Is(err, admin.ErrNotRunning) {
		return notRunning(dir)
	}
	if err != nil {
		return err
	}
	switch p.Pods {
	case 0:
		_, err = fmt.Fprintf(w, "No pod of cluster %s runs on Fargate.\n", p.Cluster)
	case 1:
		_, err = fmt.Fprintf(w, "1 pod of cluster %s is evicted, and deleted at %s if it cannot be.\n", p.Cluster,
			p.Until.Local().Format(time.DateTime))
	default:
		_, err = fmt.Fprintf(w, "%d pods of cluster %s are evicted, and those deleted at %s that cannot be.\n", p.Pods,
			p.Cluster, p.Until.Local().Format(time.DateTime))
	}
	return err
}
