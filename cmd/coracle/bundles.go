package main

import (
	"fmt"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

func bundlesCommand() *cobra.Command {
	var in string
	cmd := &cobra.Command{
		Use:   "bundles [VERSION...]",
		Short: "Build the Kubernetes programs of some or all versions",
		Long: "Build the Kubernetes programs of the named minor versions (1.35), or of all, unless they are there. " +
			"It takes about four minutes each on two cores; clusters build what they miss by themselves.",
		RunE: func(cmd *cobra.Command, minors []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			if len(minors) == 0 {
				for _, v := range kubernetes.Versions() {
					minors = append(minors, v.Minor)
				}
			}
			bundles := upstream.OpenBundles(upstream.Options{Dir: in, DataDir: string(dir)})
			report := upstream.Printer(cmd.ErrOrStderr(), isatty.IsTerminal(os.Stderr.Fd()))
			for _, minor := range minors {
				path, err := bundles.Ensure(cmd.Context(), minor, report)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&in, "bundles", "", "the only `directory` to find and build in ["+environmentName("bundles")+
		"]")
	return cmd
}
