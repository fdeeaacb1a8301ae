package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/upstream"
)

func nodeCommand() *cobra.Command {
	var into, ldflags string
	var upstreamOnly bool
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Build coracle-node, the upstream programs that run on nodes, and the node image",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			into, err := filepath.Abs(into)
			if err != nil {
				return err
			}
			if !upstreamOnly {
				if err := buildMachineProgram(cmd.Context(), into, ldflags); err != nil {
					return err
				}
			}
			programs := upstream.NodeProgramsIn(into)
			report := printer()
			path, err := programs.Path("containerd")
			_, imageErr := programs.Image()
			if err == nil && imageErr == nil {
				report(upstream.Progress{Title: "programs of nodes", Step: upstream.Ready, Detail: filepath.Dir(path)})
				return nil
			}
			return programs.EnsureUpstream(cmd.Context(), report)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&into, "output", "o", filepath.Join("bin", "node"), "`directory` to build into")
	flags.StringVar(&ldflags, "ldflags", "", "linker `flags` of coracle-node, as coracle has them")
	flags.BoolVar(&upstreamOnly, "upstream", false, "leave out coracle-node")
	return cmd
}

// buildMachineProgram builds coracle-node, which is part of this module.
func buildMachineProgram(ctx context.Context, into, ldflags string) error {
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, upstream.CompilerFlags, []string{
		"-ldflags", "-s -w " + ldflags, "-o", filepath.Join(into, upstream.MachineProgram), "./cmd/node"})...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build %s: %w", upstream.MachineProgram, err)
	}
	return nil
}
