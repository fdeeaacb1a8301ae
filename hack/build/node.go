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
		Short: "Build the programs that run on nodes, Coracle's and upstream's, and the node image",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			into, err := filepath.Abs(into)
			if err != nil {
				return err
			}
			programs, report := upstream.NodeProgramsIn(into), printer()
			if upstreamOnly {
				return buildUpstream(cmd.Context(), programs, report)
			}
			return buildNode(cmd.Context(), programs, into, ldflags, report)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&into, "output", "o", filepath.Join("bin", "node"), "`directory` to build into")
	flags.StringVar(&ldflags, "ldflags", "", "linker `flags` of Coracle's programs, as coracle has them")
	flags.BoolVar(&upstreamOnly, "upstream", false, "leave out Coracle's programs")
	return cmd
}

// buildNode builds all that runs on nodes.
func buildNode(ctx context.Context, programs *upstream.NodePrograms, into, ldflags string,
	report func(upstream.Progress)) error {
	if err := buildOurs(ctx, into, ldflags); err != nil {
		return err
	}
	return buildUpstream(ctx, programs, report)
}

// buildUpstream builds the upstream programs and the node image.
func buildUpstream(ctx context.Context, programs *upstream.NodePrograms, report func(upstream.Progress)) error {
	path, err := programs.Path("containerd")
	_, imageErr := programs.Image()
	if err == nil && imageErr == nil {
		report(upstream.Progress{Title: "programs of nodes", Step: upstream.Ready, Detail: filepath.Dir(path)})
		return nil
	}
	return programs.EnsureUpstream(ctx, report)
}

// buildOurs builds the programs of nodes that are part of this module.
func buildOurs(ctx context.Context, into, ldflags string) error {
	for name, pkg := range upstream.OwnPrograms {
		build := goBuild(ctx, ldflags, "-o", filepath.Join(into, name), pkg)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return nil
}

// goBuild prepares "go build" for programs of this module.
func goBuild(ctx context.Context, ldflags string, args ...string) *exec.Cmd {
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, upstream.CompilerFlags,
		[]string{"-ldflags", "-s -w " + ldflags}, args)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout = os.Stderr
	return build
}
