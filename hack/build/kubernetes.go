package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

// kubernetesCommand builds bundles; "coracle bundles" does the same for an installed coracle.
func kubernetesCommand() *cobra.Command {
	var into string
	cmd := &cobra.Command{
		Use:   "kubernetes [VERSION...]",
		Short: "Build the Kubernetes programs of some or all minor versions",
		RunE: func(cmd *cobra.Command, minors []string) error {
			if len(minors) == 0 {
				for _, v := range kubernetes.Versions() {
					minors = append(minors, v.Minor)
				}
			}
			bundles := upstream.BundlesIn(into)
			report := printer()
			for _, minor := range minors {
				path, err := bundles.Find(minor)
				if err == nil {
					report(upstream.Progress{Title: "Kubernetes " + minor, Step: upstream.Ready, Detail: path})
					continue
				}
				if _, err := bundles.Ensure(cmd.Context(), minor, report); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&into, "output", "o", filepath.Join("bin", "bundles"),
		"`directory` of bundles to build into")
	return cmd
}
