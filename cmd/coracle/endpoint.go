package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/host/endpoint"
)

// endpointCommand returns the command that the daemon starts. Users have no reason to run it.
func endpointCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "endpoint",
		Short:  "Serve the endpoints of clusters and the DNS of VPCs",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return endpoint.Serve(cmd.Context(), dir, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` with the configuration")
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		panic(err)
	}
	return cmd
}
