package main

import (
	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/daemon"
)

func doctorCommand() *cobra.Command {
	var listen, bundles string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host lacks, with the command that fixes it",
		Long:  "Say what this host lacks, with the command that fixes it. The exit status is 1 when clusters will not work.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			healthy, err := daemon.Doctor(cmd.Context(), cmd.OutOrStdout(), dir, listen, bundles)
			if err != nil {
				return err
			}
			if !healthy {
				return exitCode(1)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "`address` that the daemon is to listen on [CORACLE_LISTEN]")
	cmd.Flags().StringVar(&bundles, "bundles", "", "the only `directory` of Kubernetes programs [CORACLE_BUNDLES]")
	return cmd
}
