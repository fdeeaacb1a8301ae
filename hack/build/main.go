// Command build builds the upstream programs that clusters, nodes and add-ons run ahead of time; a daemon builds what
// is missing when it needs it. "all" builds coracle as well. The Makefile calls it in the directory of the repository:
//
//	go run ./hack/build all
//	go run ./hack/build kubernetes -o bin/bundles 1.35
//	go run ./hack/build node -o bin/node
//	go run ./hack/build components -o bin/node metrics-server cert-manager
//	go run ./hack/build packages
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/upstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := &cobra.Command{
		Use:           "build",
		Short:         "Build upstream programs",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.AddCommand(allCommand(), kubernetesCommand(), nodeCommand(), componentsCommand(), packagesCommand())
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "\n%v\n", err)
		os.Exit(1)
	}
}

// printer reports progress on standard error.
func printer() func(upstream.Progress) {
	return upstream.Printer(os.Stderr, isatty.IsTerminal(os.Stderr.Fd()))
}
