// Command build builds bundles: "go run ./internal/cluster/bundle/build 1.35", or all of them when no
// version is named. The Makefile calls it; "coracle bundles" does the same for an installed coracle.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/mattn/go-isatty"

	"github.com/coracle-eks/coracle/internal/cluster/bundle"
	"github.com/coracle-eks/coracle/kubernetes"
)

func main() {
	into := flag.String("o", filepath.Join("bin", "bundles"), "the directory of bundles to build into")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: build [-o DIR] [VERSION...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	minors := flag.Args()
	if len(minors) == 0 {
		for _, v := range kubernetes.Versions() {
			minors = append(minors, v.Minor)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	bundles := bundle.In(*into)
	report := bundle.Printer(os.Stderr, isatty.IsTerminal(os.Stderr.Fd()))
	for _, minor := range minors {
		path, err := bundles.Find(minor)
		if err == nil {
			report(bundle.Progress{Minor: minor, Step: bundle.Ready, Detail: path})
			continue
		}
		if _, err := bundles.Ensure(ctx, minor, report); err != nil {
			fmt.Fprintf(os.Stderr, "\n%v\n", err)
			os.Exit(1)
		}
	}
}
