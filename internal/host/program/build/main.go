// Command build builds the programs of nodes: "go run ./internal/host/program/build -o bin/node". The Makefile
// calls it, in the directory of the repository. With -upstream it leaves out coracle-node.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/mattn/go-isatty"

	"github.com/coracle-eks/coracle/internal/cluster/bundle"
	"github.com/coracle-eks/coracle/internal/host/program"
)

func main() {
	into := flag.String("o", filepath.Join("bin", "node"), "the directory to build into")
	stamp := flag.String("ldflags", "", "linker flags of coracle-node, as coracle has them")
	upstream := flag.Bool("upstream", false, "leave out coracle-node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *into, *stamp, *upstream); err != nil {
		fmt.Fprintf(os.Stderr, "\n%v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, into, stamp string, upstream bool) error {
	into, err := filepath.Abs(into)
	if err != nil {
		return err
	}
	if !upstream {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w "+stamp, "-o", filepath.Join(into, program.Machine), "./cmd/node")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build %s: %w", program.Machine, err)
		}
	}
	programs := program.In(into)
	report := bundle.Printer(os.Stderr, isatty.IsTerminal(os.Stderr.Fd()))
	path, err := programs.Path("containerd")
	if err == nil {
		report(bundle.Progress{Title: "programs of nodes", Step: bundle.Ready, Detail: filepath.Dir(path)})
		return nil
	}
	return programs.EnsureUpstream(ctx, report)
}
