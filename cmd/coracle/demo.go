package main

import (
	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/daemon"
)

func demoCommand() *cobra.Command {
	var name, bundles string
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Take a guided tour: cluster, nodes, pods, access, upgrade",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			return daemon.Demo(cmd.Context(), cmd.OutOrStdout(), dir, bundles, name, keep)
		},
	}
	cmd.Flags().StringVar(&name, "name", "demo", "`name` of the cluster that the tour makes")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the cluster there at the end")
	cmd.Flags().StringVar(&bundles, "bundles", "", "the only `directory` of Kubernetes programs [CORACLE_BUNDLES]")
	return cmd
}
