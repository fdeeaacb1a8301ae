package main

import (
	"context"
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
			into, err := filepath.Abs(into)
			if err != nil {
				return err
			}
			bundles := upstream.BundlesIn(into)
			report := printer()
			for _, minor := range minors {
				if err := buildBundle(cmd.Context(), bundles, minor, report); err != nil {
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

// buildBundle builds the bundle of a minor version, unless it is there.
func buildBundle(ctx context.Context, bundles *upstream.Bundles, minor string, report func(upstream.Progress)) error {
	path, err := bundles.Find(minor)
	if err == nil {
		report(upstream.Progress{Title: "Kubernetes " + minor, Step: upstream.Ready, Detail: path})
		return nil
	}
	_, err = bundles.Ensure(ctx, minor, report)
	return err
}
