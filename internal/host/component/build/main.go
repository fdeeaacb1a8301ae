// Command build builds the components of add-ons: "go run ./internal/host/component/build -o bin/node metrics-server cert-manager" builds what the default versions of
// these run, "metrics-server@v0.9.0-eksbuild.1" names another version, and no name means all add-ons. The Makefile calls it; a daemon builds what is missing when it is needed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mattn/go-isatty"

	"github.com/coracle-eks/coracle/internal/catalogue"
	"github.com/coracle-eks/coracle/internal/cluster/bundle"
	"github.com/coracle-eks/coracle/internal/host/component"
	"github.com/coracle-eks/coracle/kubernetes"
)

func main() {
	into := flag.String("o", filepath.Join("bin", "node"), "the directory of the programs of nodes, into which it is built")
	own := flag.String("dir", "", "a directory of more add-ons")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: build [-o DIR] [-dir DIR] [ADDON[@VERSION]...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *into, *own, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "\n%v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, into, own string, names []string) error {
	into, err := filepath.Abs(into)
	if err != nil {
		return err
	}
	all, err := catalogue.Open(catalogue.Options{Dir: own})
	if err != nil {
		return err
	}
	if len(names) == 0 {
		for _, addon := range all.Addons() {
			names = append(names, addon.Name)
		}
	}
	components := component.In(into)
	report := bundle.Printer(os.Stderr, isatty.IsTerminal(os.Stderr.Fd()))
	seen := make(map[string]bool)
	for _, name := range names {
		version, err := find(all, name)
		if err != nil {
			return err
		}
		for _, image := range version.Images("us-east-1", kubernetes.Default) {
			if image.Build == nil || seen[components.Version(*image.Build)] {
				continue
			}
			seen[components.Version(*image.Build)] = true
			built, err := components.IsBuilt(*image.Build)
			if err != nil {
				return err
			}
			if err := components.Ensure(ctx, *image.Build, report); err != nil {
				return err
			}
			if built {
				report(bundle.Progress{Title: image.Build.Component + " " + image.Build.Version, Step: bundle.Ready, Detail: into})
			}
		}
	}
	return nil
}

// find finds a version by "ADDON" or "ADDON@VERSION".
func find(all *catalogue.Catalogue, name string) (catalogue.Version, error) {
	name, wanted, exact := strings.Cut(name, "@")
	addon, ok := all.Addon(name)
	if !ok {
		return catalogue.Version{}, fmt.Errorf("there is no add-on %q", name)
	}
	version, ok := addon.Default(kubernetes.Default)
	if exact {
		version, ok = addon.Version(wanted)
	}
	if !ok {
		return catalogue.Version{}, fmt.Errorf("the add-on %s has no version %q", name, wanted)
	}
	return version, nil
}
